//! From the least budget to an interface that a timer can keep.
//!
//! A tool that rounds up the exact budget, then the deadline, then its parent's budget, gives away
//! a little at each step. Here the exact budget only says where to begin. The answer is the least
//! whole number of ticks that passes the exact test, with a proof that it passes and a proof that a
//! tick less would not.

use crate::edf::Outcome;
use crate::least::{self, Shape};
use crate::load::{self, FRACTION, Load};
use crate::supply::{Rational, Supply, SupplyStart};
use crate::test;
use crate::work::{Undecided, Work};
use hanok_task_model::{Against, Exact, Fraction, Policy, Proof, Server, Window};

/// A request for an interface: what it has to serve, and in which form.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceRequest<'a> {
    /// The members, ranked by `policy`.
    pub loads: &'a [Load],
    /// The policy that chooses among them.
    pub policy: Policy,
    /// The kind of server that is to keep the interface.
    pub server: Server,
    /// The deadline that the interface gets.
    pub window: Window,
    /// The timer's tick in nanoseconds.
    pub tick: i128,
    /// The cost of a component beyond its budget in each period, in whole ticks. An interface's
    /// deadline is at least this much longer than its budget.
    pub cost: i128,
    /// What the server pays from its budget each time for the switches to it and back, in whole ticks; 0: nothing.
    pub prepaid: i128,
}

/// An interface in whole ticks, and why it is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundInterface {
    /// The period, budget and deadline in nanoseconds.
    pub interface: [i128; 3],
    /// From when on the supply counts.
    pub start: SupplyStart,
    /// The proof that it suffices.
    pub proof: Proof,
    /// The proof that a tick less does not suffice.
    pub least: Option<Against>,
    /// The least budget as a rational.
    pub exact: Option<Exact>,
}

impl InterfaceRequest<'_> {
    /// What is fixed in the search for a budget with this period.
    pub fn shape(&self, period: i128, start: SupplyStart) -> Shape {
        Shape {
            period,
            slack: (self.window != Window::Period).then_some(self.cost),
            start,
        }
    }

    /// The least budget as a rational; `None` if the whole period is too little.
    pub fn exact(&self, shape: &Shape, work: &mut Work) -> Result<Option<Rational>, Undecided> {
        // The rate is more than a CPU, whatever the periods' common multiples are.
        if load::rate(self.loads).low > 1 << FRACTION {
            return Ok(None);
        }
        if self.policy.is_fixed() {
            least::fixed(self.loads, shape, work)
        } else {
            least::edf(self.loads, shape, work)
        }
    }

    /// The least budget in whole ticks; `None` if the whole period is too little.
    pub fn budget(&self, shape: &Shape, work: &mut Work) -> Result<Option<i128>, Undecided> {
        match self.exact(shape, work) {
            Ok(Some(exact)) => {
                let budget = self.up(exact);
                Ok((budget <= shape.most()).then_some(budget))
            }
            Ok(None) => Ok(None),
            Err(_) => self.by_trying(shape, work),
        }
    }

    /// `time` rounded up to ticks, at least one more than what is paid.
    fn up(&self, time: Rational) -> i128 {
        let ticks = (time / Rational::from(self.tick)).ceil().to_integer();
        (ticks * self.tick).max(self.prepaid + self.tick)
    }

    fn supply(&self, shape: &Shape, budget: i128) -> Result<Supply, Undecided> {
        shape.supply(Rational::from(budget))
    }

    fn suffices(&self, shape: &Shape, budget: i128, work: &mut Work) -> bool {
        let Ok(supply) = self.supply(shape, budget) else {
            return false;
        };
        let mut part = work.part(Work::TEST / 64);
        let began = part;
        let outcome = test::keeps(self.loads, self.policy, &supply, &mut part);
        work.charge_part(began, part);
        matches!(outcome, Ok(Outcome::Kept(_)))
    }

    /// Finds the budget by halving, where the exact budget could not be found. A budget that the
    /// test cannot decide counts as too small, so that the answer is safe, but perhaps not the
    /// least.
    fn by_trying(&self, shape: &Shape, work: &mut Work) -> Result<Option<i128>, Undecided> {
        let rate = load::rate(self.loads).low;
        let scaled = rate.checked_mul(shape.period).ok_or(Undecided::TooLarge)?;
        let mut low = (scaled >> FRACTION) / self.tick;
        let mut high = shape.most() / self.tick;
        if high < 1 || low > high {
            return Ok(None);
        }
        if !self.suffices(shape, high * self.tick, work) {
            return Err(Undecided::TooLong);
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.suffices(shape, middle * self.tick, work) {
                high = middle
            } else {
                low = middle
            }
        }
        Ok(Some(high * self.tick))
    }

    /// The least interface with this period; `None` if the whole period is too little.
    pub fn find(
        &self,
        period: i128,
        start: SupplyStart,
        work: &mut Work,
    ) -> Result<Option<FoundInterface>, Undecided> {
        let shape = self.shape(period, start);
        let exact = match self.exact(&shape, work) {
            Ok(None) => return Ok(None),
            Ok(Some(exact)) => Some(exact),
            Err(_) => None,
        };
        let budget = match exact {
            Some(exact) => Some(self.up(exact)).filter(|budget| *budget <= shape.most()),
            None => self.by_trying(&shape, work)?,
        };
        let Some(budget) = budget else {
            return Ok(None);
        };
        let deadline = match self.window {
            Window::Period => period,
            Window::Budget => budget + self.cost,
            Window::Longest => self.longest(period, budget, start, work)?,
        };
        let supply = Supply::new(period, budget, deadline, start);
        let Outcome::Kept(proof) = test::keeps(self.loads, self.policy, &supply, work)? else {
            return Err(Undecided::TooLong);
        };
        Ok(Some(FoundInterface {
            interface: [period, budget, deadline],
            start,
            proof,
            least: self.less(&shape, budget, work),
            exact: exact.and_then(|exact| self.claim(&shape, exact, work)),
        }))
    }

    /// The proof that a tick less than `budget` does not suffice.
    fn less(&self, shape: &Shape, budget: i128, work: &mut Work) -> Option<Against> {
        let less = budget - self.tick;
        if less <= self.prepaid {
            return Some(Against::Nothing);
        }
        let supply = self.supply(shape, less).ok()?;
        let found = test::misses(self.loads, self.policy, &supply, false, work);
        found.ok().flatten()
    }

    /// The exact budget with its proofs, if it fits into the certificate.
    fn claim(&self, shape: &Shape, budget: Rational, work: &mut Work) -> Option<Exact> {
        let supply = shape.supply(budget).ok()?;
        let kept = test::keeps(self.loads, self.policy, &supply, work).ok()?;
        let Outcome::Kept(proof) = kept else {
            return None;
        };
        let against = test::misses(self.loads, self.policy, &supply, true, work).ok()??;
        Some(Exact {
            budget: Fraction {
                numerator: u64::try_from(*budget.numer()).ok()?,
                denominator: u64::try_from(*budget.denom()).ok()?,
            },
            proof,
            against,
        })
    }

    /// The longest deadline in whole ticks with which `budget` still suffices, by halving: a longer
    /// deadline is never better.
    pub(crate) fn longest(
        &self,
        period: i128,
        budget: i128,
        start: SupplyStart,
        work: &mut Work,
    ) -> Result<i128, Undecided> {
        let suffices = |ticks: i128, work: &mut Work| {
            let supply = Supply::new(period, budget, ticks * self.tick, start);
            let outcome = test::keeps(self.loads, self.policy, &supply, work)?;
            Ok(matches!(outcome, Outcome::Kept(_)))
        };
        let mut low = (budget + self.cost) / self.tick;
        let mut high = period / self.tick + 1;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if suffices(middle, work)? {
                low = middle
            } else {
                high = middle
            }
        }
        Ok(low * self.tick)
    }
}

#[cfg(test)]
mod tests;
