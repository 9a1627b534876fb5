//! The runtime that Linux has to give a thread so that its job is done.
//!
//! Linux charges a thread of SCHED_DEADLINE the time for which it is the one that runs. When the hypervisor gives the
//! CPU to another VM, the thread still seems to run: a stock kernel is built without the accounting of stolen time
//! (CONFIG_PARAVIRT_TIME_ACCOUNTING). A thread whose runtime were its execution time would be stopped before its job
//! is done, and go on a period later.
//!
//! Within a job's deadline D the vCPU is supplied at least sbf(D), so at most D - sbf(D) is taken from it. A runtime of
//! C + D - sbf(D) is therefore not used up before the job has had C. It is at most D, as C <= sbf(D) of every admitted
//! task. The cost: Linux stops a thread that takes longer than it declared only after that; until then it takes the
//! time of others in the same vCPU. It never takes time of other VMs.

use hanok_analysis::supply::{Supply, SupplyStart};
use hanok_schedule::{Interface, Task};

/// The runtime for a task on a vCPU with this interface.
pub fn runtime(task: &Task, interface: &Interface) -> u64 {
    let taken = task
        .deadline
        .saturating_sub(supplied(interface, task.deadline));
    task.execution.saturating_add(taken).min(task.deadline)
}

/// What the interface certainly supplies within `time`, rounded down; nothing if that cannot be told.
fn supplied(interface: &Interface, time: u64) -> u64 {
    let wide = |time: u64| i128::from(time);
    let [period, budget, deadline] =
        [interface.period, interface.budget, interface.deadline].map(wide);
    if budget >= period {
        return time;
    }
    let supply = Supply::new(period, budget, deadline, SupplyStart::Anywhere);
    let within = supply
        .within(wide(time))
        .map(|supplied| supplied.to_integer());
    within
        .ok()
        .and_then(|supplied| u64::try_from(supplied).ok())
        .unwrap_or(0)
}
