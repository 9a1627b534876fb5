//! Tasks under fixed priorities that run on the supply of an interface.
//!
//! A task keeps its deadlines if, when it is released together with all more important tasks, there
//! is an instant by its deadline at which the supply has given what they and it have asked for
//! (Shin and Lee 2003; on a whole CPU: Lehoczky, Sha and Ding 1989). The usual iteration (Joseph
//! and Pandya 1986; Audsley and others 1993), with the inverse of the supply in it, finds the first
//! such instant. Deadlines after the next release need another test and are refused.

use super::demand::{Demand, Set};
use super::edf::least_by_bandwidth;
use super::supply::Supply;
use super::{Least, Plan, Refusal, Shortfall, Work};

/// The execution that `task` and all more important tasks can ask for in `length` after its
/// release.
fn requested(set: &Set<'_>, task: &Demand, length: u64) -> u64 {
    let mut sum = task.execution();
    // Of those with the same priority, the ones earlier in the table are more important.
    let mut last = Some(task.priority());
    for stretch in set.stretches() {
        for other in stretch {
            if core::ptr::eq(other, task) {
                last = task.priority().checked_sub(1);
            } else if last.is_some_and(|last| other.priority() <= last) {
                sum = sum.saturating_add(other.requested(length));
            }
        }
    }
    sum
}

/// The longest time from the release of a job of `task` to its completion.
fn response(
    set: &Set<'_>,
    task: &Demand,
    supply: &Supply,
    work: &mut Work,
) -> Result<u64, Refusal> {
    // With jitter the next job may come before this one is due. But the next job's deadline is a
    // period later: if it comes earlier, it is complete no later than if it had come a full period
    // after this one.
    if task.window() > task.period() {
        return Err(Refusal::LongDeadline);
    }
    let mut at = 1;
    loop {
        work.spend(set.len())?;
        match step_on(set, task, supply, at)? {
            Some(later) => at = later,
            None => return Ok(at),
        }
    }
}

/// One step of the iteration for the response of `task`: a later instant to look at, or `None` if what it and more
/// important tasks ask for is supplied by `at`.
pub(super) fn step_on(
    set: &Set<'_>,
    task: &Demand,
    supply: &Supply,
    at: u64,
) -> Result<Option<u64>, Refusal> {
    if task.window() > task.period() {
        return Err(Refusal::LongDeadline);
    }
    let demand = requested(set, task, at);
    match supply.time_for(demand) {
        Some(time) if time.max(at) <= task.window() => Ok((time > at).then_some(time)),
        // So much is asked for before it can be complete.
        _ => Err(Refusal::Late(Shortfall {
            instant: task.window(),
            demand,
            supply: supply.within(task.window()),
        })),
    }
}

/// The most important one of `tasks` that is less important than the one at `last`, or than none.
pub(super) fn after(tasks: &[Demand], last: Option<usize>) -> Option<usize> {
    let rank = |index: usize| tasks.get(index).map(|task| (task.priority(), index));
    let last = last.and_then(rank);
    let ranks = (0..tasks.len()).filter_map(rank);
    let less = ranks.filter(|rank| last.is_none_or(|last| *rank > last));
    less.min().map(|(_, index)| index)
}

/// Whether `set` keeps its deadlines with `supply`; the error says why not.
pub(super) fn holds(set: &Set<'_>, supply: &Supply, work: &mut Work) -> Result<(), Refusal> {
    set.iter()
        .try_for_each(|task| response(set, task, supply, work).map(drop))
}

/// The least whole budget with which `set` keeps its deadlines, in the period of `plan`. Each task
/// in turn raises the budget that the tasks before it need.
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
