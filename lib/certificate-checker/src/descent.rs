//! Descents, which are what proofs of EDF consist of: from an instant on which nothing can happen, to the least.

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
