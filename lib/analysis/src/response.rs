//! When each member's jobs are complete at the latest, and how much time is left until the
//! deadline.
//!
//! Under fixed priorities the test itself finds that. Under EDF it follows from demand and supply.
//! Let a job be due at d, and let d - t be the last instant before its end at which no work that is
//! due by d waits (so that t is at least the job's window). The work done from there to the job's
//! end is demand that is due within t, so that the end is at most the instant by which the supply
//! has reached demand(t). The least value of t - (that instant), over all t from the window on, is
//! the time that is left to each job. For several CPUs nothing more is known than that the deadline
//! is kept.

use crate::compose::Workload;
use crate::edf;
use crate::fixed;
use crate::load::{self, Load};
use crate::supply::Supply;
use crate::work::{Undecided, Work};
use alloc::vec::Vec;
use hanok_task_model::{Member, Tail};
use num_integer::Integer;

/// The response times of a member's jobs, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The task or component.
    pub member: Member,
    /// The longest time from a job's arrival to its completion.
    pub most: i128,
    /// The least time from a job's completion to its deadline.
    pub slack: i128,
}

/// The responses of the members of `workload`, which keep their deadlines with `supply`, in the
/// order of its loads. Where `work` does not suffice for more, the response is the deadline.
pub fn of(workload: &Workload, supply: &Supply, work: &mut Work) -> Vec<Response> {
    let loads = &workload.loads;
    let each = loads.iter().enumerate().map(|(place, own)| {
        let mut part = work.part(Work::TEST / 16);
        let began = part;
        let found = match (workload.cpus > 1, workload.policy.is_fixed()) {
            (true, _) => Ok(0),
            (false, true) => left_fixed(loads.get(..=place).unwrap_or_default(), supply, &mut part),
            (false, false) => left(loads, own, supply, &mut part),
        };
        work.charge_part(began, part);
        let slack = found.unwrap_or(0).max(0);
        Response {
            member: own.member,
            most: own.deadline - slack,
            slack,
        }
    });
    each.collect()
}

/// The time that is left to the last one of `loads` under fixed priorities.
fn left_fixed(loads: &[Load], supply: &Supply, work: &mut Work) -> Result<i128, Undecided> {
    let end = fixed::response(loads, supply, work)?;
    let window = loads.last().map_or(0, Load::window);
    Ok(end.map_or(0, |end| window - end))
}

/// The time that is left to `own` under EDF, less than its window; found by halving.
fn left(loads: &[Load], own: &Load, supply: &Supply, work: &mut Work) -> Result<i128, Undecided> {
    let (mut low, mut high) = (0, own.window());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if keeps(loads, own, middle, supply, work)? {
            low = middle
        } else {
            high = middle
        }
    }
    Ok(low)
}

/// Whether all demand from the window of `own` on is supplied `early` before it is due.
fn keeps(
    loads: &[Load],
    own: &Load,
    early: i128,
    supply: &Supply,
    work: &mut Work,
) -> Result<bool, Undecided> {
    // Being `early` means more demand: as much as can be supplied in that time.
    let product = supply.rate()?.high.checked_mul(early);
    let product = product.ok_or(Undecided::TooLarge)?;
    let more = Integer::div_ceil(&product, &(1 << load::FRACTION));
    let Some((Tail::Lines, harmless)) = edf::horizon(loads, supply, more, work)? else {
        return Ok(false);
    };
    let mut at = edf::after_a_deadline(loads, harmless.max(own.window()))?;
    while at > own.window() {
        work.spend(loads.len())?;
        let next = supply.time_for(load::due(loads, at - 1))? + early;
        if next >= at {
            return Ok(false);
        }
        at = next;
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
