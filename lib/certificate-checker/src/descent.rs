//! Checks descents, of which proofs of EDF consist: from an instant after which no deadline can be
//! missed, down to the first deadline.

use crate::Fault;
use crate::bounds::{Job, R, Supply, Z};
use alloc::vec::Vec;
use hanok_task_model::{Descent, Tail};
use num_integer::Integer;
use num_traits::{One, Zero};

pub fn at(instant: u64) -> Z {
    Z::from(instant)
}

pub fn rational(value: Z) -> R {
    R::from_integer(value)
}

pub fn rate(jobs: &[Job]) -> R {
    sum(jobs.iter().map(Job::rate).collect())
}

/// Adds fractions in pairs of halves: adding them one after the other would reduce a long fraction
/// each time, where periods have no common factors.
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

/// Checks that each instant is the least by which the supply reaches the demand right before the
/// previous instant. Returns the last instant.
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

/// Checks that no deadline can be missed from the descent's first instant on. `more` is added to
/// the demand once.
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

/// One common multiple of all periods after the instant from which on everything repeats itself.
fn repetition(jobs: &[Job], supply: &Supply) -> Result<R, Fault> {
    let mut common = supply.period.to_integer();
    let mut repeats_from = supply.repeats_from();
    for job in jobs {
        common = common.lcm(&job.period);
        repeats_from = repeats_from.max(rational(job.window() - &job.period));
    }
    if supply.period.is_integer() {
        Ok(R::from_integer(common) + repeats_from)
    } else {
        Err(Fault::Tail)
    }
}
