//! All servers of a policy, and when their budgets come again.
//!
//! What is ready is in the queue of the policy that has the bank, by the key that the bank
//! tells ([`Queue`]); who is out of budget, or has a bandwidth that fades, is in the bank's
//! tournament by its instant. Who merely waits for work is in none of them: its periods are
//! brought up to date when it wakes, so that idle servers cost nothing.

use super::server::{Change, Kind, Server, State};
use super::{Order, Reservation, Slack};
use crate::arith::WHOLE;
use crate::tournament::{LAST_KEY, Tournament};
use crate::{Entity, Interface, InterfaceError};

/// Where a server belongs after what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Where it was.
    Same,
    /// Among the ready ones, with this key.
    Ready(u64),
    /// Not among them.
    Out,
}

/// How a bank's servers are served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub order: Order,
    pub slack: Slack,
}

#[derive(Clone, Debug)]
pub(crate) struct Bank<const N: usize> {
    servers: [Server; N],
    timers: Tournament<N>,
    /// The sum of the bandwidths that are in use.
    active: u64,
    pub rules: Rules,
}

impl<const N: usize> Bank<N> {
    pub const fn new(rules: Rules) -> Self {
        Self {
            servers: [const { Server::VACANT }; N],
            timers: Tournament::new(),
            active: 0,
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

    /// The server of `entity`, if it has one.
    pub fn server(&self, entity: Entity<N>) -> Option<&Server> {
        Some(self.at(entity)).filter(|server| server.state != State::Vacant)
    }

    /// A server from `now` on, in place of what was there. Where it belongs.
    pub fn insert(&mut self, entity: Entity<N>, what: Reservation, now: u64) -> Queue {
        self.take(entity);
        self.timers.make_room(entity);
        let server = Server::new(self.rules.order, what, now);
        let begins = server.kind == Kind::Periodic;
        let moves = server.kind.moves_deadline();
        *self.at_mut(entity) = server;
        if !moves {
            // Nothing tells when its bandwidth is free: it never is.
            self.activate(entity);
        }
        if begins {
            self.ready(entity)
        } else {
            Queue::Out
        }
    }

    /// Takes a server away.
    pub fn take(&mut self, entity: Entity<N>) {
        self.timers.remove(entity);
        self.deactivate(entity);
        *self.at_mut(entity) = Server::VACANT;
    }

    /// A new interface from the first period's end at or after `not_before` on.
    pub fn change(
        &mut self,
        entity: Entity<N>,
        interface: Interface,
        not_before: u64,
    ) -> Result<bool, InterfaceError> {
        let server = self.at_mut(entity);
        if server.state == State::Vacant {
            return Ok(false);
        }
        server.kind.suits(interface)?;
        server.change = Some(Change {
            interface,
            not_before,
        });
        Ok(true)
    }

    /// How fast a budget is spent where what is not used is given away: the sum of the active
    /// bandwidths. `None`: as time passes.
    #[inline]
    fn rate(&self, server: &Server) -> Option<u64> {
        let slow = self.rules.slack == Slack::Reclaim && server.kind.moves_deadline();
        slow.then(|| self.active.clamp(1, WHOLE))
    }

    /// Until when `entity`, which begins to run, may do so by its own budget; [`u64::MAX`]: as
    /// long as it likes.
    #[inline]
    pub fn lasts_until(&self, entity: Entity<N>, now: u64) -> u64 {
        let server = self.at(entity);
        if server.kind == Kind::Task {
            return u64::MAX;
        }
        let lasts = match self.rate(server) {
            None => server.budget,
            Some(rate) => server.lasts(rate),
        };
        now.saturating_add(lasts).min(server.stale)
    }

    /// Takes `spent` ticks from the budget of `entity`, where nothing else is to be done;
    /// `false` where [`Self::charge`] is.
    #[inline]
    pub fn spend(&mut self, entity: Entity<N>, spent: u64) -> bool {
        let plain = self.rules.slack != Slack::Reclaim;
        let server = self.at_mut(entity);
        let left = plain && spent < server.budget;
        if left {
            server.budget -= spent;
        }
        left
    }

    /// `entity` ran for `spent` at its own expense.
    pub fn charge(&mut self, entity: Entity<N>, spent: u64) -> Queue {
        let rate = self.rate(self.at(entity));
        let server = self.at_mut(entity);
        let left = match rate {
            None => server.spend(spent),
            Some(rate) => server.spend_slowly(spent, rate),
        };
        if left {
            Queue::Same
        } else {
            self.exhausted(entity)
        }
    }

    /// Its budget is gone.
    fn exhausted(&mut self, entity: Entity<N>) -> Queue {
        let server = self.at_mut(entity);
        if server.kind == Kind::SoftBandwidth {
            self.postpone(entity);
            return self.ready(entity);
        }
        server.budget = 0;
        self.spent(entity)
    }

    /// It waits for its next period.
    #[inline]
    fn spent(&mut self, entity: Entity<N>) -> Queue {
        let server = self.at_mut(entity);
        server.state = State::Spent;
        let next = server.next;
        self.timers.set(entity, next);
        Queue::Out
    }

    /// The next deadline, and a new budget at once.
    fn postpone(&mut self, entity: Entity<N>) {
        self.count_anew(entity, |server| {
            server.postpone();
            true
        });
    }

    /// Lets `then` change a server, and keeps the sum of bandwidths.
    #[inline(never)]
    fn count_anew(&mut self, entity: Entity<N>, then: impl FnOnce(&mut Server) -> bool) -> bool {
        let server = self.at_mut(entity);
        let before = server.bandwidth;
        let changed = then(server);
        let (after, active) = (server.bandwidth, server.active);
        if active && after != before {
            self.active = self.active.saturating_sub(before).saturating_add(after);
        }
        changed
    }

    /// Among the ready ones, where it has a budget.
    #[inline]
    fn ready(&mut self, entity: Entity<N>) -> Queue {
        let server = self.at_mut(entity);
        if server.budget == 0 {
            return self.spent(entity);
        }
        server.state = State::Ready;
        Queue::Ready(server.key)
    }

    /// Periods up to date.
    #[inline]
    fn advance(&mut self, entity: Entity<N>, now: u64) -> bool {
        let server = self.at_mut(entity);
        if now < server.next {
            return false;
        }
        match server.change {
            None => server.advance(now),
            Some(_) => self.count_anew(entity, |server| server.advance(now)),
        }
    }

    /// `entity` has work from `now` on; a task's deadline is `deadline` where that is given.
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
                // No time uses that up.
                server.budget = u64::MAX;
            }
            (Kind::Periodic, _) | (_, State::Spent) => return Queue::Same,
            (Kind::Polling, _) => self.wake_polling(entity, now),
            (Kind::Deferrable, _) => self.wake_deferrable(entity, now),
            (Kind::ConstantBandwidth | Kind::SoftBandwidth, _) => self.wake_moving(entity, now),
        }
        self.ready(entity)
    }

    /// It gets the budget of a period that begins now; that of one that has begun is lost.
    fn wake_polling(&mut self, entity: Entity<N>, now: u64) {
        self.advance(entity, now);
        let server = self.at_mut(entity);
        if server.release != now {
            server.budget = 0;
        }
    }

    #[inline]
    fn wake_deferrable(&mut self, entity: Entity<N>, now: u64) {
        self.advance(entity, now);
        if self.rules.order == Order::EarliestDeadline {
            self.at_mut(entity).cut(now);
        }
    }

    fn wake_moving(&mut self, entity: Entity<N>, now: u64) {
        self.timers.remove(entity);
        let server = self.at_mut(entity);
        if now >= server.deadline || server.is_beyond_bandwidth(now) {
            self.count_anew(entity, |server| {
                server.begin_moved(now);
                true
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

    /// `entity` has no work any more; what it used is charged already.
    #[inline]
    pub fn block(&mut self, entity: Entity<N>, now: u64) -> Queue {
        let server = self.at_mut(entity);
        if !core::mem::replace(&mut server.work, false) {
            return Queue::Same;
        }
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

    /// Its bandwidth counts until its 0-lag time, where that matters.
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

    /// `entity` gives up what is left of its budget, and has work.
    pub fn yield_now(&mut self, entity: Entity<N>) -> Queue {
        let server = self.at_mut(entity);
        if server.state == State::Ready && server.kind != Kind::Task {
            self.exhausted(entity)
        } else {
            Queue::Same
        }
    }

    /// The next server for which time has come by `now`, and where it belongs.
    #[inline]
    pub fn due(&mut self, now: u64) -> Option<(Entity<N>, Queue)> {
        let (entity, at) = self.timers.first()?;
        // What comes at the end of time never comes.
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
        if server.kind.moves_deadline() {
            self.postpone(entity);
        } else {
            self.advance(entity, now);
        }
        let queue = self.ready(entity);
        if queue != Queue::Out {
            self.timers.remove(entity);
        }
        queue
    }

    /// Whether `entity`, first among the ready ones, can run as it is.
    #[inline]
    pub fn is_fresh(&self, entity: Entity<N>, now: u64) -> bool {
        now < self.at(entity).stale && self.rules.slack != Slack::Reclaim
    }

    /// `entity` is first among the ready ones: where it belongs, if it cannot stay there: a
    /// new period of it has begun meanwhile, or its budget is too small for a tick by now.
    #[inline]
    pub fn refresh(&mut self, entity: Entity<N>, now: u64) -> Option<Queue> {
        let server = self.at(entity);
        if now >= server.stale {
            return self.advance(entity, now).then(|| self.ready(entity));
        }
        match self.rate(server) {
            Some(rate) if server.lasts(rate) == 0 => Some(self.exhausted(entity)),
            _ => None,
        }
    }

    /// When the next timer comes; [`u64::MAX`]: none will.
    #[inline]
    pub fn next_timer(&self) -> u64 {
        self.timers.first_key()
    }

    /// Who is out of budget, has work, and gets its budget next or next but one.
    pub fn next_spent(&self) -> Option<Entity<N>> {
        let spent = |entity: &Entity<N>| {
            let server = self.at(*entity);
            server.state == State::Spent && server.work
        };
        let (first, _) = self.timers.first()?;
        let second = || self.timers.second().map(|(second, _)| second);
        Some(first).filter(spent).or_else(|| second().filter(spent))
    }

    /// Whether `entity` has work.
    #[inline]
    pub fn has_work(&self, entity: Entity<N>) -> bool {
        self.at(entity).work
    }
}
