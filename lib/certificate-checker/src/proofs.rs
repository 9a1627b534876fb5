//! The proofs, each against its definition.

use crate::bounds::{Job, R, Supply, Z};
use crate::{Fault, global};
use alloc::vec::Vec;
use hanok_task_model::{Against, Descent, Policy, Proof, Tail};
use num_integer::Integer;
use num_traits::{One, Zero};

pub fn at(instant: u64) -> Z {
    Z::from(instant)
}

pub fn rational(value: Z) -> R {
    R::from_integer(value)
}

/// Whether `proof` shows that `jobs`, by rank, are complete in time upon `supply`.
pub fn check(
    jobs: &[Job],
    policy: Policy,
    cpus: u32,
    supply: &Supply,
    proof: &Proof,
) -> Result<(), Fault> {
    let long = |job: &Job| job.window() >= job.period;
    let whole = supply.cpus.is_one() && supply.budget == supply.period && !supply.loses;
    let by_rate = whole && jobs.iter().all(long);
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

fn rate(jobs: &[Job]) -> R {
    sum(jobs.iter().map(Job::rate).collect())
}

/// Whether the sum of rates is one at most: by 128 binary places of each, rounded up, where these
/// are enough to tell; else exactly, which takes long for thousands of odd periods.
pub fn is_within_one(jobs: &[Job]) -> bool {
    let one = Z::from(2u32).pow(128);
    let scaled = |job: &Job| (&job.execution * &one).div_ceil(&job.period);
    let sum: Z = jobs.iter().map(scaled).sum();
    sum <= one || rate(jobs) <= R::one()
}

/// The sum of fractions, halves first: one after the other would reduce a long fraction each
/// time, where periods have nothing in common.
fn sum(mut all: Vec<R>) -> R {
    while all.len() > 1 {
        let pairs = all.chunks(2).map(|pair| match pair {
            [one, other] => {
                let top = one.numer() * other.denom() + other.numer() * one.denom();
                R::new_raw(top, one.denom() * other.denom())
            }
            _ => pair.iter().sum(),
        });
        all = pairs.collect();
    }
    all.pop().unwrap_or_else(R::zero)
}

/// What the last one of `jobs` and all before it ask for until `t`.
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

/// Whether each instant is the least by which the supply has what is demanded right before the
/// one before; the last one.
pub fn steps(supply: &Supply, descent: &Descent, demand: impl Fn(&Z) -> Z) -> Result<u64, Fault> {
    let mut instants = descent.instants.iter().copied();
    let mut before = instants.next().ok_or(Fault::Step)?;
    for next in instants {
        let demand = rational(demand(&(at(before) - Z::one())));
        let enough = supply.sbf(&at(next)) >= demand;
        let least = supply.sbf(&(at(next) - Z::one())) < demand;
        if next == 0 || next >= before || !enough || !least {
            return Err(Fault::Step);
        }
        before = next;
    }
    match before {
        0 => Err(Fault::Step),
        last => Ok(last),
    }
}

/// Whether nothing can happen from the descent's first instant on. `more` comes on top of the
/// demand, once.
pub fn tail(jobs: &[Job], supply: &Supply, more: &R, descent: &Descent) -> Result<(), Fault> {
    let first = descent.instants.first().ok_or(Fault::Tail)?;
    let first = at(*first) - Z::one();
    if !jobs.iter().any(|job| job.is_due(&first)) {
        return Err(Fault::Tail);
    }
    let (needs, gets) = (rate(jobs), supply.rate());
    let first = rational(first);
    let shown = match descent.tail {
        Tail::Lines => {
            let ahead = sum(jobs.iter().map(Job::ahead).collect());
            let above = &needs * &first + ahead + more;
            let below = &gets * (&first - supply.gap());
            needs < gets && above <= below
        }
        Tail::Repeats => needs == gets && first >= repetition(jobs, supply)?,
    };
    if shown { Ok(()) } else { Err(Fault::Tail) }
}

/// One common multiple of all periods after everything has begun to repeat itself.
fn repetition(jobs: &[Job], supply: &Supply) -> Result<R, Fault> {
    let mut common = supply.period.to_integer();
    let mut settled = supply.settled();
    for job in jobs {
        common = common.lcm(&job.period);
        settled = settled.max(rational(job.window() - &job.period));
    }
    if supply.period.is_integer() {
        Ok(R::from_integer(common) + settled)
    } else {
        Err(Fault::Tail)
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

/// Whether `against` shows that `supply` is too little, or with `or_equal` that any less is.
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

/// Whether the last one of `jobs` has more to wait for than the supply gives, from one instant
/// to the next until the end of its window; each instant is the last for which that is so.
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
