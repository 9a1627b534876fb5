//! Demand and supply, as the literature writes them.

use hanok_task_model::{
    Component, ComponentId, Interface, Member, Model, Nanos, Policy, Priority, Server, Task, TaskId,
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

pub fn whole(time: Nanos) -> R {
    R::from_integer(nanos(time))
}

pub fn nanos(time: Nanos) -> Z {
    Z::from(time.get())
}

/// One member: a task, or a component by its interface. Times in whole nanoseconds.
#[derive(Clone, Debug)]
pub struct Job {
    pub member: Member,
    pub period: Z,
    pub execution: Z,
    pub deadline: Z,
    pub jitter: Z,
    pub priority: Option<Priority>,
    pub shape: Shape,
    /// Whether it is a periodic server.
    pub periodic: bool,
}

/// What a member's demand in a time looks like to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Jobs, a period apart.
    Jobs,
    /// A job somewhere in each period, under fixed priorities.
    Somewhere,
    /// Any, as long as it is in proportion to the time.
    Proportion,
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
            periodic: false,
        }
    }

    /// The promise of `interface`, with `budget` of it, as its parent has to keep it.
    pub fn of_interface(
        model: &Model,
        (id, component): (ComponentId, &Component),
        policy: Policy,
        interface: &Interface,
        budget: Nanos,
    ) -> Self {
        Self {
            member: Member::Component(id),
            period: nanos(interface.period),
            execution: nanos(budget) + nanos(model.cost.per_period()),
            deadline: nanos(interface.deadline),
            jitter: Z::zero(),
            priority: component.priority,
            shape: match component.server {
                Server::Periodic | Server::Polling => Shape::Jobs,
                _ if policy.is_fixed() => Shape::Somewhere,
                _ => Shape::Proportion,
            },
            periodic: component.server == Server::Periodic,
        }
    }

    /// Whether it is a component by its interface.
    pub fn is_component(&self) -> bool {
        matches!(self.member, Member::Component(_))
    }

    /// The time from a release to the deadline, where the release came late.
    pub fn window(&self) -> Z {
        &self.deadline - &self.jitter
    }

    /// As [`Self::window`] under fixed priorities: complete before the next arrival.
    pub fn fixed_window(&self) -> Z {
        (&self.deadline).min(&self.period) - &self.jitter
    }

    /// `max(0, floor((t + T - W) / T))`.
    pub fn jobs_due(&self, t: &Z) -> Z {
        let jobs = (t + &self.period - self.window()).div_floor(&self.period);
        jobs.max(Z::zero())
    }

    /// Their demand.
    pub fn dbf(&self, t: &Z) -> Z {
        match self.shape {
            Shape::Proportion => (t.max(&Z::zero()) * &self.execution).div_floor(&self.period),
            _ => self.jobs_due(t) * &self.execution,
        }
    }

    /// `ceil((t + J) / T) C`. What is somewhere in each period can be at the end of one and at the
    /// start of each that follows: `C` from `T - C` before the first of those on.
    pub fn interference(&self, t: &Z) -> Z {
        if self.shape == Shape::Somewhere {
            let following = t - &self.execution;
            return (following.div_ceil(&self.period) + Z::from(1)) * &self.execution;
        }
        (t + &self.jitter).div_ceil(&self.period) * &self.execution
    }

    pub fn rate(&self) -> R {
        R::new(self.execution.clone(), self.period.clone())
    }

    /// What the demand can be ahead of its rate: `U max(0, T - W)`.
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
    /// Whether it counts from the start of a period on.
    pub aligned: bool,
    /// Whether the budget of the period under way may be lost at first.
    pub loses: bool,
}

impl Supply {
    /// So many whole cores.
    pub fn cores(cores: usize) -> Self {
        Self {
            period: int(1),
            budget: int(cores as i128),
            deadline: int(1),
            cpus: int(cores as i128),
            aligned: true,
            loses: false,
        }
    }

    /// What is supplied within `t` at least: on several CPUs, as many times what one CPU with
    /// an equal share gives. In whole parts of a common denominator, as fractions that are reduced
    /// after each step take most of a checker's time.
    pub fn sbf(&self, t: &Z) -> R {
        let cpus = self.cpus.to_integer();
        let parts = self.period.denom() * self.budget.denom() * self.deadline.denom() * &cpus;
        let scaled = |time: &R| time.numer() * (&parts / time.denom());
        let (period, deadline) = (scaled(&self.period), scaled(&self.deadline));
        let budget = scaled(&self.budget) / &cpus;
        let t = t * &parts - scaled(&self.lost());
        let late = &deadline - &budget;
        let zero = Z::zero();
        let one = match self.aligned {
            _ if t < zero => zero,
            true => {
                let whole = t.div_floor(&period);
                let begun = t - &whole * period - late;
                whole * &budget + begun.max(zero).min(budget)
            }
            false if t < late => zero,
            false => {
                let whole = (&t - late).div_floor(&period);
                let gap = &period + deadline - &budget * Z::from(2);
                let begun = t - gap - &whole * period;
                whole * budget + begun.max(zero)
            }
        };
        R::new_raw(one * cpus, parts)
    }

    /// What a polling server may lose at first: its budget, all of it in a piece.
    fn lost(&self) -> R {
        if self.loses {
            self.budget.clone()
        } else {
            R::zero()
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

    /// From when on it repeats itself in each period.
    pub fn settled(&self) -> R {
        &self.deadline - &self.budget / &self.cpus + self.lost()
    }
}
