//! The same with virtio devices that VMs share: every exit of a system in which a client attacks its devices, and a driver VM its client,
//! while others are served, as `virtio-hostile` has it, from when the one who is served beside them begins until it is asked for its word. So what
//! the hypervisor does for the ones in the exits of the others is counted as well. Then a VM with many devices resets itself again and again.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use hanok_bench_runner::counting::Counting;
use hanok_console::script::ScriptStep;

use super::paths::{self, Found};
use super::profile::{self, Course};
use super::{Board, LIVES, NEIGHBOUR, PATIENCE, Row, judged, read, row};
use hanok_base::repo;

/// The system.
const SYSTEM: &str = "tests/systems/virtio-hostile.toml";
/// The networks of a VM that resets itself.
const NETWORKS: usize = 7;
/// The fewest exits.
const LEAST: u64 = 100_000;

/// Counts the whole run, and judges each kind of exit.
pub fn bounded(root: &Path, board: &Board) -> Result<String> {
    let counting = Counting::prepare(root, board.architecture)?;
    let dir = repo::target_dir(root).join(format!("hanok/test/bounds-devices-{}", board.name));
    fs::create_dir_all(&dir)?;
    let described = fs::read_to_string(root.join(SYSTEM)).context(SYSTEM)?;
    let was = "board = \"qemu-virt\"\n";
    ensure!(described.contains(was), "{SYSTEM} names another board");
    let named = format!("board = \"{}\"\ncores = 1\n", board.name);
    let course = Course {
        until: Some("virtio bystander: done, 0 wrong"),
        steps: steps(),
        ..Course::default()
    };
    let described = described.replacen(was, &named, 1);
    let report = profile::count(root, &counting, &dir, &described, course, PATIENCE);
    let report = report.map_err(|failure| failure.error)?;
    let mut longest = Found::default();
    let mut rows = lives(root, &counting, board, &mut longest)?;
    let mut exits = 0;
    let name = format!("{}devices that VMs share", paths::BUDGETS);
    for stretch in &report.stretches {
        longest.add(&name, stretch);
        let cpus = stretch.cpus.iter().flat_map(|cpu| &cpu.exits);
        exits += cpus
            .flat_map(|exit| exit.costs.iter().map(|(_, times)| times))
            .sum::<u64>();
        rows.extend(row(name.clone(), stretch));
    }
    ensure!(exits >= LEAST, "{exits} exits alone");
    Ok(format!(
        "{exits} exits, {}",
        judged(rows, &longest, board.machine)?
    ))
}

/// A neighbour with many devices boots again and again.
fn lives(root: &Path, counting: &Counting, board: &Board, longest: &mut Found) -> Result<Vec<Row>> {
    let dir = repo::target_dir(root).join(format!("hanok/test/bounds-reborn-{}", board.name));
    fs::create_dir_all(&dir)?;
    let devices = "[[vm.network]]\nfrom = \"drivers\"\n".repeat(NETWORKS);
    let described = format!(
        "board = \"{}\"\ncores = 1\nslice = \"1ms\"\n[[vm]]\nname = \"bounds\"\n\
         kernel = \"guest:conformance\"\n\
         cmdline = \"conformance.run=bounds conformance.host=hanok bounds.part=lives\"\n\
         memory = \"64M\"\ncpus = [0]\n{NEIGHBOUR}entropy = true\n{devices}\
         [[vm.vsock]]\nfrom = \"drivers\"\ncid = 3\n\
         [[vm]]\nname = \"drivers\"\nkernel = \"guest:driver\"\nmemory = \"32M\"\ncpus = [0]\ntrusted = true\n",
        board.name
    );
    let course = Course {
        until: Some("bounds: done"),
        ..Course::default()
    };
    let report = profile::count(root, counting, &dir, &described, course, PATIENCE);
    let report = report.map_err(|failure| failure.error)?;
    let said = fs::read_to_string(dir.join("vm2.console"))?;
    let lives = said.matches("canary: clean").count();
    ensure!(
        lives >= LIVES,
        "the neighbour had {lives} lives alone: {said}"
    );
    let console = fs::read(dir.join("vm.console"))?;
    read(&report, &String::from_utf8_lossy(&console), longest)
}

/// Both attackers come to their ends before the one who is served beside them is asked for its word.
fn steps() -> Vec<ScriptStep> {
    use ScriptStep::{Expect, Send, Vm};
    vec![
        Vm("client".to_owned()),
        Expect("virtio: client done, 5 devices, ".to_owned()),
        Expect(" attacks, 0 wrong".to_owned()),
        Vm("bad".to_owned()),
        Expect("virtio driver: done, 1 devices, ".to_owned()),
        Expect(" attacks, 0 wrong".to_owned()),
        Vm("bystander".to_owned()),
        Send(b"x".to_vec()),
    ]
}
