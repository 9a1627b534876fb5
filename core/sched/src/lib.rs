//! Policies, which decide which vCPU a pCPU runs, behind one interface.
//!
//! A policy chooses among entities: the vCPUs of one pCPU or of several pCPUs, the components that
//! share one, or the tasks of a component. It is told a few events (an entity has work, has none,
//! yields, time has passed), and it answers one question: which entity runs now, and how long does
//! that answer hold? Time is in ticks of the system counter. A policy never reads a clock, so that
//! the board and a simulator on the PC run the same code.
//!
//! Every policy keeps these rules: [`Policy::pick`] names only an entity that was woken and not
//! blocked since; the answer holds until [`Decision::until`] or the next event, whichever comes
//! first; and every call takes a bounded number of steps.
//!
//! | policy | how it chooses |
//! |---|---|
//! | [`RoundRobin`] | entities in turn, without a promise |
//! | [`Servers`] | the entity with the earliest deadline or highest priority among those with
//! budget |
//! | [`Credit`] | by weight, up to a cap, as Xen's former default |
//! | [`Tree`] | from servers and groups of servers, to any depth |
//! | [`Budgets`] | from a tree, and by weight from those without a promise what is left |
//! | [`Global`], [`Partitioned`] | for several pCPUs: from one queue, or each from its own |
//!
//! No policy has a lock. The policy of a pCPU is used by that pCPU alone ([`Partitioned`] too), and
//! the owner of a pool sees to it that one pCPU at a time calls it.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod admission;
mod arith;
mod asking;
mod budgets;
mod credit;
mod entity;
mod interface;
pub mod mode;
mod pool;
#[cfg(test)]
mod recording;
mod round_robin;
mod servers;
mod tournament;
mod tree;

pub use asking::{Answer, Asker};
pub use budgets::{Budgets, Grant};
pub use credit::{Credit, Deals, Share};
pub use entity::{Entity, EntitySet, MAX_ENTITIES};
pub use interface::{Interface, InterfaceError};
pub use pool::{Global, NoSuchCore, Partitioned, Pool};
pub use round_robin::RoundRobin;
pub use servers::{ChangeStatus, Kind, Order, Replenished, Reservation, Servers, Slack};
pub use tournament::Tournament;
pub use tree::{MAX_GROUPS, Node, PlaceError, Tree};

/// The answer of a policy: the entity that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<const N: usize = MAX_ENTITIES> {
    /// The entity that runs; `None` if no entity has work, or none of those may run.
    pub run: Option<Entity<N>>,
    /// The instant at which the policy must be asked again at the latest, in counter ticks; `None`
    /// means not before an event.
    pub until: Option<u64>,
}

/// A policy of one pCPU. The times of its calls never go back.
pub trait Policy<const N: usize = MAX_ENTITIES> {
    /// `entity` has work from `now` on. This has no effect if it had work already.
    fn wake(&mut self, entity: Entity<N>, now: u64);

    /// `entity` has no work any more: it waits, is off, or is paused.
    fn block(&mut self, entity: Entity<N>, now: u64);

    /// `entity` gives up the rest of its turn, and still has work.
    fn yield_now(&mut self, entity: Entity<N>, now: u64);

    /// Chooses the entity that runs from `now` on.
    fn pick(&mut self, now: u64) -> Decision<N>;

    /// Whether the CPU stays idle after a [`Self::pick`] that named no entity, because an entity
    /// without work spends its budget. Otherwise another policy may use the CPU.
    fn spends(&self) -> bool {
        false
    }

    /// The entity at whose expense the CPU is used from the last [`Self::pick`] on: the one that
    /// runs, or one that has a budget and no work, and spends it idle or on another entity. `None`:
    /// at nobody's expense, or at that of an entity of another policy. If a component is charged
    /// without work, the budgets inside it are spent, too.
    fn charged(&self) -> Option<Entity<N>> {
        None
    }

    /// The time since the last call was the switch to the entity that the last [`Self::pick`]
    /// named: nobody is charged for it. Admission has counted that time already, in what a
    /// component costs its core beyond its budget.
    fn exempt_switch(&mut self, _now: u64) {}

    /// None of these entities runs from `now` until the next [`Self::pick`]: the CPU does something
    /// else, and nobody is charged for it.
    fn suspend(&mut self, _now: u64) {}
}
