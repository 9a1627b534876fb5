//! The tasks of a vCPU, and the least budget with which they keep their deadlines.
//!
//! The hypervisor knows interfaces, and no tasks. So the analysis is made here, in the guest: it is the same as the
//! board's own (`hanok_sched::admission`), in integers, without an allocator, and with a bound on its work. Whether
//! the budget fits beside other vCPUs is the board's to answer.

use crate::error::{Error, Result};
use crate::transport::Transport;
use crate::vcpu::{Interface, Task, Vcpu};
use hanok_sched::Order;
use hanok_sched::admission::{Demand, Plan, Set, Window, Work, least_budget};

/// The visits of a task that an analysis may make, of about 25 instructions each: a few milliseconds on a small board.
const VISITS: u32 = 100_000;

/// The tasks that a guest has on one vCPU, and the order in which it runs them there.
///
/// The vCPU's budget follows them: it is the least, with the period and the deadline that the vCPU has, with which all
/// tasks keep their deadlines. That is the least whole nanosecond, or up to 1/256 more where an exact answer would take
/// too long. For deadlines to be kept,
///
/// - a task begins when the budget has taken effect, and has ended before it is taken back;
/// - execution times include what the guest's kernel needs for a job;
/// - the vCPU does not [`Vcpu::wait`] in between: a task that came after that would miss the budget that was given up.
#[derive(Clone, Debug)]
pub struct Tasks {
    order: Order,
    floor: u64,
    demands: [Demand; Self::PLACES],
}

impl Tasks {
    /// The number of tasks that there can be.
    pub const PLACES: usize = 16;

    /// No tasks yet, to be run in this order. Where it goes by priorities, a task's place is its priority, and 0 is
    /// the highest.
    pub const fn new(order: Order) -> Self {
        Self {
            order,
            floor: 0,
            demands: [Demand::NONE; Self::PLACES],
        }
    }

    /// The same, with a budget that is never less than this, in nanoseconds. The budget without any task would be a
    /// nanosecond otherwise.
    pub const fn at_least(self, floor: u64) -> Self {
        Self { floor, ..self }
    }

    /// Declares the task in `place` (below [`Self::PLACES`]), or changes it, and asks for the budget. Answers as
    /// [`Vcpu::ask`]; after an error the tasks and the budget are what they were.
    pub fn declare<T: Transport>(
        &mut self,
        vcpu: &mut Vcpu<T>,
        place: usize,
        task: &Task,
    ) -> Result<u64> {
        let demand = Demand::new(task.period, task.execution, task.deadline, 0, place as u64);
        self.change(vcpu, place, demand.map_err(Error::Unschedulable)?)
    }

    /// Takes the task in `place` back. Answers as [`Self::declare`].
    pub fn revoke<T: Transport>(&mut self, vcpu: &mut Vcpu<T>, place: usize) -> Result<u64> {
        self.change(vcpu, place, Demand::NONE)
    }

    fn change<T: Transport>(
        &mut self,
        vcpu: &mut Vcpu<T>,
        place: usize,
        demand: Demand,
    ) -> Result<u64> {
        if place >= Self::PLACES {
            return Err(Error::Invalid);
        }
        let has = vcpu.interface()?;
        let budget = self.least(&Set::new(&self.demands).with(place, demand), &has)?;
        let since = vcpu.ask(&Interface { budget, ..has })?;
        if let Some(slot) = self.demands.get_mut(place) {
            *slot = demand;
        }
        Ok(since)
    }

    fn least(&self, set: &Set<'_>, has: &Interface) -> Result<u64> {
        let plan = Plan {
            period: has.period,
            window: Window::Deadline(has.deadline),
        };
        let least = least_budget(set, self.order, plan, &mut Work::new(VISITS));
        Ok(least.map_err(Error::Unschedulable)?.budget.max(self.floor))
    }
}
