//! The policy of one pCPU.

use hanok_sched::admission::Refusal;
use hanok_sched::{
    Answer, Asker, Budgets, Decision, Entity, Grant, Interface, PlaceError, Policy, Replenished,
    RoundRobin, Share,
};
use hanok_vm::Clock;

/// The policy of a pCPU, by its system's description.
#[derive(Debug)]
pub enum PcpuPolicy {
    /// vCPUs run in turn.
    RoundRobin(RoundRobin),
    /// Servers enforce the promises to vCPUs, and best effort has what is left. They are outside of the pCPU's
    /// record: a pCPU whose vCPUs run in turn has none, and the fields of the record that each exit reads stay
    /// near its start.
    Budgets(&'static mut Budgets<'static>),
}

impl PcpuPolicy {
    /// Gives `entity`, which has no work yet, what it is granted, from `now` on. If vCPUs run in turn, there are
    /// no grants; if budgets are enforced, a vCPU without a grant never runs.
    pub(crate) fn grant(
        &mut self,
        entity: Entity,
        grant: Option<Grant>,
        now: u64,
    ) -> Result<(), PlaceError> {
        match (self, grant) {
            (Self::Budgets(budgets), Some(what)) => budgets.grant(entity, what, now),
            _ => Ok(()),
        }
    }

    /// Whether the vCPU that the last decision named runs beyond its budget, in time that others left over.
    #[inline(always)]
    pub(crate) fn runs_extra(&self) -> bool {
        match self {
            Self::RoundRobin(_) => false,
            Self::Budgets(budgets) => budgets.runs_extra(),
        }
    }

    /// Makes a step of the question whether `entity` may have `wanted` ([`Budgets::ask`]).
    pub(crate) fn ask(
        &mut self,
        entity: Entity,
        wanted: Interface,
        asker: Asker,
        patience: u64,
        now: u64,
    ) -> Answer {
        match self {
            Self::RoundRobin(_) => Answer::No(Refusal::NothingThere),
            Self::Budgets(budgets) => budgets.ask(entity, wanted, asker, patience, now),
        }
    }

    /// Whether this question of `entity` is under way.
    pub(crate) fn is_asking(&self, entity: Entity, wanted: Interface) -> bool {
        match self {
            Self::RoundRobin(_) => false,
            Self::Budgets(budgets) => budgets.is_asking(entity, wanted),
        }
    }

    /// Gives `entity` another share of what is left; returns whether it has one.
    pub(crate) fn change_share(&mut self, entity: Entity, share: Share) -> bool {
        match self {
            Self::RoundRobin(_) => false,
            Self::Budgets(budgets) => budgets.change_share(entity, share),
        }
    }

    /// The interface of `entity`.
    pub(crate) fn interface(&mut self, entity: Entity) -> Option<Interface> {
        match self {
            Self::RoundRobin(_) => None,
            Self::Budgets(budgets) => budgets.tree().interface(entity),
        }
    }

    /// What is left of the budget of `entity` at `now`.
    pub(crate) fn budget(&mut self, entity: Entity, now: u64) -> Option<u64> {
        let Self::Budgets(budgets) = self else {
            return None;
        };
        budgets.charge_until(now);
        let (servers, at) = budgets.tree().servers_of(entity)?;
        servers.budget(at)
    }

    /// Whether what [`Self::served`] answers may have changed for a vCPU since it was asked.
    #[inline(always)]
    pub(crate) fn has_news(&self) -> bool {
        match self {
            Self::RoundRobin(_) => false,
            Self::Budgets(budgets) => budgets.has_news(),
        }
    }

    /// How often the budget of `entity` ran out while it had work, and how often it was not given in time; `None` if
    /// it has none.
    #[inline(never)]
    pub(crate) fn served(&mut self, entity: Entity) -> Option<(u32, u32)> {
        match self {
            Self::RoundRobin(_) => None,
            Self::Budgets(budgets) => budgets.served(entity),
        }
    }

    /// Whether a vCPU that is alone on the pCPU may be held back while it has work.
    #[inline(always)]
    pub(crate) fn holds_back(&self) -> bool {
        matches!(self, Self::Budgets(_))
    }

    /// [`Policy::pick`], if nothing has to be settled before ([`Self::settle_some`]) and that is seen at a glance.
    #[inline(always)]
    pub(crate) fn pick_at_once(&mut self, now: u64) -> Option<Decision> {
        match self {
            Self::RoundRobin(policy) => Some(policy.pick(now)),
            Self::Budgets(policy) => {
                let budgets::Packed(run, until) = budgets::pick_at_once(policy, now);
                Entity::new(run).map(|run| Decision {
                    run: Some(run),
                    until: (until != u64::MAX).then_some(until),
                })
            }
        }
    }

    /// Does a part of what the next decision at `now` would have to do, as much as one piece of work may be.
    #[inline(always)]
    pub(crate) fn settle_some(&mut self, now: u64) -> Replenished {
        match self {
            Self::RoundRobin(_) => Replenished::All,
            Self::Budgets(policy) => budgets::settle_some(policy, now),
        }
    }

    /// Whether `entity` is the only one with work, and keeps its turn as long as that is so.
    pub(crate) fn has_only(&self, entity: Entity) -> bool {
        match self {
            Self::RoundRobin(policy) => policy.has_only(entity),
            // The time that it sleeps must not be charged to its budget.
            Self::Budgets(_) => false,
        }
    }

    /// Begins a turn of `entity` at `now`, as [`Policy::pick`] would if `entity`, for which [`Self::has_only`]
    /// is true, had slept until then: the time that it slept is no part of its turn.
    pub(crate) fn begin_turn(&mut self, entity: Entity, now: u64) {
        if let Self::RoundRobin(policy) = self {
            policy.begin_turn(entity, now);
        }
    }

    /// Does `what` and charges its time to no vCPU. The time after it is charged to the vCPU that the last
    /// [`Policy::pick`] named.
    pub(crate) fn without_charge(&mut self, clock: &impl Clock, what: impl FnOnce()) {
        if let Self::Budgets(budgets) = self {
            budgets.charge_until(clock.counter());
        }
        what();
        if let Self::Budgets(budgets) = self {
            budgets.exempt(clock.counter());
        }
    }

    /// Charges the time since the last [`Policy::pick`], or since the last charge, to no vCPU, up to `now`.
    #[inline(always)]
    pub(crate) fn exempt_switch(&mut self, now: u64) {
        if let Self::Budgets(budgets) = self {
            budgets.exempt_switch(now);
        }
    }
}

/// The number of budgets that are replenished at a time: those of all vCPUs of a pCPU may be due at the
/// same moment.
pub const AT_ONCE: usize = 8;

/// The policy of budgets. It is kept out of line: round robin costs a few instructions, and inlined servers
/// would take registers from it.
mod budgets {
    /// A decision in two registers: the entity's index, and the instant; the largest numbers mean none.
    #[derive(Clone, Copy, Debug)]
    pub struct Packed(pub usize, pub u64);

    use super::{AT_ONCE, Budgets, Decision, Entity, Policy, Replenished};

    #[cold]
    #[inline(never)]
    pub fn settle_some(policy: &mut Budgets<'_>, now: u64) -> Replenished {
        policy.settle_some(now, AT_ONCE)
    }

    #[cold]
    #[inline(never)]
    pub fn wake(policy: &mut Budgets<'_>, entity: Entity, now: u64) {
        policy.wake(entity, now);
    }

    #[cold]
    #[inline(never)]
    pub fn block(policy: &mut Budgets<'_>, entity: Entity, now: u64) {
        policy.block(entity, now);
    }

    #[cold]
    #[inline(never)]
    pub fn yield_now(policy: &mut Budgets<'_>, entity: Entity, now: u64) {
        policy.yield_now(entity, now);
    }

    #[cold]
    #[inline(never)]
    pub fn pick_at_once(policy: &mut Budgets<'_>, now: u64) -> Packed {
        match policy.choose_at_once(now) {
            Some((run, until)) => Packed(run.index(), until),
            None => Packed(usize::MAX, u64::MAX),
        }
    }

    #[cold]
    #[inline(never)]
    pub fn pick(policy: &mut Budgets<'_>, now: u64) -> Decision {
        policy.pick(now)
    }
}

impl Policy for PcpuPolicy {
    #[inline(always)]
    fn wake(&mut self, entity: Entity, now: u64) {
        match self {
            Self::RoundRobin(policy) => policy.wake(entity, now),
            Self::Budgets(policy) => budgets::wake(policy, entity, now),
        }
    }

    #[inline(always)]
    fn block(&mut self, entity: Entity, now: u64) {
        match self {
            Self::RoundRobin(policy) => policy.block(entity, now),
            Self::Budgets(policy) => budgets::block(policy, entity, now),
        }
    }

    #[inline(always)]
    fn yield_now(&mut self, entity: Entity, now: u64) {
        match self {
            Self::RoundRobin(policy) => policy.yield_now(entity, now),
            Self::Budgets(policy) => budgets::yield_now(policy, entity, now),
        }
    }

    #[inline(always)]
    fn pick(&mut self, now: u64) -> Decision {
        match self {
            Self::RoundRobin(policy) => policy.pick(now),
            Self::Budgets(policy) => budgets::pick(policy, now),
        }
    }

    fn spends(&self) -> bool {
        match self {
            Self::RoundRobin(policy) => policy.spends(),
            Self::Budgets(policy) => policy.spends(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fake::{FakeBoard, FakePromise};
    use crate::{Pcpu, begin_all};
    use core::cell::Cell;
    use hanok_hal::fake::{FakeBackend, Settings};
    use hanok_hal::{Backend, Context};
    use hanok_types::GicVersion;
    use hanok_vm::Cause;
    use std::vec;
    use std::vec::Vec;

    /// The longest time for which a guest runs before the test checks for interrupts, in ticks.
    const STEP: u64 = 16;
    /// The most ticks of the fake counter, which each reading moves by one, for a decision and its switch.
    const OVERHEAD: u64 = 64;
    const PERIODS: u64 = 40;

    std::thread_local! {
        /// The time that the CPU has slept, in ticks, in steps of ten.
        static IDLE: Cell<u64> = const { Cell::new(0) };
    }

    fn settings() -> Settings {
        Settings {
            cpus: 1,
            this_cpu: || 0,
            pause: || {},
            asleep: || IDLE.set(IDLE.get() + 10),
            lists: 4,
        }
    }

    /// The time that each VM has had in each of its periods on CPU 0, with guests that always have work.
    fn given(promises: &[FakePromise]) -> Vec<Vec<u64>> {
        let vms = vec![vec![0]; promises.len()];
        let FakeBoard {
            board, mut pcpus, ..
        } = FakeBoard::with_promises(settings(), &vms, GicVersion::V2, promises);
        let machine = &board.machine;
        begin_all(board);
        let pcpu = &mut pcpus[0];
        pcpu.schedule();
        let longest = promises.iter().map(|promise| promise.period).max();
        let end = PERIODS * longest.expect("a promise");
        let mut given = vec![vec![0; 0]; promises.len()];
        let mut random = 0x9e37_79b9_u64;
        let mut began = machine.counter();
        while began < end {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let vm = resident(pcpu);
            let idle = IDLE.get();
            machine.advance(1 + (random >> 33) % STEP);
            if machine.interrupt_is_pending() {
                interrupt(pcpu);
            }
            let periods: &mut Vec<u64> = &mut given[vm];
            let period = (began / promises[vm].period) as usize;
            periods.resize(periods.len().max(period + 1), 0);
            let now = machine.counter();
            periods[period] += now - began - (IDLE.get() - idle);
            began = now;
        }
        given
    }

    fn resident(pcpu: &mut Pcpu<FakeBackend>) -> usize {
        let vcpu = pcpu.resident().expect("a vCPU runs");
        vcpu.unit.vm.id().index()
    }

    fn interrupt(pcpu: &mut Pcpu<FakeBackend>) {
        pcpu.resident().expect("a vCPU runs").context.depart();
        pcpu.local.taken = pcpu.local.board.machine.acknowledge();
        let after = pcpu.interrupted();
        pcpu.finish(Cause::Interrupt, after);
    }

    #[test]
    fn who_always_has_work_gets_what_was_promised_in_each_period_and_no_more() {
        let sets: [&[(u64, u64)]; 4] = [
            &[(10_000, 3_000), (25_000, 12_000)],
            &[(8_000, 6_000)],
            &[(10_000, 1_000), (20_000, 9_000), (50_000, 20_000)],
            &[
                (7_000, 2_000),
                (11_000, 4_000),
                (13_000, 3_000),
                (90_000, 9_000),
            ],
        ];
        for set in sets {
            let promise = |(vm, (period, budget)): (usize, &(u64, u64))| FakePromise {
                cpu: 0,
                vm,
                period: *period,
                budget: *budget,
            };
            let promises: Vec<_> = set.iter().enumerate().map(promise).collect();
            for (promise, periods) in promises.iter().zip(given(&promises)) {
                // VMs are loaded at first, and the last period is not over.
                let whole = &periods[4..periods.len() - 1];
                assert!(whole.len() > 20);
                for given in whole {
                    let least = promise.budget - 2 * OVERHEAD;
                    let most = promise.budget + STEP + OVERHEAD;
                    assert!((least..=most).contains(given), "{promise:?}: {given}");
                }
            }
        }
    }

    /// A budget that is used up before its vCPU has come in, also where all of the core's are used up between their
    /// periods.
    #[test]
    fn a_budget_smaller_than_a_switch_harms_nobody() {
        for (small, others) in [
            (1, &[(10_000, 6_000)][..]),
            (3, &[(9_000, 2_000), (14_000, 4_000)]),
            (10, &[(10_000, 1_000), (10_000, 5_000)]),
        ] {
            let set = [&[(1_000, small)], others].concat();
            let promise = |(vm, (period, budget)): (usize, &(u64, u64))| FakePromise {
                cpu: 0,
                vm,
                period: *period,
                budget: *budget,
            };
            let promises: Vec<_> = set.iter().enumerate().map(promise).collect();
            for (promise, periods) in promises.iter().zip(given(&promises)).skip(1) {
                for given in &periods[4..periods.len() - 1] {
                    let least = promise.budget - 2 * OVERHEAD;
                    let most = promise.budget + STEP + OVERHEAD;
                    assert!((least..=most).contains(given), "{promise:?}: {given}");
                }
            }
        }
    }

    #[test]
    fn without_promises_turns_are_taken() {
        let FakeBoard {
            board, mut pcpus, ..
        } = FakeBoard::new(settings(), &[vec![0], vec![0]], GicVersion::V2);
        begin_all(board);
        let pcpu = &mut pcpus[0];
        pcpu.schedule();
        let mut turns = [0_u32; 2];
        for _ in 0..2_000 {
            board.machine.advance(1);
            turns[resident(pcpu)] += 1;
            if board.machine.interrupt_is_pending() {
                interrupt(pcpu);
            }
        }
        assert!(turns[0].abs_diff(turns[1]) < 200, "{turns:?}");
    }
}
