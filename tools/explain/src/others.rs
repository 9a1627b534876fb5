//! Whether a component's tasks keep their deadlines with what others leave of each budget.
//!
//! The analysis gives a component its whole budget. On the board the hypervisor does things for others in a vCPU's
//! turns, at its expense. So a component is analysed once more, alone: with a budget that is smaller by what others cost
//! in a period, and with jobs that are longer by what others cost with each.

use crate::found::Found;
use hanok_analysis::{Verdict, analyse};
use hanok_task_model::{
    Component, CoreId, Home, Model, Nanos, Periods, Plan, Pool, PoolId, ResourceInterface, Task,
    Window,
};

/// What becomes of a component's tasks beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// They keep their deadlines.
    Kept,
    /// It is not shown that they do. This budget would do at the same period, if one does.
    NotShown(Option<Nanos>),
}

/// Whether the tasks of the component called `name` keep their deadlines if others take `of_period` of each of its
/// budgets, and `of_job` with each job. `None` if there are no tasks, or their deadlines are not proven in the first
/// place.
pub fn beside(found: &Found<'_>, name: &str, of_period: Nanos, of_job: Nanos) -> Option<Beside> {
    let model = found.model();
    let id = model.find(name)?;
    let interface = found.proof(id)?.interface;
    let mut tasks: Vec<Task> = model
        .tasks
        .iter()
        .filter(|task| task.component == id)
        .cloned()
        .collect();
    if tasks.is_empty() {
        return None;
    }
    for task in &mut tasks {
        task.execution = plus(task.execution, of_job);
    }
    let alone = |plan| alone(model, model.component(id)?, plan, &tasks);
    let left = interface.budget.get().saturating_sub(of_period.get());
    let left = ResourceInterface {
        budget: Nanos::new(left),
        ..interface
    };
    if left.budget.get() > 0 && alone(Plan::Given(left)).is_some() {
        return Some(Beside::Kept);
    }
    if interface.deadline != interface.period {
        return Some(Beside::NotShown(None));
    }
    let periods = Periods::One(interface.period);
    let window = Window::Period;
    let least = alone(Plan::Find { periods, window });
    let whole = least.map(|least| plus(least, of_period));
    let tick = model.tick.get().max(1);
    let whole = whole.map(|whole| Nanos::new(whole.get().div_ceil(tick).saturating_mul(tick)));
    Some(Beside::NotShown(
        whole.filter(|whole| *whole <= interface.period),
    ))
}

fn plus(one: Nanos, other: Nanos) -> Nanos {
    Nanos::new(one.get().saturating_add(other.get()))
}

/// The budget with which a component like `like`, alone on a core, keeps the deadlines of `tasks`.
fn alone(model: &Model, like: &Component, plan: Plan, tasks: &[Task]) -> Option<Nanos> {
    // What is left of a budget is no multiple of the schedule's tick.
    let mut single = Model::new(Nanos::new(1), Vec::from([Pool::new("alone", [CoreId(0)])]));
    single.cost = model.cost;
    let id = single.add(Component {
        home: Home::Pool(PoolId(0)),
        plan,
        core: None,
        ..like.clone()
    });
    for task in tasks {
        single.add_task(Task {
            component: id,
            ..task.clone()
        });
    }
    let analysis = analyse(&single).ok()?;
    match analysis.components.first()? {
        Verdict::Proven(proof) => Some(proof.interface.budget),
        _ => None,
    }
}
