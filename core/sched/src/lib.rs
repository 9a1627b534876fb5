//! Which vCPU a pCPU runs: policies behind one interface.
//!
//! Scheduling is partitioned: a vCPU belongs to one pCPU, which alone decides about it, on
//! its own data, without a lock. What reaches a policy are four events (a vCPU has work, has
//! none, gives way, time has passed) and one question: who runs now, and until when does
//! that hold. Time is the system counter's, in ticks; a policy never reads a clock, so that
//! the board and a simulator on the PC run the same code.
//!
//! A policy keeps this true: [`Policy::pick`] names only an entity that was woken and not
//! blocked since; the answer holds until [`Decision::until`] or the next event, whichever
//! comes first; and every call takes a bounded number of steps.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod entity;
mod round_robin;

pub use entity::{Entity, EntitySet, MAX_ENTITIES};
pub use round_robin::RoundRobin;

/// Who runs from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whose turn it is; `None` where nobody has work.
    pub run: Option<Entity>,
    /// When to ask again at the latest, in counter ticks; `None`: not before an event.
    pub until: Option<u64>,
}

/// How one pCPU chooses among its vCPUs. Calls carry times that never go back.
pub trait Policy {
    /// `entity` has work from `now` on. Without effect where it had some already.
    fn wake(&mut self, entity: Entity, now: u64);

    /// `entity` has no work any more: it waits, is off, or is paused.
    fn block(&mut self, entity: Entity, now: u64);

    /// `entity` gives up the rest of its turn, and still has work.
    fn give_way(&mut self, entity: Entity, now: u64);

    /// Who runs from `now` on.
    fn pick(&mut self, now: u64) -> Decision;
}
