//! Asks the hypervisor for the CPU time that the tasks need (`rtos.ask`), by the crate `hanok-schedule`.
//!
//! Each task is declared before the first one begins, and the vCPU's budget becomes the least with which all of them keep
//! their deadlines. What the vCPU had before is what it keeps at least. The tasks begin when the new budget has taken
//! effect, at the start of one of the vCPU's periods.

use crate::state::Once;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use hanok_guest_runtime::timer;
use hanok_guest_runtime::tree::Machine;
use hanok_rtos_kernel::{Entry, MAX_TASKS, Policy, Set};
use hanok_schedule::{DEVICE, Error, Hvc, Interface, Order, Result, Task, Tasks, Usage, Vcpu};
use heapless::Vec;

/// What was granted, and what the vCPU had used by then.
static GRANTED: Once<(Interface, Usage)> = Once::new();
static SINCE: AtomicU64 = AtomicU64::new(0);

/// Nanoseconds in a microsecond.
const MICRO: u64 = 1_000;

/// Why the tasks do not begin.
pub enum Refused {
    /// No hypervisor answers the calls.
    Absent,
    /// Tasks that wait for each other: the analysis knows none of that.
    Dependent,
    /// A call as such failed.
    Call(Error),
    /// This task is refused, for this reason.
    Task(&'static str, Error),
}

/// Asks for the time that the tasks of `set` need, each of whose jobs takes `per_job` microseconds more, for the kernel.
/// Returns when it is there. After a refusal all is as it was.
pub fn ask(machine: &Machine, set: &Set, per_job: u64) -> core::result::Result<(), Refused> {
    // Without Hanok below, HVC may be undefined.
    if !machine.devices.iter().any(|area| area.start == DEVICE.0) {
        return Err(Refused::Absent);
    }
    if !set.independent {
        return Err(Refused::Dependent);
    }
    let mut vcpu = Vcpu::new(Hvc);
    let had = vcpu.interface().map_err(Refused::Call)?;
    let limits = vcpu.limits().map_err(Refused::Call)?;
    println!(
        "rtos: has {} of {} us, may have {} us",
        had.budget / MICRO,
        had.period / MICRO,
        limits.budget(had.period) / MICRO
    );
    let since = declare_all(&mut vcpu, set, per_job, had)?;
    let granted = take_effect(&mut vcpu, since).map_err(Refused::Call)?;
    println!(
        "rtos: granted {} of {} us",
        granted.budget / MICRO,
        granted.period / MICRO
    );
    let used = vcpu.usage().map_err(Refused::Call)?;
    SINCE.store(timer::now(), Relaxed);
    GRANTED.set((granted, used));
    Ok(())
}

/// Declares all tasks; those that were, are taken back if another one is refused. Answers the instant from which on the
/// budget is there, in nanoseconds of the counter.
fn declare_all(
    vcpu: &mut Vcpu<Hvc>,
    set: &Set,
    per_job: u64,
    had: Interface,
) -> core::result::Result<u64, Refused> {
    let mut since = 0;
    let mut tasks = Tasks::new(order(set.policy)).at_least(had.budget);
    for (place, entry) in by_urgency(set).iter().enumerate() {
        let time = |micros: u64| micros.saturating_mul(MICRO);
        let task = Task::new(
            time(entry.period),
            time(entry.budget.saturating_add(per_job)),
        )
        .within(time(entry.deadline));
        match patiently(vcpu, |vcpu| tasks.declare(vcpu, place, &task)) {
            Ok(at) => since = at,
            Err(error) => {
                for before in (0..place).rev() {
                    patiently(vcpu, |vcpu| tasks.revoke(vcpu, before)).map_err(Refused::Call)?;
                }
                return Err(Refused::Task(entry.name, error));
            }
        }
    }
    Ok(since)
}

/// The tasks, the most urgent first where priorities are fixed; of two with one priority, that which is named first.
fn by_urgency(set: &Set) -> Vec<Entry, MAX_TASKS> {
    let mut entries: Vec<(usize, Entry), MAX_TASKS> = set.entries().enumerate().collect();
    entries.sort_unstable_by_key(|(index, entry)| {
        let rank = match set.policy {
            Policy::RateMonotonic => entry.period,
            Policy::DeadlineMonotonic => entry.deadline,
            Policy::Fixed => entry.priority,
            Policy::EarliestDeadline => 0,
        };
        (rank, *index)
    });
    entries.into_iter().map(|(_, entry)| entry).collect()
}

fn order(policy: Policy) -> Order {
    match policy {
        Policy::EarliestDeadline => Order::EarliestDeadline,
        _ => Order::Priority,
    }
}

/// Asks again where the answer is that it is too early: the former change has not taken effect yet, or there are too
/// many questions.
fn patiently(
    vcpu: &mut Vcpu<Hvc>,
    mut question: impl FnMut(&mut Vcpu<Hvc>) -> Result<u64>,
) -> Result<u64> {
    loop {
        match question(vcpu) {
            Err(Error::Later(_)) => vcpu.wait()?,
            answer => return answer,
        }
    }
}

/// Waits for the next period, and the next, until `since`; and answers what the vCPU has then.
fn take_effect(vcpu: &mut Vcpu<Hvc>, since: u64) -> Result<Interface> {
    vcpu.wait()?;
    while nanos(timer::now()) < u128::from(since) {
        vcpu.wait()?;
    }
    vcpu.interface()
}

fn nanos(ticks: u64) -> u128 {
    u128::from(ticks) * 1_000_000_000 / u128::from(timer::frequency().max(1))
}

/// Prints how much of what was granted was used, if the tasks asked.
pub fn report() {
    let Some((granted, before)) = GRANTED.get() else {
        return;
    };
    let passed = timer::now().saturating_sub(SINCE.load(Relaxed));
    let share = u128::from(granted.budget) * nanos(passed) / u128::from(granted.period.max(1));
    match Vcpu::new(Hvc).usage() {
        Ok(now) => println!(
            "rtos: used {} of {} us granted, throttled {}, stolen {} us",
            now.used.saturating_sub(before.used) / MICRO,
            share / u128::from(MICRO),
            now.throttled.saturating_sub(before.throttled),
            now.stolen.saturating_sub(before.stolen) / MICRO,
        ),
        Err(error) => println!("rtos: FAIL usage: {error}"),
    }
}

impl core::fmt::Display for Refused {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Absent => out.write_str("no hypervisor answers"),
            Self::Dependent => out.write_str("tasks that wait for each other cannot be declared"),
            Self::Call(error) => write!(out, "{error}"),
            Self::Task(name, error) => write!(out, "task {name}: {error}"),
        }
    }
}
