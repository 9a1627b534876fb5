//! Servers of one CPU, by earliest deadline or by priority.
//!
//! A server is the part of a CPU that a vCPU, or a component of several vCPUs, has: an
//! [`Interface`] and a [`Kind`]. Of the servers with work and budget, the policy runs the one with
//! the earliest deadline or the highest priority. It takes what they use from their budgets, and
//! holds back those without budget. So no server, whatever it does, takes from another what that
//! one was promised, if the sum of the promises was admitted ([`admission`](crate::admission)).
//!
//! For rate monotonic and deadline monotonic order, [`Order`] has fixed priorities, and the period
//! or the deadline is the priority's number: [`Reservation::rate_monotonic`].

mod bank;
mod server;
mod slack;

#[cfg(test)]
mod tests;

pub use bank::ChangeStatus;
pub(crate) use bank::{Bank, Queue, Rules, Spending};
pub use server::Kind;

use crate::tournament::Tournament;
use crate::{Decision, Entity, Interface, InterfaceError, Policy};

/// The rule by which one of the servers that may run is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The one with the earliest deadline (EDF).
    EarliestDeadline,
    /// The one with the smallest priority number (rate monotonic, deadline monotonic, any other).
    Priority,
}

/// What happens to time that was promised and is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slack {
    /// Nobody uses it: each server gets its budget and no more, so that its speed does not depend
    /// on the others.
    Idle,
    /// A server without budget may run while no server with budget has work. Any server with work
    /// may run while a periodic server spends its budget without work.
    Share,
    /// As `Share`; in addition, servers of constant bandwidth divide the bandwidth that is not in
    /// use: greedy reclamation of unused bandwidth (GRUB; Lipari and Baruah 2000). The budget of
    /// the server that runs is spent at a rate that is the sum of the active bandwidths.
    Reclaim,
}

/// The reservation of one entity: its promise, the kind of its server, its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// The kind of the server: how it treats its budget.
    pub kind: Kind,
    /// The promise.
    pub interface: Interface,
    /// The priority, which is used with fixed priorities; the smallest number is the highest.
    pub priority: u64,
}

impl Reservation {
    /// A reservation with a higher priority the shorter the period is (Liu and Layland 1973).
    pub const fn rate_monotonic(kind: Kind, interface: Interface) -> Self {
        Self {
            kind,
            interface,
            priority: interface.period(),
        }
    }

    /// A reservation with a higher priority the shorter the deadline is (Leung and Whitehead 1982).
    pub const fn deadline_monotonic(kind: Kind, interface: Interface) -> Self {
        Self {
            kind,
            interface,
            priority: interface.deadline(),
        }
    }
}

/// Which of the budgets that are due were replenished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Replenished {
    /// All of them.
    All,
    /// Some; others are still due.
    Some,
}

/// The servers of one CPU.
#[derive(Clone, Debug)]
pub struct Servers<const N: usize = { crate::MAX_ENTITIES }> {
    bank: Bank<N>,
    ready: Tournament<N>,
    /// The entity at whose expense the CPU is used since `since`.
    charged: Option<Entity<N>>,
    since: u64,
    tenure: Tenure,
}

/// Since when the one that pays has done so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tenure {
    /// Since the last [`Policy::pick`].
    Begins,
    /// Longer.
    Lasts,
    /// It had its first switch, too, where each is noted ([`Servers::exempt_one_switch`]).
    Exempted,
}

impl<const N: usize> Servers<N> {
    /// A policy without servers.
    pub const fn new(order: Order, slack: Slack) -> Self {
        Self {
            bank: Bank::new(Rules {
                order,
                slack,
                prepaid: 0,
            }),
            ready: Tournament::new(),
            charged: None,
            since: 0,
            tenure: Tenure::Begins,
        }
    }

    /// Lets each server that may begin inside its period ([`Kind`]) pay `cost` ticks from its budget for the switches to
    /// it and back: at each wake, and with each new budget while it has work. Without this call they pay nothing. A soft
    /// bandwidth server, which has its next budget at once, pays at wakes alone: nothing is proven beside it.
    pub fn set_prepaid(&mut self, cost: u64) {
        self.bank.rules.prepaid = cost;
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
        self.forget(entity);
        self.ready.make_room(entity);
        let queue = self.bank.insert(entity, reservation, now);
        self.requeue(entity, queue);
        Ok(())
    }

    /// Removes the reservation of `entity`, which does not run any more.
    pub fn release(&mut self, entity: Entity<N>, now: u64) {
        self.charge_until(now);
        self.forget(entity);
    }

    fn forget(&mut self, entity: Entity<N>) {
        self.bank.take(entity);
        self.ready.remove(entity);
        self.charged = self.charged.filter(|charged| *charged != entity);
    }

    /// Gives `entity` another interface at its first period's end at or after `not_before`. Until
    /// then it has its old promise, and from then on its former bandwidth is free.
    ///
    /// A change of several servers is safe if those that get less are changed at once, and those
    /// that get more with the latest of the former's period ends ([`Self::period_end`]) as
    /// `not_before`. [`crate::mode::switch`] does so.
    pub fn change(
        &mut self,
        entity: Entity<N>,
        interface: Interface,
        not_before: u64,
    ) -> Result<ChangeStatus, InterfaceError> {
        self.bank.change(entity, interface, not_before)
    }

    /// Whether the server of `entity`, if it has one, could keep `interface`.
    pub fn allows(&self, entity: Entity<N>, interface: Interface) -> Result<(), InterfaceError> {
        match self.bank.server(entity) {
            Some(server) => server.kind.suits(interface),
            None => Ok(()),
        }
    }

    /// The interface of `entity`'s reservation.
    pub fn interface(&self, entity: Entity<N>) -> Option<Interface> {
        self.bank.server(entity).map(|server| server.interface)
    }

    /// The order in which servers are chosen.
    pub fn order(&self) -> Order {
        self.bank.rules.order
    }

    /// The reservation of `entity` as it is.
    pub fn reservation(&self, entity: Entity<N>) -> Option<Reservation> {
        self.bank.server(entity).map(|server| Reservation {
            kind: server.kind,
            interface: server.interface,
            priority: server.priority,
        })
    }

    /// The interface that `entity` will have, and from when on, if one is scheduled. A server that has no work may take
    /// note of it later than that.
    pub fn pending(&self, entity: Entity<N>) -> Option<(Interface, u64)> {
        self.bank.server(entity)?.pending()
    }

    /// Lets a server that waits for work take note of a change whose instant has come. Returns whether there was one.
    pub(crate) fn take_note(&mut self, entity: Entity<N>, now: u64) -> bool {
        self.bank.take_note(entity, now)
    }

    /// The end of the period of `entity` that contains `now`.
    pub fn period_end(&self, entity: Entity<N>, now: u64) -> Option<u64> {
        let server = self.bank.server(entity)?;
        let period = server.interface.period();
        let passed = now.saturating_sub(server.release) / period;
        let ahead = passed.saturating_add(1).saturating_mul(period);
        Some(server.release.saturating_add(ahead))
    }

    /// How often the budget of `entity` ran out while it had work, and how often it was not given by the period's
    /// end although it could have been used; both wrap.
    pub fn served(&mut self, entity: Entity<N>) -> Option<(u32, u32)> {
        self.bank.take_served(entity)
    }

    /// Whether what [`Self::served`] answers may have changed for a server since it was asked.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.bank.has_news()
    }

    /// The rest of the budget of `entity`, as of the last event.
    pub fn budget(&self, entity: Entity<N>) -> Option<u64> {
        self.bank.server(entity).map(|server| server.budget)
    }

    /// As [`Policy::wake`], for a task whose job has a deadline of its own.
    pub fn wake_until(&mut self, entity: Entity<N>, now: u64, deadline: u64) {
        self.charge_until(now);
        let queue = self.bank.wake(entity, now, Some(deadline));
        self.requeue(entity, queue);
    }

    #[inline]
    fn requeue(&mut self, entity: Entity<N>, queue: Queue) {
        match queue {
            Queue::Same => {}
            Queue::Ready(key) => self.ready.set(entity, key),
            Queue::Out => self.ready.remove(entity),
        }
    }

    /// Charges the entity that pays for the time since the last call.
    #[inline]
    pub fn charge_until(&mut self, now: u64) {
        let since = core::mem::replace(&mut self.since, now);
        if let Some(charged) = self.charged
            && now > since
            && self.bank.spend(charged, now - since) == Spending::ToBeCharged
        {
            self.charge(charged, now - since);
        }
    }

    /// The part of [`Self::charge_until`] that is more than a subtraction.
    #[inline(never)]
    fn charge(&mut self, charged: Entity<N>, spent: u64) {
        let queue = self.bank.charge(charged, spent);
        self.requeue(charged, queue);
    }

    /// Replenishes at most `most` of the budgets whose time has come by `now`. [`Policy::pick`] replenishes all
    /// that are left: this is for a caller that may not do so much at a time.
    pub fn replenish_some(&mut self, now: u64, most: usize) -> Replenished {
        if self.replenish_up_to(now, most) > 0 || self.bank.next_timer() > now {
            Replenished::All
        } else {
            Replenished::Some
        }
    }

    /// Replenishes at most `most` of the budgets whose time has come by `now`. The answer is how many more it
    /// could have been.
    pub fn replenish_up_to(&mut self, now: u64, most: usize) -> usize {
        self.charge_until(now);
        for left in (1..=most).rev() {
            match self.bank.due(now) {
                Some((entity, queue)) => self.requeue(entity, queue),
                None => return left,
            }
        }
        0
    }

    /// The instant at which a budget is replenished next, or a bandwidth is free; [`u64::MAX`]: at none.
    #[inline]
    pub fn next_timer(&self) -> u64 {
        self.bank.next_timer()
    }

    /// Whether `entity` has work and no budget until its next period.
    pub fn is_spent(&self, entity: Entity<N>) -> bool {
        self.bank.is_spent(entity)
    }

    /// Replenishes the budgets whose time has come.
    #[inline(never)]
    fn replenish(&mut self, now: u64) {
        while let Some((entity, queue)) = self.bank.due(now) {
            self.requeue(entity, queue);
        }
    }

    /// The first of the ready servers, after its periods were brought up to date.
    #[inline]
    fn first(&mut self, now: u64) -> Option<Entity<N>> {
        let (entity, _) = self.ready.first()?;
        if self.bank.is_fresh(entity, now) {
            Some(entity)
        } else {
            self.refresh(now)
        }
    }

    /// The part of [`Self::first`] for when the first server's queue position must change.
    #[inline(never)]
    fn refresh(&mut self, now: u64) -> Option<Entity<N>> {
        // Each server is refreshed at most once: after that its next period begins later than now.
        loop {
            let (entity, _) = self.ready.first()?;
            match self.bank.refresh(entity, now) {
                None => return Some(entity),
                Some(queue) => self.requeue(entity, queue),
            }
        }
    }

    /// [`Policy::pick`] where nothing is due, and the first of the ready servers has work: who runs, and until when
    /// ([`u64::MAX`]: until an event). `None` says nothing: ask [`Policy::pick`].
    #[inline(always)]
    pub(crate) fn choose_at_once(&mut self, now: u64) -> Option<(Entity<N>, u64)> {
        if now > self.since {
            if let Some(charged) = self.charged
                && self.bank.spend(charged, now - self.since) == Spending::ToBeCharged
            {
                return None;
            }
            self.since = now;
        }
        let timer = self.bank.next_timer();
        let (first, _) = self.ready.first()?;
        if timer <= now || !self.bank.is_fresh(first, now) || !self.bank.has_work(first) {
            return None;
        }
        self.charged = Some(first);
        Some((first, self.bank.runs_until(first, now).min(timer)))
    }

    /// [`Policy::pick`], to be inlined where the image has room for it twice.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    #[cfg_attr(target_pointer_width = "32", inline(never))]
    pub(crate) fn choose(&mut self, now: u64) -> Decision<N> {
        self.charge_until(now);
        if self.bank.next_timer() <= now {
            self.replenish(now);
        }
        let first = self.first(now);
        if self.bank.rules.slack != Slack::Idle {
            self.note_tenure(first);
        }
        self.charged = first;
        let timer = self.bank.next_timer();
        let Some(first) = self.charged else {
            return self.idle(timer);
        };
        let run = if self.bank.has_work(first) {
            Some(first)
        } else {
            self.substitute()
        };
        decision(run, self.bank.runs_until(first, now).min(timer))
    }

    /// Notes since when the one that pays has done so; it is `payer` from now on. Where nobody gets
    /// another's time, a switch always comes with another payer, or is the first in a turn that began without work.
    #[inline(never)]
    fn note_tenure(&mut self, payer: Option<Entity<N>>) {
        if self.charged != payer {
            self.tenure = Tenure::Begins;
        } else if self.tenure == Tenure::Begins {
            self.tenure = Tenure::Lasts;
        }
    }

    /// [`Policy::exempt_switch`], unless the last [`Policy::pick`], not one at once, left the expense with who had it
    /// before. Then the switch is a part of what happens in its turn: somebody else runs there while it has no work, and
    /// how often that changes is its own affair. It costs the others nothing beyond its budget.
    pub(crate) fn exempt_first_switch(&mut self, now: u64) {
        if self.tenure == Tenure::Begins || self.bank.rules.slack == Slack::Idle {
            self.since = now;
        }
    }

    /// [`Policy::exempt_switch`] of the first switch in the turn of who pays, where all switches are told by this.
    pub(crate) fn exempt_one_switch(&mut self, now: u64) {
        if self.tenure != Tenure::Exempted || self.bank.rules.slack == Slack::Idle {
            self.since = now;
            self.tenure = Tenure::Exempted;
        }
    }

    /// Whether somebody pays, whom the last [`Policy::pick`] found paying already.
    pub(crate) fn payer_stays(&self) -> bool {
        self.tenure != Tenure::Begins && self.charged.is_some()
    }

    /// The entity that runs at the expense of a server without work.
    #[cold]
    #[inline(never)]
    fn substitute(&self) -> Option<Entity<N>> {
        if self.bank.rules.slack == Slack::Idle {
            return None;
        }
        let second = self.ready.second().map(|(second, _)| second);
        let works = second.filter(|second| self.bank.has_work(*second));
        works
            .or_else(|| self.bank.next_ready())
            .or_else(|| self.background())
    }

    /// The decision if no server has both work and budget.
    #[inline(never)]
    fn idle(&self, timer: u64) -> Decision<N> {
        decision(self.background(), timer)
    }

    /// The entity that runs in the background, if no server has both work and budget.
    fn background(&self) -> Option<Entity<N>> {
        match self.bank.rules.slack {
            Slack::Idle => None,
            _ => self.bank.next_spent(),
        }
    }
}

impl<const N: usize> Policy<N> for Servers<N> {
    fn wake(&mut self, entity: Entity<N>, now: u64) {
        self.charge_until(now);
        let queue = self.bank.wake(entity, now, None);
        self.requeue(entity, queue);
    }

    fn block(&mut self, entity: Entity<N>, now: u64) {
        self.charge_until(now);
        let queue = self.bank.block(entity, now);
        self.requeue(entity, queue);
        if queue == Queue::Out && self.charged == Some(entity) {
            self.charged = None;
        }
    }

    #[inline]
    fn yield_now(&mut self, entity: Entity<N>, now: u64) {
        self.charge_until(now);
        let queue = self.bank.yield_now(entity);
        self.requeue(entity, queue);
    }

    fn pick(&mut self, now: u64) -> Decision<N> {
        self.choose(now)
    }

    fn spends(&self) -> bool {
        self.charged.is_some()
    }

    fn charged(&self) -> Option<Entity<N>> {
        self.charged
    }

    #[inline]
    fn exempt_switch(&mut self, now: u64) {
        self.since = now;
    }

    fn suspend(&mut self, now: u64) {
        self.charge_until(now);
        self.charged = None;
        self.tenure = Tenure::Begins;
    }
}

#[inline]
fn decision<const N: usize>(run: Option<Entity<N>>, until: u64) -> Decision<N> {
    let until = (until != u64::MAX).then_some(until);
    Decision { run, until }
}
