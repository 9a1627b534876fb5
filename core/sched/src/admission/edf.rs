//! Tasks under EDF, upon the supply of an interface.
//!
//! All deadlines hold if demand is no more than supply at each instant at which a deadline can
//! be, up to a bound. The instants are visited backwards by quick processor-demand analysis
//! (Zhang and Burns 2009), which jumps over all those that one comparison covers; with a supply
//! in place of a CPU's plain time, the jump from a demand leads to the instant at which the
//! supply has given as much.

use super::demand::{ONE, Set};
use super::supply::Supply;
use super::{Least, Plan, Refusal, Shortfall, Work};
use core::ops::Range;

/// What is beyond no bound can be told for.
const ENDLESS: u64 = u64::MAX;

/// Whether `set` holds its deadlines with `supply`.
pub(super) fn holds(set: &Set<'_>, supply: &Supply, work: &mut Work) -> Result<(), Refusal> {
    let bound = bound(set, supply)?;
    backwards(set, 0..bound, work, |at, demand| {
        let given = supply.time_for(demand).filter(|time| *time <= at);
        given.ok_or_else(|| {
            Refusal::Late(Shortfall {
                instant: set.last_deadline(at).unwrap_or(at),
                demand,
                supply: supply.within(set.last_deadline(at).unwrap_or(at)),
            })
        })
    })
}

/// The least whole budget with which `set` holds its deadlines, in the period of `plan`.
///
/// Each instant at which a budget is not enough says which one is, and no smaller one would
/// do; with a larger budget, all that was enough before still is. So whatever way leads through
/// the instants finds the least. This one looks at ever longer stretches from zero: most sets
/// have their worst early, and the larger the budget, the earlier the bound.
///
/// Where the bound is so far away that half of the work is done, because the budget is hardly
/// more than the bandwidth, the budget grows by 1/256, and the bound comes near.
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

/// The least budget of `period` that is no less than the bandwidth of `set`.
pub(super) fn least_by_bandwidth(set: &Set<'_>, period: u64) -> Result<u64, Refusal> {
    let product = set.bandwidth(period).ok_or(Refusal::Overload)?;
    let up = u64::try_from(product.div_ceil(ONE)).map_err(|_| Refusal::Overload)?;
    // The sum is too much by less than the error: one less may be exactly enough.
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

/// By how much the bandwidth of `set` times `period` is too large at most.
fn error(set: &Set<'_>, period: u64) -> u128 {
    u128::from(set.len()) * u128::from(period)
}

/// Whether the bandwidth of `set` is at most `budget / period`, exactly; `false` where no
/// number can tell.
fn exactly(set: &Set<'_>, budget: u64, period: u64) -> bool {
    set.hyperperiod(period, ENDLESS).is_some_and(|hyperperiod| {
        let supply = u128::from(hyperperiod / period) * u128::from(budget);
        set.execution_in(hyperperiod) <= supply
    })
}

/// Up to which instant deadlines must be looked at: where the line above the demand meets the
/// line below the supply, or after a hyperperiod of both, from which on all comes again.
fn bound(set: &Set<'_>, supply: &Supply) -> Result<u64, Refusal> {
    let linear = linear_bound(set, supply);
    let first = set.longest_window().max(supply.starved);
    let period = supply.period;
    let again = set.hyperperiod(period, linear).filter(|hyperperiod| {
        let given = u128::from(hyperperiod / period) * u128::from(supply.budget);
        set.execution_in(*hyperperiod) <= given
    });
    match again {
        Some(hyperperiod) => Ok(linear.min(first.saturating_add(hyperperiod))),
        None if linear < ENDLESS => Ok(linear),
        // Either more is asked for than given, or nobody can tell.
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

/// (ahead + starved * budget / period) / (budget / period - bandwidth), all times the period.
fn linear_bound(set: &Set<'_>, supply: &Supply) -> u64 {
    let given = u128::from(supply.budget) << 64;
    let asked = set.bandwidth(supply.period);
    let Some(margin) = asked.and_then(|asked| given.checked_sub(asked)) else {
        return ENDLESS;
    };
    let above = u128::from(set.ahead()) * u128::from(supply.period)
        + u128::from(supply.starved) * u128::from(supply.budget);
    // The margin is in parts of 2^64. What of that shift has no room above is taken off below,
    // which makes the bound larger.
    let shift = above.leading_zeros().min(64);
    match (above << shift).checked_div(margin >> (64 - shift)) {
        Some(bound) => u64::try_from(bound).map_or(ENDLESS, |bound| bound.saturating_add(1)),
        None => ENDLESS,
    }
}

/// Visits the instants of `span`, from its end on, which is among them, down to its start.
/// `enough` says of an instant and its demand from when on that demand is met, at or before
/// the instant.
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
