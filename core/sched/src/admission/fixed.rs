//! Tasks under fixed priorities, upon the supply of an interface.
//!
//! A task holds its deadlines if, released together with all that are more important, there is
//! an instant by its deadline at which the supply has given what they and it have asked for
//! (Shin and Lee 2003; upon a CPU: Lehoczky, Sha and Ding 1989). The first such instant is
//! found by the usual iteration (Joseph and Pandya 1986; Audsley and others 1993), with the
//! supply's inverse in it. Deadlines after the next release need another test and are refused.

use super::demand::{Demand, Set};
use super::edf::least_by_bandwidth;
use super::supply::Supply;
use super::{Least, Plan, Refusal, Shortfall, Work};

/// What `task`, and all that go before it, can ask for in `length` after its release.
fn requested(set: &Set<'_>, task: &Demand, length: u64) -> u64 {
    let mut earlier = true;
    set.iter().fold(task.execution(), |sum, other| {
        if core::ptr::eq(other, task) {
            earlier = false;
            return sum;
        }
        let equal = earlier && other.priority() == task.priority();
        if equal || other.priority() < task.priority() {
            sum.saturating_add(other.requested(length))
        } else {
            sum
        }
    })
}

/// When a job of `task` is complete at the latest, after its release.
fn response(
    set: &Set<'_>,
    task: &Demand,
    supply: &Supply,
    work: &mut Work,
) -> Result<u64, Refusal> {
    // With jitter the next job may come before this one is due, but its deadline is a period later:
    // coming earlier, it is complete no later than if it had come a period after this one.
    if task.window() > task.period() {
        return Err(Refusal::LongDeadline);
    }
    let mut at = 1;
    loop {
        work.spend(set.len())?;
        let demand = requested(set, task, at);
        match supply.time_for(demand) {
            Some(time) if time <= at => return Ok(at),
            Some(time) if time <= task.window() => at = time,
            _ => {
                let instant = task.window();
                return Err(Refusal::Late(Shortfall {
                    instant,
                    demand: requested(set, task, instant),
                    supply: supply.within(instant),
                }));
            }
        }
    }
}

/// Whether `set` holds its deadlines with `supply`.
pub(super) fn holds(set: &Set<'_>, supply: &Supply, work: &mut Work) -> Result<(), Refusal> {
    set.iter()
        .try_for_each(|task| response(set, task, supply, work).map(drop))
}

/// The least whole budget with which `set` holds its deadlines, in the period of `plan`: for
/// each task in turn, what it needs beyond what those before it need.
pub(super) fn least_budget(set: &Set<'_>, plan: Plan, work: &mut Work) -> Result<Least, Refusal> {
    let mut budget = least_by_bandwidth(set, plan.period)?;
    for task in set.iter() {
        budget = plan.search(budget, |budget| {
            match response(set, task, &plan.supply(budget), work) {
                Ok(_) => Ok(true),
                Err(Refusal::Late(_)) => Ok(false),
                Err(other) => Err(other),
            }
        })?;
    }
    Ok(Least {
        budget,
        exact: true,
    })
}
