//! A pool: pCPUs that choose from one queue, so that a vCPU runs wherever one is free.
//!
//! A vCPU of a pool is at any time in the table of one pCPU, which alone accesses it, or on its way to
//! another one. Who decides to run a vCPU that another pCPU has asks for it, and lets nobody run until it
//! comes. The pCPU that has it takes it out of its registers when it is next asked to decide, and hands it
//! over: this takes as long as its longest exit, and a hand-over. What others want of a vCPU they leave with
//! the vCPU; a kick that reaches its former pCPU is handed on.

use crate::schedule::PIECES;
use crate::{AdoptError, Board, Host, Local, Pcpu, Vcpu, VmUnit};
use hanok_config::MAX_POOL;
use hanok_hal::sync::atomic::{AtomicU64, Ordering};
use hanok_hal::{Backend, Context, Mutex, MutexGuard};
use hanok_sched::{
    Decision, Entity, EntitySet, Global, Grant, MAX_ENTITIES, Order, Pool as _, Replenished,
};
use hanok_types::{CpuId, VcpuId};
use hanok_vm::{Clock, Home, Interrupts};

/// The largest number of pCPUs of a pool.
const MAX_SEATS: usize = MAX_POOL;

/// The number of budgets that are replenished at a time.
const AT_ONCE: usize = 4;

/// What the pCPUs of a pool share.
#[allow(missing_debug_implementations)]
pub struct SharedPool<B: Backend> {
    board: &'static Board<B>,
    /// The pool's pCPUs; a pCPU's seat is its place here.
    cpus: heapless::Vec<CpuId, MAX_SEATS>,
    /// The vCPUs that a pCPU asks for, one bit each.
    asked: AtomicU64,
    /// The vCPUs on their way to each pCPU, one bit each.
    arriving: [AtomicU64; MAX_SEATS],
    /// Held for a bounded time; no other lock is taken meanwhile.
    state: Mutex<State<B>>,
}

struct State<B: Backend> {
    policy: Global<MAX_ENTITIES, MAX_SEATS>,
    /// The pool's vCPUs, by their [`Entity`].
    members: heapless::Vec<(&'static VmUnit<B>, VcpuId), MAX_ENTITIES>,
    /// The vCPU that each pCPU asks for. No two ask for the same.
    asks: [Option<Entity>; MAX_SEATS],
    /// The pCPUs that were kicked and have not decided since, one bit each.
    kicked: u8,
    /// The vCPUs that are on their way.
    passed: [Option<&'static mut Vcpu<B>>; MAX_ENTITIES],
}

/// A pCPU's place in a pool.
#[allow(missing_debug_implementations)]
pub struct Seat<B: Backend> {
    pool: &'static SharedPool<B>,
    /// Below [`MAX_SEATS`].
    lane: usize,
}

impl<B: Backend> Clone for Seat<B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for Seat<B> {}

/// Whether vCPUs moved.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
enum Exchange {
    /// Some came, or one went.
    Done,
    /// None has come, and none that it has is asked for.
    Nothing,
}

impl<B: Backend> SharedPool<B> {
    /// A pool of these pCPUs, at most [`MAX_SEATS`], without vCPUs.
    pub fn new(board: &'static Board<B>, order: Order, cpus: impl Iterator<Item = CpuId>) -> Self
    where
        Vcpu<B>: Send,
    {
        let cpus: heapless::Vec<CpuId, MAX_SEATS> = cpus.take(MAX_SEATS).collect();
        Self {
            asked: AtomicU64::new(0),
            arriving: [const { AtomicU64::new(0) }; MAX_SEATS],
            state: Mutex::new(State {
                policy: Global::new(order, cpus.len()),
                members: heapless::Vec::new(),
                asks: [None; MAX_SEATS],
                kicked: 0,
                passed: [const { None }; MAX_ENTITIES],
            }),
            cpus,
            board,
        }
    }

    /// The place of a pCPU of the pool.
    pub fn seat(&'static self, cpu: CpuId) -> Option<Seat<B>> {
        let lane = self.cpus.iter().position(|own| *own == cpu)?;
        Some(Seat { pool: self, lane })
    }
}

impl<B: Host> SharedPool<B> {
    /// The state, and the instant as of which it is accessed: it does not go back from one access to the next.
    /// All pCPUs of a pool may want it at the moment at which a budget is replenished.
    #[inline(never)]
    fn lock(&self) -> (MutexGuard<'_, State<B>>, u64) {
        let state = self.state.lock_with(|| self.board.machine.pause());
        let now = self.board.counter();
        (state, now)
    }
}

impl<B: Backend> State<B> {
    /// The pCPU of a vCPU.
    fn home(&self, entity: Entity) -> Option<Home> {
        let (unit, vcpu) = self.members.get(entity.index())?;
        unit.vm.home_of(*vcpu)
    }

    /// Lets the pCPU of `lane` ask for `entity`, or for none. Whoever asked for it before does not need it any
    /// more. Returns whether this is new.
    fn ask(&mut self, pool: &SharedPool<B>, lane: usize, entity: Option<Entity>) -> bool {
        if self.asks.get(lane) == Some(&entity) {
            return false;
        }
        let mut asked = EntitySet::EMPTY;
        for (other, ask) in self.asks.iter_mut().enumerate() {
            if other == lane {
                *ask = entity;
            } else if *ask == entity {
                *ask = None;
            }
            if let Some(entity) = *ask {
                asked.insert(entity);
            }
        }
        pool.asked.store(asked.bits(), Ordering::Release);
        true
    }

    /// Sends `entity`, which is on its way or about to be, to the pCPU of `lane`.
    fn direct(&mut self, pool: &SharedPool<B>, lane: usize, entity: Entity) -> Option<CpuId> {
        let (unit, vcpu) = self.members.get(entity.index())?;
        let cpu = *pool.cpus.get(lane)?;
        unit.vm.move_vcpu(*vcpu, cpu);
        pool.arriving
            .get(lane)?
            .fetch_or(bit(entity), Ordering::Release);
        Some(cpu)
    }

    /// The pCPU of `lane`, which has to decide again, unless that was said and it has not decided since.
    fn stale(&mut self, pool: &SharedPool<B>, lane: usize) -> Option<CpuId> {
        let mask = 1 << (lane % MAX_SEATS);
        if self.kicked & mask != 0 {
            return None;
        }
        self.kicked |= mask;
        pool.cpus.get(lane).copied()
    }
}

fn bit(entity: Entity) -> u64 {
    1 << entity.index()
}

impl<B: Host> Seat<B> {
    /// Gives `vcpu`, which has no work yet, its place in the pool and what it is granted.
    pub(crate) fn enroll(self, vcpu: &Vcpu<B>, grant: Option<Grant>) -> Result<Entity, AdoptError> {
        let (mut state, now) = self.pool.lock();
        let entity = Entity::new(state.members.len()).ok_or(AdoptError::NoRoom)?;
        // Who is in no group, and is promised something: the description is checked.
        let Some(Grant::Promise(0, reservation)) = grant else {
            return Err(AdoptError::NoRoom);
        };
        let member = (vcpu.unit, vcpu.core.id);
        let joined = state.members.push(member);
        joined.map_err(|_| AdoptError::NoRoom)?;
        let reserved = state.policy.reserve(entity, reservation, now);
        reserved.map_err(AdoptError::Promise)?;
        Ok(entity)
    }

    /// Tells the policy whether `entity`, which this pCPU has, has work from `now` on.
    #[inline(never)]
    pub(crate) fn tell(self, entity: Entity, works: bool) {
        let (mut state, now) = self.pool.lock();
        if works {
            state.policy.wake(entity, now);
        } else {
            state.policy.block(entity, now);
        }
        // It may have spent its budget without work on another pCPU, which has to ask for it now.
        let elsewhere = state.policy.core_of(entity);
        let elsewhere = elsewhere.filter(|lane| works && *lane != self.lane);
        let kick = elsewhere.and_then(|lane| state.stale(self.pool, lane));
        drop(state);
        if let Some(cpu) = kick {
            self.pool.board.machine.kick(cpu);
        }
    }

    /// Does `what`, whose time is charged to nobody.
    pub(crate) fn without_charge<R>(self, what: impl FnOnce() -> R) -> R {
        let (mut state, now) = self.pool.lock();
        state.policy.exempt_from(self.lane, now);
        drop(state);
        let done = what();
        let _ = self.exempt();
        done
    }

    /// The time since the last decision, or charge, is charged to nobody. Returns the instant until which.
    pub(crate) fn exempt(self) -> u64 {
        let (mut state, now) = self.pool.lock();
        state.policy.exempt_switch(self.lane, now);
        now
    }

    /// What is left of a vCPU's budget.
    #[inline(never)]
    pub(crate) fn budget(self, entity: Entity) -> Option<u64> {
        let (mut state, now) = self.pool.lock();
        state.policy.budget(entity, now)
    }

    /// How often a vCPU's budget ran out while it had work, and how often it was not given in time.
    pub(crate) fn served(self, entity: Entity) -> Option<(u32, u32)> {
        let (state, _) = self.pool.lock();
        state.policy.served(entity)
    }

    /// `entity`, which runs here, gives up the rest of its budget.
    #[inline(never)]
    pub(crate) fn yield_now(self, entity: Entity) {
        let (mut state, now) = self.pool.lock();
        state.policy.yield_now(entity, now);
    }
}

impl<B: Host> Local<B> {
    /// Hands a kick for `entity`, which is not here, on to its pCPU. If it is on its way to this one, it is
    /// brought up to date when it comes.
    #[cold]
    #[inline(never)]
    pub(crate) fn hand_on_kick(&self, entity: Entity) {
        let home = self.seat().and_then(|seat| {
            let (state, _) = seat.pool.lock();
            state.home(entity)
        });
        if let Some(home) = home.filter(|home| home.cpu != self.id) {
            self.board.kick(home);
        }
    }
}

impl<B: Host> Pcpu<B> {
    /// Decides who runs from now on, and says when that is. If that vCPU is elsewhere, it is asked for, and nobody runs
    /// until it comes. `None` if something else had to be done first: a vCPU is on its way here, or budgets were replenished,
    /// in so many pieces.
    #[cold]
    #[inline(never)]
    pub(crate) fn decide_in_pool(
        &mut self,
        seat: Seat<B>,
        pieces: &mut usize,
    ) -> Option<(Decision, u64)> {
        let decided = self.decide(seat, pieces);
        let Some((Decision { run: Some(run), .. }, _)) = decided else {
            if decided.is_none() {
                self.serve_pending();
            }
            return decided;
        };
        if self.local.resident.is_some_and(|resident| resident != run) {
            // The decision and both halves of the switch together are too long without a look.
            self.switch_away();
            // Its VM may end while it is away (see `go_out`), also while the memory of who runs next is made.
            self.local.board.machine.enter_empty_space();
            if self.serve_pending() {
                return None;
            }
        }
        decided
    }

    /// [`Self::exchange`], after which interrupts are looked at. Returns whether any vCPU moved.
    #[inline(never)]
    pub(crate) fn has_exchanged(&mut self, seat: Seat<B>) -> bool {
        let exchange = self.exchange(seat);
        if exchange == Exchange::Done {
            self.serve_pending();
        }
        exchange == Exchange::Done
    }

    fn decide(&mut self, seat: Seat<B>, pieces: &mut usize) -> Option<(Decision, u64)> {
        let Self { local, vcpus } = self;
        let Seat { pool, lane } = seat;
        let (mut guard, now) = pool.lock();
        let state = &mut *guard;
        if *pieces < PIECES * (crate::policy::AT_ONCE / AT_ONCE)
            && state.policy.replenish_some(now, AT_ONCE) == Replenished::Some
        {
            *pieces += 1;
            return None;
        }
        state.kicked &= !(1 << (lane % MAX_SEATS));
        let mut decision = state.policy.pick(lane, now);
        if let Some(entity) = decision.run.filter(|run| local.resident != Some(*run))
            && let Some(Some(vcpu)) = vcpus.get(entity.index())
            && vcpu.on
        {
            // A switch follows, which ends by `exempt`. If its VM has to be made first, it pays for that.
            state.policy.exempt_from(lane, now);
        }
        let other = state.policy.kick();
        let stale = other.and_then(|lane| state.stale(pool, lane));
        let mut missing = decision.run;
        let present = |entity: Entity| vcpus.get(entity.index()).is_some_and(Option::is_some);
        missing = missing.filter(|entity| !present(*entity));
        let passed = missing.filter(|e| state.passed.get(e.index()).is_some_and(Option::is_some));
        let new = state.ask(pool, lane, missing.filter(|_| passed.is_none()));
        let mut ask = None;
        if let Some(entity) = passed {
            state.direct(pool, lane, entity);
        }
        if let Some(entity) = missing {
            state.policy.await_arrival(lane);
            ask = state.home(entity).filter(|_| new && passed.is_none());
            decision.run = None;
        }
        if let Some(ended) = local.turn.who.filter(|who| decision.run != Some(*who))
            && let Some(Some(vcpu)) = vcpus.get(ended.index())
            && let Some((throttled, late)) = state.policy.served(ended)
        {
            vcpu.account.set_served(throttled, late);
        }
        drop(guard);
        let machine = &local.board.machine;
        if let Some(cpu) = stale {
            machine.kick(cpu);
        }
        if let Some(home) = ask {
            machine.kick(home.cpu);
        }
        passed.is_none().then_some((decision, now))
    }

    /// Takes in the vCPUs that have arrived, and hands one over that this pCPU has and another one asks for. This comes
    /// before all else that a pCPU does before it decides: the other one lets nobody run meanwhile.
    fn exchange(&mut self, seat: Seat<B>) -> Exchange {
        let Seat { pool, lane } = seat;
        if let Some(arriving) = pool.arriving.get(lane)
            && arriving.load(Ordering::Relaxed) != 0
        {
            self.take_in(seat, arriving.swap(0, Ordering::Acquire));
            return Exchange::Done;
        }
        let mut asked = EntitySet::from_bits(pool.asked.load(Ordering::Acquire));
        while let Some(entity) = asked.take_first() {
            if self.vcpus.get(entity.index()).is_some_and(Option::is_some) {
                self.hand_over(seat, entity);
                return Exchange::Done;
            }
        }
        Exchange::Nothing
    }

    #[inline(never)]
    fn take_in(&mut self, seat: Seat<B>, arriving: u64) {
        let Self { local, vcpus } = self;
        let mut arriving = EntitySet::from_bits(arriving);
        let (mut state, _) = seat.pool.lock();
        while let Some(entity) = arriving.take_first() {
            let index = entity.index();
            // Another pCPU may have taken it meanwhile.
            let here = state.home(entity).is_some_and(|home| home.cpu == local.id);
            if here
                && let Some(place) = vcpus.get_mut(index)
                && let Some(vcpu) = state.passed.get_mut(index).and_then(Option::take)
            {
                vcpu.context.comes_to(local.id);
                // Whatever was asked of it meanwhile is done now.
                local.note_update(vcpu);
                *place = Some(vcpu);
            }
        }
    }

    /// Hands the vCPU at `entity`, which is here, over to the pCPU that asks for it.
    #[inline(never)]
    fn hand_over(&mut self, seat: Seat<B>, entity: Entity) {
        let Seat { pool, .. } = seat;
        if self.local.turn.is_of(entity) {
            let now = pool.board.counter();
            self.note_turn(None, now);
        }
        if self.local.resident == Some(entity) {
            self.switch_away();
            // Its VM may end while it is away: see `go_out`.
            self.local.board.machine.enter_empty_space();
        }
        let Self { local, vcpus } = self;
        let Some(place) = vcpus.get_mut(entity.index()) else {
            return;
        };
        let Some(vcpu) = place.take() else {
            return;
        };
        local.let_go(vcpu);
        let (mut guard, _) = pool.lock();
        let state = &mut *guard;
        let to = state.asks.iter().position(|ask| *ask == Some(entity));
        let passed = state.passed.get_mut(entity.index());
        if let (Some(to), Some(passed)) = (to, passed) {
            *passed = Some(vcpu);
            let _ = state.ask(pool, to, None);
            let cpu = state.direct(pool, to, entity);
            drop(guard);
            if let Some(cpu) = cpu {
                local.board.machine.kick(cpu);
            }
        } else {
            // It is not needed any more.
            local.note_update(vcpu);
            *place = Some(vcpu);
        }
    }
}

impl<B: Host> Local<B> {
    /// Makes `vcpu`, which is not the resident one, whole: nothing of it is left in this pCPU.
    fn let_go(&mut self, vcpu: &mut Vcpu<B>) {
        let entity = vcpu.entity;
        if self.fp_owner == Some(entity) {
            vcpu.context.take_fp();
            self.fp_owner = None;
        }
        self.drop_alarm(entity);
        self.updates.remove(entity);
        // What it invalidates elsewhere for its own CPU alone must not be found here when it comes back.
        if let Some(last) = vcpu.unit.last_here.get(self.id.index()) {
            let own = vcpu.core.id.index() as u8 + 1;
            let _ = last.compare_exchange(own, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, feature = "pools"))]
mod tests;
