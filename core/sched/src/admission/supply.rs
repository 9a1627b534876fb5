//! The least supply of an interface.

use crate::Interface;

/// The least supply of an interface, as the models of Shin and Lee (2003) and Easwaran, Anand
/// and Lee (2007) bound it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Supply {
    pub period: u64,
    pub budget: u64,
    /// The longest time without supply.
    pub starved: u64,
}

impl Supply {
    /// The supply of a whole CPU.
    pub const WHOLE: Self = Self {
        period: 1,
        budget: 1,
        starved: 0,
    };

    /// The supply of `interface`.
    pub fn of(interface: Interface) -> Self {
        Self::new(interface.period(), interface.budget(), interface.deadline())
    }

    /// The supply of a budget, with 0 < `budget` <= `deadline` <= `period`.
    pub fn new(period: u64, budget: u64, deadline: u64) -> Self {
        Self {
            period,
            budget,
            starved: (period - budget).saturating_add(deadline - budget),
        }
    }

    /// The supply to a task that arrives at a server which loses its budget when it has no work: it
    /// begins as late as if all of the current period's budget had been given already, at once.
    pub fn polled(self) -> Self {
        Self {
            starved: self.starved.saturating_add(self.budget),
            ..self
        }
    }

    /// The supply in any window of `length`.
    pub fn within(&self, length: u64) -> u64 {
        let Some(rest) = length.checked_sub(self.starved) else {
            return 0;
        };
        rest / self.period * self.budget + (rest % self.period).min(self.budget)
    }

    /// The shortest window in which `demand` is supplied; `None` if no number can tell it.
    pub fn time_for(&self, demand: u64) -> Option<u64> {
        let Some(before) = demand.checked_sub(1) else {
            return Some(0);
        };
        let periods = before / self.budget;
        let last = before % self.budget + 1;
        let whole = periods.checked_mul(self.period)?;
        whole.checked_add(self.starved)?.checked_add(last)
    }
}
