//! Up the tree: each component from its members' tasks and interfaces.
//!
//! To its parent an interface (P, B, L) is a task that needs B, and what switching to it costs,
//! within L of each period's start: that is what the interface promises, no more and no less.
//! (A task with the longer deadline P + L - B, which has been proposed for EDF, has the same
//! demand as the interface has supply; but it may be served at the start of one period and at
//! the end of the next, 2 P + L - 3 B apart, where the promise is a gap of P + L - 2 B at most.
//! `tests/compose.rs` shows a task that is missed so.)
//!
//! Where a group holds components alone, with periods that are multiples of its own, all of
//! them begin with a period of the group. Then the group's supply counts from there, and a
//! group around one component has that component's interface: composing costs nothing.

use crate::edf::{Miss, Outcome};
use crate::global;
use crate::kinds;
use crate::least::Shape;
use crate::load::{self, Arrival, Load};
use crate::period;
use crate::supply::Supply;
use crate::test;
use crate::ticks::Wanted;
use crate::work::{Undecided, Work};
use alloc::boxed::Box;
use alloc::vec::Vec;
use hanok_task_model::{
    Component, ComponentId, ComponentProof, Interface, Member, Model, Nanos, Periods, Plan, Policy,
    Server, Task, Window,
};

/// Whom a question is about: a component's members, as its tests see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The members, ranked by `policy`.
    pub loads: Vec<Load>,
    /// How they are chosen among.
    pub policy: Policy,
    /// On how many CPUs.
    pub cpus: u32,
    /// What becomes of the budget while none of them has work.
    pub server: Server,
}

/// What is known about a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<T> {
    /// Its members keep their deadlines.
    Proven(T),
    /// They do not.
    Refuted(Box<Refused>),
    /// The test could not decide.
    Undecided(Undecided),
    /// It holds a component without an interface.
    Waits(ComponentId),
}

/// A refusal as the tests see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The members.
    pub workload: Workload,
    /// Upon what: the interface that is too little, or a whole CPU where none can do.
    pub supply: Supply,
    /// The most that the component could have: what would help is tried upon it.
    pub upon: Supply,
    /// The interface, if there is one.
    pub interface: Option<Interface>,
    /// Where the test saw it.
    pub miss: Miss,
}

/// A time of the model in 128 bits.
pub(crate) fn wide(time: Nanos) -> i128 {
    i128::from(time.get())
}

/// A result within 64 bits again.
pub(crate) fn narrow(time: i128) -> Result<Nanos, Undecided> {
    let nanos = u64::try_from(time).map_err(|_| Undecided::TooLarge)?;
    Ok(Nanos::new(nanos))
}

/// A task as a load.
pub fn of_task(member: Member, task: &Task) -> Load {
    Load {
        member,
        period: wide(task.period),
        execution: wide(task.execution),
        deadline: wide(task.deadline),
        jitter: wide(task.jitter),
        priority: task.priority,
        arrival: Arrival::Sporadic,
        begins_with_period: false,
        place: 0,
    }
}

/// An interface as a load of its parent, which chooses by `policy`; `budget` is that of one CPU.
pub fn of_interface(
    (id, component): (ComponentId, &Component),
    policy: Policy,
    interface: &Interface,
    budget: Nanos,
    cost: Nanos,
) -> Load {
    Load {
        member: Member::Component(id),
        period: wide(interface.period),
        execution: wide(budget) + wide(cost),
        deadline: wide(interface.deadline),
        jitter: 0,
        priority: component.priority,
        arrival: match (component.server, policy.is_fixed()) {
            (Server::Periodic | Server::Polling, _) => Arrival::Sporadic,
            (_, true) => Arrival::Anywhere,
            (_, false) => Arrival::Bandwidth,
        },
        begins_with_period: component.server == Server::Periodic,
        place: 0,
    }
}

/// What is known so far, in the order of the model's components.
pub(crate) type Known = Vec<Option<Verdict<ComponentProof>>>;

/// The interface of a component that has one.
pub(crate) fn interface_of(known: &Known, id: ComponentId) -> Option<Interface> {
    match known.get(id.0 as usize) {
        Some(Some(Verdict::Proven(proof))) => Some(proof.interface),
        _ => None,
    }
}

/// The members of a component as loads, or the one that has no interface.
pub(crate) fn workload(
    model: &Model,
    component: &Component,
    members: &[Member],
    known: &Known,
) -> Result<Workload, ComponentId> {
    let mut loads = Vec::with_capacity(members.len());
    for member in members {
        match member {
            Member::Task(id) => loads.extend(model.task(*id).map(|task| of_task(*member, task))),
            Member::Component(id) => {
                let interface = interface_of(known, *id).ok_or(*id)?;
                let cost = model.cost.per_period();
                let inner = model.component(*id).ok_or(*id)?;
                let budget = interface.budget;
                let own = (*id, inner);
                loads.push(of_interface(
                    own,
                    component.policy,
                    &interface,
                    budget,
                    cost,
                ));
            }
        }
    }
    // A task beside components preempts them, and is a switch there and one back for each job.
    if loads.iter().any(|load| load.is_component()) {
        let cost = wide(model.cost.per_period());
        let tasks = loads.iter_mut().filter(|load| !load.is_component());
        tasks.for_each(|load| load.execution += cost);
    }
    load::number(&mut loads);
    load::rank(&mut loads, component.policy);
    Ok(Workload {
        loads,
        policy: component.policy,
        cpus: component.cpus,
        server: component.server,
    })
}

/// What the analysis says of one component.
pub(crate) fn component(
    model: &Model,
    id: ComponentId,
    component: &Component,
    workload: Workload,
    work: &mut Work,
) -> Verdict<ComponentProof> {
    if let Err(why) = kinds::proven(model, component) {
        return Verdict::Undecided(Undecided::Server(why));
    }
    let mut part = work.part(Work::TEST);
    let began = part;
    let found = match component.plan {
        Plan::Given(interface) => given(id, &interface, workload, &mut part),
        Plan::Longest { period, budget } => {
            longest(model, id, (period, budget), workload, &mut part)
        }
        Plan::Find { periods, .. } if workload.cpus > 1 => {
            parallel(model, id, periods, workload, &mut part)
        }
        Plan::Find { periods, window } => {
            let wanted = Wanted {
                loads: &workload.loads,
                policy: workload.policy,
                server: workload.server,
                window,
                tick: wide(model.tick),
                cost: whole_ticks(model),
            };
            match search(id, periods, &wanted, &mut part) {
                Ok(None) => nothing_does(&workload, &wanted, periods, &mut part).map(Err),
                Ok(Some(proof)) => Ok(Ok(proof)),
                Err(why) => Err(why),
            }
        }
    };
    work.settle(began, part);
    match found {
        Ok(Ok(proof)) => Verdict::Proven(proof),
        Ok(Err(refused)) => Verdict::Refuted(refused),
        Err(why) => Verdict::Undecided(why),
    }
}

/// What switching to a component costs in each of its periods, in whole ticks.
pub(crate) fn whole_ticks(model: &Model) -> i128 {
    let (cost, tick) = (wide(model.cost.per_period()), wide(model.tick));
    (cost + tick - 1) / tick * tick
}

/// Whether a component's given interface does.
fn given(
    id: ComponentId,
    interface: &Interface,
    workload: Workload,
    work: &mut Work,
) -> Result<Result<ComponentProof, Box<Refused>>, Undecided> {
    let supply = upon(interface, &workload)?;
    let outcome = if workload.cpus > 1 {
        global::test(&workload.loads, workload.cpus, &supply, work)?
    } else {
        test::keeps(&workload.loads, workload.policy, &supply, work)?
    };
    Ok(match outcome {
        Outcome::Kept(proof) => Ok(ComponentProof {
            component: id,
            interface: *interface,
            aligned: supply.is_aligned(),
            proof,
            least: None,
            exact: None,
        }),
        Outcome::Missed(miss) => Err(Box::new(Refused {
            workload,
            supply,
            upon: supply,
            interface: Some(*interface),
            miss,
        })),
    })
}

/// The longest deadline with which a given budget does.
fn longest(
    model: &Model,
    id: ComponentId,
    (period, budget): (Nanos, Nanos),
    workload: Workload,
    work: &mut Work,
) -> Result<Result<ComponentProof, Box<Refused>>, Undecided> {
    let tick = wide(model.tick);
    let shortest = (wide(budget) + whole_ticks(model)).min(wide(period));
    let tightest = Interface {
        period,
        budget,
        deadline: narrow(shortest)?,
    };
    let mut proof = match given(id, &tightest, workload.clone(), work)? {
        Ok(proof) => proof,
        Err(refused) => return Ok(Err(refused)),
    };
    let wanted = Wanted {
        loads: &workload.loads,
        policy: workload.policy,
        server: workload.server,
        window: Window::Longest,
        tick,
        cost: shortest - wide(budget),
    };
    let [period, budget] = [period, budget].map(wide);
    let start = period::start(workload.server, &workload.loads, period);
    let deadline = wanted.longest(period, budget, start, work)?;
    let supply = Supply::new(period, budget, deadline, start);
    let Outcome::Kept(kept) = test::keeps(wanted.loads, wanted.policy, &supply, work)? else {
        return Err(Undecided::TooLong);
    };
    let longer = Supply::new(period, budget, deadline + tick, start);
    (proof.proof, proof.interface.deadline) = (kept, narrow(deadline)?);
    if deadline + tick <= period {
        proof.least = test::misses(wanted.loads, wanted.policy, &longer, false, work)?;
    }
    Ok(Ok(proof))
}

/// What `interface` supplies to the members of `workload`.
pub fn upon(interface: &Interface, workload: &Workload) -> Result<Supply, Undecided> {
    let [period, budget, deadline] =
        [interface.period, interface.budget, interface.deadline].map(wide);
    if workload.cpus > 1 {
        Supply::parallel(period, budget, workload.cpus)
    } else {
        let start = period::start(workload.server, &workload.loads, period);
        Ok(Supply::new(period, budget, deadline, start))
    }
}

/// The refusal of a workload that no interface can serve: upon a whole CPU, or where that
/// would do, upon the most that an interface with the shortest period gives.
fn nothing_does(
    workload: &Workload,
    wanted: &Wanted<'_>,
    periods: Periods,
    work: &mut Work,
) -> Result<Box<Refused>, Undecided> {
    let (Periods::One(period) | Periods::Range { least: period, .. }) = periods;
    let period = (wide(period) + wanted.tick - 1) / wanted.tick * wanted.tick;
    let shape = shape(wanted, period);
    let upon = shape.supply(shape.most().max(1).into())?;
    for supply in [Supply::cores(1), upon] {
        if let Outcome::Missed(miss) = test::keeps(wanted.loads, wanted.policy, &supply, work)? {
            return Ok(alone(workload, supply, upon, miss));
        }
    }
    Err(Undecided::TooLong)
}

fn alone(workload: &Workload, supply: Supply, upon: Supply, miss: Miss) -> Box<Refused> {
    Box::new(Refused {
        workload: workload.clone(),
        supply,
        upon,
        interface: None,
        miss,
    })
}

fn search(
    id: ComponentId,
    periods: Periods,
    wanted: &Wanted<'_>,
    work: &mut Work,
) -> Result<Option<ComponentProof>, Undecided> {
    let period = match periods {
        Periods::One(period) => wide(period),
        Periods::Range { least, most } => {
            let range = (wide(least), wide(most));
            match period::cheapest(wanted, range, work)? {
                Some(price) => price.period,
                None => return Ok(None),
            }
        }
    };
    let start = period::start(wanted.server, wanted.loads, period);
    let Some(found) = wanted.find(period, start, work)? else {
        return Ok(None);
    };
    let [period, budget, deadline] = found.interface;
    Ok(Some(ComponentProof {
        component: id,
        interface: Interface {
            period: narrow(period)?,
            budget: narrow(budget)?,
            deadline: narrow(deadline)?,
        },
        aligned: found.start == crate::supply::Start::Period,
        proof: found.proof,
        least: found.least,
        exact: found.exact,
    }))
}

/// The interface of a component on several CPUs; of a range of periods, a grid is looked at.
fn parallel(
    model: &Model,
    id: ComponentId,
    periods: Periods,
    workload: Workload,
    work: &mut Work,
) -> Result<Result<ComponentProof, Box<Refused>>, Undecided> {
    let tick = wide(model.tick);
    let mut best: Option<(i128, i128, hanok_task_model::Proof)> = None;
    let cost = whole_ticks(model) * i128::from(workload.cpus);
    for period in of_range(periods, tick) {
        // So that one period leaves enough to look at the others.
        let mut part = work.part(work.left() / 4);
        let began = part;
        let found = global::least(&workload.loads, workload.cpus, (period, tick), &mut part);
        work.settle(began, part);
        let Some((budget, proof)) = found? else {
            continue;
        };
        let cheaper = best.as_ref().is_none_or(|(other, least, _)| {
            (budget + cost).saturating_mul(*other) < (least + cost).saturating_mul(period)
        });
        if cheaper {
            best = Some((period, budget, proof));
        }
    }
    let Some((period, budget, proof)) = best else {
        let supply = Supply::cores(workload.cpus);
        return Ok(Err(alone(&workload, supply, supply, Miss::Rate)));
    };
    Ok(Ok(ComponentProof {
        component: id,
        interface: Interface::periodic(narrow(period)?, narrow(budget)?),
        aligned: false,
        proof,
        least: None,
        exact: None,
    }))
}

/// How many periods are tried for a component on several CPUs.
const PARALLEL_PERIODS: i128 = 8;

/// The periods to try, in whole ticks.
fn of_range(periods: Periods, tick: i128) -> Vec<i128> {
    match periods {
        Periods::One(period) => Vec::from([wide(period)]),
        Periods::Range { least, most } => {
            let first = (wide(least) + tick - 1) / tick;
            let last = wide(most) / tick;
            let at = |index| first + (last - first) * index / PARALLEL_PERIODS;
            let mut all: Vec<i128> = (0..=PARALLEL_PERIODS).map(at).collect();
            all.dedup();
            all.into_iter().map(|ticks| ticks * tick).collect()
        }
    }
}

/// The least budget of `workload` with the deadline of `interface` left as it is, in whole
/// ticks; `None` if no budget does.
pub(crate) fn larger_budget(
    workload: &Workload,
    interface: &Interface,
    tick: Nanos,
    work: &mut Work,
) -> Option<Nanos> {
    let tick = wide(tick);
    let most = match workload.cpus {
        0 | 1 => wide(interface.deadline),
        cpus => wide(interface.period) * i128::from(cpus),
    };
    let does = |ticks: i128, work: &mut Work| {
        let budget = narrow(ticks * tick).ok()?;
        let supply = upon(
            &Interface {
                budget,
                ..*interface
            },
            workload,
        );
        kept(workload, &supply.ok()?, work).then_some(budget)
    };
    let (mut low, mut high) = (0, most / tick);
    let mut found = does(high, work)?;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match does(middle, work) {
            Some(budget) => (high, found) = (middle, budget),
            None => low = middle,
        }
    }
    Some(found)
}

/// Whether the test passes.
pub(crate) fn kept(workload: &Workload, supply: &Supply, work: &mut Work) -> bool {
    let mut part = work.part(Work::TEST / 64);
    let began = part;
    let outcome = if workload.cpus > 1 {
        global::test(&workload.loads, workload.cpus, supply, &mut part)
    } else {
        test::keeps(&workload.loads, workload.policy, supply, &mut part)
    };
    work.settle(began, part);
    matches!(outcome, Ok(Outcome::Kept(_)))
}

/// The shape of the budgets that a report draws over periods.
pub fn shape(wanted: &Wanted<'_>, period: i128) -> Shape {
    let start = period::start(wanted.server, wanted.loads, period);
    wanted.shape(period, start)
}

#[cfg(test)]
#[path = "compose_tests.rs"]
mod tests;
