//! All servers of a policy, and when their budgets come again.
//!
//! What is ready is in the queue of the policy that has the bank, by the key that the bank
//! tells ([`Queue`]); who is out of budget, or has a bandwidth that fades, is in the bank's
//! tournament by its instant. Who merely waits for work is in none of them: its periods are
//! brought up to date when it wakes, by one division, so that idle servers cost nothing.

use super::server::{Change, Kind, Server, State};
use super::{Order, Slack};
use crate::arith::WHOLE;
use crate::tournament::Tournament;
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
    servers: [Option<Server>; N],
    timers: Tournament<N>,
    /// The sum of the bandwidths that are in use.
    active: u64,
    pub rules: Rules,
}

impl<const N: usize> Bank<N> {
    pub const fn new(rules: Rules) -> Self {
        Self {
            servers: [const { None }; N],
            timers: Tournament::new(),
            active: 0,
            rules,
        }
    }

    #[inline]
    pub fn server(&self, entity: Entity<N>) -> Option<&Server> {
        self.servers[entity.index() & (N - 1)].as_ref()
    }

    #[inline]
    fn server_mut(&mut self, entity: Entity<N>) -> Option<&mut Server> {
        self.servers[entity.index() & (N - 1)].as_mut()
    }

    #[inline]
    fn key(&self, server: &Server) -> u64 {
        match self.rules.order {
            Order::EarliestDeadline => server.deadline,
            Order::Priority => server.priority,
        }
    }

    /// A server from `now` on, in place of what was there. Where it belongs.
    pub fn insert(&mut self, entity: Entity<N>, server: Server) -> Queue {
        self.take(entity);
        let begins = server.kind == Kind::Periodic;
        let moves = server.kind.moves_deadline();
        self.servers[entity.index() & (N - 1)] = Some(server);
        if !moves {
            // Nothing tells when its bandwidth is free: it never is.
            self.activate(entity);
        }
        match begins {
            true => self.ready(entity),
            false => Queue::Out,
        }
    }

    /// Takes a server away.
    pub fn take(&mut self, entity: Entity<N>) -> bool {
        self.timers.remove(entity);
        let taken = self.servers[entity.index() & (N - 1)].take();
        if let Some(server) = &taken
            && server.active
        {
            self.active = self.active.saturating_sub(server.bandwidth);
        }
        taken.is_some()
    }

    /// A new interface from the first period's end at or after `not_before` on.
    pub fn change(
        &mut self,
        entity: Entity<N>,
        interface: Interface,
        not_before: u64,
    ) -> Result<bool, InterfaceError> {
        let Some(server) = self.server_mut(entity) else {
            return Ok(false);
        };
        server.kind.suits(interface)?;
        server.change = Some(Change {
            interface,
            not_before,
        });
        Ok(true)
    }

    /// How fast a budget of this kind is spent: the sum of the active bandwidths.
    #[inline]
    fn rate(&self, server: &Server) -> u64 {
        match self.rules.slack {
            Slack::Reclaim if server.kind.moves_deadline() => self.active.clamp(1, WHOLE),
            _ => WHOLE,
        }
    }

    /// For how long `entity`, which begins to run, may do so by its own budget.
    pub fn lasts_until(&self, entity: Entity<N>, now: u64) -> Option<u64> {
        let server = self.server(entity)?;
        if server.kind == Kind::Task {
            return None;
        }
        let lasts = match self.rate(server) {
            WHOLE if !server.has_fraction() => server.budget,
            rate => server.lasts(rate),
        };
        let end = now.saturating_add(lasts);
        match server.kind.moves_deadline() {
            true => Some(end),
            false => Some(end.min(server.next_release())),
        }
    }

    /// `entity` ran from `since` to `now` at its own expense.
    pub fn charge(&mut self, entity: Entity<N>, since: u64, now: u64) -> Queue {
        let Some(server) = self.server(entity) else {
            return Queue::Out;
        };
        let spent = now.saturating_sub(since);
        if spent == 0 || server.kind == Kind::Task {
            return Queue::Same;
        }
        let rate = self.rate(server);
        let Some(server) = self.server_mut(entity) else {
            return Queue::Out;
        };
        let left = match rate {
            WHOLE if !server.has_fraction() => server.spend(spent),
            rate => server.spend_slowly(spent, rate),
        };
        match left {
            true => Queue::Same,
            false => self.exhausted(entity),
        }
    }

    /// Its budget is gone.
    fn exhausted(&mut self, entity: Entity<N>) -> Queue {
        let Some(server) = self.server_mut(entity) else {
            return Queue::Out;
        };
        let next = server.next_release();
        if server.kind == Kind::SoftBandwidth {
            return self.postpone(entity);
        }
        server.budget = 0;
        server.state = State::Spent;
        self.timers.set(entity, next);
        Queue::Out
    }

    /// The next deadline, and a new budget at once.
    fn postpone(&mut self, entity: Entity<N>) -> Queue {
        self.count_anew(entity, |server| {
            server.postpone();
            true
        });
        self.ready(entity)
    }

    /// Lets `then` change a server, and keeps the sum of bandwidths.
    fn count_anew(&mut self, entity: Entity<N>, then: impl FnOnce(&mut Server) -> bool) -> bool {
        let Some(server) = self.servers[entity.index() & (N - 1)].as_mut() else {
            return false;
        };
        let before = server.bandwidth;
        let changed = then(server);
        if server.active && server.bandwidth != before {
            self.active = self.active.saturating_sub(before) + server.bandwidth;
        }
        changed
    }

    /// Among the ready ones, where it has a budget.
    fn ready(&mut self, entity: Entity<N>) -> Queue {
        let Some(server) = self.server_mut(entity) else {
            return Queue::Out;
        };
        if server.budget == 0 && server.kind != Kind::Task {
            server.state = State::Spent;
            let next = server.next_release();
            self.timers.set(entity, next);
            return Queue::Out;
        }
        server.state = State::Ready;
        match self.server(entity) {
            Some(server) => Queue::Ready(self.key(server)),
            None => Queue::Out,
        }
    }

    /// Periods up to date.
    fn advance(&mut self, entity: Entity<N>, now: u64) -> bool {
        self.count_anew(entity, |server| server.advance(now))
    }

    /// `entity` has work from `now` on; a task's deadline is `deadline` where that is given.
    pub fn wake(&mut self, entity: Entity<N>, now: u64, deadline: Option<u64>) -> Queue {
        let Some(server) = self.server_mut(entity) else {
            return Queue::Out;
        };
        if server.work {
            return Queue::Same;
        }
        server.work = true;
        match (server.kind, server.state) {
            (Kind::Task, _) => {
                let usual = now.saturating_add(server.interface.deadline());
                server.deadline = deadline.unwrap_or(usual);
                self.ready(entity)
            }
            (Kind::Periodic, _) | (_, State::Spent) => Queue::Same,
            (Kind::Polling, _) => self.wake_polling(entity, now),
            (Kind::Deferrable, _) => self.wake_deferrable(entity, now),
            (Kind::ConstantBandwidth | Kind::SoftBandwidth, _) => self.wake_moving(entity, now),
        }
    }

    /// It gets the budget of a period that begins now; that of one that has begun is lost.
    fn wake_polling(&mut self, entity: Entity<N>, now: u64) -> Queue {
        self.advance(entity, now);
        if let Some(server) = self.server_mut(entity)
            && server.release != now
        {
            server.budget = 0;
        }
        self.ready(entity)
    }

    fn wake_deferrable(&mut self, entity: Entity<N>, now: u64) -> Queue {
        self.advance(entity, now);
        if self.rules.order == Order::EarliestDeadline
            && let Some(server) = self.server_mut(entity)
        {
            server.cut(now);
        }
        self.ready(entity)
    }

    fn wake_moving(&mut self, entity: Entity<N>, now: u64) -> Queue {
        self.timers.remove(entity);
        let Some(server) = self.server_mut(entity) else {
            return Queue::Out;
        };
        if now >= server.deadline || server.is_beyond_bandwidth(now) {
            self.count_anew(entity, |server| {
                server.begin_moved(now);
                true
            });
        }
        self.activate(entity);
        self.ready(entity)
    }

    fn activate(&mut self, entity: Entity<N>) {
        let active = &mut self.active;
        if let Some(server) = &mut self.servers[entity.index() & (N - 1)]
            && !core::mem::replace(&mut server.active, true)
        {
            *active = active.saturating_add(server.bandwidth);
        }
    }

    fn deactivate(&mut self, entity: Entity<N>) {
        let active = &mut self.active;
        if let Some(server) = &mut self.servers[entity.index() & (N - 1)]
            && core::mem::replace(&mut server.active, false)
        {
            *active = active.saturating_sub(server.bandwidth);
        }
    }

    /// `entity` has no work any more; what it used is charged already.
    pub fn block(&mut self, entity: Entity<N>, now: u64) -> Queue {
        let Some(server) = self.server_mut(entity) else {
            return Queue::Out;
        };
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

    /// Its bandwidth counts until its 0-lag time.
    fn fade(&mut self, entity: Entity<N>, now: u64) -> Queue {
        let Some(server) = self.server_mut(entity) else {
            return Queue::Out;
        };
        let free = server.zero_lag();
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
    pub fn give_way(&mut self, entity: Entity<N>) -> Queue {
        match self.server_mut(entity) {
            Some(server) if server.state == State::Ready && server.kind != Kind::Task => {
                server.budget = 0;
                self.exhausted(entity)
            }
            _ => Queue::Same,
        }
    }

    /// The next server for which time has come by `now`, and where it belongs.
    #[inline]
    pub fn due(&mut self, now: u64) -> Option<(Entity<N>, Queue)> {
        let (entity, at) = self.timers.first()?;
        (at <= now).then(|| (entity, self.expire(entity, now)))
    }

    fn expire(&mut self, entity: Entity<N>, now: u64) -> Queue {
        self.timers.remove(entity);
        let Some(server) = self.server_mut(entity) else {
            return Queue::Out;
        };
        if server.state == State::Fading {
            server.state = State::Idle;
            self.deactivate(entity);
            return Queue::Out;
        }
        if server.kind.moves_deadline() {
            return self.postpone(entity);
        }
        self.advance(entity, now);
        self.ready(entity)
    }

    /// `entity` is first among the ready ones: where it belongs, if it cannot stay there: a
    /// new period of it has begun meanwhile, or its budget is too small for a tick by now.
    #[inline]
    pub fn refresh(&mut self, entity: Entity<N>, now: u64) -> Option<Queue> {
        let server = self.server(entity)?;
        let next = server.next_release();
        match server.kind {
            Kind::Task => None,
            Kind::ConstantBandwidth | Kind::SoftBandwidth => {
                let over = server.has_fraction() && server.lasts(self.rate(server)) == 0;
                over.then(|| self.exhausted(entity))
            }
            _ if now < next => None,
            _ => self.advance(entity, now).then(|| self.ready(entity)),
        }
    }

    /// When the next timer comes.
    #[inline]
    pub fn next_timer(&self) -> Option<u64> {
        self.timers.first().map(|(_, at)| at)
    }

    /// Who is out of budget, has work, and gets its budget next or next but one.
    pub fn next_spent(&self) -> Option<Entity<N>> {
        let spent = |entity: &Entity<N>| {
            let server = self.server(*entity);
            server.is_some_and(|server| server.state == State::Spent && server.work)
        };
        let (first, _) = self.timers.first()?;
        let second = || self.timers.second().map(|(second, _)| second);
        Some(first).filter(spent).or_else(|| second().filter(spent))
    }

    /// Whether `entity` has work.
    #[inline]
    pub fn has_work(&self, entity: Entity<N>) -> bool {
        self.server(entity).is_some_and(|server| server.work)
    }
}
