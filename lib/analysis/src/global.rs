//! Global EDF on several CPUs.
//!
//! The test is a sufficient one: Baruah's (RTSS 2007), for a supply of `m` CPUs together (Shin,
//! Easwaran & Lee, ECRTS 2008; Easwaran, Shin & Lee, Real-Time Systems 43, 2009), with the caps
//! that whole instants need (Bertogna, Cirinei & Lipari, IEEE TPDS 20(4) 2009). docs/scheduling.md
//! derives it. In short: let a job of member k be the first to miss its deadline, `t` after some
//! CPU was last idle. At most m - 1 members carry work in from before that. The job runs in at most
//! C_k - 1 of those t instants, so that it does not run in the other t - C_k + 1. In these, all of
//! the supply goes to other members: the supply within t, less m (C_k - 1). No other member can run
//! in more than these instants, and none on two CPUs at once. Where the work that they can do is
//! *less* than that, there is no such job. As under EDF on one CPU, jitter shortens a member's
//! window.
//!
//! A cap of t - C_k would be right for the supremum of what a job that is in time leaves, but is
//! wrong here: it would admit four members (100, 9, D 9) on three CPUs, although nothing is free at
//! t = 9, and they miss.
//!
//! All instants are whole nanoseconds. The demand only grows with t, whichever members carry work
//! in (it is the greatest of sums that grow), so that a descent covers all t as it does for one
//! CPU.

use crate::edf::{self, Miss, Outcome};
use crate::load::Load;
use crate::supply::Supply;
use crate::work::{Undecided, Work};
use alloc::vec::Vec;
use hanok_task_model::{Descent, Proof, Tail};

/// Tests whether `loads` keep their deadlines under global EDF on `cpus` CPUs that give `supply`
/// together. [`Outcome::Missed`] means here that the test does not prove it.
pub fn test(
    loads: &[Load],
    cpus: u32,
    supply: &Supply,
    work: &mut Work,
) -> Result<Outcome<Proof>, Undecided> {
    if loads.is_empty() {
        return Ok(Outcome::Kept(Proof::Idle));
    }
    if loads.iter().any(|load| load.deadline > load.period) {
        return Err(Undecided::Unconstrained);
    }
    let carried = most_carried(loads, cpus);
    let mut descents = Vec::with_capacity(loads.len());
    for place in 0..loads.len() {
        match member(loads, place, (cpus, carried), supply, work)? {
            Ok(descent) => descents.push(descent),
            Err(miss) => return Ok(Outcome::Missed(miss)),
        }
    }
    Ok(Outcome::Kept(Proof::Global(descents)))
}

/// The most work that can be carried in: the largest executions of `cpus - 1` members.
fn most_carried(loads: &[Load], cpus: u32) -> i128 {
    let mut all: Vec<i128> = loads.iter().map(|load| load.execution).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    let carriers = cpus.saturating_sub(1) as usize;
    all.iter()
        .take(carriers)
        .fold(0, |sum, one| sum.saturating_add(*one))
}

fn member(
    loads: &[Load],
    place: usize,
    (cpus, carried): (u32, i128),
    supply: &Supply,
    work: &mut Work,
) -> Result<Result<Descent, Miss>, Undecided> {
    let Some(own) = loads.get(place) else {
        return Err(Undecided::TooLong);
    };
    let own_part = own.execution.saturating_mul(cpus.into());
    let more = carried.saturating_add(own_part);
    let Some((tail, harmless)) = edf::horizon(loads, supply, more, work)? else {
        return Ok(Err(Miss::Rate));
    };
    if tail == Tail::Repeats {
        // The rates need all of the supply: then nothing is left for work that is carried in.
        return Ok(Err(Miss::Rate));
    }
    let first = edf::after_a_deadline(loads, harmless.max(own.window()))?;
    let demand = |t| competing(loads, place, cpus, t);
    let cost = (loads.len(), work);
    let outcome = edf::descend(demand, first, own.window(), supply, cost)?;
    Ok(match outcome {
        Ok(instants) => Ok(Descent { instants, tail }),
        Err(at) => Err(Miss::At(at)),
    })
}

/// The supply that is needed within `t` so that no job of the member at `place` is late at its end:
/// one more than the supply that can go by without completing the job.
pub fn competing(loads: &[Load], place: usize, cpus: u32, t: i128) -> i128 {
    let Some(own) = loads.get(place) else {
        return 0;
    };
    let mut carried = Vec::with_capacity(loads.len());
    let ran = own.execution - 1;
    let mut sum = ran.saturating_mul(cpus.into()).saturating_add(1);
    for (index, load) in loads.iter().enumerate() {
        // The member's own earlier jobs were complete before its latest release.
        let (less, cap) = if index == place {
            (own.execution, t - own.window())
        } else {
            (0, t - ran)
        };
        let without = (load.due(t) - less).min(cap).max(0);
        let with = (workload(load, t) - less).min(cap).max(0);
        sum = sum.saturating_add(without);
        carried.push(with - without);
    }
    carried.sort_unstable_by(|a, b| b.cmp(a));
    let carriers = cpus.saturating_sub(1) as usize;
    carried
        .iter()
        .take(carriers)
        .fold(sum, |sum, one| sum.saturating_add(*one))
}

/// The most work that a member can do within `t` if it carries work in.
fn workload(load: &Load, t: i128) -> i128 {
    let jobs = load.jobs_due(t);
    let rest = (t - jobs.saturating_mul(load.period)).max(0);
    let whole = jobs.saturating_mul(load.execution);
    whole.saturating_add(load.execution.min(rest))
}

/// Finds the least budget, in whole ticks, with which `loads` keep their deadlines on `cpus` CPUs,
/// by halving, with its proof. `None` if the test does not pass with all of the CPUs' time. A
/// budget that the test cannot decide counts as too small.
pub fn least(
    loads: &[Load],
    cpus: u32,
    (period, tick): (i128, i128),
    work: &mut Work,
) -> Result<Option<(i128, Proof)>, Undecided> {
    let try_ticks = |ticks: i128, work: &mut Work| {
        let supply = Supply::parallel(period, ticks * tick, cpus)?;
        let mut part = work.part(Work::TEST / 32);
        let began = part;
        let outcome = test(loads, cpus, &supply, &mut part);
        work.charge_part(began, part);
        outcome
    };
    let all = period.saturating_mul(cpus.into()) / tick;
    let Outcome::Kept(mut proof) = try_ticks(all, work)? else {
        return Ok(None);
    };
    let (mut low, mut high) = (0, all);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match try_ticks(middle, work) {
            Ok(Outcome::Kept(better)) => (high, proof) = (middle, better),
            _ => low = middle,
        }
    }
    Ok(Some((high * tick, proof)))
}

#[cfg(test)]
mod tests;
