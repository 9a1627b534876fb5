//! Which vCPU a pCPU runs: policies behind one interface.
//!
//! A policy chooses among entities: the vCPUs of one pCPU, of a pool of them, the components
//! that share one, or the tasks of a component. What reaches it are a few events (an entity has
//! work, has none, gives way, time has passed) and one question: who runs now, and until when
//! does that hold. Time is the system counter's, in ticks; a policy never reads a clock, so
//! that the board and a simulator on the PC run the same code.
//!
//! A policy keeps this true: [`Policy::pick`] names only an entity that was woken and not
//! blocked since; the answer holds until [`Decision::until`] or the next event, whichever
//! comes first; and every call takes a bounded number of steps.
//!
//! | policy | chooses |
//! |---|---|
//! | [`RoundRobin`] | in turn, without a promise |
//! | [`Servers`] | by deadline or priority, among those with budget |
//! | [`Credit`] | by weight, up to a cap, as Xen's default did |
//! | [`Hierarchy`] | a component, and in it one of its own |
//! | [`Global`], [`Partitioned`] | for several pCPUs: from one queue, or each from its own |
//!
//! No policy locks anything: a pCPU's own is its own ([`Partitioned`] even so), and a pool's
//! is called by one pCPU at a time, which its owner sees to.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod admission;
mod arith;
mod credit;
mod entity;
mod hierarchy;
mod interface;
pub mod mode;
#[cfg(test)]
mod noted;
mod pool;
mod round_robin;
mod servers;
mod tournament;

pub use credit::{Credit, Share};
pub use entity::{Entity, EntitySet, MAX_ENTITIES};
pub use hierarchy::Hierarchy;
pub use interface::{Interface, InterfaceError};
pub use pool::{Global, Partitioned, Pool};
pub use round_robin::RoundRobin;
pub use servers::{Kind, Order, Reservation, Servers, Slack};
pub use tournament::Tournament;

/// Who runs from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<const N: usize = MAX_ENTITIES> {
    /// Whose turn it is; `None` where nobody has work, or nobody who has may run.
    pub run: Option<Entity<N>>,
    /// When to ask again at the latest, in counter ticks; `None`: not before an event.
    pub until: Option<u64>,
}

/// How one pCPU chooses among its vCPUs. Calls carry times that never go back.
pub trait Policy<const N: usize = MAX_ENTITIES> {
    /// `entity` has work from `now` on. Without effect where it had some already.
    fn wake(&mut self, entity: Entity<N>, now: u64);

    /// `entity` has no work any more: it waits, is off, or is paused.
    fn block(&mut self, entity: Entity<N>, now: u64);

    /// `entity` gives up the rest of its turn, and still has work.
    fn yield_now(&mut self, entity: Entity<N>, now: u64);

    /// Who runs from `now` on.
    fn pick(&mut self, now: u64) -> Decision<N>;

    /// Whether the last [`Self::pick`], which named nobody, keeps the CPU nevertheless: it is
    /// spent on nothing, at the expense of one of these. Otherwise somebody else may have it.
    fn spends(&self) -> bool {
        false
    }

    /// At whose expense the CPU is from the last [`Self::pick`] on: who runs, or who has a budget
    /// and no work, and spends it on nothing or on somebody else. `None`: at nobody's, or nobody's
    /// of these. A component that is charged without work spends the budgets inside it, too.
    fn charged(&self) -> Option<Entity<N>> {
        None
    }

    /// What passed since the last call went into switching to the one that the last
    /// [`Self::pick`] named, and is at nobody's expense. Admission has reckoned with that time:
    /// it is the switch's that a component costs its home beyond its budget.
    fn excuse(&mut self, _now: u64) {}

    /// Nobody of these runs from `now` on, until the next [`Self::pick`]: the CPU does
    /// something else, which is at nobody's expense.
    fn suspend(&mut self, _now: u64) {}
}
