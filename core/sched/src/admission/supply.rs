//! What an interface gives at least.

use crate::Interface;

/// The least supply of an interface, as the models of Shin and Lee (2003) and Easwaran, Anand
/// and Lee (2007) bound it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Supply {
    pub period: u64,
    pub budget: u64,
    /// For how long there may be nothing.
    pub starved: u64,
}

impl Supply {
    /// A whole CPU.
    pub const WHOLE: Self = Self {
        period: 1,
        budget: 1,
        starved: 0,
    };

    /// Of an interface.
    pub fn of(interface: Interface) -> Self {
        Self::new(interface.period(), interface.budget(), interface.deadline())
    }

    /// Of 0 < `budget` <= `deadline` <= `period`.
    pub fn new(period: u64, budget: u64, deadline: u64) -> Self {
        Self {
            period,
            budget,
            starved: (period - budget).saturating_add(deadline - budget),
        }
    }

    /// To who begins to need it, of a server that loses its budget without work: as late as if
    /// the budget of the period under way had been given already, all of it at once.
    pub fn polled(self) -> Self {
        Self {
            starved: self.starved.saturating_add(self.budget),
            ..self
        }
    }

    /// What is given in any window of `length`.
    pub fn within(&self, length: u64) -> u64 {
        let Some(rest) = length.checked_sub(self.starved) else {
            return 0;
        };
        rest / self.period * self.budget + (rest % self.period).min(self.budget)
    }

    /// The shortest window in which `demand` is given, if there is one that can be told.
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
