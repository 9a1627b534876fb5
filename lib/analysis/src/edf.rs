//! EDF on one CPU: tests whether the demand is at most the supply at every instant.
//!
//! The test goes down from an instant after which no deadline can be missed, by the step of QPA
//! (Zhang & Burns, IEEE TC 58(9) 2009), with a supply in the place of the whole CPU. [`Descent`]
//! says what one step covers. Where the demand's rate equals the supply's, the two bounding lines
//! never cross, and the descent begins after one common multiple of all periods.

use crate::load::{self, FRACTION, Load};
use crate::supply::{Rational, Supply};
use crate::work::{Undecided, Work};
use alloc::vec::Vec;
use core::cmp::Ordering;
use hanok_task_model::{Descent, Tail};
use num_traits::{CheckedAdd, CheckedDiv};

/// The outcome of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<P> {
    /// All deadlines are kept; the value proves it.
    Kept(P),
    /// Some deadline can be missed.
    Missed(Miss),
}

/// Where a test found a deadline missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// At this distance from a common release, the demand is more than the supply.
    At(i128),
    /// The members' rate is more than the supply's.
    Rate,
    /// The member at this place of the ranking can miss its deadline.
    Member(usize),
}

/// Tests whether `loads` keep their deadlines under EDF with `supply`.
pub fn test(
    loads: &[Load],
    supply: &Supply,
    work: &mut Work,
) -> Result<Outcome<Descent>, Undecided> {
    let Some((tail, harmless)) = horizon(loads, supply, 0, work)? else {
        return Ok(Outcome::Missed(Miss::Rate));
    };
    let first = after_a_deadline(loads, harmless)?;
    let demand = |t| load::due(loads, t);
    descend(demand, first, i128::MIN, supply, (loads.len(), work)).map(|outcome| match outcome {
        Ok(instants) => Outcome::Kept(Descent { instants, tail }),
        Err(at) => Outcome::Missed(Miss::At(last_deadline(loads, at))),
    })
}

/// Goes down from `first` until there is no demand, or to the instant `end`. Returns the instants,
/// or one at which the demand is more than the supply.
pub(crate) fn descend(
    demand: impl Fn(i128) -> i128,
    first: i128,
    end: i128,
    supply: &Supply,
    (cost, work): (usize, &mut Work),
) -> Result<Result<Vec<u64>, i128>, Undecided> {
    let mut instants = Vec::new();
    let mut at = first;
    loop {
        work.spend(cost)?;
        instants.push(u64::try_from(at).map_err(|_| Undecided::TooLarge)?);
        if at <= end {
            return Ok(Ok(instants));
        }
        let needed = demand(at - 1);
        if needed == 0 {
            return Ok(Ok(instants));
        }
        let next = supply.time_for(needed)?;
        if next >= at {
            return Ok(Err(at - 1));
        }
        at = next;
    }
}

/// The instant behind the first deadline from `harmless` on.
pub(crate) fn after_a_deadline(loads: &[Load], harmless: i128) -> Result<i128, Undecided> {
    let next = loads.iter().map(|load| load.next_due(harmless)).min();
    let first = next.unwrap_or(0).max(0).saturating_add(1);
    match u64::try_from(first) {
        Ok(_) => Ok(first),
        Err(_) => Err(Undecided::TooLarge),
    }
}

/// The last deadline up to `t`, or `t` where there is none.
pub(crate) fn last_deadline(loads: &[Load], t: i128) -> i128 {
    loads
        .iter()
        .filter_map(|load| load.last_due(t))
        .max()
        .unwrap_or(t)
        .max(0)
}

/// The instant after which no deadline can be missed, and why; `None` where the demand grows faster
/// than the supply. `more` is additional demand that comes once.
pub(crate) fn horizon(
    loads: &[Load],
    supply: &Supply,
    more: i128,
    work: &mut Work,
) -> Result<Option<(Tail, i128)>, Undecided> {
    let (needs, gets) = (load::rate(loads), supply.rate()?);
    if needs.low > gets.high {
        return Ok(None);
    }
    if needs.high >= gets.low {
        return match compare_rates(loads, supply.exact_rate()?, work)? {
            Ordering::Greater => Ok(None),
            Ordering::Equal => repetition(loads, supply).map(Some),
            // The lines would cross, but at an instant beyond 128 bits.
            Ordering::Less => Err(Undecided::TooLong),
        };
    }
    let ahead = load::head_start(loads).saturating_add(more);
    let ahead = ahead.checked_mul(1 << FRACTION);
    let distance = ahead.and_then(|ahead| ahead.checked_add(supply.deficit().ok()?));
    let distance = distance.ok_or(Undecided::TooLarge)?;
    let gain = gets.low - needs.high;
    let crossing = distance / gain + 1;
    Ok(Some((Tail::Lines, crossing)))
}

/// The exact rate at which `loads` need CPU time; `None` beyond 128 bits.
pub fn exact_rate(loads: &[Load]) -> Option<Rational> {
    let mut sum = Rational::from(0);
    for load in loads {
        let own = Rational::from(load.execution).checked_div(&Rational::from(load.period))?;
        sum = sum.checked_add(&own)?;
    }
    Some(sum)
}

/// The number of binary places of all rates that [`compare_rates`] computes in a round.
const DIGITS: u32 = 32;

/// Compares the rate at which `loads` need CPU time with `rate`. The result is exact, whatever
/// common multiples the periods have: more and more binary places of all rates are computed.
///
/// After each round, the remaining difference (`whole` and the sum of `rests`) is the true
/// difference times a power of two. Each rest is at least zero and less than one. So a `whole` that
/// is not negative decides, and so does one that is so small that the rests cannot make up for it.
/// A difference other than zero is at least one part in the product of all periods: if it is still
/// undecided after as many places as that product has bits, it is zero.
pub fn compare_rates(
    loads: &[Load],
    rate: Rational,
    work: &mut Work,
) -> Result<Ordering, Undecided> {
    let owed = core::iter::once((-*rate.numer(), *rate.denom()));
    let needed = loads.iter().map(|load| (load.execution, load.period));
    let mut rests: Vec<(i128, i128)> = needed.chain(owed).collect();
    let bits = |period: i128| i128::BITS - period.leading_zeros();
    let mut places: u64 = rests
        .iter()
        .map(|(_, period)| u64::from(bits(*period)))
        .sum();
    places += u64::from(usize::BITS);
    let most = loads.len() as i128 + 1;
    let mut whole = 0i128;
    loop {
        work.spend(rests.len())?;
        for (rest, period) in &mut rests {
            whole += rest.div_euclid(*period);
            *rest = rest.rem_euclid(*period);
        }
        if rests.iter().all(|(rest, _)| *rest == 0) {
            return Ok(whole.cmp(&0));
        }
        // Here all rests are at least zero, the rest of `rate` included, and one of them is more.
        if whole >= 0 {
            return Ok(Ordering::Greater);
        }
        if whole <= -most {
            return Ok(Ordering::Less);
        }
        if places == 0 {
            return Ok(Ordering::Equal);
        }
        places = places.saturating_sub(DIGITS.into());
        whole <<= DIGITS;
        for (rest, _) in &mut rests {
            *rest = rest.checked_mul(1 << DIGITS).ok_or(Undecided::TooLarge)?;
        }
    }
}

/// One common multiple of all periods, behind the instant from which on everything repeats itself.
fn repetition(loads: &[Load], supply: &Supply) -> Result<(Tail, i128), Undecided> {
    let mut common = supply.period();
    let mut repeats_from = supply.repeats_from();
    for load in loads {
        let step = load.period / num_integer::gcd(common, load.period);
        common = common.checked_mul(step).ok_or(Undecided::TooLarge)?;
        repeats_from = repeats_from.max(load.window() - load.period);
    }
    let end = common
        .checked_add(repeats_from)
        .ok_or(Undecided::TooLarge)?;
    Ok((Tail::Repeats, end))
}

/// The first deadline that is missed, if one of the first `most` deadlines is. A person wants to
/// see it in a refusal.
pub fn first_miss(
    loads: &[Load],
    supply: &Supply,
    most: usize,
    work: &mut Work,
) -> Result<Option<i128>, Undecided> {
    let mut at = 0;
    for _ in 0..most {
        work.spend(2 * loads.len())?;
        let next = loads.iter().map(|load| load.next_due(at)).min();
        let Some(next) = next.map(|next| next.max(0)) else {
            return Ok(None);
        };
        if !supply.gives(load::due(loads, next), next)? {
            return Ok(Some(next));
        }
        at = next + 1;
    }
    Ok(None)
}

/// Some deadline that is missed where the demand's rate is more than the supply's. Instants are
/// tried, each twice as late as the one before.
pub fn late_miss(loads: &[Load], supply: &Supply) -> Result<i128, Undecided> {
    let mut at = loads.iter().map(Load::window).max().unwrap_or(1).max(1);
    loop {
        let due = loads.iter().map(|load| load.next_due(at)).min();
        let due = due.unwrap_or(at);
        if !supply.gives(load::due(loads, due), due)? {
            return Ok(due);
        }
        at = at.checked_mul(2).ok_or(Undecided::TooLarge)?;
    }
}

#[cfg(test)]
mod tests;
