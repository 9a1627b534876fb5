//! Policies for several pCPUs: each with its own, or all with one queue.

use crate::servers::{Bank, Queue, Rules};
use crate::tournament::Tournament;
use crate::{Decision, Entity, InterfaceError, Order, Policy, Replenished, Reservation, Slack};

/// A policy for the pCPUs of a pool. One call is made at a time, and the times of calls never go
/// back.
///
/// After each event and each [`Self::pick`], [`Self::kick`] names a pCPU that should choose again
/// at once, if there is one.
pub trait Pool<const N: usize> {
    /// `entity` has work from `now` on.
    fn wake(&mut self, entity: Entity<N>, now: u64);

    /// `entity` has no work any more.
    fn block(&mut self, entity: Entity<N>, now: u64);

    /// `entity` gives up the rest of its turn.
    fn yield_now(&mut self, entity: Entity<N>, now: u64);

    /// Chooses the entity that runs on `core` from `now` on. None runs if there is no such core.
    fn pick(&mut self, core: usize, now: u64) -> Decision<N>;

    /// Whether `core`, on which the last [`Self::pick`] let no entity run, stays idle because an
    /// entity without work spends its budget ([`Policy::spends`]).
    fn spends(&self, core: usize) -> bool;

    /// The entity at whose expense `core` is used ([`Policy::charged`]).
    fn charged(&self, core: usize) -> Option<Entity<N>>;

    /// The time since the last call on `core` was a switch ([`Policy::exempt_switch`]).
    fn exempt_switch(&mut self, core: usize, now: u64);

    /// Nobody runs on `core` from `now` on.
    fn suspend(&mut self, core: usize, now: u64);

    /// A core whose last answer does not hold any more, or holds for a shorter time than was said.
    fn kick(&self) -> Option<usize>;
}

/// The pool has no core with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such core")]
pub struct NoSuchCore;

/// Each entity stays on one core, and each core has its own policy.
#[derive(Clone, Debug)]
pub struct Partitioned<P, const N: usize, const C: usize> {
    cores: [P; C],
    homes: [u16; N],
    /// The cores whose answers an event may have changed, one bit each.
    stale: u64,
}

impl<P: Policy<N>, const N: usize, const C: usize> Partitioned<P, N, C> {
    /// All entities are on the first core at first.
    pub fn new(cores: [P; C]) -> Self {
        const { assert!(C >= 1 && C <= 64) };
        Self {
            cores,
            homes: [0; N],
            stale: 0,
        }
    }

    /// Moves `entity`, which has no work, to `core`.
    pub fn place(&mut self, entity: Entity<N>, core: usize) -> Result<(), NoSuchCore> {
        match self.homes.get_mut(entity.index()) {
            Some(home) if core < C => {
                *home = core as u16;
                Ok(())
            }
            _ => Err(NoSuchCore),
        }
    }

    /// The policy of a core.
    pub fn core(&mut self, core: usize) -> Option<&mut P> {
        self.cores.get_mut(core)
    }

    /// The policy of `entity`'s core, which has to be asked again.
    fn home(&mut self, entity: Entity<N>) -> Option<&mut P> {
        let home = usize::from(*self.homes.get(entity.index())?);
        self.stale |= 1 << (home % 64);
        self.cores.get_mut(home)
    }
}

impl<P: Policy<N>, const N: usize, const C: usize> Pool<N> for Partitioned<P, N, C> {
    fn wake(&mut self, entity: Entity<N>, now: u64) {
        if let Some(core) = self.home(entity) {
            core.wake(entity, now);
        }
    }

    fn block(&mut self, entity: Entity<N>, now: u64) {
        if let Some(core) = self.home(entity) {
            core.block(entity, now);
        }
    }

    fn yield_now(&mut self, entity: Entity<N>, now: u64) {
        if let Some(core) = self.home(entity) {
            core.yield_now(entity, now);
        }
    }

    fn pick(&mut self, core: usize, now: u64) -> Decision<N> {
        match self.cores.get_mut(core) {
            Some(policy) => {
                self.stale &= !(1 << (core % 64));
                policy.pick(now)
            }
            None => Decision {
                run: None,
                until: None,
            },
        }
    }

    fn spends(&self, core: usize) -> bool {
        self.cores.get(core).is_some_and(Policy::spends)
    }

    fn charged(&self, core: usize) -> Option<Entity<N>> {
        self.cores.get(core).and_then(Policy::charged)
    }

    fn exempt_switch(&mut self, core: usize, now: u64) {
        if let Some(policy) = self.cores.get_mut(core) {
            policy.exempt_switch(now);
        }
    }

    fn suspend(&mut self, core: usize, now: u64) {
        if let Some(policy) = self.cores.get_mut(core) {
            policy.suspend(now);
        }
    }

    fn kick(&self) -> Option<usize> {
        (self.stale != 0).then(|| self.stale.trailing_zeros() as usize)
    }
}

/// What a core of a global pool does.
#[derive(Clone, Copy, Debug)]
struct Lane<const N: usize> {
    /// The entity that runs, and the key by which it was chosen.
    runs: Option<(Entity<N>, u64)>,
    since: u64,
    /// The instant at which the core asks again at the latest; [`u64::MAX`] means not before an
    /// event.
    until: u64,
    /// Whether the core takes part: it has asked, and was not suspended since.
    present: bool,
    /// Whether the entity that runs is still on its way to the core, at nobody's expense.
    awaits: bool,
    /// Whether the core does something at nobody's expense meanwhile ([`Global::exempt_from`]).
    exempt: bool,
}

/// All cores choose from one queue of servers: an entity runs on whatever core is free, on one core
/// at a time. There are up to `C` cores.
///
/// The order is global EDF or global fixed priorities. If an entity has to be preempted, it is the
/// one with the latest deadline of all cores: a core that is asked keeps its entity as long as
/// another core runs one with a later deadline, and that core is then to be [kicked](Pool::kick).
/// So entities move to another core only if they must.
///
/// Nobody may use time that is promised and not used: the entity that could use it on one core may
/// be running on another.
#[derive(Clone, Debug)]
pub struct Global<const N: usize, const C: usize> {
    bank: Bank<N>,
    /// The entities that could run, and do not.
    ready: Tournament<N>,
    lanes: [Lane<N>; C],
    cores: usize,
}

impl<const N: usize, const C: usize> Global<N, C> {
    /// A pool of so many cores, at most `C`, without servers.
    pub fn new(order: Order, cores: usize) -> Self {
        let lane = Lane {
            runs: None,
            since: 0,
            until: u64::MAX,
            present: false,
            awaits: false,
            exempt: false,
        };
        let slack = Slack::Idle;
        Self {
            bank: Bank::new(Rules {
                order,
                slack,
                prepaid: 0,
            }),
            ready: Tournament::new(),
            lanes: [lane; C],
            cores: cores.min(C),
        }
    }

    /// Gives `entity` this reservation from `now` on, in place of any other. The entity has no work
    /// yet.
    pub fn reserve(
        &mut self,
        entity: Entity<N>,
        reservation: Reservation,
        now: u64,
    ) -> Result<(), InterfaceError> {
        reservation.kind.suits(reservation.interface)?;
        self.charge_until(now);
        self.remove(entity);
        self.ready.make_room(entity);
        let queue = self.bank.insert(entity, reservation, now);
        self.requeue(entity, queue);
        Ok(())
    }

    /// How often the budget of `entity` ran out while it had work, and how often it was not given by the
    /// period's end although it could have been used; both wrap.
    pub fn served(&self, entity: Entity<N>) -> Option<(u32, u32)> {
        let server = self.bank.server(entity)?;
        Some((server.throttled, server.late))
    }

    /// Replenishes at most `most` of the budgets whose time has come by `now`, as [`Pool::pick`] would all of
    /// them: for a caller that may not do so much at a time.
    #[inline(never)]
    pub fn replenish_some(&mut self, now: u64, most: usize) -> Replenished {
        self.charge_until(now);
        for _ in 0..most {
            match self.bank.due(now) {
                Some((entity, queue)) => self.requeue(entity, queue),
                None => return Replenished::All,
            }
        }
        Replenished::Some
    }

    /// The core on which `entity` runs, or spends its budget without work.
    pub fn core_of(&self, entity: Entity<N>) -> Option<usize> {
        let mut lanes = self.lanes().iter();
        lanes.position(|lane| lane.runs.is_some_and(|(runs, _)| runs == entity))
    }

    /// The entity that the last [`Pool::pick`] of `core` named is still on its way there: until the core asks
    /// again, no time is charged.
    pub fn await_arrival(&mut self, core: usize) {
        if let Some(lane) = self.lanes_mut().get_mut(core) {
            lane.awaits = true;
        }
    }

    /// Charges the entity that runs on `core` for its time until `now`, and nobody for the time from then on, whatever
    /// other cores do, until [`Pool::exempt_switch`] or the core's next [`Pool::pick`].
    pub fn exempt_from(&mut self, core: usize, now: u64) {
        self.charge_core_until(core, now);
        if let Some(lane) = self.lanes_mut().get_mut(core) {
            lane.exempt = true;
        }
    }

    /// What is left of the budget of `entity` at `now`; `None` if it has no server.
    pub fn budget(&mut self, entity: Entity<N>, now: u64) -> Option<u64> {
        self.charge_until(now);
        Some(self.bank.server(entity)?.budget)
    }

    /// Whether an entity could run and does not, so that a core that is suspended could run it.
    pub fn has_waiting(&self) -> bool {
        self.ready.first().is_some()
    }

    /// As [`Pool::wake`], for a task whose job has a deadline of its own.
    pub fn wake_until(&mut self, entity: Entity<N>, now: u64, deadline: u64) {
        self.charge_until(now);
        let queue = self.bank.wake(entity, now, Some(deadline));
        self.requeue(entity, queue);
    }

    fn lanes_mut(&mut self) -> &mut [Lane<N>] {
        let cores = self.cores;
        self.lanes.get_mut(..cores).unwrap_or_default()
    }

    fn lanes(&self) -> &[Lane<N>] {
        self.lanes.get(..self.cores).unwrap_or_default()
    }

    /// Removes `entity` from its core and from the queue.
    fn remove(&mut self, entity: Entity<N>) {
        self.ready.remove(entity);
        for lane in self.lanes_mut() {
            lane.runs = lane.runs.filter(|(runs, _)| *runs != entity);
        }
    }

    fn requeue(&mut self, entity: Entity<N>, queue: Queue) {
        match queue {
            Queue::Same => {}
            Queue::Out => self.remove(entity),
            Queue::Ready(key) => {
                let mut lanes = self.lanes_mut().iter_mut();
                let running = lanes.find_map(|lane| {
                    let (runs, by) = lane.runs.as_mut()?;
                    (*runs == entity).then_some(by)
                });
                match running {
                    Some(by) => *by = key,
                    None => self.ready.set(entity, key),
                }
            }
        }
    }

    /// Charges the entities that run for the time since the last call.
    #[inline(never)]
    fn charge_until(&mut self, now: u64) {
        for core in 0..self.cores {
            self.charge_core_until(core, now);
        }
    }

    fn charge_core_until(&mut self, core: usize, now: u64) {
        let Some(lane) = self.lanes_mut().get_mut(core) else {
            return;
        };
        let since = core::mem::replace(&mut lane.since, now);
        if let Some((entity, _)) = lane.runs
            && !(lane.awaits | lane.exempt)
        {
            let queue = self.bank.charge(entity, now.saturating_sub(since));
            self.requeue(entity, queue);
        }
    }

    /// Whether another core runs an entity with a later key than `key`, or nothing.
    fn runs_later_elsewhere(&self, core: usize, key: u64) -> bool {
        let mut lanes = self.lanes().iter().enumerate();
        lanes.any(|(other, lane)| {
            let later = lane.runs.is_none_or(|(_, by)| by > key);
            other != core && lane.present && later
        })
    }

    /// The core on which the first entity that waits should run.
    fn core_to_preempt(&self) -> Option<usize> {
        let (_, key) = self.ready.first()?;
        let mut worst = None;
        // Who has nothing to run comes before all keys.
        let mut latest = key + 1;
        for (core, lane) in self.lanes().iter().enumerate().filter(|(_, l)| l.present) {
            let by = lane.runs.map_or(u64::MAX, |(_, by)| by);
            if by >= latest {
                (worst, latest) = (Some(core), by);
            }
        }
        worst
    }

    /// A core that is to ask earlier, if none would ask by the time of the next budget: an entity
    /// whose budget was used may come or go, and so may the core that knew the time, after all
    /// cores have asked.
    fn core_for_next_timer(&self) -> Option<usize> {
        let timer = self.bank.next_timer();
        let present = self.lanes().iter().enumerate().filter(|(_, l)| l.present);
        let (core, lane) = present.min_by_key(|(_, lane)| lane.until)?;
        (timer < lane.until).then_some(core)
    }

    /// The first entity that waits, after its periods were brought up to date, and its key.
    fn first(&mut self, now: u64) -> Option<(Entity<N>, u64)> {
        loop {
            let (entity, key) = self.ready.first()?;
            match self.bank.refresh(entity, now) {
                None => return Some((entity, key)),
                Some(queue) => self.requeue(entity, queue),
            }
        }
    }

    /// Lets `core` run the first entity that it may have.
    fn choose(&mut self, core: usize, now: u64) -> Option<Entity<N>> {
        let current = self.lanes().get(core).and_then(|lane| lane.runs);
        if let Some((entity, _)) = current
            && let Some(queue) = self.bank.refresh(entity, now)
        {
            self.requeue(entity, queue);
        }
        let current = self.lanes().get(core).and_then(|lane| lane.runs);
        let first = self.first(now);
        let chosen = match (current, first) {
            (Some((_, by)), Some((_, key))) if key >= by || self.runs_later_elsewhere(core, by) => {
                current
            }
            (_, Some(first)) => Some(first),
            (current, None) => current,
        };
        self.lanes_mut().get_mut(core)?.runs = chosen;
        if chosen != current {
            if let Some((entity, key)) = current {
                self.requeue(entity, Queue::Ready(key));
            }
            if let Some((entity, _)) = chosen {
                self.ready.remove(entity);
            }
        }
        chosen.map(|(entity, _)| entity)
    }
}

impl<const N: usize, const C: usize> Pool<N> for Global<N, C> {
    fn wake(&mut self, entity: Entity<N>, now: u64) {
        self.charge_until(now);
        let queue = self.bank.wake(entity, now, None);
        self.requeue(entity, queue);
    }

    fn block(&mut self, entity: Entity<N>, now: u64) {
        self.charge_until(now);
        let queue = self.bank.block(entity, now);
        self.requeue(entity, queue);
    }

    fn yield_now(&mut self, entity: Entity<N>, now: u64) {
        self.charge_until(now);
        let queue = self.bank.yield_now(entity);
        self.requeue(entity, queue);
    }

    fn pick(&mut self, core: usize, now: u64) -> Decision<N> {
        let _ = self.replenish_some(now, usize::MAX);
        let chosen = self.choose(core, now);
        let own = chosen.map_or(u64::MAX, |entity| self.bank.runs_until(entity, now));
        let until = own.min(self.bank.next_timer());
        if let Some(lane) = self.lanes_mut().get_mut(core) {
            (lane.present, lane.until) = (true, until);
            (lane.awaits, lane.exempt) = (false, false);
        }
        let until = (until != u64::MAX).then_some(until);
        let run = chosen.filter(|entity| self.bank.has_work(*entity));
        Decision { run, until }
    }

    fn spends(&self, core: usize) -> bool {
        self.lanes()
            .get(core)
            .is_some_and(|lane| lane.runs.is_some())
    }

    fn charged(&self, core: usize) -> Option<Entity<N>> {
        let (entity, _) = self.lanes().get(core)?.runs?;
        Some(entity)
    }

    fn exempt_switch(&mut self, core: usize, now: u64) {
        if let Some(lane) = self.lanes_mut().get_mut(core) {
            (lane.since, lane.exempt) = (now, false);
        }
    }

    fn suspend(&mut self, core: usize, now: u64) {
        self.charge_core_until(core, now);
        let Some(lane) = self.lanes_mut().get_mut(core) else {
            return;
        };
        (lane.present, lane.awaits, lane.exempt) = (false, false, false);
        if let Some((entity, key)) = lane.runs.take() {
            self.ready.set(entity, key);
        }
    }

    fn kick(&self) -> Option<usize> {
        self.core_to_preempt()
            .or_else(|| self.core_for_next_timer())
    }
}

#[cfg(test)]
mod tests;
