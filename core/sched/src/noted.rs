//! For tests: a policy that notes what it is told, and answers what it was told to.

use crate::{Decision, Entity, Policy};
use std::vec::Vec;

/// What a policy is told, of whom and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Wake(usize, u64),
    Block(usize, u64),
    GiveWay(usize, u64),
    Pick(u64),
    Excuse(u64),
    Suspend(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Noted<const N: usize> {
    pub told: Vec<Told>,
    pub decision: Decision<N>,
    pub spends: bool,
    pub charged: Option<Entity<N>>,
}

impl<const N: usize> Noted<N> {
    /// Lets nobody run.
    pub fn new() -> Self {
        Self {
            told: Vec::new(),
            decision: Decision {
                run: None,
                until: None,
            },
            spends: false,
            charged: None,
        }
    }

    /// Lets `index` run, at its expense.
    pub fn let_run(&mut self, index: usize) {
        self.decision.run = Entity::new(index);
        self.charged = Entity::new(index);
    }

    /// What it has been told since it was asked last.
    pub fn heard(&mut self) -> Vec<Told> {
        core::mem::take(&mut self.told)
    }
}

impl<const N: usize> Policy<N> for Noted<N> {
    fn wake(&mut self, entity: Entity<N>, now: u64) {
        self.told.push(Told::Wake(entity.index(), now));
    }

    fn block(&mut self, entity: Entity<N>, now: u64) {
        self.told.push(Told::Block(entity.index(), now));
    }

    fn yield_now(&mut self, entity: Entity<N>, now: u64) {
        self.told.push(Told::GiveWay(entity.index(), now));
    }

    fn pick(&mut self, now: u64) -> Decision<N> {
        self.told.push(Told::Pick(now));
        self.decision
    }

    fn spends(&self) -> bool {
        self.spends
    }

    fn charged(&self) -> Option<Entity<N>> {
        self.charged
    }

    fn excuse(&mut self, now: u64) {
        self.told.push(Told::Excuse(now));
    }

    fn suspend(&mut self, now: u64) {
        self.told.push(Told::Suspend(now));
    }
}
