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

/// The longest period, in ticks: 18 minutes of nanoseconds.
const MAX_PERIOD: u64 = 1 << 40;

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
    /// The ticks that the share's cap allows in a period.
    allowed: u64,
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
    /// The entities that had work at any time in this period.
    active: EntitySet,
    /// The entities that ever had work.
    known: EntitySet,
    current: Option<Entity>,
    /// The entity that had the last turn, in each rank.
    last: [Entity; 3],
    since: u64,
    slice_end: u64,
    period_end: u64,
    period: u64,
    slice: u64,
    deals: Deals,
    /// What was used since the last deal.
    used: u64,
}

/// How much credit is distributed for each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deals {
    /// The whole period, as in Xen.
    Period,
    /// What all entities together have used in the last one. So weights hold also where another policy has
    /// a part of the CPU; otherwise all would have credit left, and take turns whatever their weights are.
    Used,
}

impl Credit {
    /// Distributes credit every `period` ticks, and limits turns to `slice` ticks; in Xen both are
    /// 30 ms. At first every entity has weight 256 and no cap, as in Xen.
    pub fn new(period: u64, slice: u64, deals: Deals, now: u64) -> Self {
        let share = Share {
            weight: 256,
            cap: None,
        };
        let account = Account {
            share,
            credit: 0,
            rank: Rank::Under,
            work: false,
            allowed: 0,
            left: 0,
        };
        let period = period.clamp(1, MAX_PERIOD);
        Self {
            accounts: [account; MAX_ENTITIES],
            queues: [EntitySet::EMPTY; 3],
            parked: EntitySet::EMPTY,
            active: EntitySet::EMPTY,
            known: EntitySet::EMPTY,
            current: None,
            last: [Entity::LAST; 3],
            since: now,
            slice_end: now,
            period_end: now.saturating_add(period),
            period,
            slice: slice.max(1),
            deals,
            used: 0,
        }
    }

    /// Gives `entity` this share, from the next period on.
    pub fn set_share(&mut self, entity: Entity, share: Share) {
        let first = self.account(entity).share.cap.is_none() && share.cap.is_some();
        let allowed = self.allowed(share);
        let account = self.account_mut(entity);
        account.share = share;
        account.allowed = allowed;
        if first {
            account.left = allowed;
        }
    }

    /// The share of `entity`.
    pub fn share(&self, entity: Entity) -> Share {
        self.account(entity).share
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
        self.period * u64::from(percent) / 100
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
    pub fn charge_until(&mut self, now: u64) {
        let used = now.saturating_sub(core::mem::replace(&mut self.since, now));
        let Some(current) = self.current.filter(|_| used > 0) else {
            return;
        };
        self.used = self.used.saturating_add(used);
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
        // A period is at most 2^40.
        2 * self.period as i64
    }

    /// Distributes the credit of the periods that have ended.
    #[inline]
    fn deal(&mut self, now: u64) {
        if now >= self.period_end {
            self.deal_to_all(now);
        }
    }

    #[inline(never)]
    fn deal_to_all(&mut self, now: u64) {
        let late = now - self.period_end;
        let periods = late / self.period + 1;
        self.period_end = self
            .period_end
            .saturating_add(periods.saturating_mul(self.period));
        let active = core::mem::replace(&mut self.active, EntitySet::EMPTY);
        let mut left = active;
        let mut weights = 0;
        while let Some(entity) = left.take_first() {
            weights += u64::from(self.account(entity).share.weight.max(1));
        }
        // One division for all entities, as each would need one of its own. What a weight of one gets is rounded
        // up to 2^-16 of a tick.
        let used = core::mem::take(&mut self.used).min(MAX_PERIOD);
        let (amount, times) = match self.deals {
            Deals::Period => (self.period, periods),
            Deals::Used => (used, 1),
        };
        let each = (amount << 16).div_ceil(weights.max(1));
        let mut left = self.known;
        while let Some(entity) = left.take_first() {
            let each = active.contains(entity).then_some(each);
            self.deal_to(entity, each, times);
        }
    }

    /// Deals to one entity, `each` for each of its weight, in parts of 2^16 of a tick, if it was active.
    fn deal_to(&mut self, entity: Entity, each: Option<u64>, times: u64) {
        let limit = self.most();
        let account = self.account_mut(entity);
        account.left = account.allowed;
        if let Some(each) = each {
            let fair = (each * u64::from(account.share.weight.max(1))) >> 16;
            let most = match account.share.cap {
                Some(_) => account.allowed,
                None => u64::MAX,
            };
            let dealt = fair.min(most).saturating_mul(times);
            let dealt = i64::try_from(dealt).unwrap_or(i64::MAX);
            account.credit = account.credit.saturating_add(dealt).min(limit);
        }
        account.rank = if account.credit <= 0 {
            Rank::Over
        } else if account.rank == Rank::Boosted {
            Rank::Boosted
        } else {
            Rank::Under
        };
        if account.work {
            self.active.insert(entity);
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
        self.charge_until(now);
        self.deal(now);
        let account = self.account_mut(entity);
        if core::mem::replace(&mut account.work, true) {
            return;
        }
        account.rank = if account.credit > 0 {
            Rank::Boosted
        } else {
            Rank::Over
        };
        self.active.insert(entity);
        self.known.insert(entity);
        self.put(entity);
    }

    fn block(&mut self, entity: Entity, now: u64) {
        self.charge_until(now);
        self.account_mut(entity).work = false;
        self.take_out(entity);
        if self.current == Some(entity) {
            self.current = None;
        }
    }

    fn yield_now(&mut self, entity: Entity, now: u64) {
        self.charge_until(now);
        if self.current == Some(entity) {
            self.slice_end = now;
        }
    }

    fn pick(&mut self, now: u64) -> Decision {
        self.charge_until(now);
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

    fn charged(&self) -> Option<Entity> {
        self.current
    }

    fn exempt_switch(&mut self, now: u64) {
        self.since = now;
    }

    fn suspend(&mut self, now: u64) {
        self.charge_until(now);
        self.current = None;
    }
}

#[cfg(test)]
mod tests;
