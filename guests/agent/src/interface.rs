//! From the tasks of a vCPU to its least interface: the exact test of EDF on a periodic resource, which is what
//! SCHED_DEADLINE on a vCPU with a budget is.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use core::fmt;

use hanok_analysis::{Verdict, Work, decide};
use hanok_schedule::{Interface, Task};
use hanok_task_model::{
    Component, ComponentId, CoreId, Home, Model, Nanos, Periods, Plan, Pool, PoolId,
    ResourceInterface, Window,
};

/// The steps that an analysis may take: some tens of milliseconds on a small board.
const STEPS: u64 = 2_000_000;

/// Why tasks have no interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unschedulable {
    /// They need more than a CPU: how much, in parts of 1,000.
    Overload(u64),
    /// A deadline would be missed, even with the largest budget that comes into question.
    Late,
    /// It could not be decided in [`STEPS`].
    Undecided,
    /// The times have no meaning.
    Invalid,
}

impl fmt::Display for Unschedulable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overload(share) => {
                write!(
                    out,
                    "the tasks of the vCPU would need {}.{} % of a CPU",
                    share / 10,
                    share % 10
                )
            }
            Self::Late => out.write_str("a deadline would be missed"),
            Self::Undecided => {
                out.write_str("it could not be decided with the steps that are allowed")
            }
            Self::Invalid => out.write_str("a time is zero or too long"),
        }
    }
}

/// The least interface with this period, in whole ticks, with which all tasks keep their deadlines under EDF.
pub fn least(tasks: &[Task], period: u64, tick: u64) -> Result<Interface, Unschedulable> {
    let plan = Plan::Find {
        periods: Periods::One(Nanos::new(period)),
        window: Window::Period,
    };
    let tick = if period.is_multiple_of(tick.max(1)) {
        tick.max(1)
    } else {
        1
    };
    let found = proven(tasks, plan, tick)?;
    Ok(Interface {
        period: found.period.get(),
        budget: found.budget.get(),
        deadline: found.deadline.get(),
    })
}

/// Whether all tasks keep their deadlines with this interface.
pub fn suffices(tasks: &[Task], interface: &Interface) -> Result<(), Unschedulable> {
    let given = ResourceInterface {
        period: Nanos::new(interface.period),
        budget: Nanos::new(interface.budget),
        deadline: Nanos::new(interface.deadline),
    };
    proven(tasks, Plan::Given(given), 1).map(|_| ())
}

fn proven(tasks: &[Task], plan: Plan, tick: u64) -> Result<ResourceInterface, Unschedulable> {
    let share = share(tasks);
    if share > 1000 {
        return Err(Unschedulable::Overload(share));
    }
    let model = model(tasks, plan, tick);
    let analysis = decide(&model, &mut Work::new(STEPS));
    let analysis = analysis.map_err(|_| Unschedulable::Invalid)?;
    match analysis.components.first() {
        Some(Verdict::Proven(proof)) => Ok(proof.interface),
        Some(Verdict::Refuted(_)) => Err(Unschedulable::Late),
        _ => Err(Unschedulable::Undecided),
    }
}

/// The share of a CPU that tasks need, in parts of 1,000, rounded down.
pub fn share(tasks: &[Task]) -> u64 {
    // In parts of a million, so that what is cut off of each task does not add up to a part of a thousand.
    let each =
        |task: &Task| u128::from(task.execution) * 1_000_000 / u128::from(task.period.max(1));
    let sum: u128 = tasks.iter().map(each).sum();
    u64::try_from(sum / 1000).unwrap_or(u64::MAX)
}

/// A vCPU with its tasks, upon a core of its own: whether the interface fits beside others is the board's question.
pub fn model(tasks: &[Task], plan: Plan, tick: u64) -> Model {
    let pools = vec![Pool::new("cpu", [CoreId(0)])];
    let mut model = Model::new(Nanos::new(tick), pools);
    let vcpu: ComponentId = model.add(Component::new("vcpu", Home::Pool(PoolId(0)), plan));
    for (number, task) in tasks.iter().enumerate() {
        let name: String = format!("{number}");
        let [period, execution] = [task.period, task.execution].map(Nanos::new);
        let deadline = Nanos::new(task.deadline);
        let of_model = hanok_task_model::Task::new(name, vcpu, period, execution);
        model.add_task(hanok_task_model::Task {
            deadline,
            ..of_model
        });
    }
    model
}
