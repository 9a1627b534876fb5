//! Explains a refusal to a person: which member is late, when, by how much, and what would help.

use crate::compose::{self, ComponentRefusal, Workload};
use crate::edf::{self, Miss};
use crate::load::{self, Arrival, Load};
use crate::place::{self, PoolRefusal};
use crate::supply::Supply;
use crate::work::{Undecided, Work};
use crate::{fixed, global};
use alloc::vec::Vec;
use hanok_task_model::{
    ComponentId, CoreId, Member, Model, Nanos, PoolId, ResourceInterface, Server, TaskId, Vcpu,
};

/// The place of a deadline that cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefutedAt {
    /// Inside this component, with its interface.
    Component(ComponentId),
    /// Inside this component, which would be too much for a CPU of its own.
    Alone(ComponentId),
    /// On this core of the pool; or, without a core, on all cores of a global pool.
    Cores(PoolId, Option<CoreId>),
}

/// A deadline that cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refutation {
    /// The place of the deadline.
    pub place: RefutedAt,
    /// The member that misses it.
    pub member: Member,
    /// The vCPU that found no place, if one did not.
    pub vcpu: Option<Vcpu>,
    /// The deadline, from the worst release.
    pub at: Nanos,
    /// The CPU time that is needed until then, in nanoseconds.
    pub demand: i128,
    /// The CPU time that is certainly supplied until then, rounded down to nanoseconds.
    pub supply: i128,
    /// Whether the worst case can certainly happen. Otherwise the test is one that may refuse a
    /// model that would do (several CPUs, placement).
    pub certain: bool,
    /// The changes that would help, the smallest first.
    pub changes: Vec<Change>,
}

impl Refutation {
    /// The CPU time that is missing, in nanoseconds.
    pub fn shortfall(&self) -> i128 {
        self.demand - self.supply
    }
}

/// One change with which the refused component or vCPU would be admitted in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Give the component this budget.
    Budget(ComponentId, Nanos),
    /// Give the component at most this budget, inside the component or on the core that is refused:
    /// as much as fits there, whether or not it suffices for the component's own members.
    MaxBudget(ComponentId, Nanos),
    /// Move the component out of the one around it, to a place of its own.
    Apart(ComponentId),
    /// Give the component this period, with its budget or with the least one that suffices.
    Period(ComponentId, Nanos),
    /// Shorten the task's execution time to this.
    Execution(TaskId, Nanos),
    /// Lengthen the task's period to this.
    TaskPeriod(TaskId, Nanos),
    /// Give the pool one more core.
    Core(PoolId),
}

/// The number of deadlines that are examined for the first one that is missed.
const LOOKED_AT: usize = 100_000;

/// Explains the refusal of a component.
pub(crate) fn of_component(
    model: &Model,
    id: ComponentId,
    refused: &ComponentRefusal,
    work: &mut Work,
) -> Result<Refutation, Undecided> {
    let mut found = find_late(&refused.workload, &refused.supply, refused.miss, work)?;
    found.place = match refused.interface {
        Some(_) => RefutedAt::Component(id),
        None => RefutedAt::Alone(id),
    };
    found.changes = changes(model, id, refused, found.member, work);
    Ok(found)
}

/// Explains the refusal of a pool.
pub(crate) fn of_pool(
    model: &Model,
    refusal: &PoolRefusal,
    work: &mut Work,
) -> Result<Refutation, Undecided> {
    let mut found = find_late(&refusal.workload, &refusal.supply, refusal.miss, work)?;
    found.place = RefutedAt::Cores(refusal.pool, refusal.core);
    found.vcpu = refusal.vcpu;
    found.certain = refusal.certain;
    if let Some(vcpu) = refusal.vcpu {
        let budget = place::largest_budget(model, refusal, vcpu, work);
        found
            .changes
            .extend(budget.map(|budget| Change::MaxBudget(vcpu.component, budget)));
    }
    found.changes.push(Change::Core(refusal.pool));
    Ok(found)
}

/// Finds which member is late, when and by how much.
fn find_late(
    workload: &Workload,
    supply: &Supply,
    miss: Miss,
    work: &mut Work,
) -> Result<Refutation, Undecided> {
    let loads = &workload.loads;
    let (member, at, demand) = if workload.cpus > 1 {
        find_late_on_several(workload, supply, work)?
    } else if workload.policy.is_fixed() {
        let place = late_member(loads, supply, work)?;
        let until = loads.get(..=place).unwrap_or_default();
        let own = until.last().ok_or(Undecided::TooLong)?;
        let at = own.fixed_window().max(0);
        (own.member, at, load::requested(until, at.max(1)))
    } else {
        let at = match edf::first_miss(loads, supply, LOOKED_AT, work)? {
            Some(at) => at,
            None => match miss {
                Miss::At(at) => at,
                _ => edf::late_miss(loads, supply)?,
            },
        };
        // Of the members that are due at the same time, name the one that needs most.
        let due = loads.iter().filter(|load| load.next_due(at) == at);
        let own = due.max_by_key(|load| load.execution);
        let own = own.or(loads.first()).ok_or(Undecided::TooLong)?;
        (own.member, at, load::due(loads, at))
    };
    Ok(Refutation {
        place: RefutedAt::Component(ComponentId(0)),
        member,
        vcpu: None,
        at: compose::narrow(at)?,
        demand,
        supply: supply.within(at)?.to_integer(),
        certain: workload.cpus <= 1 && !shortened(workload, member) && exact(workload),
        changes: Vec::new(),
    })
}

/// Whether the member's deadline counts as shorter than it is: under fixed priorities, when it is
/// beyond the period.
fn shortened(workload: &Workload, member: Member) -> bool {
    let own = workload.loads.iter().find(|load| load.member == member);
    workload.policy.is_fixed() && own.is_some_and(|load| load.deadline > load.period)
}

/// Whether the test is exact, that is, knows exactly what each member needs and what is supplied.
/// Of a server that keeps or loses its budget while it has no work, it only knows a bound.
fn exact(workload: &Workload) -> bool {
    let sporadic = |load: &Load| load.arrival == Arrival::Sporadic;
    workload.server == Server::Periodic && workload.loads.iter().all(sporadic)
}

/// The place of the highest priority that can be late.
fn late_member(loads: &[Load], supply: &Supply, work: &mut Work) -> Result<usize, Undecided> {
    for place in 0..loads.len() {
        let until = loads.get(..=place).unwrap_or_default();
        if fixed::response(until, supply, work)?.is_none() {
            return Ok(place);
        }
    }
    // The test that did not pass asks the same question.
    Err(Undecided::TooLong)
}

/// For several CPUs: the first member whose test does not pass at its first deadline, or at the
/// instant where the test ended.
fn find_late_on_several(
    workload: &Workload,
    supply: &Supply,
    work: &mut Work,
) -> Result<(Member, i128, i128), Undecided> {
    let loads = &workload.loads;
    let mut horizon = loads
        .iter()
        .map(|load| load.window())
        .max()
        .unwrap_or(1)
        .max(1);
    // Try later and later deadlines of each member: where the sum is too much, one of them is
    // missed.
    for _ in 0..64 {
        for (place, own) in loads.iter().enumerate() {
            work.spend(4 * loads.len())?;
            for at in [own.window().max(0), own.next_due(horizon)] {
                let demand = global::competing(loads, place, workload.cpus, at);
                if !supply.gives(demand, at)? {
                    return Ok((own.member, at, demand));
                }
            }
        }
        horizon = horizon.checked_mul(2).ok_or(Undecided::TooLarge)?;
    }
    Err(Undecided::TooLong)
}

/// The changes that would help inside a component.
fn changes(
    model: &Model,
    id: ComponentId,
    refused: &ComponentRefusal,
    member: Member,
    work: &mut Work,
) -> Vec<Change> {
    let mut found: Vec<(i128, Change)> = Vec::new();
    if let Some(interface) = &refused.interface {
        let budget = compose::larger_budget(&refused.workload, interface, model.tick, work);
        if let Some(budget) = budget {
            let change = Change::Budget(id, budget);
            found.push((relative(interface.budget, budget), change));
        }
        if let Some(period) = shorter_period(refused, interface, model.tick, work) {
            let change = Change::Period(id, period);
            found.push((relative(interface.period, period), change));
        }
    }
    if refused.interface.is_none()
        && let Some(period) = working_period(model, refused, work)
    {
        found.push((0, Change::Period(id, period)));
    }
    if let Member::Component(inner) = member {
        found.extend(less_inside(model, refused, inner, work));
    }
    if let Member::Task(task) = member
        && let Some(now) = model.task(task)
    {
        if let Some(least) = less_execution(refused, member, now.execution, work) {
            found.push((
                relative(now.execution, least),
                Change::Execution(task, least),
            ));
        }
        if let Some(longer) = longer_period(refused, member, work) {
            let change = Change::TaskPeriod(task, longer);
            found.push((relative(now.period, longer), change));
        }
    }
    found.sort_by_key(|(size, _)| *size);
    found.into_iter().map(|(_, change)| change).collect()
}

/// A shorter period with which some budget suffices, where none does with the period that was asked
/// for. The period is halved each time.
fn working_period(model: &Model, refused: &ComponentRefusal, work: &mut Work) -> Option<Nanos> {
    let tick = compose::wide(model.tick);
    let Workload {
        server, prepaid, ..
    } = refused.workload;
    let cost = compose::ticks_beyond(model, server);
    let mut period = refused.upon.period();
    loop {
        period = period / 2 / tick * tick;
        if period <= cost {
            return None;
        }
        let start = crate::period::start(server, &refused.workload.loads, period, prepaid);
        let supply = Supply::new(period, period - cost, period, start);
        if refused.workload.cpus == 1 && compose::are_kept(&refused.workload, &supply, work) {
            return compose::narrow(period).ok();
        }
    }
}

/// The largest budget of the component `inner`, in whole ticks, with which its home would be
/// admitted. Where no budget is small enough, `inner` must move elsewhere.
fn less_inside(
    model: &Model,
    refused: &ComponentRefusal,
    inner: ComponentId,
    work: &mut Work,
) -> Option<(i128, Change)> {
    let member = Member::Component(inner);
    let tick = compose::wide(model.tick);
    let cost = compose::beyond_budget(model, inner);
    let now = load_of(refused, member)?.execution - cost;
    let (mut low, mut high) = (0, now / tick);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let change = |load: &mut Load| load.execution = middle * tick + cost;
        if with_load(refused, member, change, work) {
            low = middle
        } else {
            high = middle
        }
    }
    if low == 0 {
        let mut without = refused.workload.clone();
        without.loads.retain(|load| load.member != member);
        let suffices =
            !without.loads.is_empty() && compose::are_kept(&without, &refused.upon, work);
        return suffices.then_some((1_000_000, Change::Apart(inner)));
    }
    let budget = compose::narrow(low * tick).ok()?;
    let size = relative(compose::narrow(now).ok()?, budget);
    Some((size, Change::MaxBudget(inner, budget)))
}

/// The size of a change, in millionths of the larger value.
fn relative(from: Nanos, to: Nanos) -> i128 {
    let (from, to) = (compose::wide(from), compose::wide(to));
    (from - to).abs() * 1_000_000 / from.max(to).max(1)
}

/// The longest period, in whole ticks, with which the budget suffices.
fn shorter_period(
    refused: &ComponentRefusal,
    interface: &ResourceInterface,
    tick: Nanos,
    work: &mut Work,
) -> Option<Nanos> {
    let tick = compose::wide(tick);
    let cpus = i128::from(refused.workload.cpus.max(1));
    let least = (compose::wide(interface.budget) + cpus - 1) / cpus;
    let own_deadline = interface.deadline < interface.period;
    let least = if own_deadline {
        compose::wide(interface.deadline)
    } else {
        least
    };
    let with = |ticks: i128, work: &mut Work| {
        let period = compose::narrow(ticks * tick).ok()?;
        let deadline = if own_deadline {
            interface.deadline
        } else {
            period
        };
        let changed = ResourceInterface {
            period,
            deadline,
            ..*interface
        };
        let supply = compose::upon(&changed, &refused.workload).ok()?;
        compose::are_kept(&refused.workload, &supply, work).then_some(period)
    };
    let (mut low, mut high) = (
        (least + tick - 1) / tick,
        compose::wide(interface.period) / tick,
    );
    let mut found = with(low, work)?;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match with(middle, work) {
            Some(period) => (low, found) = (middle, period),
            None => high = middle,
        }
    }
    Some(found)
}

/// Whether all deadlines would be kept after `change` of the member's load.
fn with_load(
    refused: &ComponentRefusal,
    member: Member,
    change: impl Fn(&mut Load),
    work: &mut Work,
) -> bool {
    let mut workload = refused.workload.clone();
    let own = workload.loads.iter_mut().find(|load| load.member == member);
    if let Some(load) = own {
        change(load);
    }
    load::rank(&mut workload.loads, workload.policy);
    compose::are_kept(&workload, &refused.upon, work)
}

fn load_of(refused: &ComponentRefusal, member: Member) -> Option<&Load> {
    refused
        .workload
        .loads
        .iter()
        .find(|load| load.member == member)
}

/// The longest execution time of the member, at most `now`, with which all deadlines would be kept.
/// The cost of switching to the member comes on top.
fn less_execution(
    refused: &ComponentRefusal,
    member: Member,
    now: Nanos,
    work: &mut Work,
) -> Option<Nanos> {
    let with_cost = load_of(refused, member)?.execution;
    let cost = with_cost - compose::wide(now);
    let (mut low, mut high) = (cost, with_cost);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if with_load(refused, member, |load| load.execution = middle, work) {
            low = middle
        } else {
            high = middle
        }
    }
    (low > cost).then(|| compose::narrow(low - cost).ok())?
}

/// The shortest period of the member with which all deadlines would be kept, up to 64 times its own
/// period or the longest period of a model. A deadline that is the period grows with it.
fn longer_period(refused: &ComponentRefusal, member: Member, work: &mut Work) -> Option<Nanos> {
    let own = load_of(refused, member)?;
    let implicit = own.deadline == own.period;
    let with = |period: i128, work: &mut Work| {
        let change = |load: &mut Load| {
            load.period = period;
            load.deadline = if implicit { period } else { load.deadline };
        };
        with_load(refused, member, change, work)
    };
    let most = compose::wide(Nanos::MAX);
    let (mut low, mut high) = (own.period, most.min(own.period * 64));
    if !with(high, work) {
        return None;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if with(middle, work) {
            high = middle
        } else {
            low = middle
        }
    }
    compose::narrow(high).ok()
}

#[cfg(test)]
mod tests;
