//! Tasks under EDF that run on the supply of an interface.
//!
//! All deadlines are kept if demand is at most supply at each instant at which a deadline can be,
//! up to a bound. Quick processor-demand analysis (Zhang and Burns 2009) visits these instants
//! backwards and jumps over all instants that one comparison covers. Zhang and Burns jump to the
//! instant that equals the demand, since their tasks have a whole CPU. Here the jump leads to the
//! instant at which the supply has given as much as the demand.

use super::demand::{ONE, Set, divided};
use super::supply::Supply;
use super::{Least, Plan, Refusal, Shortfall, Work};
use core::ops::Range;

/// The bound if none can be computed.
const ENDLESS: u64 = u64::MAX;

/// Whether `set` keeps its deadlines with `supply`; the error says why not.
pub(super) fn holds(set: &Set<'_>, supply: &Supply, work: &mut Work) -> Result<(), Refusal> {
    let bound = bound(set, supply)?;
    backwards(set, 0..bound, work, |at, demand| {
        covered(set, supply, at, demand)
    })
}

/// The instant from which on the supply covers `demand`, which is that of `at`; the error if that is too late.
fn covered(set: &Set<'_>, supply: &Supply, at: u64, demand: u64) -> Result<u64, Refusal> {
    let given = supply.time_for(demand).filter(|time| *time <= at);
    given.ok_or_else(|| {
        let instant = set.last_deadline(at).unwrap_or(at);
        Refusal::Late(Shortfall {
            instant,
            demand,
            supply: supply.within(instant),
        })
    })
}

/// One step of the analysis backwards from `at`: all deadlines after the answer, up to `at`, are kept. From the instant
/// on at which the supply has reached the demand of `at`, nobody is late until `at`, as demand only grows.
pub(super) fn step_back(set: &Set<'_>, supply: &Supply, at: u64) -> Result<u64, Refusal> {
    match set.demand(at) {
        0 => Ok(0),
        demand => Ok(covered(set, supply, at, demand)?.saturating_sub(1)),
    }
}

/// The least whole budget with which `set` keeps its deadlines, in the period of `plan`.
///
/// At each instant at which a budget is not enough, a larger budget can be computed that is just
/// enough there. A larger budget is still enough at all instants where a smaller one was. So any
/// order of visiting the instants finds the least budget. This function examines longer and longer
/// spans that begin at zero: most sets have their worst instant early, and a larger budget has an
/// earlier bound.
///
/// If the budget is hardly more than the bandwidth, the bound is far away. Once half of the work is
/// done, the budget grows by 1/256, so that the bound comes near.
pub(super) fn least_budget(set: &Set<'_>, plan: Plan, work: &mut Work) -> Result<Least, Refusal> {
    let mut budget = least_by_bandwidth(set, plan.period)?;
    let mut exact = true;
    let enough = work.left / 2;
    let mut horizon = set.longest_window().saturating_add(plan.period);
    let mut seen = 0;
    loop {
        backwards(set, seen..horizon, work, |at, demand| {
            budget = plan.raise(budget, at, demand)?;
            let met = plan.supply(budget).time_for(demand);
            Ok(met.unwrap_or(at).min(at))
        })?;
        work.spend(set.len())?;
        let bound = match bound(set, &plan.supply(budget)) {
            Err(Refusal::Undecided) => ENDLESS,
            bound => bound?,
        };
        if bound <= horizon {
            return Ok(Least { budget, exact });
        }
        if exact && work.left < enough {
            exact = false;
            budget = budget.saturating_add(budget / 256 + 1);
            if budget > plan.most() {
                return Err(Refusal::Undecided);
            }
        }
        seen = horizon;
        horizon = horizon.saturating_mul(2).min(bound);
    }
}

/// The least budget in `period` whose bandwidth is at least that of `set`.
pub(super) fn least_by_bandwidth(set: &Set<'_>, period: u64) -> Result<u64, Refusal> {
    let product = set.bandwidth(period).ok_or(Refusal::Overload)?;
    let up = u64::try_from(product.div_ceil(ONE)).map_err(|_| Refusal::Overload)?;
    // The sum is too large by less than the error: one less may be exactly enough.
    let below = up.saturating_sub(1);
    let near = product - (u128::from(below) << 64) <= error(set, period);
    let least = if near && exactly(set, below, period) {
        below
    } else {
        up
    };
    if least <= period {
        Ok(least.max(1))
    } else {
        Err(Refusal::Overload)
    }
}

/// The largest error of the bandwidth of `set` times `period`.
fn error(set: &Set<'_>, period: u64) -> u128 {
    u128::from(set.len()) * u128::from(period)
}

/// Whether the bandwidth of `set` is exactly at most `budget / period`; `false` if the numbers are
/// too large to decide that.
fn exactly(set: &Set<'_>, budget: u64, period: u64) -> bool {
    set.hyperperiod(period, ENDLESS).is_some_and(|hyperperiod| {
        let supply = u128::from(hyperperiod / period) * u128::from(budget);
        set.execution_in(hyperperiod) <= supply
    })
}

/// The instant up to which deadlines must be examined: where the line above the demand meets the
/// line below the supply, or a hyperperiod of both, after which everything repeats.
fn bound(set: &Set<'_>, supply: &Supply) -> Result<u64, Refusal> {
    let linear = linear_bound(set, supply);
    let hyperperiod = set.hyperperiod(supply.period, linear);
    bound_of(set, supply, linear, hyperperiod)
}

/// [`bound`], where [`linear_bound`] and the hyperperiod of the set and the supply, if it is at most that, are
/// known.
pub(super) fn bound_of(
    set: &Set<'_>,
    supply: &Supply,
    linear: u64,
    hyperperiod: Option<u64>,
) -> Result<u64, Refusal> {
    let first = set.longest_window().max(supply.starved);
    let period = supply.period;
    let again = hyperperiod.filter(|hyperperiod| {
        let given = u128::from(hyperperiod / period) * u128::from(supply.budget);
        set.execution_in(*hyperperiod) <= given
    });
    match again {
        Some(hyperperiod) => Ok(linear.min(first.saturating_add(hyperperiod))),
        None if linear < ENDLESS => Ok(linear),
        // Either the tasks ask for more than the supply, or that cannot be decided.
        None => match set.bandwidth(period) {
            Some(asked)
                if asked.saturating_sub(error(set, period)) <= u128::from(supply.budget) << 64 =>
            {
                Err(Refusal::Undecided)
            }
            _ => Err(Refusal::Overload),
        },
    }
}

/// (ahead + starved * budget / period) / (budget / period - bandwidth), with numerator and
/// denominator times the period.
pub(super) fn linear_bound(set: &Set<'_>, supply: &Supply) -> u64 {
    let given = u128::from(supply.budget) << 64;
    let asked = set.bandwidth(supply.period);
    let Some(margin) = asked.and_then(|asked| given.checked_sub(asked)) else {
        return ENDLESS;
    };
    let above = u128::from(set.ahead()) * u128::from(supply.period)
        + u128::from(supply.starved) * u128::from(supply.budget);
    // The margin is in units of 2^-64. If the numerator has no room for that shift, the denominator
    // loses the bits instead, which makes the bound larger.
    let shift = above.leading_zeros().min(64);
    match margin >> (64 - shift) {
        0 => ENDLESS,
        margin => u64::try_from(divided(above << shift, margin))
            .map_or(ENDLESS, |bound| bound.saturating_add(1)),
    }
}

/// Visits the instants of `span` at which a deadline can be, from its end (inclusive) down to its
/// start. For an instant and its demand, `enough` answers the instant from which on the supply
/// covers that demand, which is at or before the given one.
fn backwards(
    set: &Set<'_>,
    span: Range<u64>,
    work: &mut Work,
    mut enough: impl FnMut(u64, u64) -> Result<u64, Refusal>,
) -> Result<(), Refusal> {
    let mut at = span.end;
    while at > span.start {
        work.spend(set.len())?;
        let demand = set.demand(at);
        if demand == 0 {
            return Ok(());
        }
        let met = enough(at, demand)?;
        if met < at {
            at = met;
            continue;
        }
        work.spend(set.len())?;
        let Some(before) = at.checked_sub(1).and_then(|at| set.last_deadline(at)) else {
            return Ok(());
        };
        at = before;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
