//! The rules of a valid model.
//!
//! They refuse models without a meaning, never models that merely miss deadlines: a task that needs
//! more than its deadline is valid, and its refutation is the analysis's answer.

use crate::{
    Component, Fault, Home, MAX_MEMBERS, Mode, Model, ModelError, Nanos, Periods, Plan, Policy,
    Pool, PoolId, ResourceInterface, Subject, Task, TaskId, Window,
};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

impl Model {
    /// Checks the model. The error has all faults, in the order of pools, components and tasks.
    pub fn validate(&self) -> Result<(), Vec<ModelError>> {
        let mut faults = Faults(Vec::new());
        whole(self, &mut faults);
        pools(self, &mut faults);
        let members = self.members();
        let reached: BTreeSet<_> = self.bottom_up().into_iter().collect();
        let mut names = BTreeSet::new();
        for (id, component) in self.ids() {
            let about = || Subject::Component(id, component.name.clone());
            let mut check = |fault| faults.note(about(), fault);
            check(name(&component.name, names.insert(component.name.as_str())));
            let empty = members
                .get(id.0 as usize)
                .is_none_or(|inside| inside.is_empty());
            for fault in of_component(self, component, empty) {
                check(Err(fault));
            }
            if home_exists(self, component) && !reached.contains(&id) {
                check(Err(Fault::Circle));
            }
        }
        tasks(self, &mut faults);
        if faults.0.is_empty() {
            Ok(())
        } else {
            Err(faults.0)
        }
    }
}

/// What was found so far.
struct Faults(Vec<ModelError>);

impl Faults {
    fn note(&mut self, subject: Subject, outcome: Result<(), Fault>) {
        if let Err(fault) = outcome {
            self.0.push(ModelError { subject, fault });
        }
    }
}

/// Checks a time that must be more than zero and within bounds.
fn time(what: &'static str, value: Nanos) -> Result<(), Fault> {
    match value {
        Nanos::ZERO => Err(Fault::Zero(what)),
        _ => bounded(what, value),
    }
}

fn bounded(what: &'static str, value: Nanos) -> Result<(), Fault> {
    if value > Nanos::MAX {
        Err(Fault::TooLong(what))
    } else {
        Ok(())
    }
}

fn fits(
    what: &'static str,
    value: Nanos,
    limit_name: &'static str,
    limit: Nanos,
) -> Result<(), Fault> {
    if value > limit {
        Err(Fault::Longer {
            what,
            value,
            limit_name,
            limit,
        })
    } else {
        Ok(())
    }
}

fn name(name: &str, new: bool) -> Result<(), Fault> {
    match (name, new) {
        ("", _) => Err(Fault::Nameless),
        (_, false) => Err(Fault::NameTaken),
        (_, true) => Ok(()),
    }
}

fn whole(model: &Model, faults: &mut Faults) {
    let cost = model.cost;
    let outcomes = [
        time("tick", model.tick),
        bounded("switch", cost.switch),
        bounded("refill", cost.refill),
        few("pools", model.pools.len()),
        few("components", model.components.len()),
        few("tasks", model.tasks.len()),
    ];
    for outcome in outcomes {
        faults.note(Subject::Model, outcome);
    }
}

fn few(what: &'static str, number: usize) -> Result<(), Fault> {
    if number > MAX_MEMBERS {
        Err(Fault::TooMany(what))
    } else {
        Ok(())
    }
}

fn pools(model: &Model, faults: &mut Faults) {
    let (mut names, mut cores) = (BTreeSet::new(), BTreeSet::new());
    for (id, pool) in (0..).map(PoolId).zip(&model.pools) {
        let about = || Subject::Pool(id, pool.name.clone());
        faults.note(about(), name(&pool.name, names.insert(pool.name.as_str())));
        if pool.cores.is_empty() {
            faults.note(about(), Err(Fault::NoCores));
        }
        for core in &pool.cores {
            if !cores.insert(*core) {
                faults.note(about(), Err(Fault::CoreTaken(core.0)));
            }
        }
        if pool.mode == Mode::Global && pool.policy != Policy::Edf {
            faults.note(about(), Err(Fault::GlobalNeedsEdf));
        }
    }
}

fn home_exists(model: &Model, component: &Component) -> bool {
    match component.home {
        Home::Pool(pool) => model.pool(pool).is_some(),
        Home::Component(home) => model.component(home).is_some(),
    }
}

/// The policy that schedules a component.
fn policy_above(model: &Model, component: &Component) -> Option<Policy> {
    match component.home {
        Home::Pool(pool) => model.pool(pool).map(|pool| pool.policy),
        Home::Component(home) => model.component(home).map(|home| home.policy),
    }
}

fn of_component(model: &Model, component: &Component, empty: bool) -> Vec<Fault> {
    let mut found = Vec::new();
    let mut check = |outcome: Result<(), Fault>| found.extend(outcome.err());
    if !home_exists(model, component) {
        check(Err(Fault::Missing("home")));
    }
    let parallel = component.cpus > 1;
    match component.plan {
        Plan::Given(interface) => check(given(model.tick, interface, component.cpus)),
        Plan::Find { periods, window } => {
            check(searched(model.tick, periods));
            if empty {
                check(Err(Fault::Empty));
            }
            if parallel && window != Window::Period {
                check(Err(Fault::ParallelWindow));
            }
        }
        Plan::Longest { period, budget } => {
            let interface = ResourceInterface::periodic(period, budget);
            check(given(model.tick, interface, component.cpus));
            if parallel {
                check(Err(Fault::ParallelWindow));
            }
        }
    }
    if component.server.needs_period() && !ends_with_period(component.plan) {
        check(Err(Fault::ServerWindow));
    }
    if component.cpus == 0 {
        check(Err(Fault::Zero("number of CPUs")));
    }
    if parallel && component.policy != Policy::Edf {
        check(Err(Fault::GlobalNeedsEdf));
    }
    let fixed = policy_above(model, component) == Some(Policy::FixedPriority);
    if fixed && component.priority.is_none() {
        check(Err(Fault::NoPriority));
    }
    check(place(model, component));
    found
}

/// Whether an interface of this plan has its deadline at the period's end.
fn ends_with_period(plan: Plan) -> bool {
    match plan {
        Plan::Given(interface) => interface.deadline == interface.period,
        Plan::Find { window, .. } => window == Window::Period,
        Plan::Longest { .. } => false,
    }
}

/// Checks that a home can give a component what it asks for.
fn place(model: &Model, component: &Component) -> Result<(), Fault> {
    let pool = match component.home {
        Home::Pool(pool) => model.pool(pool),
        Home::Component(home) => {
            let spread = model.component(home).is_some_and(|home| home.cpus > 1);
            return match (spread, component.cpus > 1, component.core) {
                (true, _, _) => Err(Fault::ParallelGroup),
                (_, true, _) => Err(Fault::ParallelInGroup),
                (_, _, Some(_)) => Err(Fault::NoCoreToChoose),
                _ => Ok(()),
            };
        }
    };
    match pool {
        Some(pool) => place_in(pool, component),
        None => Ok(()),
    }
}

fn place_in(pool: &Pool, component: &Component) -> Result<(), Fault> {
    let cores = u32::try_from(pool.cores.len()).unwrap_or(u32::MAX);
    if component.cpus > cores {
        let cpus = component.cpus;
        return Err(Fault::MoreCpusThanCores { cpus, cores });
    }
    match component.core {
        Some(_) if pool.mode == Mode::Global || component.cpus > 1 => Err(Fault::NoCoreToChoose),
        Some(core) if !pool.cores.contains(&core) => Err(Fault::NotInPool(core.0)),
        _ => Ok(()),
    }
}

fn given(tick: Nanos, interface: ResourceInterface, cpus: u32) -> Result<(), Fault> {
    let ResourceInterface {
        period,
        budget,
        deadline,
    } = interface;
    for (what, value) in [
        ("period", period),
        ("budget", budget),
        ("deadline", deadline),
    ] {
        time(what, value)?;
        whole_ticks(tick, what, value)?;
    }
    fits("deadline", deadline, "period", period)?;
    if cpus > 1 {
        let all = Nanos::new(period.get().saturating_mul(cpus.into()));
        fits("budget", budget, "period on all CPUs", all)?;
        return if deadline == period {
            Ok(())
        } else {
            Err(Fault::ParallelWindow)
        };
    }
    fits("budget", budget, "deadline", deadline)
}

fn whole_ticks(tick: Nanos, what: &'static str, value: Nanos) -> Result<(), Fault> {
    if tick.is_zero() || value.is_whole(tick) {
        Ok(())
    } else {
        Err(Fault::NotWhole { what, value, tick })
    }
}

fn searched(tick: Nanos, periods: Periods) -> Result<(), Fault> {
    match periods {
        Periods::One(period) => {
            time("period", period)?;
            whole_ticks(tick, "period", period)
        }
        Periods::Range { least, most } => {
            time("shortest period", least)?;
            time("longest period", most)?;
            fits("shortest period", least, "longest period", most)?;
            let first = least.get().checked_next_multiple_of(tick.get().max(1));
            if first.is_some_and(|first| first <= most.get()) {
                Ok(())
            } else {
                Err(Fault::NoPeriod)
            }
        }
    }
}

fn tasks(model: &Model, faults: &mut Faults) {
    let mut names = BTreeSet::new();
    for (id, task) in (0..).map(TaskId).zip(&model.tasks) {
        let home = model.component(task.component);
        let home_name = home.map_or("no component", |home| home.name.as_str());
        let about = || Subject::Task(id, task.name.clone(), home_name.into());
        let new = names.insert((task.component, task.name.as_str()));
        faults.note(about(), name(&task.name, new));
        let policy = home.map(|home| home.policy);
        for outcome in of_task(task, policy) {
            faults.note(about(), outcome);
        }
    }
}

fn of_task(task: &Task, policy: Option<Policy>) -> [Result<(), Fault>; 7] {
    let fixed = policy == Some(Policy::FixedPriority);
    [
        policy.map(drop).ok_or(Fault::Missing("component")),
        time("period", task.period),
        time("execution time", task.execution),
        time("deadline", task.deadline),
        bounded("offset", task.offset),
        bounded("jitter", task.jitter),
        if fixed && task.priority.is_none() {
            Err(Fault::NoPriority)
        } else {
            Ok(())
        },
    ]
}

#[cfg(test)]
mod tests;
