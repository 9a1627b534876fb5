//! The least budget, as an exact rational.
//!
//! For a demand d that must be met within t there is a least budget B(t, d) in closed form
//! (docs/scheduling.md). Under EDF the least budget is the greatest of these over all deadlines.
//! The test itself finds the deadlines that matter: each miss raises the budget to what that
//! deadline needs. The first budget without a miss is the least one, because every raise was
//! necessary. Under fixed priorities, each member needs the least budget of any one instant within
//! its window, and the least budget is the greatest of these over all members.

use crate::edf::{self, Miss, Outcome};
use crate::fixed;
use crate::load::{self, Load};
use crate::supply::{Rational, Supply, SupplyStart};
use crate::work::{Undecided, Work};
use num_traits::CheckedMul;

/// What stays the same while a budget is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The interface's period.
    pub period: i128,
    /// `None` if the interface's deadline is its period. Otherwise the deadline is the budget and
    /// this slack.
    pub slack: Option<i128>,
    /// From when on the supply counts.
    pub start: SupplyStart,
}

impl Shape {
    /// The supply with this budget.
    pub fn supply(&self, budget: Rational) -> Result<Supply, Undecided> {
        Supply::rational(self.period, budget, self.slack, self.start)
    }

    /// The largest possible budget.
    pub fn most(&self) -> i128 {
        self.period - self.slack.unwrap_or(0)
    }

    /// The x and y of this rule: if n budgets are needed, the last of them ends in time if `B (n +
    /// y) >= n P + x + d - t`.
    fn terms(&self) -> (i128, i128) {
        match (self.slack, self.start) {
            (None, SupplyStart::Anywhere | SupplyStart::Prepaid { .. }) => (self.period, 1),
            (None, SupplyStart::Period) => (0, 0),
            // A server that pays for its switches has no such deadline.
            (Some(slack), SupplyStart::Anywhere | SupplyStart::Prepaid { .. }) => (slack, 0),
            (Some(slack), SupplyStart::Period) => (slack - self.period, -1),
            (None, SupplyStart::Polled) => (self.period, 0),
            (Some(slack), SupplyStart::Polled) => (slack, -1),
        }
    }

    /// The least budget, at least 0, that meets `demand` within `t`; `None` if the largest does
    /// not.
    ///
    /// It is the least over n >= 1 of `max(d / n, (n P + x + d - t) / (n + y))`. The first term
    /// falls with n and the second rises, so that only the two n beside their crossing matter.
    pub fn budget_for(&self, t: i128, demand: i128) -> Result<Option<Rational>, Undecided> {
        if demand <= 0 {
            return Ok(Some(Rational::from(0)));
        }
        // What is left after the payments comes later by those for wakes.
        let (paid, t) = match self.start {
            SupplyStart::Prepaid { cost, wakes } => (cost, t.saturating_sub(wakes)),
            _ => (0, t),
        };
        if demand > t {
            return Ok(None);
        }
        let crossing = self.crossing(t, demand).ok_or(Undecided::TooLarge)?;
        let low = crossing.max(1);
        let one = self.with_budgets(low, t, demand)?;
        let other = self.with_budgets(low + 1, t, demand)?;
        let least = one.into_iter().chain(other).min();
        let least = least.map(|budget| budget + Rational::from(paid));
        Ok(least.filter(|budget| *budget <= Rational::from(self.most())))
    }

    /// The n, rounded down, at which both terms of [`Self::budget_for`] are equal: the larger root
    /// of `P n^2 - (t - x) n - d y = 0`.
    fn crossing(&self, t: i128, demand: i128) -> Option<i128> {
        let (x, y) = self.terms();
        let middle = t - x;
        let product = self.period.checked_mul(demand)?.checked_mul(4 * y)?;
        let discriminant = middle.checked_mul(middle)?.checked_add(product)?;
        let root = discriminant.max(0).isqrt();
        Some((middle + root) / (2 * self.period))
    }

    /// The least budget of which exactly `n` in a row meet the demand.
    fn with_budgets(&self, n: i128, t: i128, demand: i128) -> Result<Option<Rational>, Undecided> {
        let (x, y) = self.terms();
        let needed = n.checked_mul(self.period).ok_or(Undecided::TooLarge)? + x + demand - t;
        let each = Rational::new(demand, n);
        match n + y {
            0 => Ok((needed <= 0).then_some(each)),
            budgets => Ok(Some(each.max(Rational::new(needed, budgets)))),
        }
    }
}

/// The budget whose rate, without what is paid of it, is that of `loads`.
fn by_rate(loads: &[Load], shape: &Shape) -> Result<Rational, Undecided> {
    let rate = edf::exact_rate(loads).ok_or(Undecided::TooLarge)?;
    let product = rate.checked_mul(&Rational::from(shape.period));
    let paid = match shape.start {
        SupplyStart::Prepaid { cost, .. } => cost,
        _ => 0,
    };
    Ok(product.ok_or(Undecided::TooLarge)? + Rational::from(paid))
}

/// The largest number of times that a budget is raised.
const RAISES: usize = 10_000;
/// The number of deadlines that are examined before the first test.
const FIRST: usize = 64;

/// The least budget under EDF; `None` if the largest is too small.
pub fn edf(loads: &[Load], shape: &Shape, work: &mut Work) -> Result<Option<Rational>, Undecided> {
    let Some(mut budget) = first_deadlines(loads, shape, work)? else {
        return Ok(None);
    };
    for _ in 0..RAISES {
        if budget > Rational::from(shape.most()) {
            return Ok(None);
        }
        let supply = shape.supply(budget)?;
        // A deadline that is missed needs more than this budget.
        let more = match edf::test(loads, &supply, work)? {
            Outcome::Kept(_) => return Ok(Some(budget)),
            Outcome::Missed(Miss::At(t)) => shape.budget_for(t, load::due(loads, t))?,
            Outcome::Missed(_) => Some(by_rate(loads, shape)?),
        };
        let Some(more) = more else {
            return Ok(None);
        };
        budget = more;
    }
    Err(Undecided::TooLong)
}

/// The budget that the first few deadlines need. With it the first test has nearly the right
/// budget, so that its horizon is near.
fn first_deadlines(
    loads: &[Load],
    shape: &Shape,
    work: &mut Work,
) -> Result<Option<Rational>, Undecided> {
    let (mut at, mut budget) = (0, Rational::from(0));
    for _ in 0..FIRST {
        work.spend(2 * loads.len())?;
        let next = loads.iter().map(|load| load.next_due(at)).min();
        let next = next.unwrap_or(0).max(0);
        match shape.budget_for(next, load::due(loads, next))? {
            Some(needed) => budget = budget.max(needed),
            None => return Ok(None),
        }
        at = next + 1;
    }
    Ok(Some(budget))
}

/// The least budget under fixed priorities for `loads`, the highest priority first; `None` if the
/// largest is too small.
pub fn fixed(
    loads: &[Load],
    shape: &Shape,
    work: &mut Work,
) -> Result<Option<Rational>, Undecided> {
    let mut budget = Rational::from(0);
    for place in (0..loads.len()).rev() {
        let until = loads.get(..=place).unwrap_or_default();
        if budget > Rational::from(0) {
            let supply = shape.supply(budget)?;
            if fixed::response(until, &supply, work)?.is_some() {
                continue;
            }
        }
        match of_member(until, shape, work)? {
            Some(needed) => budget = budget.max(needed),
            None => return Ok(None),
        }
    }
    Ok(Some(budget))
}

/// The least budget that the last one of `loads` needs. Between two arrivals of higher ones the
/// demand is constant, so that only the ends of these intervals matter.
fn of_member(
    loads: &[Load],
    shape: &Shape,
    work: &mut Work,
) -> Result<Option<Rational>, Undecided> {
    let Some((own, higher)) = loads.split_last() else {
        return Ok(Some(Rational::from(0)));
    };
    let window = own.fixed_window();
    let mut best = None;
    look_at(loads, shape, window, &mut best, work)?;
    for load in higher {
        let mut at = load.period - load.delay();
        while at < window {
            if at > 0 {
                look_at(loads, shape, at, &mut best, work)?;
            }
            at += load.period;
            work.spend(1)?;
        }
    }
    Ok(best)
}

/// Lowers `best` to the budget that the instant `t` needs, if that is less.
fn look_at(
    loads: &[Load],
    shape: &Shape,
    t: i128,
    best: &mut Option<Rational>,
    work: &mut Work,
) -> Result<(), Undecided> {
    work.spend(loads.len())?;
    let demand = load::requested(loads, t);
    if let Some(best) = best
        && !shape.supply(*best)?.gives(demand, t)?
    {
        return Ok(());
    }
    if let Some(needed) = shape.budget_for(t, demand)? {
        *best = Some(best.map_or(needed, |best| best.min(needed)));
    }
    Ok(())
}
