//! Checks each kind of proof against its definition.

use crate::bounds::{Job, R, Supply, Z};
use crate::descent::{at, rate, rational, steps, tail};
use crate::{Fault, global};
use hanok_task_model::{Against, Descent, Policy, Proof};
use num_integer::Integer;
use num_traits::{One, Zero};

/// Checks that `proof` shows that `jobs`, sorted by rank, are complete in time with `supply`.
pub fn check(
    jobs: &[Job],
    policy: Policy,
    cpus: u32,
    supply: &Supply,
    proof: &Proof,
) -> Result<(), Fault> {
    let long = |job: &Job| job.window() >= job.period;
    let of_time = supply.cpus.is_one() && supply.budget == supply.period && !supply.loses;
    let by_rate = of_time && jobs.iter().all(long);
    match (proof, jobs.is_empty(), cpus > 1, policy.is_fixed()) {
        (Proof::Utilization, false, false, false) if by_rate => {
            if is_within_one(jobs) {
                Ok(())
            } else {
                Err(Fault::Tail)
            }
        }
        (Proof::Edf(_), _, _, _) if by_rate => Err(Fault::Kind),
        (Proof::Idle, true, _, _) => Ok(()),
        (Proof::Edf(descent), false, false, false) => edf(jobs, supply, descent),
        (Proof::Fixed(ends), false, false, true) => fixed(jobs, supply, ends),
        (Proof::Global(descents), false, true, false) => global::check(jobs, supply, descents),
        _ => Err(Fault::Kind),
    }
}

fn dbf(jobs: &[Job], t: &Z) -> Z {
    jobs.iter().map(|job| job.dbf(t)).sum()
}

/// Whether the sum of rates is at most one. 128 binary places of each, rounded up, are enough to
/// tell in most cases; otherwise the exact sum tells, which takes long for thousands of odd
/// periods.
pub fn is_within_one(jobs: &[Job]) -> bool {
    let one = Z::from(2u32).pow(128);
    let scaled = |job: &Job| (&job.execution * &one).div_ceil(&job.period);
    let sum: Z = jobs.iter().map(scaled).sum();
    sum <= one || rate(jobs) <= R::one()
}

/// The work that the last one of `jobs` and all before it ask for until `t`.
fn rbf(jobs: &[Job], t: &Z) -> Z {
    let Some((own, higher)) = jobs.split_last() else {
        return Z::zero();
    };
    let others: Z = higher.iter().map(|job| job.interference(t)).sum();
    others + &own.execution
}

fn edf(jobs: &[Job], supply: &Supply, descent: &Descent) -> Result<(), Fault> {
    tail(jobs, supply, &R::zero(), descent)?;
    let last = steps(supply, descent, |t| dbf(jobs, t))?;
    // Before the last instant nothing is due; before all others something is.
    let needed = |instant: u64| dbf(jobs, &(at(instant) - Z::one())) > Z::zero();
    let mut earlier = descent.instants.iter().rev().skip(1);
    if !needed(last) && earlier.all(|instant| needed(*instant)) {
        Ok(())
    } else {
        Err(Fault::Step)
    }
}

fn fixed(jobs: &[Job], supply: &Supply, ends: &[u64]) -> Result<(), Fault> {
    if ends.len() != jobs.len() {
        return Err(Fault::Members);
    }
    for (place, (job, end)) in jobs.iter().zip(ends).enumerate() {
        let end = at(*end);
        let demand = rational(rbf(jobs.get(..=place).unwrap_or_default(), &end));
        let complete = supply.sbf(&end) >= demand;
        let least = supply.sbf(&(&end - Z::one())) < demand;
        if !complete || !least || end > job.fixed_window() {
            return Err(Fault::Late);
        }
    }
    Ok(())
}

/// Checks that `against` shows that `supply` is too little; with `or_equal`, that any smaller one
/// is.
pub fn against(
    jobs: &[Job],
    policy: Policy,
    supply: &Supply,
    or_equal: bool,
    against: &Against,
) -> Result<(), Fault> {
    let beats = |demand: &R, given: &R| demand > given || or_equal && demand == given;
    let shown = match against {
        Against::Nothing => false,
        Against::Rate => beats(&rate(jobs), &supply.rate()),
        Against::Instant(instant) if !policy.is_fixed() => {
            let t = at(*instant);
            let demand = rational(dbf(jobs, &t));
            let due = jobs.iter().any(|job| job.is_due(&t));
            due && demand > R::zero() && beats(&demand, &supply.sbf(&t))
        }
        Against::Late { member, instants } if policy.is_fixed() => {
            let place = jobs.iter().position(|job| job.member == *member);
            let place = place.ok_or(Fault::Least)?;
            let until = jobs.get(..=place).unwrap_or_default();
            late(until, supply, instants, beats)
        }
        Against::Instant(_) | Against::Late { .. } => false,
    };
    if shown { Ok(()) } else { Err(Fault::Least) }
}

/// Whether the last one of `jobs` waits for more work than the supply gives, from each instant to
/// the next until the end of its window. Each instant must be the last one for which this holds.
fn late(jobs: &[Job], supply: &Supply, instants: &[u64], beats: impl Fn(&R, &R) -> bool) -> bool {
    let mut before = 0;
    for instant in instants {
        let demand = rational(rbf(jobs, &(at(before) + Z::one())));
        let covered = beats(&demand, &supply.sbf(&at(*instant)));
        let last = !beats(&demand, &supply.sbf(&(at(*instant) + Z::one())));
        if *instant <= before || !covered || !last {
            return false;
        }
        before = *instant;
    }
    let reached = |job: &Job| at(before) >= job.fixed_window();
    let needed = |job: &Job| {
        let previous = instants.iter().rev().nth(1).copied().unwrap_or(0);
        at(previous) < job.fixed_window()
    };
    !instants.is_empty() && jobs.last().is_some_and(|job| reached(job) && needed(job))
}
