//! The promise to a server: an amount of a CPU in every period, within a deadline.

/// A promise of `budget` ticks of a CPU in every `period`, within `deadline` of the period's start:
/// the explicit deadline periodic resource model of Easwaran, Anand and Lee (RTSS 2007). If the
/// deadline is the period's end, it is the periodic resource model of Shin and Lee (RTSS 2003).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interface {
    period: u64,
    budget: u64,
    deadline: u64,
}

/// The reasons why an interface is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterfaceError {
    /// The budget is zero, so nothing is promised.
    #[error("the budget is zero")]
    NoBudget,
    /// The budget is longer than the deadline.
    #[error("the budget is larger than the deadline")]
    BudgetOverDeadline,
    /// The deadline is after the next period's start.
    #[error("the deadline is larger than the period")]
    DeadlineOverPeriod,
    /// This kind of server keeps its budget while it is idle, and so cannot keep a deadline inside
    /// the period (see [`Kind`](crate::Kind)).
    #[error("this kind of server needs its deadline at the end of the period")]
    DeadlineBeforePeriod,
}

impl Interface {
    /// A promise with a deadline. Requires 0 < `budget` <= `deadline` <= `period`.
    pub const fn new(period: u64, budget: u64, deadline: u64) -> Result<Self, InterfaceError> {
        if budget == 0 {
            Err(InterfaceError::NoBudget)
        } else if budget > deadline {
            Err(InterfaceError::BudgetOverDeadline)
        } else if deadline > period {
            Err(InterfaceError::DeadlineOverPeriod)
        } else {
            Ok(Self {
                period,
                budget,
                deadline,
            })
        }
    }

    /// A promise whose deadline is the period's end.
    pub const fn periodic(period: u64, budget: u64) -> Result<Self, InterfaceError> {
        Self::new(period, budget, period)
    }

    /// The shortest possible promise.
    pub(crate) const LEAST: Self = Self {
        period: 1,
        budget: 1,
        deadline: 1,
    };

    /// The period in ticks.
    pub const fn period(self) -> u64 {
        self.period
    }

    /// The budget of each period in ticks.
    pub const fn budget(self) -> u64 {
        self.budget
    }

    /// The deadline in ticks after the period's start.
    pub const fn deadline(self) -> u64 {
        self.deadline
    }

    /// Whether the deadline is the period's end.
    pub const fn is_implicit(self) -> bool {
        self.deadline == self.period
    }

    /// Whether the bandwidth of this promise is less than that of `other`.
    pub const fn is_less_than(self, other: Self) -> bool {
        (self.budget as u128) * (other.period as u128)
            < (other.budget as u128) * (self.period as u128)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with fractions that have a common denominator, up to the longest times.
    #[test]
    fn less_is_less_bandwidth_and_equal_is_not_less() {
        const ALL: u64 = 2520;
        let each = || (1..=10).flat_map(|period| (1..=period).map(move |budget| (period, budget)));
        let of = |(period, budget): (u64, u64), unit| {
            Interface::periodic(period * unit, budget * unit).unwrap()
        };
        for one in each() {
            for other in each() {
                let less = ALL / one.0 * one.1 < ALL / other.0 * other.1;
                for (first, second) in [(1, 1), (u64::MAX / 10, 1), (1, u64::MAX / 10)] {
                    let found = of(one, first).is_less_than(of(other, second));
                    assert_eq!(found, less, "{one:?} {other:?}");
                }
            }
        }
    }
}
