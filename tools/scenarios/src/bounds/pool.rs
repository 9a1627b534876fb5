//! The same in a pool of two cores, whose vCPUs move, with the image that has pools. Exits of both cores are counted.
//!
//! Waits for a lock count as work of the one who waits. They are said to the emulator, so that it goes on with the core
//! that has the lock.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use hanok_artifacts::cargo::Variant;
use hanok_bench_runner::counting::Counting;
use hanok_paths::Machine;

use super::paths::Found;
use super::profile::{self, Course};
use super::{Board, PATIENCE, judged, read};
use hanok_base::repo;

/// The parts: what the guest does, with how many vCPUs, the smallest number of rows, and of vCPUs that move in them.
const PARTS: [(&str, usize, usize, u64); 4] = [
    ("budgets", 1, 6, 500),
    ("together", 1, 5, 100),
    ("together", 2, 5, 100),
    ("lives", 1, 1, 100),
];
/// What is said of the rows in which two vCPUs of one VM run at the same time, which no other step lets do so. They are
/// judged by a limit of their own, and are no paths of the list: the locks of a VM are in no bound.
pub const WITH_WAITS: &str = ", with waits for its VM's locks";
/// Other VMs of the pool, one vCPU each, that sleep and wake.
const NEIGHBOURS: usize = 12;
/// The function that hands a vCPU over: each of its calls is one that moves.
const HAND_OVER: &str = "hand_over";

/// Counts all parts, and judges them.
pub fn bounded(root: &Path, board: &Board) -> Result<String> {
    let counting = Counting::prepare_variant(root, board.architecture, Variant::Pools)?;
    let (mut rows, mut longest) = (Vec::new(), Found::default());
    let mut moves = String::new();
    for (part, vcpus, least, least_moves) in PARTS {
        let dir = repo::target_dir(root).join(format!(
            "hanok/test/bounds-pool-{part}-{vcpus}-{}",
            board.name
        ));
        fs::create_dir_all(&dir)?;
        let course = Course {
            until: Some("bounds: done"),
            ..Course::default()
        };
        let described = described(board.name, part, vcpus);
        let report = profile::count(root, &counting, &dir, &described, course, PATIENCE);
        let report = report.map_err(|failure| failure.error)?;
        let console = fs::read(dir.join("vm.console"))?;
        let console = String::from_utf8_lossy(&console).into_owned();
        let mut found = if vcpus == 1 {
            read(&report, &console, &mut longest)?
        } else {
            read(&report, &console, &mut Found::default())?
        };
        for row in found.iter_mut().filter(|_| vcpus > 1) {
            row.name += WITH_WAITS;
        }
        ensure!(found.len() >= least, "{part}: {} rows alone", found.len());
        let moved = counting.calls(&report.stretches, HAND_OVER)?;
        ensure!(
            moved >= least_moves,
            "{part}: vCPUs moved {moved} times alone"
        );
        writeln!(moves, "{part}, {vcpus} vCPUs: vCPUs moved {moved} times")?;
        rows.extend(found);
    }
    Ok(moves + &judged(rows, &longest, Machine::Pool)?)
}

/// The VM that is looked at, and neighbours with other periods, so that deadlines come in ever other orders.
fn described(board: &str, part: &str, vcpus: usize) -> String {
    let mut text = format!(
        "board = \"{board}\"\ncores = 2\n[schedule]\nenforce = true\n\
         [[schedule.pool]]\nname = \"both\"\ncores = [0, 1]\nmode = \"global\"\n\
         [[vm]]\nname = \"bounds\"\nkernel = \"guest:conformance\"\nmemory = \"64M\"\nvcpus = {vcpus}\n\
         cmdline = \"conformance.run=bounds conformance.host=hanok bounds.part={part}\"\n\
         [vm.schedule]\npool = \"both\"\nperiod = \"1ms\"\nbudget = \"{}us\"\n",
        600 + 100 * vcpus
    );
    for neighbour in 0..NEIGHBOURS {
        let what = match (part, neighbour) {
            ("lives", 0) => "reset-loop",
            _ => "wfi-storm",
        };
        let _ = write!(
            text,
            "[[vm]]\nname = \"n{neighbour}\"\nkernel = \"guest:conformance\"\nmemory = \"20M\"\nvcpus = 1\n\
             cmdline = \"conformance.run={what} conformance.host=hanok\"\n\
             [vm.schedule]\npool = \"both\"\nperiod = \"{}us\"\nbudget = \"60us\"\n",
            900 + 50 * neighbour
        );
    }
    text
}
