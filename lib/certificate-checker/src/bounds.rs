//! Demand and supply, as the literature defines them.

use hanok_task_model::{
    Component, ComponentId, Member, Model, Nanos, Policy, Priority, ResourceInterface, Server,
    Task, TaskId,
};
use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::Zero;

/// A rational of any size.
pub type R = BigRational;
/// An integer of any size.
pub type Z = BigInt;

pub fn int(value: i128) -> R {
    R::from_integer(Z::from(value))
}

pub fn of_time(time: Nanos) -> R {
    R::from_integer(nanos(time))
}

pub fn nanos(time: Nanos) -> Z {
    Z::from(time.get())
}

/// One member: a task, or a component with its interface. Times are in whole nanoseconds.
#[derive(Clone, Debug)]
pub struct Job {
    pub member: Member,
    pub period: Z,
    pub execution: Z,
    pub deadline: Z,
    pub jitter: Z,
    pub priority: Option<Priority>,
    pub shape: Shape,
    /// For how long a job anywhere in its period may go on after the period's end.
    pub beyond: Z,
    /// Whether the member is a periodic server.
    pub periodic: bool,
}

/// How a member's demand within a time looks to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Jobs that are at least a period apart.
    Jobs,
    /// A job anywhere in each period, under fixed priorities.
    Somewhere,
    /// Any demand that is in proportion to the time.
    Proportion,
}

/// Whether a server of this kind pays from its budget for the switch to it and the one back, each time that it begins to
/// have work or gets a budget for work that it has. It may begin anywhere in its period.
pub fn pays(server: Server) -> bool {
    matches!(
        server,
        Server::Deferrable | Server::ConstantBandwidth | Server::SoftBandwidth
    )
}

impl Job {
    pub fn of_task(id: u32, task: &Task) -> Self {
        Self {
            member: Member::Task(TaskId(id)),
            period: nanos(task.period),
            execution: nanos(task.execution),
            deadline: nanos(task.deadline),
            jitter: nanos(task.jitter),
            priority: task.priority,
            shape: Shape::Jobs,
            beyond: Z::zero(),
            periodic: false,
        }
    }

    /// The load that the promise of `interface`, with `budget` of it, puts on its parent.
    ///
    /// Each period of a periodic or polling server costs two switches more. Others have paid for all of theirs from their
    /// budgets; but the one back comes after they have ended, be it after the end of the period.
    pub fn of_interface(
        model: &Model,
        (id, component): (ComponentId, &Component),
        policy: Policy,
        interface: &ResourceInterface,
        budget: Nanos,
    ) -> Self {
        let more = if pays(component.server) {
            Z::zero()
        } else {
            nanos(model.cost.per_period())
        };
        Self {
            member: Member::Component(id),
            period: nanos(interface.period),
            execution: nanos(budget) + more,
            deadline: nanos(interface.deadline),
            jitter: Z::zero(),
            priority: component.priority,
            shape: match component.server {
                Server::Periodic | Server::Polling => Shape::Jobs,
                _ if policy.is_fixed() => Shape::Somewhere,
                _ => Shape::Proportion,
            },
            beyond: nanos(model.cost.switch) + nanos(model.cost.refill),
            periodic: component.server == Server::Periodic,
        }
    }

    /// Whether the member is a component with its interface.
    pub fn is_component(&self) -> bool {
        matches!(self.member, Member::Component(_))
    }

    /// The time from a release to the deadline, where the release is as late as possible.
    pub fn window(&self) -> Z {
        &self.deadline - &self.jitter
    }

    /// As [`Self::window`] under fixed priorities, where a job is complete before the next one
    /// arrives.
    pub fn fixed_window(&self) -> Z {
        (&self.deadline).min(&self.period) - &self.jitter
    }

    /// The number of jobs that are released and due within `t`: `max(0, floor((t + T - W) / T))`.
    pub fn jobs_due(&self, t: &Z) -> Z {
        let jobs = (t + &self.period - self.window()).div_floor(&self.period);
        jobs.max(Z::zero())
    }

    /// The demand bound function: the work of these jobs.
    pub fn dbf(&self, t: &Z) -> Z {
        match self.shape {
            Shape::Proportion => (t.max(&Z::zero()) * &self.execution).div_floor(&self.period),
            _ => self.jobs_due(t) * &self.execution,
        }
    }

    /// The interference with lower priorities within `t`: `ceil((t + J) / T) C`. A job anywhere in
    /// its period can be at the end of one period, `E` of it after that end, and at the start of each that follows: `C`,
    /// of which `C - E` is before the first of these starts.
    pub fn interference(&self, t: &Z) -> Z {
        if self.shape == Shape::Somewhere {
            let following = t - (&self.execution - &self.beyond);
            return (following.div_ceil(&self.period) + Z::from(1)) * &self.execution;
        }
        (t + &self.jitter).div_ceil(&self.period) * &self.execution
    }

    pub fn rate(&self) -> R {
        R::new(self.execution.clone(), self.period.clone())
    }

    /// The most by which the demand can be ahead of its rate: `U max(0, T - W)`.
    pub fn ahead(&self) -> R {
        let early = (&self.period - self.window()).max(Z::zero());
        R::new(&self.execution * early, self.period.clone())
    }

    /// Whether a job can be due at `t`.
    pub fn is_due(&self, t: &Z) -> bool {
        if self.shape == Shape::Proportion {
            return self.dbf(t) > self.dbf(&(t - Z::from(1)));
        }
        let after = t - self.window();
        after >= Z::zero() && after.is_multiple_of(&self.period)
    }
}

/// A promise of CPU time.
#[derive(Clone, Debug)]
pub struct Supply {
    pub period: R,
    pub budget: R,
    pub deadline: R,
    pub cpus: R,
    /// Whether the supply counts from the start of a period on.
    pub aligned: bool,
    /// Whether the budget of the current period may be lost at first.
    pub loses: bool,
    /// What else of it may be lost at first.
    pub later: R,
}

impl Supply {
    /// The supply of `cores` whole cores.
    pub fn cores(cores: usize) -> Self {
        Self {
            period: int(1),
            budget: int(cores as i128),
            deadline: int(1),
            cpus: int(cores as i128),
            aligned: true,
            loses: false,
            later: R::zero(),
        }
    }

    /// The supply bound function: what is certainly supplied within `t`. On several CPUs it is as
    /// many times what one CPU with an equal share gives. It is computed in whole parts of a common
    /// denominator, because reducing fractions after each step would take most of the checker's
    /// time.
    pub fn sbf(&self, t: &Z) -> R {
        let cpus = self.cpus.to_integer();
        let parts = self.period.denom()
            * self.budget.denom()
            * self.deadline.denom()
            * self.later.denom()
            * &cpus;
        let scaled = |time: &R| time.numer() * (&parts / time.denom());
        let (period, deadline) = (scaled(&self.period), scaled(&self.deadline));
        let budget = scaled(&self.budget) / &cpus;
        let t = t * &parts - scaled(&self.lost());
        let late = &deadline - &budget;
        let zero = Z::zero();
        let one = if t < zero || !self.aligned && t < late {
            zero
        } else if self.aligned {
            let of_time = t.div_floor(&period);
            let begun = t - &of_time * period - late;
            of_time * &budget + begun.max(zero).min(budget)
        } else {
            let of_time = (&t - late).div_floor(&period);
            let gap = &period + deadline - &budget * Z::from(2);
            let begun = t - gap - &of_time * period;
            of_time * budget + begun.max(zero)
        };
        R::new_raw(one * cpus, parts)
    }

    /// What may be lost at first, in one piece: of a polling server its whole budget.
    fn lost(&self) -> R {
        if self.loses {
            &self.budget + &self.later
        } else {
            self.later.clone()
        }
    }

    pub fn rate(&self) -> R {
        &self.budget / &self.period
    }

    /// The longest time without supply.
    pub fn gap(&self) -> R {
        let budget = &self.budget / &self.cpus;
        let late = &self.deadline - &budget;
        if self.aligned {
            late
        } else {
            late + &self.period - budget + self.lost()
        }
    }

    /// The instant from which on the supply repeats itself in each period.
    pub fn repeats_from(&self) -> R {
        &self.deadline - &self.budget / &self.cpus + self.lost()
    }
}
