//! Demand and supply, as the literature writes them.

use hanok_task_model::{
    Component, ComponentId, Interface, Member, Model, Nanos, Priority, Task, TaskId,
};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

/// A rational of any size.
pub type R = BigRational;

pub fn int(value: i128) -> R {
    R::from_integer(BigInt::from(value))
}

pub fn whole(time: Nanos) -> R {
    int(time.get().into())
}

/// One member: a task, or a component by its interface.
#[derive(Clone, Debug)]
pub struct Job {
    pub member: Member,
    pub period: R,
    pub execution: R,
    pub deadline: R,
    pub jitter: R,
    pub priority: Option<Priority>,
}

impl Job {
    pub fn of_task(id: u32, task: &Task) -> Self {
        Self {
            member: Member::Task(TaskId(id)),
            period: whole(task.period),
            execution: whole(task.execution),
            deadline: whole(task.deadline),
            jitter: whole(task.jitter),
            priority: task.priority,
        }
    }

    /// The promise of `interface`, with `budget` of it, as its parent has to keep it.
    pub fn of_interface(
        model: &Model,
        (id, component): (ComponentId, &Component),
        interface: &Interface,
        budget: Nanos,
    ) -> Self {
        Self {
            member: Member::Component(id),
            period: whole(interface.period),
            execution: whole(budget) + whole(model.cost.per_period()),
            deadline: whole(interface.deadline),
            jitter: R::zero(),
            priority: component.priority,
        }
    }

    /// The time from a release to the deadline, where the release came late.
    pub fn window(&self) -> R {
        &self.deadline - &self.jitter
    }

    /// As [`Self::window`] under fixed priorities: complete before the next arrival.
    pub fn fixed_window(&self) -> R {
        (&self.deadline).min(&self.period) - &self.jitter
    }

    /// `C max(0, floor((t + T - W) / T))`.
    pub fn dbf(&self, t: &R) -> R {
        let jobs = ((t + &self.period - self.window()) / &self.period).floor();
        jobs.max(R::zero()) * &self.execution
    }

    /// `ceil((t + J) / T) C`.
    pub fn interference(&self, t: &R) -> R {
        ((t + &self.jitter) / &self.period).ceil() * &self.execution
    }

    pub fn rate(&self) -> R {
        &self.execution / &self.period
    }

    /// What the demand can be ahead of its rate: `U max(0, T - W)`.
    pub fn ahead(&self) -> R {
        self.rate() * (&self.period - self.window()).max(R::zero())
    }

    /// Whether a job can be due at `t`.
    pub fn is_due(&self, t: &R) -> bool {
        let jobs = (t - self.window()) / &self.period;
        jobs >= R::zero() && jobs.is_integer()
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
        }
    }

    /// What is supplied within `t` at least: on several CPUs, as many times what one CPU with
    /// an equal share gives.
    pub fn sbf(&self, t: &R) -> R {
        let (period, budget) = (&self.period, &self.budget / &self.cpus);
        let late = &self.deadline - &budget;
        let one = match self.aligned {
            true => {
                let whole = (t / period).floor();
                let begun = t - &whole * period - &late;
                whole * &budget + begun.max(R::zero()).min(budget)
            }
            false if *t < late => R::zero(),
            false => {
                let whole = ((t - &late) / period).floor();
                let gap = period + &self.deadline - &budget * int(2);
                let begun = t - gap - &whole * period;
                whole * budget + begun.max(R::zero())
            }
        };
        one * &self.cpus
    }

    pub fn rate(&self) -> R {
        &self.budget / &self.period
    }

    /// The longest time without supply.
    pub fn gap(&self) -> R {
        let budget = &self.budget / &self.cpus;
        let late = &self.deadline - &budget;
        match self.aligned {
            true => late,
            false => late + &self.period - budget,
        }
    }

    /// From when on it repeats itself in each period.
    pub fn settled(&self) -> R {
        &self.deadline - &self.budget / &self.cpus
    }
}
