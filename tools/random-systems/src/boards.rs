//! Systems for a board: RTOS guests with their tasks, and one VM beside them that means harm.

use std::path::Path;

use anyhow::Result;

use crate::draw::{Style, draw};
use crate::edge::{self, Admitted};
use crate::random::Random;
use crate::system::{Guest, Kind, Policy, Server, Spread, System, Task};

/// What a job costs beyond what the RTOS is told, in microseconds: its release's interrupt, which comes through the
/// hypervisor, the kernel's way to it, the end of it, and sleeping and waking in between.
pub const JOB: u64 = 12;
/// What a switch between VMs costs at most, in nanoseconds: the longest exit.
pub const SWITCH: u64 = 5_000;
/// How long the tasks run, in milliseconds, on one core and on several.
pub const MILLIS: [u64; 2] = [300, 600];
/// Within how many microseconds the first jobs of [`alone`] arrive.
const SPREAD: u64 = 10_000;
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

/// What the VM does that has a vCPU on each core.
pub const SPREAD_STORMS: [&str; 7] = [
    "wake-storm",
    "sgi-storm",
    "kick-storm",
    "cache-storm",
    "wfi-storm",
    "mmio-storm",
    "hypercall-storm",
];
/// The distance in microseconds between two instants at which the emulator looks at its clock, where a board has
/// several cores. Until the next such instant it runs one core after the other, each for its part of that time. So
/// each of n cores executes an instruction in n nanoseconds, and something may begin later by this.
pub const TICK: u64 = 8;

/// One core.
const STYLE: Style = Style {
    board: None,
    cores: 1,
    vms: 4,
    tasks: 3,
    periods: [1_000, 5_000],
    switch: SWITCH,
    costly: 8,
    // A guest's kernel wakes more often than its tasks' jobs come.
    wakes: false,
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
            _ => words(&vm.tasks, vm.server.policy.word(), JOB, MILLIS[0]),
        };
    }
    found.text = found.system.description();
    Ok(Some(found))
}

/// Two to four cores, which take so many nanoseconds for an instruction.
const SEVERAL: Style = Style {
    cores: 4,
    vms: 7,
    periods: [1_500, 5_000],
    ..STYLE
};

/// A system of several cores that is admitted on `board`; `None` where the seed gives none. The last VM of one core does
/// `storms[0]`, and one with a vCPU on each core `storms[1]`.
///
/// # Errors
/// As [`of`].
pub fn several(
    board: &'static str,
    seed: u64,
    storms: [&str; 2],
    boards: &Path,
) -> Result<Option<Admitted>> {
    let style = Style {
        board: Some(board),
        ..SEVERAL
    };
    let mut drawn = draw(&style, seed);
    let cores = drawn.cores.len() as u64;
    if cores < 2 {
        return Ok(None);
    }
    let mut random = Random::new(!seed);
    drawn.switch = (SWITCH * cores) + TICK * 1_000;
    let job = JOB * cores + 2 * TICK;
    let last = drawn.vms.len() - 1;
    if let Some(hostile) = drawn.vms.last_mut() {
        hostile.tasks.truncate(1);
        hostile.guest.kernel = "guest:conformance".to_owned();
        hostile.guest.cmdline = format!("conformance.run={}", storms[0]);
    }
    for task in drawn.vms.iter_mut().flat_map(|vm| &mut vm.tasks) {
        task.offset = random.below(task.period);
    }
    drawn.spread = Some(spread(&mut random, &drawn, storms[1]));
    let Some(mut found) = edge::of(&drawn, boards)? else {
        return Ok(None);
    };
    let mut tasks = found.system.vms.iter().flat_map(|vm| &vm.tasks);
    if tasks.any(|task| task.execution < job + 10) {
        return Ok(None);
    }
    for vm in found.system.vms.iter_mut().take(last) {
        vm.guest.cmdline = words(&vm.tasks, vm.server.policy.word(), job, MILLIS[1]);
    }
    found.text = found.system.description();
    Ok(Some(found))
}

/// A VM on all cores with a tenth of each, or less.
fn spread(random: &mut Random, of: &System, storm: &str) -> Spread {
    let period = random.from(2_000, 8_000);
    let budget = period * random.from(4, 10) / 100;
    Spread {
        server: Server {
            home: None,
            core: 0,
            kind: random.one_of(&[Kind::Periodic, Kind::Polling]),
            period,
            budget: Some(budget),
            deadline: None,
            window: "period",
            priority: random.below(1 + of.vms.len() as u64) as u32,
            policy: Policy::Edf,
        },
        guest: Guest {
            kernel: "guest:conformance".to_owned(),
            cmdline: format!("conformance.run={storm}"),
            ask: 0,
        },
    }
}

/// A system that is admitted on `board`, of RTOS guests alone, which run for `millis` milliseconds each. Their jobs
/// arrive from `after` microseconds on after a guest's own beginning, the first ones within [`SPREAD`], and take what
/// is described, the RTOS included: there is nothing more for its kernel. No switch is reckoned, so that servers are of all kinds.
///
/// # Errors
/// The description has faults, or what was found is not admitted.
pub fn alone(
    board: &'static str,
    seed: u64,
    (after, millis): (u64, u64),
    boards: &Path,
) -> Result<Option<Admitted>> {
    let style = Style {
        board: Some(board),
        costly: 0,
        periods: [2_000, 8_000],
        ..STYLE
    };
    let mut drawn = draw(&style, seed);
    let mut random = Random::new(!seed);
    for vm in &mut drawn.vms {
        for task in &mut vm.tasks {
            task.offset = after + random.below(task.period.min(SPREAD));
        }
    }
    let Some(mut found) = edge::of(&drawn, boards)? else {
        return Ok(None);
    };
    let mut tasks = found.system.vms.iter().flat_map(|vm| &vm.tasks);
    if tasks.any(|task| task.execution < style.execution) {
        return Ok(None);
    }
    // In ticks of the board a budget is rounded up, and a deadline down: a budget that is the whole deadline is refused.
    let whole = |server: &Server| server.budget >= Some(server.deadline.unwrap_or(server.period));
    let mut servers = found.system.vms.iter().map(|vm| &vm.server);
    if servers.any(whole) {
        return Ok(None);
    }
    for vm in &mut found.system.vms {
        vm.guest.cmdline = words(&vm.tasks, vm.server.policy.word(), 0, millis);
    }
    found.text = found.system.description();
    Ok(Some(found))
}

/// The RTOS's command line, for so many milliseconds; a job costs `beyond` microseconds beyond what it is told.
fn words(tasks: &[Task], policy: &str, beyond: u64, millis: u64) -> String {
    let tasks = tasks.iter().enumerate().map(|(at, task)| {
        let execution = task.execution - beyond;
        let [period, deadline, offset] = [task.period, task.deadline, task.offset];
        format!(
            "t{at}:{period}:{execution}:{deadline}:{offset}:{}",
            task.priority
        )
    });
    let tasks: Vec<_> = tasks.collect();
    format!(
        "rtos.tasks={} rtos.policy={policy} rtos.millis={millis} rtos.expect=none",
        tasks.join(",")
    )
}
