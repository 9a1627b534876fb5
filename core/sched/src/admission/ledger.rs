//! The components that a core has admitted, and the tasks in them.

use super::{
    Demand, Least, Plan, Refusal, Set, Window, Work, checked, holds_alone, least_budget, upon,
};
use crate::{Interface, Kind, Order};

/// An admitted component.
#[derive(Clone, Debug)]
struct Component<const T: usize> {
    plan: Plan,
    order: Order,
    kind: Kind,
    priority: u64,
    tasks: [Demand; T],
}

/// A change of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The component is added without tasks, or the way in which it is served changes; its tasks
    /// stay.
    Component {
        /// The component's period and deadline. Its budget follows from its tasks.
        plan: Plan,
        /// The order in which the component chooses among its tasks.
        order: Order,
        /// The kind of its server.
        kind: Kind,
        /// The component's priority on the core, which is used only with fixed priorities.
        priority: u64,
    },
    /// A task of the component is added or changes.
    Task {
        /// The task's index in the component.
        place: usize,
        /// The task's demand.
        demand: Demand,
    },
    /// A task of the component is removed.
    NoTask {
        /// The task's index in the component.
        place: usize,
    },
}

/// What a component has after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The component's least interface; `None` if it has no tasks.
    pub interface: Option<Interface>,
    /// Whether the budget is the least one, to the tick ([`Least::exact`]).
    pub exact: bool,
}

/// The admitted components of one core: up to `C` components with up to `T` tasks each.
#[derive(Clone, Debug)]
pub struct Ledger<const C: usize, const T: usize> {
    order: Order,
    components: [Option<Component<T>>; C],
    /// The demand of each component, as the core sees it.
    demands: [Demand; C],
}

impl<const C: usize, const T: usize> Ledger<C, T> {
    /// A core that has admitted nothing, and chooses among its components by `order`.
    pub const fn new(order: Order) -> Self {
        Self {
            order,
            components: [const { None }; C],
            demands: [Demand::NONE; C],
        }
    }

    /// What `component` would have after `change`. Nothing changes.
    pub fn check(
        &self,
        component: usize,
        change: Change,
        work: &mut Work,
    ) -> Result<Admitted, Refusal> {
        self.consider(component, change, work)
            .map(|(admitted, _)| admitted)
    }

    /// Makes `change` to `component` if every deadline of every component is kept after it; else
    /// nothing changes.
    pub fn admit(
        &mut self,
        component: usize,
        change: Change,
        work: &mut Work,
    ) -> Result<Admitted, Refusal> {
        let (admitted, demand) = self.consider(component, change, work)?;
        let slot = self.components.get_mut(component);
        let slot = slot.ok_or(Refusal::NoPlace)?;
        match (change, slot) {
            (
                Change::Component {
                    plan,
                    order,
                    kind,
                    priority,
                },
                slot,
            ) => {
                let tasks = slot.as_ref().map_or([Demand::NONE; T], |old| old.tasks);
                *slot = Some(Component {
                    plan,
                    order,
                    kind,
                    priority,
                    tasks,
                });
            }
            (Change::Task { place, demand }, Some(slot)) => put(&mut slot.tasks, place, demand),
            (Change::NoTask { place }, Some(slot)) => put(&mut slot.tasks, place, Demand::NONE),
            (_, None) => return Err(Refusal::NothingThere),
        }
        put(&mut self.demands, component, demand);
        Ok(admitted)
    }

    /// Removes a component with all its tasks.
    pub fn remove(&mut self, component: usize) {
        if let Some(slot) = self.components.get_mut(component) {
            *slot = None;
            put(&mut self.demands, component, Demand::NONE);
        }
    }

    /// The interface of `component`, if it is admitted and has tasks.
    pub fn interface(&self, component: usize) -> Option<Interface> {
        let demand = self.demands.get(component)?;
        let window = self.components.get(component)?.as_ref()?.plan.window;
        let (period, budget) = (demand.period(), demand.execution());
        let plan = Plan { period, window };
        plan.interface(budget).ok()
    }

    fn consider(
        &self,
        component: usize,
        change: Change,
        work: &mut Work,
    ) -> Result<(Admitted, Demand), Refusal> {
        let slot = self.components.get(component).ok_or(Refusal::NoPlace)?;
        let there = slot.as_ref();
        let here = || there.ok_or(Refusal::NothingThere);
        let set = |tasks| Set::new(tasks);
        let (plan, order, kind, priority, set) = match change {
            Change::Component {
                plan,
                order,
                kind,
                priority,
            } => {
                let tasks = there.map_or(&[][..], |component| &component.tasks);
                (plan, order, kind, priority, set(tasks))
            }
            Change::Task { place, demand } => {
                let old = here()?;
                old.tasks.get(place).ok_or(Refusal::NoPlace)?;
                let set = set(&old.tasks).with(place, demand);
                (old.plan, old.order, old.kind, old.priority, set)
            }
            Change::NoTask { place } => {
                let old = here()?;
                old.tasks.get(place).ok_or(Refusal::NoPlace)?;
                let set = set(&old.tasks).without(place);
                (old.plan, old.order, old.kind, old.priority, set)
            }
        };
        checked(plan)?;
        if set.iter().next().is_none() {
            let nothing = Admitted {
                interface: None,
                exact: true,
            };
            return Ok((nothing, Demand::NONE));
        }
        kept(self.order, kind)?;
        let Least { budget, exact } = least_budget(&set, order, plan, work)?;
        let budget = match kind {
            Kind::Polling => polled(&set, order, plan, budget, work)?,
            _ => budget,
        };
        let interface = plan.interface(budget)?;
        kind.suits(interface)?;
        let demand = self.demand(interface, kind, priority)?;
        let all = Set::new(&self.demands).with(component, demand);
        holds_alone(&all, self.order, work)?;
        let others = self
            .components
            .iter()
            .enumerate()
            .filter_map(|(index, other)| {
                let other = other.as_ref().filter(|_| index != component)?;
                Some(other.kind)
            });
        let moves = others.chain([kind]).any(Kind::begins_inside);
        if self.order == Order::EarliestDeadline && moves && !all.is_within_density() {
            return Err(Refusal::Density);
        }
        let interface = Some(interface);
        Ok((Admitted { interface, exact }, demand))
    }

    /// The component's demand, as the core sees it.
    fn demand(&self, interface: Interface, kind: Kind, priority: u64) -> Result<Demand, Refusal> {
        served(self.order, interface, kind, priority, 0)
    }
}

/// The demand of a server, as those beside it see it who are chosen among by `order`, where the switch to it and the one
/// back take `cost` ticks. A periodic or polling server costs them once in each period, beyond its budget.
///
/// One that may begin inside its period has paid them from its budget each time, so that it costs nothing beyond it. But
/// under fixed priorities the last switch, half of the cost, may come after the end of the period that it was paid in: the
/// budget may be used that much later.
pub(super) fn served(
    order: Order,
    interface: Interface,
    kind: Kind,
    priority: u64,
    cost: u64,
) -> Result<Demand, Refusal> {
    let (period, budget) = (interface.period(), interface.budget());
    let mut all = budget;
    if !kind.begins_inside() {
        all = budget.saturating_add(cost);
    } else if budget <= cost {
        return Err(Refusal::Prepaid);
    }
    let demand = Demand::new(period, all, interface.deadline(), 0, priority)?;
    Ok(match (order, kind) {
        (Order::Priority, Kind::Deferrable) => {
            demand.back_to_back(period - budget + cost.div_ceil(2))
        }
        _ => demand,
    })
}

/// Whether a component of `kind`, on a core that chooses by `order`, gives its tasks the supply of
/// its interface and asks for no more than what the other components' admission assumes.
pub(super) fn kept(order: Order, kind: Kind) -> Result<(), Refusal> {
    match kind {
        Kind::SoftBandwidth => Err(Refusal::Soft),
        Kind::Task => Err(Refusal::Unbounded),
        _ if order == Order::Priority && kind.moves_deadline() => Err(Refusal::Moving),
        _ => Ok(()),
    }
}

/// The least budget, from `budget` on, with which the tasks of a polling server keep their
/// deadlines: such a server has lost the rest of the period in which a task arrives.
fn polled(
    set: &Set<'_>,
    order: Order,
    plan: Plan,
    budget: u64,
    work: &mut Work,
) -> Result<u64, Refusal> {
    plan.search(budget, |budget| {
        match upon(set, order, &plan.supply(budget).polled(), work) {
            Ok(()) => Ok(true),
            Err(Refusal::Late(_) | Refusal::Overload) => Ok(false),
            Err(other) => Err(other),
        }
    })
}

fn put(table: &mut [Demand], place: usize, demand: Demand) {
    if let Some(slot) = table.get_mut(place) {
        *slot = demand;
    }
}

/// With this, a given interface can be used as a plan, without a window of its own.
impl From<Interface> for Plan {
    fn from(interface: Interface) -> Self {
        let window = if interface.is_implicit() {
            Window::Period
        } else {
            Window::Deadline(interface.deadline())
        };
        Self {
            period: interface.period(),
            window,
        }
    }
}
