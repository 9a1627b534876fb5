//! The model as a whole, and ways through it.

use crate::{Component, Nanos, Pool, SwitchCost, Task};
use alloc::vec::Vec;

/// The largest number of pools, of components and of tasks in a model.
pub const MAX_MEMBERS: usize = 1 << 16;

/// A pool: its index in [`Model::pools`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(transparent)
)]
pub struct PoolId(pub u32);

/// A component: its index in [`Model::components`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(transparent)
)]
pub struct ComponentId(pub u32);

/// A task: its index in [`Model::tasks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(transparent)
)]
pub struct TaskId(pub u32);

/// Where a component gets its CPU time from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Home {
    /// A pool: the cores themselves.
    Pool(PoolId),
    /// Another component, which is a group.
    Component(ComponentId),
}

/// A member of a component, which the component schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Member {
    /// A task of its own.
    Task(TaskId),
    /// A component inside it.
    Component(ComponentId),
}

/// A model: everything that needs CPU time, and the cores that give it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Model {
    /// The timer's resolution. Periods, budgets and deadlines of interfaces are whole multiples of
    /// it.
    pub tick: Nanos,
    /// The cost of a switch from one component to another.
    pub cost: SwitchCost,
    /// The pools of cores.
    pub pools: Vec<Pool>,
    /// VMs and groups.
    pub components: Vec<Component>,
    /// The tasks of all components.
    pub tasks: Vec<Task>,
}

impl Model {
    /// A model without components, with free switches.
    pub fn new(tick: Nanos, pools: Vec<Pool>) -> Self {
        Self {
            tick,
            cost: SwitchCost::default(),
            pools,
            components: Vec::new(),
            tasks: Vec::new(),
        }
    }

    /// Adds a component, and returns its id.
    pub fn add(&mut self, component: Component) -> ComponentId {
        self.components.push(component);
        ComponentId(self.components.len().saturating_sub(1) as u32)
    }

    /// Adds a task, and returns its id.
    pub fn add_task(&mut self, task: Task) -> TaskId {
        self.tasks.push(task);
        TaskId(self.tasks.len().saturating_sub(1) as u32)
    }

    /// The pool with this id, if it exists.
    pub fn pool(&self, id: PoolId) -> Option<&Pool> {
        self.pools.get(id.0 as usize)
    }

    /// The component with this id, if it exists.
    pub fn component(&self, id: ComponentId) -> Option<&Component> {
        self.components.get(id.0 as usize)
    }

    /// The task with this id, if it exists.
    pub fn task(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(id.0 as usize)
    }

    /// The component called `name`.
    pub fn find(&self, name: &str) -> Option<ComponentId> {
        let found = self.ids().find(|(_, component)| component.name == name);
        found.map(|(id, _)| id)
    }

    /// Every component with its id.
    pub fn ids(&self) -> impl Iterator<Item = (ComponentId, &Component)> {
        (0..).map(ComponentId).zip(&self.components)
    }

    /// The members that each component schedules, in the order of [`Self::components`]: its tasks
    /// in the order of the model, then the components inside it. This order breaks ties between
    /// equal priorities: the earlier member goes first. One pass over the model finds all of them.
    pub fn members(&self) -> Vec<Vec<Member>> {
        let mut all: Vec<Vec<Member>> = Vec::new();
        all.resize_with(self.components.len(), Vec::new);
        for (id, task) in (0..).map(TaskId).zip(&self.tasks) {
            if let Some(members) = all.get_mut(task.component.0 as usize) {
                members.push(Member::Task(id));
            }
        }
        for (id, component) in self.ids() {
            if let Home::Component(home) = component.home
                && let Some(members) = all.get_mut(home.0 as usize)
            {
                members.push(Member::Component(id));
            }
        }
        all
    }

    /// The components that the pool `id` itself schedules, in the order of the model.
    pub fn roots(&self, id: PoolId) -> impl Iterator<Item = ComponentId> {
        let of_pool = move |component: &Component| component.home == Home::Pool(id);
        self.ids()
            .filter(move |(_, component)| of_pool(component))
            .map(|(id, _)| id)
    }

    /// Every component, each after the components inside it. A component whose chain of homes never
    /// reaches a pool is left out.
    pub fn bottom_up(&self) -> Vec<ComponentId> {
        let members = self.members();
        let roots = self.ids().filter(|(_, c)| matches!(c.home, Home::Pool(_)));
        let mut order: Vec<ComponentId> = roots.map(|(id, _)| id).collect();
        let mut next = 0;
        while let Some(id) = order.get(next).copied() {
            let inside = members.get(id.0 as usize).into_iter().flatten();
            order.extend(inside.filter_map(|member| match member {
                Member::Component(inner) => Some(*inner),
                Member::Task(_) => None,
            }));
            next += 1;
        }
        order.reverse();
        order
    }
}
