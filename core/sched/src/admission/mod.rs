//! Admission in integers: whether one more task, or one that changes, may come.
//!
//! The analysis on the PC finds interfaces with exact rationals and memory at will. Here the
//! same question is answered on the board: for one task or component that is added or changes,
//! against what was admitted before, in whole ticks, without memory of its own, in a bounded
//! number of steps ([`Work`]). The answer is exact, not a sufficient test: where these find a
//! budget, one tick less would miss a deadline at the worst supply; where they refuse, the
//! [`Shortfall`] says at which instant. Where half of the steps do not suffice for that, a
//! budget that is a little larger may ([`Least::exact`]); what cannot be decided even so is
//! refused as [`Refusal::Undecided`], and is never let in.
//!
//! [`Ledger`] keeps what was admitted for one core. A component's demand, in whatever tasks it
//! has, becomes a budget by [`Plan`]; the core then sees a task of that period, budget and
//! deadline, as the composition by Shin and Lee (2003) has it. What is cached for that are the
//! bandwidths and the amounts by which demand is ahead of them, at each level: an implicit
//! deadline's component is admitted by one sum.
//!
//! Rejected: floating point (published tools went wrong by it), and utilization alone (it
//! promises nothing about any task).

mod demand;
mod edf;
mod fixed;
mod ledger;
mod supply;

#[cfg(test)]
mod tests;

pub use demand::{Demand, Set};
pub use ledger::{Admitted, Change, Ledger};

use crate::{Interface, Order};
use supply::Supply;

/// The longest time there can be, in ticks: 36 years of nanoseconds.
pub const MAX_TIME: u64 = 1 << 60;

/// Why something is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A time that is zero, or beyond [`MAX_TIME`].
    #[error("a time is zero, or longer than 2^60 ticks")]
    Time,
    /// A task that cannot be complete by its deadline with a CPU for itself.
    #[error("its execution and jitter are longer than its deadline")]
    Hopeless,
    /// More bandwidth is asked for than there is.
    #[error("more than the whole CPU is asked for in the long run")]
    Overload,
    /// Beside a server that takes up its budget inside a period, deadlines inside the period
    /// need all the bandwidth that they have until then.
    #[error(
        "beside deferrable and bandwidth servers under EDF, the sum of budgets by deadlines is \
         more than the whole CPU"
    )]
    Density,
    /// A server whose deadline moves, where nobody looks at deadlines: it can run its budget late
    /// before a wake-up and again right after it, and no bound on that is proven here.
    #[error(
        "a bandwidth server moves its deadline, which fixed priorities do not look at: it needs EDF"
    )]
    Moving,
    /// A task in a soft bandwidth server: what that runs ahead of its bandwidth, it waits for
    /// later, so that from the task's arrival on there is no least supply.
    #[error(
        "a soft bandwidth server promises no deadline: what it runs ahead it is late by afterwards"
    )]
    Soft,
    /// A component without a server: nothing holds it to its budget.
    #[error("without a server nothing holds a component to its budget")]
    Unbounded,
    /// A deadline would be missed.
    #[error("at {} ticks the demand is {}, the supply {}", .0.instant, .0.demand, .0.supply)]
    Late(Shortfall),
    /// A deadline after the next release, under fixed priorities.
    #[error("under fixed priorities a deadline must not be after the next release")]
    LongDeadline,
    /// An interface that makes no sense.
    #[error(transparent)]
    Interface(#[from] crate::InterfaceError),
    /// There is no place for one more.
    #[error("no place for one more")]
    NoPlace,
    /// There is nothing at this place.
    #[error("there is nothing at this place")]
    NothingThere,
    /// The bound on work was reached first.
    #[error("it cannot be decided with the work that is allowed")]
    Undecided,
}

/// Where a promise breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// After so many ticks.
    pub instant: u64,
    /// So much must be complete by then.
    pub demand: u64,
    /// So much may have been given.
    pub supply: u64,
}

/// How much may be done for one answer, in visits of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    left: u32,
}

impl Work {
    /// So many visits; each is about 25 instructions.
    pub const fn new(visits: u32) -> Self {
        Self { left: visits }
    }

    /// What was not needed.
    pub const fn left(self) -> u32 {
        self.left
    }

    fn spend(&mut self, visits: u32) -> Result<(), Refusal> {
        self.left = self.left.checked_sub(visits).ok_or(Refusal::Undecided)?;
        Ok(())
    }
}

/// By when an interface gives its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// By the period's end: the periodic resource model.
    Period,
    /// At once, the budget being as long as the deadline: the least budget of all.
    Budget,
    /// By this deadline.
    Deadline(u64),
}

/// What is known of an interface before its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its period.
    pub period: u64,
    /// Its deadline.
    pub window: Window,
}

impl Plan {
    /// The deadline with this budget, at least as long as it.
    fn deadline(self, budget: u64) -> u64 {
        match self.window {
            Window::Period => self.period,
            Window::Budget => budget,
            Window::Deadline(deadline) => deadline.max(budget),
        }
    }

    fn supply(self, budget: u64) -> Supply {
        Supply::new(self.period, budget, self.deadline(budget))
    }

    /// The largest budget there can be.
    fn most(self) -> u64 {
        match self.window {
            Window::Deadline(deadline) => deadline.min(self.period),
            _ => self.period,
        }
    }

    /// The interface with this budget.
    pub fn interface(self, budget: u64) -> Result<Interface, Refusal> {
        Ok(Interface::new(self.period, budget, self.deadline(budget))?)
    }

    /// The least budget from `budget` on that gives `demand` by `at`.
    fn raise(self, budget: u64, at: u64, demand: u64) -> Result<u64, Refusal> {
        self.search(
            budget,
            |budget| Ok(self.supply(budget).within(at) >= demand),
        )
        .map_err(|refusal| match refusal {
            Refusal::Overload => Refusal::Late(Shortfall {
                instant: at,
                demand,
                supply: self.supply(self.most().max(1)).within(at),
            }),
            other => other,
        })
    }

    /// The least budget from `budget` on that does; supply grows with it.
    fn search(
        self,
        budget: u64,
        mut does: impl FnMut(u64) -> Result<bool, Refusal>,
    ) -> Result<u64, Refusal> {
        let (mut low, mut high) = (budget, self.most());
        if low <= high && does(low)? {
            return Ok(low);
        }
        if low >= high || !does(high)? {
            return Err(Refusal::Overload);
        }
        // `low` does not, `high` does.
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if does(middle)? {
                high = middle
            } else {
                low = middle
            }
        }
        Ok(high)
    }
}

fn checked(plan: Plan) -> Result<(), Refusal> {
    let deadline = match plan.window {
        Window::Deadline(deadline) => deadline,
        _ => plan.period,
    };
    if plan.period == 0 || plan.period > MAX_TIME || deadline == 0 || deadline > plan.period {
        Err(Refusal::Time)
    } else {
        Ok(())
    }
}

/// A budget that is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// In ticks.
    pub budget: u64,
    /// Whether one tick less would not be enough. Else that was not to be decided with the
    /// work allowed, and this is up to 1/256, and a tick, more than the least.
    pub exact: bool,
}

/// The least whole budget with which `set` holds all deadlines, in periods and with the
/// deadline of `plan`.
pub fn least_budget(
    set: &Set<'_>,
    order: Order,
    plan: Plan,
    work: &mut Work,
) -> Result<Least, Refusal> {
    checked(plan)?;
    match order {
        Order::EarliestDeadline => edf::least_budget(set, plan, work),
        Order::Priority => fixed::least_budget(set, plan, work),
    }
}

/// Whether `set` holds all deadlines with `interface`.
pub fn holds(
    set: &Set<'_>,
    order: Order,
    interface: Interface,
    work: &mut Work,
) -> Result<(), Refusal> {
    if interface.period() > MAX_TIME {
        return Err(Refusal::Time);
    }
    upon(set, order, &Supply::of(interface), work)
}

/// Whether `set` holds all deadlines with a CPU for itself.
pub fn holds_alone(set: &Set<'_>, order: Order, work: &mut Work) -> Result<(), Refusal> {
    upon(set, order, &Supply::WHOLE, work)
}

fn upon(set: &Set<'_>, order: Order, supply: &Supply, work: &mut Work) -> Result<(), Refusal> {
    match order {
        Order::EarliestDeadline => edf::holds(set, supply, work),
        Order::Priority => fixed::holds(set, supply, work),
    }
}
