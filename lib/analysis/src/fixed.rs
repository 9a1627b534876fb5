//! Fixed priorities on one CPU: computes when each member's job is complete at the latest.
//!
//! A member keeps its deadline if at some instant within its window the supply since the worst
//! release has reached what the member and all higher ones have asked for by then (Shin & Lee, RTSS
//! 2003, for a supply; Lehoczky, Sha & Ding, RTSS 1989, for a whole CPU). Only the member's first
//! job needs to be examined, because it must be complete before the next one arrives: a deadline
//! beyond the period counts as the period, which is on the safe side.

use crate::edf::{Miss, Outcome};
use crate::load::{self, Load};
use crate::supply::Supply;
use crate::work::{Undecided, Work};
use alloc::vec::Vec;
use hanok_task_model::Member;

/// Tests whether `loads`, the highest priority first, keep their deadlines with `supply`. If so,
/// the proof says when each is complete at the latest.
pub fn test(
    loads: &[Load],
    supply: &Supply,
    work: &mut Work,
) -> Result<Outcome<Vec<u64>>, Undecided> {
    let mut ends = Vec::with_capacity(loads.len());
    // Test the lowest priority first: it is the likeliest to be late, and so mostly decides
    // quickly.
    if response(loads, supply, work)?.is_none() {
        return Ok(Outcome::Missed(Miss::Member(loads.len().saturating_sub(1))));
    }
    // No member is complete before the next higher one, so that its search begins there.
    let mut above = 0;
    for place in 0..loads.len() {
        let until = loads.get(..=place).unwrap_or_default();
        match response_from(above, until, supply, work)? {
            Some(end) => {
                ends.push(u64::try_from(end).map_err(|_| Undecided::TooLarge)?);
                above = end;
            }
            None => return Ok(Outcome::Missed(Miss::Member(place))),
        }
    }
    Ok(Outcome::Kept(ends))
}

/// The latest completion of the last one of `loads`, where all others have higher priorities;
/// `None` if it is after the window.
pub fn response(
    loads: &[Load],
    supply: &Supply,
    work: &mut Work,
) -> Result<Option<i128>, Undecided> {
    response_from(0, loads, supply, work)
}

/// As [`response`], where the job is known not to be complete before `at`.
fn response_from(
    mut at: i128,
    loads: &[Load],
    supply: &Supply,
    work: &mut Work,
) -> Result<Option<i128>, Undecided> {
    let Some(own) = loads.last() else {
        return Ok(Some(0));
    };
    loop {
        work.spend(loads.len())?;
        let next = supply.time_for(load::requested(loads, at.max(1)))?;
        if next > own.fixed_window() {
            return Ok(None);
        }
        if next <= at {
            return Ok(Some(at));
        }
        at = next;
    }
}

/// The instants that prove that the last one of `loads` can be late with `supply`, in the form of
/// [`hanok_task_model::Against::Late`]. With `or_equal` they prove it of every smaller supply.
/// `None` if they do not reach the end of the window.
pub fn lateness(
    loads: &[Load],
    supply: &Supply,
    or_equal: bool,
    work: &mut Work,
) -> Result<Option<(Member, Vec<u64>)>, Undecided> {
    let Some(own) = loads.last() else {
        return Ok(None);
    };
    let (mut at, mut instants) = (0, Vec::new());
    while at < own.fixed_window() {
        work.spend(loads.len())?;
        let demand = load::requested(loads, at + 1);
        let next = if or_equal {
            supply.time_until_more(demand)?
        } else {
            supply.time_for(demand)? - 1
        };
        if next <= at {
            return Ok(None);
        }
        instants.push(u64::try_from(next).map_err(|_| Undecided::TooLarge)?);
        at = next;
    }
    Ok(Some((own.member, instants)))
}
