//! Systems for a board: RTOS guests with their tasks, and one VM beside them that means harm.

use std::path::Path;

use anyhow::Result;

use crate::draw::{Style, draw};
use crate::edge::{self, Admitted};
use crate::random::Random;
use crate::system::Task;

/// What a job costs beyond what the RTOS is told, in microseconds: its release's interrupt, which comes through the
/// hypervisor, the kernel's way to it, the end of it, and sleeping and waking in between.
pub const JOB: u64 = 12;
/// What a switch between VMs costs at most, in nanoseconds: the longest exit.
pub const SWITCH: u64 = 5_000;
/// How long the tasks run, in milliseconds.
pub const MILLIS: u64 = 300;
/// What the hostile VM does, by its command line's word.
pub const STORMS: [&str; 7] = [
    "wfi-storm",
    "hypercall-storm",
    "console-storm",
    "sgi-storm",
    "mmio-storm",
    "vector-storm",
    "mask",
];

/// One core. With several, an emulator that counts instructions runs one of them at a time for long.
const STYLE: Style = Style {
    board: None,
    cores: 1,
    vms: 4,
    tasks: 3,
    periods: [1_000, 5_000],
    switch: SWITCH,
    costly: 8,
    execution: 10 + JOB,
};

/// A system that is admitted on `board`, and the place of the hostile VM: the last one. `hostile` says what it does;
/// `None`: it is always busy.
///
/// # Errors
/// The description has faults, or what was found is not admitted.
pub fn of(
    board: &'static str,
    seed: u64,
    hostile: Option<&str>,
    boards: &Path,
) -> Result<Option<Admitted>> {
    let style = Style {
        board: Some(board),
        ..STYLE
    };
    let mut drawn = draw(&style, seed);
    let mut random = Random::new(!seed);
    let last = drawn.vms.len() - 1;
    for (at, vm) in drawn.vms.iter_mut().enumerate() {
        if at == last {
            // On paper only: what it is promised is for these.
            vm.tasks.truncate(1);
            vm.guest.kernel = "guest:conformance".to_owned();
        }
        for task in &mut vm.tasks {
            task.offset = random.below(task.period);
        }
    }
    let Some(mut found) = edge::of(&drawn, boards)? else {
        return Ok(None);
    };
    let short = |task: &Task| task.execution < style.execution;
    let mut tasks = found.system.vms.iter().flat_map(|vm| &vm.tasks);
    if tasks.any(short) {
        return Ok(None);
    }
    for (at, vm) in found.system.vms.iter_mut().enumerate() {
        vm.guest.cmdline = match (at == last, hostile) {
            (true, Some(storm)) => format!("conformance.run={storm}"),
            (true, None) => "conformance.run=mask".to_owned(),
            _ => words(&vm.tasks, vm.server.policy.word()),
        };
    }
    found.text = found.system.description();
    Ok(Some(found))
}

/// The RTOS's command line.
fn words(tasks: &[Task], policy: &str) -> String {
    let tasks = tasks.iter().enumerate().map(|(at, task)| {
        let execution = task.execution - JOB;
        let [period, deadline, offset] = [task.period, task.deadline, task.offset];
        format!(
            "t{at}:{period}:{execution}:{deadline}:{offset}:{}",
            task.priority
        )
    });
    let tasks: Vec<_> = tasks.collect();
    format!(
        "rtos.tasks={} rtos.policy={policy} rtos.millis={MILLIS} rtos.expect=none",
        tasks.join(",")
    )
}
