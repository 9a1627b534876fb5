//! Admission in integers: whether one more task, or a task that changes, can be accepted.
//!
//! The analysis on the PC finds interfaces with exact rationals and any amount of memory. This
//! module answers the same question on the board: for one task or component that is added or
//! changes, against what was admitted before, in whole ticks, without memory of its own, in a
//! bounded number of steps ([`Work`]). The answer is exact, not only a sufficient test. If a budget
//! is found, one tick less would miss a deadline at the worst supply; if none is found, the
//! [`Shortfall`] says at which instant. If half of the steps are not enough for that, the budget
//! that is found may be a little larger than the least ([`Least::exact`]). What cannot be decided
//! even so is refused as [`Refusal::Undecided`], and is never admitted.
//!
//! [`Ledger`] keeps what one core has admitted. [`Plan`] turns the demand of a component's tasks
//! into a budget. The core then sees a task with the component's period, budget and deadline, as in
//! the composition by Shin and Lee (2003). At each level the bandwidths are cached, and the amounts
//! by which demand is ahead of them: a component with an implicit deadline is admitted by one sum.
//!
//! Rejected: floating point (published tools are wrong because of it), and utilization alone (it
//! promises nothing about any task).

mod demand;
mod edf;
mod fixed;
mod ledger;
mod question;
mod supply;

#[cfg(test)]
mod tests;

pub use demand::{Demand, Set};
pub use ledger::{Admitted, Change, Ledger};
pub use question::{Progress, Question, SizedQuestion, Terms};

use crate::{Interface, Order};
use supply::Supply;

/// The longest time that admission accepts, in ticks: 36 years of nanoseconds.
pub const MAX_TIME: u64 = 1 << 60;

/// The reasons why something is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A time is zero, or beyond [`MAX_TIME`].
    #[error("a time is zero, or longer than 2^60 ticks")]
    Time,
    /// A task could not be complete by its deadline even with a whole CPU.
    #[error("its execution and jitter are longer than its deadline")]
    Hopeless,
    /// The tasks ask for more bandwidth than there is.
    #[error("more than the whole CPU is asked for in the long run")]
    Overload,
    /// Beside a server that may start to use its budget inside a period, deadlines inside the
    /// period need all the bandwidth that they have until then.
    #[error(
        "beside deferrable and bandwidth servers under EDF, the sum of budgets by deadlines is \
         more than the whole CPU"
    )]
    Density,
    /// A server that moves its deadline, under fixed priorities: it can run its budget late before
    /// a wake-up and again right after it, and no bound on that is proven here.
    #[error(
        "a bandwidth server moves its deadline, which fixed priorities do not look at: it needs EDF"
    )]
    Moving,
    /// A task in a soft bandwidth server. For what that server runs ahead of its bandwidth it waits
    /// later, so that from the task's arrival on there is no least supply.
    #[error(
        "a soft bandwidth server promises no deadline: what it runs ahead it is late by afterwards"
    )]
    Soft,
    /// A component without a server: nothing limits it to its budget.
    #[error("without a server nothing holds a component to its budget")]
    Unbounded,
    /// The budget of a server that pays for its own switches is no more than two of them take: it would never run.
    #[error(
        "the budget is no more than the switches to the server and back take, which it pays for"
    )]
    Prepaid,
    /// Servers in a group that pays for its own switches: at each wake of whoever is in it, and nothing bounds how many
    /// there are.
    #[error(
        "a deferrable or bandwidth group pays for switches at each wake of whoever is in it: what is \
         left for the others in it is not bounded"
    )]
    Switches,
    /// A deadline would be missed.
    #[error("at {} ticks the demand is {}, the supply {}", .0.instant, .0.demand, .0.supply)]
    Late(Shortfall),
    /// A deadline is after the next release, under fixed priorities.
    #[error("under fixed priorities a deadline must not be after the next release")]
    LongDeadline,
    /// The interface is not a valid one.
    #[error(transparent)]
    Interface(#[from] crate::InterfaceError),
    /// The table has no free place.
    #[error("no place for one more")]
    NoPlace,
    /// The table has nothing at this place.
    #[error("there is nothing at this place")]
    NothingThere,
    /// What is asked for would hold, but while it takes the place of what there is, deadlines may be missed, or nothing
    /// is proven.
    #[error("it would hold, but nothing is proven of the way there")]
    Transition,
    /// The work that was allowed is done, and there is no answer yet.
    #[error("it cannot be decided with the work that is allowed")]
    Undecided,
}

/// Where the supply is less than the demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The instant, in ticks from the start of the window.
    pub instant: u64,
    /// The execution that must be complete by then, in ticks.
    pub demand: u64,
    /// The supply that is certain by then, in ticks.
    pub supply: u64,
}

/// The work that one answer may cost, counted in visits of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    left: u32,
}

impl Work {
    /// Allows so many visits; each costs about 25 instructions.
    pub const fn new(visits: u32) -> Self {
        Self { left: visits }
    }

    /// The work that was not used.
    pub const fn left(self) -> u32 {
        self.left
    }

    fn spend(&mut self, visits: u32) -> Result<(), Refusal> {
        self.left = self.left.checked_sub(visits).ok_or(Refusal::Undecided)?;
        Ok(())
    }
}

/// The deadline by which an interface gives its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The period's end: the periodic resource model.
    Period,
    /// As long as the budget, so that the budget is given at once: this needs the least budget of
    /// all.
    Budget,
    /// This deadline, in ticks.
    Deadline(u64),
}

/// An interface without its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The period, in ticks.
    pub period: u64,
    /// The deadline.
    pub window: Window,
}

impl Plan {
    /// The deadline for this budget. It is at least as long as the budget.
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

    /// The largest possible budget.
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

    /// The least budget from `budget` on that supplies `demand` by `at`.
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

    /// The least budget from `budget` on for which `does` is true. Supply grows with the budget.
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
        // `low` is not enough, `high` is.
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
    /// The budget in ticks.
    pub budget: u64,
    /// Whether one tick less would not be enough. If that could not be decided with the work
    /// allowed, this is false, and the budget is larger than the least by up to 1/256 and a tick.
    pub exact: bool,
}

/// The least whole budget with which `set` keeps all deadlines, with the period and the deadline of
/// `plan`.
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

/// Whether `set` keeps all deadlines with `interface`; the error says why not.
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

/// Whether `set` keeps all deadlines with a whole CPU; the error says why not.
pub fn holds_alone(set: &Set<'_>, order: Order, work: &mut Work) -> Result<(), Refusal> {
    upon(set, order, &Supply::WHOLE, work)
}

fn upon(set: &Set<'_>, order: Order, supply: &Supply, work: &mut Work) -> Result<(), Refusal> {
    match order {
        Order::EarliestDeadline => edf::holds(set, supply, work),
        Order::Priority => fixed::holds(set, supply, work),
    }
}
