//! Analyses the components of a model from the inside out: each one from its members' tasks and
//! interfaces.
//!
//! To its parent, an interface (P, B, L) is a task that needs B, and the cost of switching to it,
//! within L of each period's start: that is exactly what the interface promises. (For EDF a task
//! with the longer deadline P + L - B has been proposed. Its demand is equal to the interface's
//! supply. But such a task may be served at the start of one period and at the end of the next,
//! which are 2 P + L - 3 B apart, while the interface promises a gap of at most P + L - 2 B.
//! `tests/compose.rs` has a schedule in which a task misses its deadline in this way.)
//!
//! Where a group holds only components whose periods are multiples of the group's, all of them
//! begin with a period of the group. Then the group's supply counts from the start of a period, and
//! a group around one component has that component's interface: composing costs nothing.

use crate::edf::{Miss, Outcome};
use crate::global;
use crate::kinds;
use crate::least::Shape;
use crate::load::{self, Arrival, Load};
use crate::period;
use crate::supply::Supply;
use crate::test;
use crate::ticks::InterfaceRequest;
use crate::work::{Undecided, Work};
use alloc::boxed::Box;
use alloc::vec::Vec;
use hanok_task_model::{
    Component, ComponentId, ComponentProof, Member, Model, Nanos, Periods, Plan, Policy,
    ResourceInterface, Server, Task, Window,
};

/// The members of a component, as the component's test sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The members, ranked by `policy`.
    pub loads: Vec<Load>,
    /// The policy that chooses among them.
    pub policy: Policy,
    /// The number of CPUs that may run them at the same time.
    pub cpus: u32,
    /// The kind of server: it says what becomes of the budget while no member has work.
    pub server: Server,
    /// What it pays from its budget each time for the switches to it and back, in whole ticks; 0: nothing.
    pub prepaid: i128,
}

/// The answer about a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<T> {
    /// All members keep their deadlines; the value proves it.
    Proven(T),
    /// Some member can miss its deadline.
    Refuted(Box<ComponentRefusal>),
    /// The test could not decide, for this reason.
    Undecided(Undecided),
    /// It holds this component, which has no interface.
    Waits(ComponentId),
}

/// The refusal of a component, as the tests see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentRefusal {
    /// The component's members.
    pub workload: Workload,
    /// The supply that is too little: the interface's, or a whole CPU where no interface would do.
    pub supply: Supply,
    /// The largest supply that the component could have. Proposed changes are tested with it.
    pub upon: Supply,
    /// The interface, if there is one.
    pub interface: Option<ResourceInterface>,
    /// Where the test saw a deadline missed.
    pub miss: Miss,
}

/// Converts a time of the model to 128 bits.
pub(crate) fn wide(time: Nanos) -> i128 {
    i128::from(time.get())
}

/// Converts a result back to 64 bits.
pub(crate) fn narrow(time: i128) -> Result<Nanos, Undecided> {
    let nanos = u64::try_from(time).map_err(|_| Undecided::TooLarge)?;
    Ok(Nanos::new(nanos))
}

/// The load of a task.
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

/// The load that an interface puts on its parent, which chooses by `policy`; `budget` is the budget
/// of one CPU, and `cost` what the switch to the component and the one back take.
pub fn of_interface(
    (id, component): (ComponentId, &Component),
    policy: Policy,
    interface: &ResourceInterface,
    budget: Nanos,
    cost: Nanos,
) -> Load {
    Load {
        member: Member::Component(id),
        period: wide(interface.period),
        execution: wide(budget) + wide(beyond(component.server, cost)),
        deadline: wide(interface.deadline),
        jitter: 0,
        priority: component.priority,
        arrival: match (component.server, policy.is_fixed()) {
            (Server::Periodic | Server::Polling, _) => Arrival::Sporadic,
            (_, true) => Arrival::Anywhere {
                late: wide(cost) / 2,
            },
            (_, false) => Arrival::Bandwidth,
        },
        begins_with_period: component.server == Server::Periodic,
        place: 0,
    }
}

/// Whether a server pays from its budget for the switches to it and back, as it may begin any number of times in a period.
fn prepays(server: Server) -> bool {
    server.needs_period()
}

/// What a server costs beyond its budget in each period, where the switch to it and the one back take `cost`.
fn beyond(server: Server, cost: Nanos) -> Nanos {
    if prepays(server) { Nanos::ZERO } else { cost }
}

/// What the component `id` costs beyond its budget in each period.
pub(crate) fn beyond_budget(model: &Model, id: ComponentId) -> i128 {
    let server = model.component(id).map(|component| component.server);
    wide(beyond(server.unwrap_or_default(), model.cost.per_period()))
}

/// What the component costs beyond its budget in each period: of a server that pays for its switches, nothing.
pub fn cost_beyond(model: &Model, component: &Component) -> Nanos {
    beyond(component.server, model.cost.per_period())
}

/// The answers that are known so far, in the order of the model's components.
pub(crate) type KnownVerdicts = Vec<Option<Verdict<ComponentProof>>>;

/// The interface of a component that has one.
pub(crate) fn interface_of(known: &KnownVerdicts, id: ComponentId) -> Option<ResourceInterface> {
    match known.get(id.0 as usize) {
        Some(Some(Verdict::Proven(proof))) => Some(proof.interface),
        _ => None,
    }
}

/// The members of a component as loads. The error is the member that has no interface.
pub(crate) fn workload(
    model: &Model,
    component: &Component,
    members: &[Member],
    known: &KnownVerdicts,
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
    // A task beside components preempts them, so that each of its jobs costs a switch to it and one
    // back.
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
        prepaid: prepaid(model, component.server),
    })
}

/// Analyses one component.
pub(crate) fn component(
    model: &Model,
    id: ComponentId,
    component: &Component,
    workload: Workload,
    work: &mut Work,
) -> Verdict<ComponentProof> {
    if let Err(why) = kinds::proven(model, component, &workload.loads, workload.prepaid) {
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
            let wanted = InterfaceRequest {
                loads: &workload.loads,
                policy: workload.policy,
                server: workload.server,
                window,
                tick: wide(model.tick),
                cost: ticks_beyond(model, component.server),
                prepaid: workload.prepaid,
            };
            match search(id, periods, &wanted, &mut part) {
                Ok(None) => no_interface_suffices(&workload, &wanted, periods, &mut part).map(Err),
                Ok(Some(proof)) => Ok(Ok(proof)),
                Err(why) => Err(why),
            }
        }
    };
    work.charge_part(began, part);
    match found {
        Ok(Ok(proof)) => Verdict::Proven(proof),
        Ok(Err(refused)) => Verdict::Refuted(refused),
        Err(why) => Verdict::Undecided(why),
    }
}

/// The cost of switching to a component in each of its periods, rounded up to whole ticks.
pub(crate) fn whole_ticks(model: &Model) -> i128 {
    let (cost, tick) = (wide(model.cost.per_period()), wide(model.tick));
    (cost + tick - 1) / tick * tick
}

/// The same, where the component costs that beyond its budget: where its server does not pay for it.
pub(crate) fn ticks_beyond(model: &Model, server: Server) -> i128 {
    if prepays(server) {
        0
    } else {
        whole_ticks(model)
    }
}

/// What a server pays each time for the switches to it and back, in whole ticks.
pub(crate) fn prepaid(model: &Model, server: Server) -> i128 {
    whole_ticks(model) - ticks_beyond(model, server)
}

/// Tests a component's given interface.
fn given(
    id: ComponentId,
    interface: &ResourceInterface,
    workload: Workload,
    work: &mut Work,
) -> Result<Result<ComponentProof, Box<ComponentRefusal>>, Undecided> {
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
        Outcome::Missed(miss) => Err(Box::new(ComponentRefusal {
            workload,
            supply,
            upon: supply,
            interface: Some(*interface),
            miss,
        })),
    })
}

/// Finds the longest deadline with which a given budget suffices.
fn longest(
    model: &Model,
    id: ComponentId,
    (period, budget): (Nanos, Nanos),
    workload: Workload,
    work: &mut Work,
) -> Result<Result<ComponentProof, Box<ComponentRefusal>>, Undecided> {
    let tick = wide(model.tick);
    let shortest = (wide(budget) + whole_ticks(model)).min(wide(period));
    let tightest = ResourceInterface {
        period,
        budget,
        deadline: narrow(shortest)?,
    };
    let mut proof = match given(id, &tightest, workload.clone(), work)? {
        Ok(proof) => proof,
        Err(refused) => return Ok(Err(refused)),
    };
    let wanted = InterfaceRequest {
        loads: &workload.loads,
        policy: workload.policy,
        server: workload.server,
        window: Window::Longest,
        tick,
        cost: shortest - wide(budget),
        prepaid: workload.prepaid,
    };
    let [period, budget] = [period, budget].map(wide);
    let start = period::start(workload.server, &workload.loads, period, workload.prepaid);
    let deadline = wanted.longest(period, budget, start, work)?;
    let supply = Supply::new(period, budget, deadline, start);
    let Outcome::Kept(are_kept) = test::keeps(wanted.loads, wanted.policy, &supply, work)? else {
        return Err(Undecided::TooLong);
    };
    let longer = Supply::new(period, budget, deadline + tick, start);
    (proof.proof, proof.interface.deadline) = (are_kept, narrow(deadline)?);
    if deadline + tick <= period {
        proof.least = test::misses(wanted.loads, wanted.policy, &longer, false, work)?;
    }
    Ok(Ok(proof))
}

/// The supply that `interface` gives to the members of `workload`.
pub fn upon(interface: &ResourceInterface, workload: &Workload) -> Result<Supply, Undecided> {
    let [period, budget, deadline] =
        [interface.period, interface.budget, interface.deadline].map(wide);
    if workload.cpus > 1 {
        Supply::parallel(period, budget, workload.cpus)
    } else {
        let start = period::start(workload.server, &workload.loads, period, workload.prepaid);
        Ok(Supply::new(period, budget, deadline, start))
    }
}

/// The refusal of a workload that no interface can serve. It is refused with a whole CPU; or, where
/// a whole CPU would do, with the most that an interface with the shortest period gives.
fn no_interface_suffices(
    workload: &Workload,
    wanted: &InterfaceRequest<'_>,
    periods: Periods,
    work: &mut Work,
) -> Result<Box<ComponentRefusal>, Undecided> {
    let (Periods::One(period) | Periods::Range { least: period, .. }) = periods;
    let period = (wide(period) + wanted.tick - 1) / wanted.tick * wanted.tick;
    let shape = shape(wanted, period);
    let upon = shape.supply(shape.most().max(1).into())?;
    for supply in [Supply::cores(1), upon] {
        if let Outcome::Missed(miss) = test::keeps(wanted.loads, wanted.policy, &supply, work)? {
            return Ok(component_refusal(workload, supply, upon, miss));
        }
    }
    Err(Undecided::TooLong)
}

fn component_refusal(
    workload: &Workload,
    supply: Supply,
    upon: Supply,
    miss: Miss,
) -> Box<ComponentRefusal> {
    Box::new(ComponentRefusal {
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
    wanted: &InterfaceRequest<'_>,
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
    let start = period::start(wanted.server, wanted.loads, period, wanted.prepaid);
    let Some(found) = wanted.find(period, start, work)? else {
        return Ok(None);
    };
    let [period, budget, deadline] = found.interface;
    Ok(Some(ComponentProof {
        component: id,
        interface: ResourceInterface {
            period: narrow(period)?,
            budget: narrow(budget)?,
            deadline: narrow(deadline)?,
        },
        aligned: found.start == crate::supply::SupplyStart::Period,
        proof: found.proof,
        least: found.least,
        exact: found.exact,
    }))
}

/// Finds the interface of a component on several CPUs. Of a range of periods, only a grid is tried.
fn parallel(
    model: &Model,
    id: ComponentId,
    periods: Periods,
    workload: Workload,
    work: &mut Work,
) -> Result<Result<ComponentProof, Box<ComponentRefusal>>, Undecided> {
    let tick = wide(model.tick);
    let mut best: Option<(i128, i128, hanok_task_model::Proof)> = None;
    let cost = whole_ticks(model) * i128::from(workload.cpus);
    for period in of_range(periods, tick) {
        // A part of the work, so that one period leaves enough for the others.
        let mut part = work.part(work.left() / 4);
        let began = part;
        let found = global::least(&workload.loads, workload.cpus, (period, tick), &mut part);
        work.charge_part(began, part);
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
        return Ok(Err(component_refusal(
            &workload,
            supply,
            supply,
            Miss::Rate,
        )));
    };
    Ok(Ok(ComponentProof {
        component: id,
        interface: ResourceInterface::periodic(narrow(period)?, narrow(budget)?),
        aligned: false,
        proof,
        least: None,
        exact: None,
    }))
}

/// The number of periods that are tried for a component on several CPUs.
const PARALLEL_PERIODS: i128 = 8;

/// The periods that are tried, in whole ticks.
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

/// The least budget of `workload`, in whole ticks, with the deadline of `interface` unchanged;
/// `None` if no budget suffices.
pub(crate) fn larger_budget(
    workload: &Workload,
    interface: &ResourceInterface,
    tick: Nanos,
    work: &mut Work,
) -> Option<Nanos> {
    let tick = wide(tick);
    let most = match workload.cpus {
        0 | 1 => wide(interface.deadline),
        cpus => wide(interface.period) * i128::from(cpus),
    };
    let suffices = |ticks: i128, work: &mut Work| {
        let budget = narrow(ticks * tick).ok()?;
        let supply = upon(
            &ResourceInterface {
                budget,
                ..*interface
            },
            workload,
        );
        are_kept(workload, &supply.ok()?, work).then_some(budget)
    };
    let (mut low, mut high) = (0, most / tick);
    let mut found = suffices(high, work)?;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match suffices(middle, work) {
            Some(budget) => (high, found) = (middle, budget),
            None => low = middle,
        }
    }
    Some(found)
}

/// Whether the test passes. A test that cannot decide does not pass.
pub(crate) fn are_kept(workload: &Workload, supply: &Supply, work: &mut Work) -> bool {
    let mut part = work.part(Work::TEST / 64);
    let began = part;
    let outcome = if workload.cpus > 1 {
        global::test(&workload.loads, workload.cpus, supply, &mut part)
    } else {
        test::keeps(&workload.loads, workload.policy, supply, &mut part)
    };
    work.charge_part(began, part);
    matches!(outcome, Ok(Outcome::Kept(_)))
}

/// What is fixed while budgets are computed for a report that draws them over periods.
pub fn shape(wanted: &InterfaceRequest<'_>, period: i128) -> Shape {
    let start = period::start(wanted.server, wanted.loads, period, wanted.prepaid);
    wanted.shape(period, start)
}

#[cfg(test)]
mod tests;
