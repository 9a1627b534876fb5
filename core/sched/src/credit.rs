//! A scheduler by weight and cap: the credit scheduler, which promises what Xen's first one does.
//!
//! In every period, the time of the CPU is distributed as credit: each entity that has work gets
//! credit in proportion to its weight, and at most its cap. The entity that runs pays for each tick
//! with its credit. Entities with credit run before those without; entities of the same rank take
//! turns of a slice each. An entity that wakes with credit left runs before all others, once
//! ([`Rank::Boosted`]), so that short work is done soon. If no entity has credit, one without
//! credit runs, unless its cap forbids that.
//!
//! This shares fairly and promises no deadline; for promises there is another policy, the servers.
//! Credit is limited to two periods' share in either direction, so that no entity can save up a
//! burst or fall far behind because of one. Xen's scheduler samples at each of its ticks who runs,
//! so that an entity that sleeps over the ticks can cheat it; this one charges what was used.
//!
//! Distributing credit takes one step for each entity, once in a period; all other work is a walk
//! round a set.

use crate::arith::mul_div;
use crate::{Decision, Entity, EntitySet, MAX_ENTITIES, Policy};

/// The ranks, in the order in which entities run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It has woken with credit.
    Boosted,
    /// It has credit.
    Under,
    /// It has no credit.
    Over,
}

const RANKS: [Rank; 3] = [Rank::Boosted, Rank::Under, Rank::Over];

/// The share of the CPU that an entity may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    /// The entity's weight relative to the others' weights; zero counts as one.
    pub weight: u16,
    /// The largest percentage of the CPU that the entity may have, even if no other wants the CPU;
    /// `None` means no limit.
    pub cap: Option<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    share: Share,
    /// The credit in ticks; a negative value is debt.
    credit: i64,
    rank: Rank,
    work: bool,
    /// Whether the entity had work at any time in this period.
    active: bool,
    /// The ticks that the entity may still use in this period, if it has a cap.
    left: u64,
}

/// The entities of one CPU, with their shares.
#[derive(Clone, Debug)]
pub struct Credit {
    accounts: [Account; MAX_ENTITIES],
    /// The entities that have work and may run, by rank.
    queues: [EntitySet; 3],
    /// The entities that have used all that their cap allows in this period.
    parked: EntitySet,
    current: Option<Entity>,
    /// The entity that had the last turn, in each rank.
    last: [Entity; 3],
    since: u64,
    slice_end: u64,
    period_end: u64,
    period: u64,
    slice: u64,
}

impl Credit {
    /// Distributes credit every `period` ticks, and limits turns to `slice` ticks; in Xen both are
    /// 30 ms. At first every entity has weight 256 and no cap, as in Xen.
    pub fn new(period: u64, slice: u64, now: u64) -> Self {
        let share = Share {
            weight: 256,
            cap: None,
        };
        let account = Account {
            share,
            credit: 0,
            rank: Rank::Under,
            work: false,
            active: false,
            left: 0,
        };
        let period = period.clamp(1, 1 << 48);
        Self {
            accounts: [account; MAX_ENTITIES],
            queues: [EntitySet::EMPTY; 3],
            parked: EntitySet::EMPTY,
            current: None,
            last: [Entity::LAST; 3],
            since: now,
            slice_end: now,
            period_end: now.saturating_add(period),
            period,
            slice: slice.max(1),
        }
    }

    /// Gives `entity` this share, from the next period on.
    pub fn set_share(&mut self, entity: Entity, share: Share) {
        let first = self.account(entity).share.cap.is_none() && share.cap.is_some();
        let allowed = self.allowed(share);
        let account = self.account_mut(entity);
        account.share = share;
        if first {
            account.left = allowed;
        }
    }

    /// The credit of `entity`, in ticks, as of the last event.
    pub fn credit(&self, entity: Entity) -> i64 {
        self.account(entity).credit
    }

    fn account(&self, entity: Entity) -> &Account {
        &self.accounts[entity.index() & (MAX_ENTITIES - 1)]
    }

    fn account_mut(&mut self, entity: Entity) -> &mut Account {
        &mut self.accounts[entity.index() & (MAX_ENTITIES - 1)]
    }

    /// The ticks that a cap allows in a period.
    fn allowed(&self, share: Share) -> u64 {
        let percent = share.cap.map_or(100, |cap| cap.min(100));
        mul_div(self.period, percent.into(), 100)
    }

    fn take_out(&mut self, entity: Entity) {
        for queue in &mut self.queues {
            queue.remove(entity);
        }
        self.parked.remove(entity);
    }

    /// Puts `entity`, which has work, into the queue of its rank.
    fn put(&mut self, entity: Entity) {
        self.take_out(entity);
        let account = self.account(entity);
        if account.share.cap.is_some() && account.left == 0 {
            self.parked.insert(entity);
            return;
        }
        let rank = account.rank;
        self.queues[rank as usize].insert(entity);
    }

    /// Charges the entity that ran for the time since the last call.
    fn charge(&mut self, now: u64) {
        let used = now.saturating_sub(core::mem::replace(&mut self.since, now));
        let Some(current) = self.current.filter(|_| used > 0) else {
            return;
        };
        let limit = self.most();
        let account = self.account_mut(current);
        let paid = i64::try_from(used).unwrap_or(i64::MAX);
        account.credit = account.credit.saturating_sub(paid).max(-limit);
        account.left = account.left.saturating_sub(used);
        let over = account.credit <= 0 && account.rank != Rank::Over;
        if over {
            account.rank = Rank::Over;
        }
        // The entity that runs has work.
        if over || account.left == 0 {
            self.put(current);
        }
    }

    /// The limit of credit and of debt, in ticks.
    fn most(&self) -> i64 {
        // A period is at most 2^48.
        2 * self.period as i64
    }

    /// Distributes the credit of the periods that have ended.
    fn deal(&mut self, now: u64) {
        if now < self.period_end {
            return;
        }
        let late = now - self.period_end;
        let periods = late / self.period + 1;
        self.period_end = self
            .period_end
            .saturating_add(periods.saturating_mul(self.period));
        let accounts = self.accounts.iter().filter(|account| account.active);
        let weights: u64 = accounts
            .map(|account| u64::from(account.share.weight.max(1)))
            .sum();
        for index in 0..MAX_ENTITIES {
            if let Some(entity) = Entity::new(index) {
                self.deal_to(entity, weights, periods);
            }
        }
    }

    fn deal_to(&mut self, entity: Entity, weights: u64, periods: u64) {
        let share = self.account(entity).share;
        let (allowed, limit) = (self.allowed(share), self.most());
        let fair = mul_div(self.period, share.weight.max(1).into(), weights.max(1));
        let dealt = fair.min(allowed).saturating_mul(periods);
        let account = self.account_mut(entity);
        account.left = allowed;
        if account.active {
            let dealt = i64::try_from(dealt).unwrap_or(i64::MAX);
            account.credit = account.credit.saturating_add(dealt).min(limit);
        }
        account.active = account.work;
        account.rank = if account.credit <= 0 {
            Rank::Over
        } else if account.rank == Rank::Boosted {
            Rank::Boosted
        } else {
            Rank::Under
        };
        if account.work {
            self.put(entity);
        }
    }

    /// The entity that runs next, and its rank.
    fn best(&self) -> Option<(Rank, Entity)> {
        RANKS.into_iter().find_map(|rank| {
            let queue = self.queues[rank as usize];
            Some((rank, queue.after(self.last[rank as usize])?))
        })
    }

    /// The instant up to which the running entity may go on.
    fn until(&self, current: Entity, now: u64) -> u64 {
        let account = self.account(current);
        let others = self.queues.iter().map(|queue| queue.len()).sum::<u32>() > 1;
        let mut until = self.period_end;
        if others {
            until = until.min(self.slice_end);
            // When its credit ends, its rank changes.
            if account.rank != Rank::Over {
                until = until.min(now.saturating_add(account.credit.max(1).unsigned_abs()));
            }
        }
        if account.share.cap.is_some() {
            until = until.min(now.saturating_add(account.left.max(1)));
        }
        until
    }
}

impl Policy for Credit {
    fn wake(&mut self, entity: Entity, now: u64) {
        self.charge(now);
        self.deal(now);
        let account = self.account_mut(entity);
        if core::mem::replace(&mut account.work, true) {
            return;
        }
        account.active = true;
        account.rank = if account.credit > 0 {
            Rank::Boosted
        } else {
            Rank::Over
        };
        self.put(entity);
    }

    fn block(&mut self, entity: Entity, now: u64) {
        self.charge(now);
        self.account_mut(entity).work = false;
        self.take_out(entity);
        if self.current == Some(entity) {
            self.current = None;
        }
    }

    fn yield_now(&mut self, entity: Entity, now: u64) {
        self.charge(now);
        if self.current == Some(entity) {
            self.slice_end = now;
        }
    }

    fn pick(&mut self, now: u64) -> Decision {
        self.charge(now);
        self.deal(now);
        let current = self.current.filter(|current| {
            let rank = self.account(*current).rank as usize;
            let queued = self.queues[rank].contains(*current);
            let preempted = self.best().is_some_and(|(best, _)| (best as usize) < rank);
            queued && !preempted && now < self.slice_end
        });
        if current.is_none() {
            self.current = self.best().map(|(rank, next)| {
                self.last[rank as usize] = next;
                self.slice_end = now.saturating_add(self.slice);
                next
            });
        }
        let Some(current) = self.current else {
            let until = (!self.parked.is_empty()).then_some(self.period_end);
            return Decision { run: None, until };
        };
        Decision {
            run: Some(current),
            until: Some(self.until(current, now)),
        }
    }

    fn suspend(&mut self, now: u64) {
        self.charge(now);
        self.current = None;
    }
}

#[cfg(test)]
mod tests;
