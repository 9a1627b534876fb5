//! The same with virtio devices that VMs share: every exit of a system in which a client attacks its devices, and a driver VM its client,
//! while others are served, as `virtio-hostile` has it, from when the one who is served beside them begins until it is asked for its word. So what
//! the hypervisor does for the ones in the exits of the others is counted as well.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use hanok_bench_runner::counting::Counting;
use hanok_console::script::ScriptStep;

use super::paths::{self, Found};
use super::profile::{self, Course};
use super::{Board, PATIENCE, judged, row};
use hanok_base::repo;

/// The system.
const SYSTEM: &str = "tests/systems/virtio-hostile.toml";
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
    let (mut rows, mut exits) = (Vec::new(), 0);
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

/// Both attackers come to their ends before the one who is served beside them is asked for its word.
fn steps() -> Vec<ScriptStep> {
    use ScriptStep::{Expect, Send, Vm};
    vec![
        Vm("client".to_owned()),
        Expect("virtio: client done, 5 devices, 280 attacks, 0 wrong".to_owned()),
        Vm("bad".to_owned()),
        Expect("virtio driver: done, 1 devices, 36 attacks, 0 wrong".to_owned()),
        Vm("bystander".to_owned()),
        Send(b"x".to_vec()),
    ]
}
