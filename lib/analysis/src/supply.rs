//! What an interface certainly supplies within a time: the right-hand side of every test.
//!
//! All supplies have one shape with different parameters. A periodic resource (P, B) is an
//! explicit-deadline one with L = P. A supply whose periods begin together with its members' is
//! only asked from the start of a period on (*aligned*), and so lacks the first of the two gaps.
//! Several CPUs together (the MPR of Shin, Easwaran & Lee) are equal to as many periodic resources
//! with an equal share each; [`Supply::parallel`] says why. A whole core is an aligned supply of 1
//! in 1.
//!
//! Budgets may be rational: times are scaled by the budget's denominator, so that all arithmetic
//! stays in integers. A value beyond 128 bits is an error, never a wrong answer.

use crate::Undecided;
use crate::load::{FRACTION, Rate};
use num_rational::Ratio;

/// An exact rational.
pub type Rational = Ratio<i128>;

/// A promise of CPU time, as the tests see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    /// Period, budget and deadline, multiplied by `scale`.
    period: i128,
    budget: i128,
    deadline: i128,
    scale: i128,
    /// The number of CPUs that supply at the same time.
    lanes: i128,
    aligned: bool,
}

/// From when on a supply bound counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SupplyStart {
    /// From any instant on.
    #[default]
    Anywhere,
    /// From the start of a period on.
    Period,
    /// From any instant on, and what is left of the current budget is lost: a polling server that
    /// begins to have work.
    Polled,
    /// From any instant on, and the server pays for its switches: with each budget, and before that for each wake of
    /// the current period.
    Prepaid {
        /// What it pays each time.
        cost: i128,
        /// What it pays for the wakes of one period at most. What is left of the current budget is so much less: the
        /// supply comes so much later.
        wakes: i128,
    },
}

impl Supply {
    /// The supply of `cores` whole cores.
    pub fn cores(cores: u32) -> Self {
        Self {
            period: 1,
            budget: 1,
            deadline: 1,
            scale: 1,
            lanes: i128::from(cores.max(1)),
            aligned: true,
        }
    }

    /// The supply of `budget` within `deadline` of the start of each `period`.
    ///
    /// Where a part of the current budget is lost, be it all of it, the gap is longer by so much, which is what a deadline
    /// makes that is longer by so much. Of a budget that is all paid for switches there is no supply.
    pub fn new(period: i128, budget: i128, deadline: i128, start: SupplyStart) -> Self {
        let (paid, lost) = match start {
            SupplyStart::Anywhere | SupplyStart::Period => (0, 0),
            SupplyStart::Polled => (0, budget),
            SupplyStart::Prepaid { cost, wakes } => (cost, wakes),
        };
        Self {
            period,
            budget: (budget - paid).max(0),
            deadline: deadline.saturating_add(lost),
            scale: 1,
            lanes: 1,
            aligned: start == SupplyStart::Period,
        }
    }

    /// As [`Self::new`] with a rational budget. The deadline is the period, or the budget and
    /// `slack`.
    pub fn rational(
        period: i128,
        budget: Rational,
        slack: Option<i128>,
        start: SupplyStart,
    ) -> Result<Self, Undecided> {
        let scale = *budget.denom();
        let scaled = |time: i128| time.checked_mul(scale).ok_or(Undecided::TooLarge);
        let numer = *budget.numer();
        let deadline = match slack {
            None => scaled(period)?,
            Some(slack) => scaled(slack)?
                .checked_add(numer)
                .ok_or(Undecided::TooLarge)?,
        };
        let start = match start {
            SupplyStart::Prepaid { cost, wakes } => SupplyStart::Prepaid {
                cost: scaled(cost)?,
                wakes: scaled(wakes)?,
            },
            other => other,
        };
        Ok(Self {
            scale,
            ..Self::new(scaled(period)?, numer, deadline, start)
        })
    }

    /// The supply of `budget` in each `period` on at most `cpus` CPUs at the same time.
    ///
    /// The least supply, derived from the definition alone: within a period, an interval of length
    /// x misses at most `cpus (P - x)` of the budget, so gets at least `f(x) = max(0, budget - cpus
    /// (P - x))`. An interval consists of the end of one period, k whole ones and the beginning of
    /// another. f is convex, so that the worst case is where both ends are equally long. That is
    /// `cpus` times the supply of a periodic resource with the budget `budget / cpus`. The bound
    /// published first (Shin, Easwaran & Lee, ECRTS 2008) was corrected in Burmyakov, Bini & Tovar
    /// (Real-Time Systems 50, 2014); this one holds however the budget is spread over the CPUs.
    pub fn parallel(period: i128, budget: i128, cpus: u32) -> Result<Self, Undecided> {
        let cpus = i128::from(cpus.max(1));
        let scaled = period.checked_mul(cpus).ok_or(Undecided::TooLarge)?;
        Ok(Self {
            scale: cpus,
            lanes: cpus,
            ..Self::new(scaled, budget, scaled, SupplyStart::Anywhere)
        })
    }

    /// The longest time without any supply, scaled. A straight line below the supply begins there.
    fn gap(&self) -> i128 {
        let late = self.deadline - self.budget;
        if self.aligned {
            late
        } else {
            late + (self.period - self.budget)
        }
    }

    /// The supply of one lane within `t`, scaled.
    fn lane(&self, t: i128) -> Option<i128> {
        let t = t.checked_mul(self.scale)?;
        let late = self.deadline - self.budget;
        let from = if self.aligned { t } else { t - late };
        let from = from.max(0);
        let (periods, rest) = (from / self.period, from % self.period);
        let gap = self.gap() - if self.aligned { 0 } else { late };
        let begun = (rest - gap).clamp(0, self.budget);
        periods.checked_mul(self.budget)?.checked_add(begun)
    }

    /// Whether at least `demand` is supplied within `t`.
    pub fn gives(&self, demand: i128, t: i128) -> Result<bool, Undecided> {
        let lane = self.lane(t).ok_or(Undecided::TooLarge)?;
        Ok(lane >= self.per_lane(demand)?)
    }

    /// The CPU time that is certainly supplied within `t`.
    pub fn within(&self, t: i128) -> Result<Rational, Undecided> {
        let lane = self.lane(t).ok_or(Undecided::TooLarge)?;
        let all = lane.checked_mul(self.lanes).ok_or(Undecided::TooLarge)?;
        Ok(Rational::new(all, self.scale))
    }

    /// The share of `demand` for each lane, scaled and rounded up.
    fn per_lane(&self, demand: i128) -> Result<i128, Undecided> {
        let scaled = demand.checked_mul(self.scale).ok_or(Undecided::TooLarge)?;
        Ok(scaled.div_euclid(self.lanes) + i128::from(scaled.rem_euclid(self.lanes) > 0))
    }

    /// The least whole instant by which `demand` is supplied.
    pub fn time_for(&self, demand: i128) -> Result<i128, Undecided> {
        self.time_for_scaled(self.per_lane(demand)?)
    }

    /// The last whole instant until which no more than `demand` is supplied.
    pub fn time_until_more(&self, demand: i128) -> Result<i128, Undecided> {
        let scaled = demand.checked_mul(self.scale).ok_or(Undecided::TooLarge)?;
        let more = scaled.div_euclid(self.lanes) + 1;
        Ok(self.time_for_scaled(more)? - 1)
    }

    /// The least whole instant by which a lane has supplied `demand`, scaled: a number of whole
    /// budgets, and then a rest, each after its gap.
    fn time_for_scaled(&self, demand: i128) -> Result<i128, Undecided> {
        if demand <= 0 {
            return Ok(0);
        }
        if self.budget == 0 {
            return Err(Undecided::TooLarge);
        }
        let before = (demand - 1) / self.budget;
        let rest = demand - before * self.budget;
        let time = before
            .checked_mul(self.period)
            .and_then(|time| time.checked_add(self.gap())?.checked_add(rest))
            .ok_or(Undecided::TooLarge)?;
        Ok(time / self.scale + i128::from(time % self.scale > 0))
    }

    /// The rate of the supply in the long run.
    pub fn rate(&self) -> Result<Rate, Undecided> {
        let scaled = self
            .budget
            .checked_mul(self.lanes)
            .and_then(|all| all.checked_mul(1 << FRACTION));
        let scaled = scaled.ok_or(Undecided::TooLarge)?;
        let low = scaled / self.period;
        let high = low + i128::from(scaled % self.period > 0);
        Ok(Rate { low, high })
    }

    /// The rate, exactly.
    pub fn exact_rate(&self) -> Result<Rational, Undecided> {
        let all = self.budget.checked_mul(self.lanes);
        Ok(Rational::new(all.ok_or(Undecided::TooLarge)?, self.period))
    }

    /// The difference between a straight line below the supply and one through the origin, in
    /// nanoseconds of CPU time and units of 2^-62, rounded up.
    pub fn deficit(&self) -> Result<i128, Undecided> {
        let gap = self.gap();
        let gap = gap / self.scale + i128::from(gap % self.scale > 0);
        let product = self.rate()?.high.checked_mul(gap);
        product.ok_or(Undecided::TooLarge)
    }

    /// Whether the supply is one whole CPU.
    pub fn is_whole_cpu(&self) -> bool {
        // A polling server with all of the time may still be without supply for a period.
        self.lanes == 1 && self.budget == self.period && self.deadline == self.period
    }

    /// Whether the supply counts from the start of a period on.
    pub fn is_aligned(&self) -> bool {
        self.aligned
    }

    /// The period in nanoseconds.
    pub fn period(&self) -> i128 {
        self.period / self.scale
    }

    /// The instant from which on the supply repeats itself every period.
    pub fn repeats_from(&self) -> i128 {
        let late = self.deadline - self.budget;
        late / self.scale + i128::from(late % self.scale > 0)
    }
}

#[cfg(test)]
mod tests;
