//! Servers on one CPU: by the earliest deadline or by priority.
//!
//! A server is what a vCPU, or a component of several, has of its CPU: an [`Interface`] and
//! a [`Kind`]. The policy runs whose deadline is earliest or priority highest among those
//! that have work and budget, takes what they use from their budgets, and holds them back
//! without. So nobody, whatever it does, takes from another what that one was promised, if
//! the sum of the promises was admitted ([`admission`](crate::admission)).
//!
//! Rate monotonic and deadline monotonic order are the fixed priorities of [`Order`] with the
//! period or the deadline as the priority's number: [`Reservation::rate_monotonic`].

mod bank;
mod server;

#[cfg(test)]
mod tests;

pub(crate) use bank::{Bank, Queue, Rules};
pub use server::Kind;

use crate::tournament::Tournament;
use crate::{Decision, Entity, Interface, InterfaceError, Policy};

/// Who is chosen among those that may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Whose deadline is earliest (EDF).
    EarliestDeadline,
    /// Whose priority's number is smallest (rate monotonic, deadline monotonic, any other).
    Priority,
}

/// What becomes of time that was promised and is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slack {
    /// Nobody has it: each one gets its budget and no more, so that its speed does not
    /// depend on the others.
    Idle,
    /// Who is out of budget may run where nobody else would, and whoever has work where the
    /// budget of a periodic server is spent on nothing.
    Share,
    /// As `Share`, and servers of constant bandwidth divide the bandwidth that is not in use:
    /// greedy reclamation of unused bandwidth (GRUB; Lipari and Baruah 2000). The budget of
    /// the one that runs is spent at the rate of the active bandwidths' sum.
    Reclaim,
}

/// What one entity has: a promise, how its budget is treated, its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// How its budget is treated.
    pub kind: Kind,
    /// What is promised.
    pub interface: Interface,
    /// Its priority where these decide; the smallest number is the highest.
    pub priority: u64,
}

impl Reservation {
    /// The shorter the period, the higher the priority (Liu and Layland 1973).
    pub const fn rate_monotonic(kind: Kind, interface: Interface) -> Self {
        Self {
            kind,
            interface,
            priority: interface.period(),
        }
    }

    /// The shorter the deadline, the higher the priority (Leung and Whitehead 1982).
    pub const fn deadline_monotonic(kind: Kind, interface: Interface) -> Self {
        Self {
            kind,
            interface,
            priority: interface.deadline(),
        }
    }
}

/// One CPU's servers.
#[derive(Clone, Debug)]
pub struct Servers<const N: usize = { crate::MAX_ENTITIES }> {
    bank: Bank<N>,
    ready: Tournament<N>,
    /// At whose expense the CPU runs since `since`.
    charged: Option<Entity<N>>,
    since: u64,
}

impl<const N: usize> Servers<N> {
    /// Without servers.
    pub const fn new(order: Order, slack: Slack) -> Self {
        Self {
            bank: Bank::new(Rules { order, slack }),
            ready: Tournament::new(),
            charged: None,
            since: 0,
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
        self.forget(entity);
        self.ready.make_room(entity);
        let queue = self.bank.insert(entity, reservation, now);
        self.place(entity, queue);
        Ok(())
    }

    /// `entity` has nothing any more, and is chosen no more.
    pub fn release(&mut self, entity: Entity<N>, now: u64) {
        self.charge_until(now);
        self.forget(entity);
    }

    fn forget(&mut self, entity: Entity<N>) {
        self.bank.take(entity);
        self.ready.remove(entity);
        self.charged = self.charged.filter(|charged| *charged != entity);
    }

    /// `entity` gets another interface at its first period's end at or after `not_before`:
    /// until then it has what it was promised, and from then on its former bandwidth is free.
    /// `false` where it has no server.
    ///
    /// A change of several is safe if those that get less are told at once, and those that
    /// get more with the latest of the periods' ends of the former ([`Self::period_end`]).
    /// [`crate::mode::switch`] does so.
    pub fn change(
        &mut self,
        entity: Entity<N>,
        interface: Interface,
        not_before: u64,
    ) -> Result<bool, InterfaceError> {
        self.bank.change(entity, interface, not_before)
    }

    /// Whether the server of `entity`, if it has one, could keep `interface`.
    pub fn allows(&self, entity: Entity<N>, interface: Interface) -> Result<(), InterfaceError> {
        match self.bank.server(entity) {
            Some(server) => server.kind.suits(interface),
            None => Ok(()),
        }
    }

    /// What `entity` was promised.
    pub fn interface(&self, entity: Entity<N>) -> Option<Interface> {
        self.bank.server(entity).map(|server| server.interface)
    }

    /// When the period of `entity` that is under way at `now` ends.
    pub fn period_end(&self, entity: Entity<N>, now: u64) -> Option<u64> {
        let server = self.bank.server(entity)?;
        let period = server.interface.period();
        let passed = now.saturating_sub(server.release) / period;
        let ahead = passed.saturating_add(1).saturating_mul(period);
        Some(server.release.saturating_add(ahead))
    }

    /// What is left of the budget of `entity`, as of the last event.
    pub fn budget(&self, entity: Entity<N>) -> Option<u64> {
        self.bank.server(entity).map(|server| server.budget)
    }

    /// A task's job with a deadline of its own; else as [`Policy::wake`].
    pub fn wake_until(&mut self, entity: Entity<N>, now: u64, deadline: u64) {
        self.charge_until(now);
        let queue = self.bank.wake(entity, now, Some(deadline));
        self.place(entity, queue);
    }

    #[inline]
    fn place(&mut self, entity: Entity<N>, queue: Queue) {
        match queue {
            Queue::Same => {}
            Queue::Ready(key) => self.ready.set(entity, key),
            Queue::Out => self.ready.remove(entity),
        }
    }

    /// Takes what was used since the last look from the budget of the one that pays.
    #[inline]
    pub fn charge_until(&mut self, now: u64) {
        let since = core::mem::replace(&mut self.since, now);
        if let Some(charged) = self.charged
            && now > since
            && !self.bank.spend(charged, now - since)
        {
            self.charge(charged, now - since);
        }
    }

    /// The same, where that is more than a subtraction.
    #[inline(never)]
    fn charge(&mut self, charged: Entity<N>, spent: u64) {
        let queue = self.bank.charge(charged, spent);
        self.place(charged, queue);
    }

    /// Gives those their budgets for which the time has come.
    #[inline(never)]
    fn replenish(&mut self, now: u64) {
        while let Some((entity, queue)) = self.bank.due(now) {
            self.place(entity, queue);
        }
    }

    /// Who is first among the ready ones, periods up to date.
    #[inline]
    fn first(&mut self, now: u64) -> Option<Entity<N>> {
        let (entity, _) = self.ready.first()?;
        if self.bank.is_fresh(entity, now) {
            Some(entity)
        } else {
            self.refresh(now)
        }
    }

    /// The same, where the first one cannot stay as it is.
    #[inline(never)]
    fn refresh(&mut self, now: u64) -> Option<Entity<N>> {
        // Each server is refreshed once at most: its next period is later than now then.
        loop {
            let (entity, _) = self.ready.first()?;
            match self.bank.refresh(entity, now) {
                None => return Some(entity),
                Some(queue) => self.place(entity, queue),
            }
        }
    }

    /// Who runs at the expense of a server that has no work.
    #[cold]
    #[inline(never)]
    fn in_place_of(&self) -> Option<Entity<N>> {
        if self.bank.rules.slack == Slack::Idle {
            return None;
        }
        let second = self.ready.second().map(|(second, _)| second);
        let works = second.filter(|second| self.bank.has_work(*second));
        works.or_else(|| self.background())
    }

    /// What there is to do where nobody has work and budget.
    #[inline(never)]
    fn idle(&self, timer: u64) -> Decision<N> {
        decision(self.background(), timer)
    }

    /// Who runs where nobody has work and budget.
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
        self.place(entity, queue);
    }

    fn block(&mut self, entity: Entity<N>, now: u64) {
        self.charge_until(now);
        let queue = self.bank.block(entity, now);
        self.place(entity, queue);
        if queue == Queue::Out && self.charged == Some(entity) {
            self.charged = None;
        }
    }

    fn yield_now(&mut self, entity: Entity<N>, now: u64) {
        self.charge_until(now);
        let queue = self.bank.yield_now(entity);
        self.place(entity, queue);
    }

    fn pick(&mut self, now: u64) -> Decision<N> {
        self.charge_until(now);
        if self.bank.next_timer() <= now {
            self.replenish(now);
        }
        self.charged = self.first(now);
        let timer = self.bank.next_timer();
        let Some(first) = self.charged else {
            return self.idle(timer);
        };
        let run = if self.bank.has_work(first) {
            Some(first)
        } else {
            self.in_place_of()
        };
        decision(run, self.bank.lasts_until(first, now).min(timer))
    }

    fn spends(&self) -> bool {
        self.charged.is_some()
    }

    fn charged(&self) -> Option<Entity<N>> {
        self.charged
    }

    fn excuse(&mut self, now: u64) {
        self.since = now;
    }

    fn suspend(&mut self, now: u64) {
        self.charge_until(now);
        self.charged = None;
    }
}

#[inline]
fn decision<const N: usize>(run: Option<Entity<N>>, until: u64) -> Decision<N> {
    let until = (until != u64::MAX).then_some(until);
    Decision { run, until }
}
