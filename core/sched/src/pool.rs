//! Several pCPUs: each with its own, or all from one queue.

use crate::servers::{Bank, Queue, Rules};
use crate::tournament::Tournament;
use crate::{Decision, Entity, InterfaceError, Order, Policy, Reservation, Slack};

/// How the pCPUs of a pool choose. One call at a time; times never go back.
///
/// After each event and each [`Self::pick`], [`Self::kick`] says which pCPU should choose
/// anew at once, if one should.
pub trait Pool<const N: usize> {
    /// `entity` has work from `now` on.
    fn wake(&mut self, entity: Entity<N>, now: u64);

    /// `entity` has no work any more.
    fn block(&mut self, entity: Entity<N>, now: u64);

    /// `entity` gives up the rest of its turn.
    fn yield_now(&mut self, entity: Entity<N>, now: u64);

    /// Who runs on `core` from `now` on. Nobody on a core that there is not.
    fn pick(&mut self, core: usize, now: u64) -> Decision<N>;

    /// Whether `core`, on which the last [`Self::pick`] let nobody run, is spent on nothing at
    /// the expense of one of these ([`Policy::spends`]).
    fn spends(&self, core: usize) -> bool;

    /// At whose expense `core` is ([`Policy::charged`]).
    fn charged(&self, core: usize) -> Option<Entity<N>>;

    /// What passed on `core` went into a switch ([`Policy::excuse`]).
    fn excuse(&mut self, core: usize, now: u64);

    /// Nobody runs on `core` from `now` on.
    fn suspend(&mut self, core: usize, now: u64);

    /// A core whose last answer does not hold any more, or not for as long as it was told.
    fn kick(&self) -> Option<usize>;
}

/// Each entity stays on one core, which has a policy of its own.
#[derive(Clone, Debug)]
pub struct Partitioned<P, const N: usize, const C: usize> {
    cores: [P; C],
    homes: [u16; N],
    /// The cores whose answers an event may have changed.
    stale: u64,
}

impl<P: Policy<N>, const N: usize, const C: usize> Partitioned<P, N, C> {
    /// Everybody is on the first core.
    pub fn new(cores: [P; C]) -> Self {
        const { assert!(C >= 1 && C <= 64) };
        Self {
            cores,
            homes: [0; N],
            stale: 0,
        }
    }

    /// `entity`, which has no work, is on `core` from now on; `false` where there is none.
    pub fn place(&mut self, entity: Entity<N>, core: usize) -> bool {
        match self.homes.get_mut(entity.index()) {
            Some(home) if core < C => {
                *home = core as u16;
                true
            }
            _ => false,
        }
    }

    /// The policy of a core.
    pub fn core(&mut self, core: usize) -> Option<&mut P> {
        self.cores.get_mut(core)
    }

    /// The core of `entity`, which is to be asked again.
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

    fn excuse(&mut self, core: usize, now: u64) {
        if let Some(policy) = self.cores.get_mut(core) {
            policy.excuse(now);
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
    /// Who runs, and by which key it was chosen.
    runs: Option<(Entity<N>, u64)>,
    since: u64,
    /// When it asks again at the latest; [`u64::MAX`]: not before an event.
    until: u64,
    /// Whether it takes part: it was asked, and not suspended since.
    present: bool,
}

/// All cores choose from one queue of servers: an entity runs wherever there is room, on one
/// core at a time. Up to `C` cores.
///
/// Global EDF, or global fixed priorities. Where somebody has to make room, it is the one with
/// the latest deadline of all cores: a core that is asked keeps what it runs as long as
/// another core has something later, and tells to [kick](Pool::kick) that one. So nobody
/// moves to another core who need not.
///
/// What is promised and not used is nobody's here: whose turn it would be on one core may be
/// running on another.
#[derive(Clone, Debug)]
pub struct Global<const N: usize, const C: usize> {
    bank: Bank<N>,
    /// Who could run and does not.
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
        };
        let slack = Slack::Idle;
        Self {
            bank: Bank::new(Rules { order, slack }),
            ready: Tournament::new(),
            lanes: [lane; C],
            cores: cores.min(C),
        }
    }

    /// `entity` has this from `now` on, in place of what it had. It has no work yet.
    pub fn reserve(
        &mut self,
        entity: Entity<N>,
        reservation: Reservation,
        now: u64,
    ) -> Result<(), InterfaceError> {
        reservation.kind.suits(reservation.interface)?;
        self.charge_until(now);
        self.out(entity);
        self.ready.make_room(entity);
        let queue = self.bank.insert(entity, reservation, now);
        self.place(entity, queue);
        Ok(())
    }

    /// Whether somebody could run and does not: a core that is suspended could have him.
    pub fn has_waiting(&self) -> bool {
        self.ready.first().is_some()
    }

    /// A task's job with a deadline of its own; else as [`Pool::wake`].
    pub fn wake_until(&mut self, entity: Entity<N>, now: u64, deadline: u64) {
        self.charge_until(now);
        let queue = self.bank.wake(entity, now, Some(deadline));
        self.place(entity, queue);
    }

    fn lanes_mut(&mut self) -> &mut [Lane<N>] {
        let cores = self.cores;
        self.lanes.get_mut(..cores).unwrap_or_default()
    }

    fn lanes(&self) -> &[Lane<N>] {
        self.lanes.get(..self.cores).unwrap_or_default()
    }

    /// `entity` neither runs nor is ready.
    fn out(&mut self, entity: Entity<N>) {
        self.ready.remove(entity);
        for lane in self.lanes_mut() {
            lane.runs = lane.runs.filter(|(runs, _)| *runs != entity);
        }
    }

    fn place(&mut self, entity: Entity<N>, queue: Queue) {
        match queue {
            Queue::Same => {}
            Queue::Out => self.out(entity),
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

    /// Takes what was used since the last look from the budgets of those that run.
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
        if let Some((entity, _)) = lane.runs {
            let queue = self.bank.charge(entity, now.saturating_sub(since));
            self.place(entity, queue);
        }
    }

    /// Whether another core has something with a later key than `key`, or nothing.
    fn later_elsewhere(&self, core: usize, key: u64) -> bool {
        let mut lanes = self.lanes().iter().enumerate();
        lanes.any(|(other, lane)| {
            let later = lane.runs.is_none_or(|(_, by)| by > key);
            other != core && lane.present && later
        })
    }

    /// The core on which the first of those that wait should run.
    fn to_make_room(&self) -> Option<usize> {
        let (_, key) = self.ready.first()?;
        let present = self.lanes().iter().enumerate().filter(|(_, l)| l.present);
        let worst = present.max_by_key(|(_, lane)| match lane.runs {
            None => (true, 0),
            Some((_, by)) => (false, by),
        });
        let (core, lane) = worst?;
        lane.runs.is_none_or(|(_, by)| by > key).then_some(core)
    }

    /// Some core, where none of them would ask by the time that the next budget comes: who has had
    /// its budget may come or go, and the core that knew of it, too, after all were asked.
    fn to_know_the_time(&self) -> Option<usize> {
        let timer = self.bank.next_timer();
        let present = self.lanes().iter().enumerate().filter(|(_, l)| l.present);
        let (core, lane) = present.min_by_key(|(_, lane)| lane.until)?;
        (timer < lane.until).then_some(core)
    }

    /// The first of those that wait, periods up to date.
    fn first(&mut self, now: u64) -> Option<(Entity<N>, u64)> {
        loop {
            let (entity, key) = self.ready.first()?;
            match self.bank.refresh(entity, now) {
                None => return Some((entity, key)),
                Some(queue) => self.place(entity, queue),
            }
        }
    }

    /// Puts the best that it may have on `core`.
    fn choose(&mut self, core: usize, now: u64) -> Option<Entity<N>> {
        let current = self.lanes().get(core).and_then(|lane| lane.runs);
        if let Some((entity, _)) = current
            && let Some(queue) = self.bank.refresh(entity, now)
        {
            self.place(entity, queue);
        }
        let current = self.lanes().get(core).and_then(|lane| lane.runs);
        let first = self.first(now);
        let chosen = match (current, first) {
            (Some((_, by)), Some((_, key))) if key >= by || self.later_elsewhere(core, by) => {
                current
            }
            (_, Some(first)) => Some(first),
            (current, None) => current,
        };
        if chosen != current {
            if let Some((entity, key)) = current {
                self.ready.set(entity, key);
            }
            if let Some((entity, _)) = chosen {
                self.ready.remove(entity);
            }
        }
        self.lanes_mut().get_mut(core)?.runs = chosen;
        chosen.map(|(entity, _)| entity)
    }
}

impl<const N: usize, const C: usize> Pool<N> for Global<N, C> {
    fn wake(&mut self, entity: Entity<N>, now: u64) {
        self.charge_until(now);
        let queue = self.bank.wake(entity, now, None);
        self.place(entity, queue);
    }

    fn block(&mut self, entity: Entity<N>, now: u64) {
        self.charge_until(now);
        let queue = self.bank.block(entity, now);
        self.place(entity, queue);
    }

    fn yield_now(&mut self, entity: Entity<N>, now: u64) {
        self.charge_until(now);
        let queue = self.bank.yield_now(entity);
        self.place(entity, queue);
    }

    fn pick(&mut self, core: usize, now: u64) -> Decision<N> {
        self.charge_until(now);
        while let Some((entity, queue)) = self.bank.due(now) {
            self.place(entity, queue);
        }
        let chosen = self.choose(core, now);
        let own = chosen.map_or(u64::MAX, |entity| self.bank.lasts_until(entity, now));
        let until = own.min(self.bank.next_timer());
        if let Some(lane) = self.lanes_mut().get_mut(core) {
            (lane.present, lane.until) = (true, until);
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

    fn excuse(&mut self, core: usize, now: u64) {
        if let Some(lane) = self.lanes_mut().get_mut(core) {
            lane.since = now;
        }
    }

    fn suspend(&mut self, core: usize, now: u64) {
        self.charge_core_until(core, now);
        let Some(lane) = self.lanes_mut().get_mut(core) else {
            return;
        };
        lane.present = false;
        if let Some((entity, key)) = lane.runs.take() {
            self.ready.set(entity, key);
        }
    }

    fn kick(&self) -> Option<usize> {
        self.to_make_room().or_else(|| self.to_know_the_time())
    }
}

#[cfg(test)]
mod tests;
