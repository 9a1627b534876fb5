//! Round robin with a time slice.
//!
//! Entities with work run in turn, each for at most a slice. An entity that is alone runs on
//! without a timer. The time that it used alone counts when another one wakes: if its slice is over
//! by then, its turn ends at once. Nothing is promised but a turn after every other entity's slice;
//! promises are for real-time policies.

use crate::{Decision, Entity, EntitySet, Policy};

/// The policy that runs the vCPUs of one pCPU in turn.
#[derive(Clone, Copy, Debug)]
pub struct RoundRobin {
    ready: EntitySet,
    /// The entity that has the turn, or had it last.
    current: Entity,
    /// The instant at which that turn is over.
    end: u64,
    slice: u64,
}

impl RoundRobin {
    /// A policy without entities that have work. Turns last `slice` counter ticks (zero counts as
    /// one).
    pub fn new(slice: u64) -> Self {
        Self {
            ready: EntitySet::EMPTY,
            current: Entity::LAST,
            end: 0,
            slice: slice.max(1),
        }
    }

    /// Whether `entity` has work and no other has.
    pub fn has_only(&self, entity: Entity) -> bool {
        self.ready == EntitySet::from_bits(1 << entity.index())
    }

    /// The turn of `entity`, which has work, begins at `now`.
    #[inline]
    pub fn begin_turn(&mut self, entity: Entity, now: u64) {
        self.current = entity;
        self.end = now.saturating_add(self.slice);
    }
}

impl Policy for RoundRobin {
    fn wake(&mut self, entity: Entity, _now: u64) {
        self.ready.insert(entity);
    }

    fn block(&mut self, entity: Entity, now: u64) {
        self.ready.remove(entity);
        if entity == self.current {
            self.end = now;
        }
    }

    fn yield_now(&mut self, entity: Entity, now: u64) {
        if entity == self.current {
            self.end = now;
        }
    }

    fn pick(&mut self, now: u64) -> Decision {
        let over = now >= self.end || !self.ready.contains(self.current);
        if over && let Some(next) = self.ready.after(self.current) {
            self.begin_turn(next, now);
        }
        let run = self.ready.contains(self.current).then_some(self.current);
        let until = (self.ready.len() > 1).then_some(self.end);
        Decision { run, until }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const A: Entity = Entity::FIRST;

    fn entity(index: usize) -> Entity {
        Entity::new(index).unwrap()
    }

    #[test]
    fn two_take_turns() {
        let mut policy = RoundRobin::new(10);
        policy.wake(entity(1), 0);
        policy.wake(entity(4), 0);
        let first = policy.pick(0);
        assert_eq!((first.run, first.until), (Some(entity(1)), Some(10)));
        assert_eq!(policy.pick(9).run, Some(entity(1)));
        let second = policy.pick(10);
        assert_eq!((second.run, second.until), (Some(entity(4)), Some(20)));
        policy.yield_now(entity(4), 12);
        assert_eq!(policy.pick(12).run, Some(entity(1)));
        policy.block(entity(1), 13);
        let alone = policy.pick(13);
        assert_eq!((alone.run, alone.until), (Some(entity(4)), None));
    }

    #[test]
    fn time_alone_counts_when_another_comes() {
        let mut policy = RoundRobin::new(10);
        policy.wake(A, 0);
        assert_eq!(policy.pick(0).run, Some(A));
        policy.wake(entity(1), 50);
        assert_eq!(policy.pick(50).run, Some(entity(1)));
        assert_eq!(policy.pick(60).run, Some(A));
    }

    #[test]
    fn an_entity_that_blocks_and_wakes_waits_for_its_turn_again() {
        let mut policy = RoundRobin::new(10);
        policy.wake(A, 0);
        policy.wake(entity(1), 0);
        assert_eq!(policy.pick(0).run, Some(A));
        policy.block(A, 2);
        policy.wake(A, 3);
        assert_eq!(policy.pick(3).run, Some(entity(1)));
    }

    #[test]
    fn without_work_nobody_runs() {
        let mut policy = RoundRobin::new(10);
        let nobody = Decision {
            run: None,
            until: None,
        };
        assert_eq!(policy.pick(0), nobody);
        policy.wake(A, 1);
        policy.block(A, 2);
        assert_eq!(policy.pick(2), nobody);
        // There are no budgets, so none is spent without work, and nobody is charged.
        assert!(!policy.spends());
        assert_eq!(policy.charged(), None);
    }

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Wake(usize),
        Block(usize),
        GiveWay(usize),
        Pass(u64),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            (0..6usize).prop_map(Event::Wake),
            (0..6usize).prop_map(Event::Block),
            (0..6usize).prop_map(Event::GiveWay),
            (0..15u64).prop_map(Event::Pass),
        ]
    }

    proptest! {
        /// Against a model that keeps times: the entity that runs is ready, the pCPU is never idle
        /// while one is ready, and none that stays ready waits for more than every other one's
        /// slice.
        #[test]
        fn every_entity_gets_its_turn(events in proptest::collection::vec(event(), 1..200)) {
            const SLICE: u64 = 10;
            let mut policy = RoundRobin::new(SLICE);
            let (mut now, mut ready, mut ran): (u64, [bool; 6], [u64; 6]) = (0, [false; 6], [0; 6]);
            for event in events {
                let mut pass = 0;
                match event {
                    Event::Wake(n) => {
                        if !ready[n] { ran[n] = now; }
                        ready[n] = true;
                        policy.wake(entity(n), now);
                    }
                    Event::Block(n) => { ready[n] = false; policy.block(entity(n), now); }
                    Event::GiveWay(n) => policy.yield_now(entity(n), now),
                    Event::Pass(time) => pass = time,
                }
                let until = now + pass;
                loop {
                    let decision = policy.pick(now);
                    let some: Vec<_> = (0..6).filter(|n| ready[*n]).collect();
                    prop_assert_eq!(decision.run.is_some(), !some.is_empty());
                    prop_assert_eq!(decision.until.is_some(), some.len() > 1);
                    if let Some(run) = decision.run {
                        prop_assert!(ready[run.index()]);
                        ran[run.index()] = now;
                    }
                    for n in some {
                        prop_assert!(now - ran[n] <= 5 * SLICE, "{} waits since {}", n, ran[n]);
                    }
                    let next = decision.until.map_or(until, |at| at.min(until));
                    if let Some(run) = decision.run { ran[run.index()] = next; }
                    if next <= now && now == until { break; }
                    now = next;
                    if now == until { break; }
                }
            }
        }
    }
}
