//! Accounts for who runs on a pCPU, from one decision to the next.

use crate::{Host, Local, Pcpu};
use hanok_sched::{Entity, Policy};
use hanok_vm::Clock;

/// Who runs as of the last decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) who: Option<Entity>,
    /// Whether it runs beyond its budget, in time that others left over.
    extra: bool,
    since: u64,
}

impl Turn {
    /// Whether `who` runs.
    pub(crate) fn is_of(&self, who: Entity) -> bool {
        self.who == Some(who)
    }
}

impl<B: Host> Pcpu<B> {
    /// Notes that `who`, or nobody, runs from `now` on.
    #[inline(always)]
    pub(crate) fn note_turn(&mut self, who: Option<Entity>, now: u64) {
        self.local.decided = now;
        let extra = self.local.policy.runs_extra();
        let Turn { who: ran, .. } = self.local.turn;
        if ran != who || extra != self.local.turn.extra {
            if self.local.policy.has_news() {
                self.publish_served(ran);
            }
            self.change_turn(Turn {
                who,
                extra,
                since: now,
            });
        }
    }

    /// Puts into the account of `who` how often its budget ran out, and was not given in time.
    #[inline(never)]
    fn publish_served(&mut self, who: Option<Entity>) {
        let Self { local, vcpus } = self;
        if let Some(Some(vcpu)) = who.and_then(|who| vcpus.get_mut(who.index()))
            && let Some((throttled, late)) = local.policy.served(vcpu.entity)
        {
            vcpu.account.set_served(throttled, late);
        }
    }

    /// Adds the turn that ends to its vCPU's account, and begins another one.
    #[inline(always)]
    fn change_turn(&mut self, turn: Turn) {
        let Self { local, vcpus } = self;
        let ended = core::mem::replace(&mut local.turn, turn);
        let lasted = turn.since.wrapping_sub(ended.since);
        match ended.who.and_then(|who| vcpus.get_mut(who.index())) {
            Some(Some(vcpu)) => {
                vcpu.account.ran(lasted, ended.extra);
                vcpu.waits_since = turn.since;
            }
            _ => local.account.rested(lasted),
        }
        let comes = turn.who.and_then(|who| vcpus.get(who.index())?.as_ref());
        // Where the same one goes on, it does so in another way.
        let other = turn.extra == ended.extra || turn.who != ended.who;
        if let Some(vcpu) = comes
            && other
        {
            vcpu.account
                .comes(turn.since.wrapping_sub(vcpu.waits_since));
        }
        let who = comes.map(|vcpu| vcpu.who);
        local.account.turn(turn.since, who);
    }
}

impl<B: Host> Local<B> {
    /// What the policy answers to an event of `entity`: it has work, or has none any more.
    #[inline(always)]
    pub(crate) fn tell_policy(&mut self, entity: Entity, works: bool, now: u64) {
        if let Some(seat) = self.seat() {
            return seat.tell(entity, works);
        }
        if works {
            self.policy.wake(entity, now);
        } else {
            self.policy.block(entity, now);
        }
    }

    /// How often a vCPU's budget ran out while it had work, and how often it was not given in time.
    pub(crate) fn served(&mut self, entity: Entity) -> Option<(u32, u32)> {
        match self.seat() {
            Some(seat) => seat.served(entity),
            None => self.policy.served(entity),
        }
    }

    /// How long the turn of `who` has lasted at `now`; 0 if another one's goes on.
    pub(crate) fn turn_until(&self, who: Entity, now: u64) -> u64 {
        match self.turn.who {
            Some(runs) if runs == who => now.saturating_sub(self.turn.since),
            _ => 0,
        }
    }

    /// The time since the decision went into the switch to the vCPU that comes: no vCPU is charged for it.
    #[inline(always)]
    pub(crate) fn exempt_switch(&mut self) {
        if self.policy.holds_back() {
            let now = self.board.counter();
            self.account.switched(now.saturating_sub(self.decided));
            self.policy.exempt_switch(now);
        } else if let Some(seat) = self.seat() {
            let now = seat.exempt();
            self.account.switched(now.saturating_sub(self.decided));
        }
    }

    /// The resident vCPU slept in its own turn, for so long: nobody ran.
    #[inline(always)]
    pub(crate) fn slept(&mut self, ticks: u64) {
        self.turn.since = self.turn.since.wrapping_add(ticks);
        self.account.slept(ticks);
    }
}
