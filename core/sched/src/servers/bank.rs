//! All servers of a policy, and the timers by which their budgets are replenished.
//!
//! Ready servers are in the queue of the policy that owns the bank, by the key that the bank tells
//! ([`Queue`]). Servers that are out of budget, or whose bandwidth is still in use after they
//! blocked, are in the bank's tournament, by the instant at which that ends. Servers that only wait
//! for work are in neither: their periods are brought up to date when they wake, so that idle
//! servers cost nothing.

use super::server::{Budget, Change, Kind, Period, Server, State};
use super::{Order, Reservation, Slack};
use crate::arith::WHOLE;
use crate::tournament::{LAST_KEY, Tournament};
use crate::{Entity, Interface, InterfaceError};

/// The queue position of a server after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// As before.
    Same,
    /// In the queue of ready servers, with this key.
    Ready(u64),
    /// Not in the queue.
    Out,
}

/// Whether a change of an interface was scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ChangeStatus {
    /// The server will have the interface from a period's end on.
    Scheduled,
    /// The entity has no server.
    NoServer,
}

/// What came of [`Bank::spend`], which only subtracts from a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Spending {
    /// The budget is charged, and some of it is left.
    Done,
    /// Nothing has changed: the server is to be charged by [`Bank::charge`].
    ToBeCharged,
}

/// The rules by which a bank serves its servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub order: Order,
    pub slack: Slack,
    /// What a server that may begin inside its period pays from its budget for the two switches, to it and back, whenever
    /// it begins to have work or gets a budget for work that it has; in ticks.
    pub prepaid: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Bank<const N: usize> {
    pub(super) servers: [Server; N],
    pub(super) timers: Tournament<N>,
    /// The sum of the bandwidths that are in use.
    active: u64,
    /// The servers whose counts may have changed since they were read, one bit each (modulo 64).
    news: u64,
    /// The place behind the last one that ever had a server.
    pub(super) used: usize,
    pub rules: Rules,
}

impl<const N: usize> Bank<N> {
    pub const fn new(rules: Rules) -> Self {
        Self {
            servers: [const { Server::VACANT }; N],
            timers: Tournament::new(),
            active: 0,
            news: 0,
            used: 0,
            rules,
        }
    }

    #[inline]
    fn at(&self, entity: Entity<N>) -> &Server {
        &self.servers[entity.index() & (N - 1)]
    }

    #[inline]
    fn at_mut(&mut self, entity: Entity<N>) -> &mut Server {
        &mut self.servers[entity.index() & (N - 1)]
    }

    /// Whether the counts of a server may have changed since they were last read.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.news != 0
    }

    /// As [`super::Servers::served`].
    pub fn take_served(&mut self, entity: Entity<N>) -> Option<(u32, u32)> {
        self.news &= !(1 << (entity.index() % 64));
        let server = self.server(entity)?;
        Some((server.throttled, server.late))
    }

    /// The server of `entity`, if it has one.
    pub fn server(&self, entity: Entity<N>) -> Option<&Server> {
        Some(self.at(entity)).filter(|server| server.state != State::Vacant)
    }

    /// Creates a server from `now` on, in place of any other. The answer is its queue position.
    pub fn insert(&mut self, entity: Entity<N>, what: Reservation, now: u64) -> Queue {
        self.take(entity);
        self.timers.make_room(entity);
        let server = Server::new(self.rules.order, what, now);
        let begins = server.kind == Kind::Periodic;
        let moves = server.kind.moves_deadline();
        *self.at_mut(entity) = server;
        self.used = self.used.max(entity.index() + 1);
        if !moves {
            // No event will say when its bandwidth is free, so it is in use for ever.
            self.activate(entity);
        }
        if begins {
            self.make_ready(entity)
        } else {
            Queue::Out
        }
    }

    /// Removes the server of `entity`.
    pub fn take(&mut self, entity: Entity<N>) {
        self.timers.remove(entity);
        self.deactivate(entity);
        *self.at_mut(entity) = Server::VACANT;
    }

    /// Schedules another interface, from the first period's end at or after `not_before` on.
    pub fn change(
        &mut self,
        entity: Entity<N>,
        interface: Interface,
        not_before: u64,
    ) -> Result<ChangeStatus, InterfaceError> {
        let server = self.at_mut(entity);
        if server.state == State::Vacant {
            return Ok(ChangeStatus::NoServer);
        }
        server.kind.suits(interface)?;
        server.change = Some(Change {
            interface,
            not_before,
        });
        Ok(ChangeStatus::Scheduled)
    }

    /// Lets a server that waits for work, and is in no queue, take note of a change whose instant has come by `now`, as it
    /// would when it wakes. Returns whether there was such a change.
    #[cold]
    #[inline(never)]
    pub fn take_note(&mut self, entity: Entity<N>, now: u64) -> bool {
        let server = self.at_mut(entity);
        // While it is idle, its bandwidth is in no sum. The instant is the end of one of its periods, and not before its
        // deadline: what begins there is what would begin, whatever the kind, if it woke there.
        let at = server.pending().map(|(_, at)| at);
        match at.filter(|at| *at <= now && server.state == State::Idle) {
            Some(at) => server.begin_at_wake_up(at),
            None => return false,
        }
        true
    }

    /// The rate at which a budget is spent if unused bandwidth is given away: the sum of the active
    /// bandwidths. `None` means that a tick of time costs a tick of budget.
    #[inline]
    fn rate(&self, server: &Server) -> Option<u64> {
        let slow = self.rules.slack == Slack::Reclaim && server.kind.moves_deadline();
        slow.then(|| self.active.clamp(1, WHOLE))
    }

    /// The instant up to which `entity`, which begins to run, may run by its own budget;
    /// [`u64::MAX`] means without a limit.
    #[inline(always)]
    pub fn runs_until(&self, entity: Entity<N>, now: u64) -> u64 {
        let server = self.at(entity);
        if server.kind == Kind::Task {
            return u64::MAX;
        }
        let lasts = match self.rate(server) {
            None => server.budget,
            Some(rate) => server.ticks_left(rate),
        };
        now.saturating_add(lasts).min(server.refresh_at)
    }

    /// Takes `spent` ticks from the budget of `entity`, if that is all that is to be done.
    #[inline]
    pub fn spend(&mut self, entity: Entity<N>, spent: u64) -> Spending {
        let plain = self.rules.slack != Slack::Reclaim;
        let server = self.at_mut(entity);
        if plain && spent < server.budget {
            server.budget -= spent;
            Spending::Done
        } else {
            Spending::ToBeCharged
        }
    }

    /// Charges `entity` for `spent` ticks that it ran at its own expense.
    pub fn charge(&mut self, entity: Entity<N>, spent: u64) -> Queue {
        let rate = self.rate(self.at(entity));
        let server = self.at_mut(entity);
        let left = match rate {
            None => server.spend(spent),
            Some(rate) => server.spend_slowly(spent, rate),
        };
        match left {
            Budget::Left => Queue::Same,
            Budget::UsedUp => {
                server.throttled = server.throttled.wrapping_add(u32::from(server.work));
                self.news |= 1 << (entity.index() % 64);
                self.exhaust(entity)
            }
        }
    }

    /// The budget is used up.
    fn exhaust(&mut self, entity: Entity<N>) -> Queue {
        self.exhaust_inline(entity)
    }

    #[inline(always)]
    fn exhaust_inline(&mut self, entity: Entity<N>) -> Queue {
        let server = self.at_mut(entity);
        if server.kind == Kind::SoftBandwidth {
            // It promises nothing, and goes on behind those with earlier deadlines: it pays when it wakes alone.
            self.postpone(entity);
            return self.make_ready(entity);
        }
        server.budget = 0;
        self.wait_for_period(entity)
    }

    /// The server waits for its next period.
    #[inline]
    fn wait_for_period(&mut self, entity: Entity<N>) -> Queue {
        let server = self.at_mut(entity);
        server.state = State::Spent;
        let next = server.next;
        self.timers.set(entity, next);
        Queue::Out
    }

    /// Gives the server the next deadline, and a new budget at once.
    #[inline]
    fn postpone(&mut self, entity: Entity<N>) {
        let server = self.at_mut(entity);
        if server.change.is_none() {
            // The bandwidth stays.
            return server.postpone();
        }
        let _ = self.with_bandwidth_update(entity, |server| {
            server.postpone();
            Period::Begun
        });
    }

    /// Lets `then` change a server, and updates the sum of bandwidths.
    #[inline(never)]
    fn with_bandwidth_update(
        &mut self,
        entity: Entity<N>,
        then: impl FnOnce(&mut Server) -> Period,
    ) -> Period {
        let server = self.at_mut(entity);
        let before = server.bandwidth;
        let period = then(server);
        let (after, active) = (server.bandwidth, server.active);
        if active && after != before {
            self.active = self.active.saturating_sub(before).saturating_add(after);
        }
        period
    }

    /// The server, which may begin inside its period, pays for the switches to it and back: others pay nothing for them,
    /// however often it begins. If it has too little for that, it has no budget until its next period, and is not switched
    /// to.
    fn prepay(&mut self, entity: Entity<N>) {
        let prepaid = self.rules.prepaid;
        let server = self.at_mut(entity);
        server.budget = server.budget.saturating_sub(prepaid);
    }

    /// The server is ready if it has a budget.
    #[inline]
    fn make_ready(&mut self, entity: Entity<N>) -> Queue {
        let server = self.at_mut(entity);
        if server.budget == 0 {
            return self.wait_for_period(entity);
        }
        server.state = State::Ready;
        Queue::Ready(server.key)
    }

    /// Brings the periods of a server up to date.
    #[inline]
    fn advance(&mut self, entity: Entity<N>, now: u64) -> Period {
        let server = self.at_mut(entity);
        if now < server.next {
            return Period::Unchanged;
        }
        self.news |= 1 << (entity.index() % 64);
        let server = self.at_mut(entity);
        match server.change {
            None => server.advance(now),
            Some(_) => self.with_bandwidth_update(entity, |server| server.advance(now)),
        }
    }

    /// `entity` has work from `now` on. A task's deadline is `deadline`, if that is given.
    #[inline]
    pub fn wake(&mut self, entity: Entity<N>, now: u64, deadline: Option<u64>) -> Queue {
        let server = self.at_mut(entity);
        if server.work || server.state == State::Vacant {
            return Queue::Same;
        }
        server.work = true;
        match (server.kind, server.state) {
            (Kind::Task, _) => {
                let usual = now.saturating_add(server.interface.deadline());
                server.set_deadline(deadline.unwrap_or(usual));
                // A task's budget never ends.
                server.budget = u64::MAX;
            }
            (Kind::Periodic, _) | (_, State::Spent) => return Queue::Same,
            (Kind::Polling, _) => self.wake_polling(entity, now),
            (Kind::Deferrable, _) => {
                self.wake_deferrable(entity, now);
                self.prepay(entity);
            }
            (Kind::ConstantBandwidth | Kind::SoftBandwidth, _) => {
                self.wake_moving(entity, now);
                self.prepay(entity);
            }
        }
        self.make_ready(entity)
    }

    /// The server gets the budget of a period that begins now. If the period began earlier, its
    /// budget is lost.
    fn wake_polling(&mut self, entity: Entity<N>, now: u64) {
        let _ = self.advance(entity, now);
        let server = self.at_mut(entity);
        if server.release != now {
            server.budget = 0;
        }
    }

    #[inline]
    fn wake_deferrable(&mut self, entity: Entity<N>, now: u64) {
        let _ = self.advance(entity, now);
        if self.rules.order == Order::EarliestDeadline {
            self.at_mut(entity).limit_budget(now);
        }
    }

    fn wake_moving(&mut self, entity: Entity<N>, now: u64) {
        self.timers.remove(entity);
        let server = self.at_mut(entity);
        if now >= server.deadline || server.is_beyond_bandwidth(now) {
            let _ = self.with_bandwidth_update(entity, |server| {
                server.begin_at_wake_up(now);
                Period::Begun
            });
        }
        self.activate(entity);
    }

    fn activate(&mut self, entity: Entity<N>) {
        let server = self.at_mut(entity);
        if !core::mem::replace(&mut server.active, true) {
            let bandwidth = server.bandwidth;
            self.active = self.active.saturating_add(bandwidth);
        }
    }

    fn deactivate(&mut self, entity: Entity<N>) {
        let server = self.at_mut(entity);
        if core::mem::replace(&mut server.active, false) {
            let bandwidth = server.bandwidth;
            self.active = self.active.saturating_sub(bandwidth);
        }
    }

    /// `entity` has no work any more. What it has used must be charged already.
    #[inline]
    pub fn block(&mut self, entity: Entity<N>, now: u64) -> Queue {
        let server = self.at_mut(entity);
        if !core::mem::replace(&mut server.work, false) {
            return Queue::Same;
        }
        server.steady = false;
        match (server.kind, server.state) {
            (Kind::Periodic, _) => return Queue::Same,
            (Kind::Polling, State::Ready) if server.release != now => server.budget = 0,
            (Kind::ConstantBandwidth | Kind::SoftBandwidth, _) => {
                return self.fade(entity, now);
            }
            _ => {}
        }
        server.state = State::Idle;
        self.timers.remove(entity);
        Queue::Out
    }

    /// The server's bandwidth stays in use until its 0-lag time, if unused bandwidth is reclaimed.
    fn fade(&mut self, entity: Entity<N>, now: u64) -> Queue {
        let reclaims = self.rules.slack == Slack::Reclaim;
        let server = self.at_mut(entity);
        let free = if reclaims { server.zero_lag() } else { now };
        if free > now {
            server.state = State::Fading;
            self.timers.set(entity, free);
        } else {
            server.state = State::Idle;
            self.timers.remove(entity);
            self.deactivate(entity);
        }
        Queue::Out
    }

    /// `entity` gives up the rest of its budget, and still has work.
    #[inline]
    pub fn yield_now(&mut self, entity: Entity<N>) -> Queue {
        let server = self.at_mut(entity);
        if server.state == State::Ready && server.kind != Kind::Task {
            self.exhaust_inline(entity)
        } else {
            Queue::Same
        }
    }

    /// The next server whose timer has expired by `now`, and its queue position.
    #[inline]
    pub fn due(&mut self, now: u64) -> Option<(Entity<N>, Queue)> {
        let (entity, at) = self.timers.first()?;
        // A timer at the end of time never expires.
        (at <= now && at < LAST_KEY).then(|| (entity, self.expire(entity, now)))
    }

    fn expire(&mut self, entity: Entity<N>, now: u64) -> Queue {
        let server = self.at_mut(entity);
        if server.state == State::Fading {
            server.state = State::Idle;
            self.timers.remove(entity);
            self.deactivate(entity);
            return Queue::Out;
        }
        if server.kind.begins_inside() {
            self.replenish_prepaid(entity, now);
        } else {
            let _ = self.advance(entity, now);
        }
        let queue = self.make_ready(entity);
        if queue != Queue::Out {
            self.timers.remove(entity);
        }
        queue
    }

    /// A server that may begin inside its period, and is out of budget with work, has its next one.
    #[inline(never)]
    fn replenish_prepaid(&mut self, entity: Entity<N>, now: u64) {
        if self.at(entity).kind.moves_deadline() {
            self.postpone(entity);
        } else {
            let _ = self.advance(entity, now);
        }
        self.prepay(entity);
    }

    /// Whether `entity`, the first of the ready servers, can run as it is.
    #[inline]
    pub fn is_fresh(&self, entity: Entity<N>, now: u64) -> bool {
        now < self.at(entity).refresh_at && self.rules.slack != Slack::Reclaim
    }

    /// The new queue position of `entity`, the first of the ready servers, if it must change:
    /// because a new period has begun meanwhile, or because the budget is too small for another
    /// tick.
    #[inline]
    pub fn refresh(&mut self, entity: Entity<N>, now: u64) -> Option<Queue> {
        let server = self.at(entity);
        if now >= server.refresh_at {
            if self.advance(entity, now) == Period::Unchanged {
                return None;
            }
            if self.at(entity).kind == Kind::Deferrable {
                self.prepay(entity);
            }
            return Some(self.make_ready(entity));
        }
        match self.rate(server) {
            Some(rate) if server.ticks_left(rate) == 0 => Some(self.exhaust(entity)),
            _ => None,
        }
    }

    /// The instant of the next timer; [`u64::MAX`] if there is none.
    #[inline]
    pub fn next_timer(&self) -> u64 {
        self.timers.first_key()
    }

    /// Whether `entity` has work and no budget.
    pub fn is_spent(&self, entity: Entity<N>) -> bool {
        let server = self.at(entity);
        server.state == State::Spent && server.work
    }

    /// Whether `entity` has work.
    #[inline]
    pub fn has_work(&self, entity: Entity<N>) -> bool {
        self.at(entity).work
    }
}
