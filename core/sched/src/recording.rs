//! For tests: a policy that records its calls, and gives the answers that the test sets.

use crate::{Decision, Entity, Policy};
use std::vec::Vec;

/// A call of a policy: the entity and the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolicyCall {
    Wake(usize, u64),
    Block(usize, u64),
    Yield(usize, u64),
    Pick(u64),
    ExemptSwitch(u64),
    Suspend(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct RecordingPolicy<const N: usize> {
    pub calls: Vec<PolicyCall>,
    pub decision: Decision<N>,
    pub spends: bool,
    pub charged: Option<Entity<N>>,
}

impl<const N: usize> RecordingPolicy<N> {
    /// A policy that lets no entity run.
    pub fn new() -> Self {
        Self {
            calls: Vec::new(),
            decision: Decision {
                run: None,
                until: None,
            },
            spends: false,
            charged: None,
        }
    }

    /// The calls since the last question.
    pub fn take_calls(&mut self) -> Vec<PolicyCall> {
        core::mem::take(&mut self.calls)
    }
}

impl<const N: usize> Policy<N> for RecordingPolicy<N> {
    fn wake(&mut self, entity: Entity<N>, now: u64) {
        self.calls.push(PolicyCall::Wake(entity.index(), now));
    }

    fn block(&mut self, entity: Entity<N>, now: u64) {
        self.calls.push(PolicyCall::Block(entity.index(), now));
    }

    fn yield_now(&mut self, entity: Entity<N>, now: u64) {
        self.calls.push(PolicyCall::Yield(entity.index(), now));
    }

    fn pick(&mut self, now: u64) -> Decision<N> {
        self.calls.push(PolicyCall::Pick(now));
        self.decision
    }

    fn spends(&self) -> bool {
        self.spends
    }

    fn charged(&self) -> Option<Entity<N>> {
        self.charged
    }

    fn exempt_switch(&mut self, now: u64) {
        self.calls.push(PolicyCall::ExemptSwitch(now));
    }

    fn suspend(&mut self, now: u64) {
        self.calls.push(PolicyCall::Suspend(now));
    }
}
