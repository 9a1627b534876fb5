//! By weight, up to a cap: the credit scheduler, after what Xen's first one promises.
//!
//! Every period, the time of the CPU is dealt out as credit, to each one that has work in
//! proportion to its weight and no more than its cap; who runs pays with it, tick by tick. Who
//! has credit left goes before those who have none; among equals it goes round, a slice each.
//! Who wakes with credit left goes before all, once ([`Rank::Boosted`]), so that short work is
//! done soon. Without others, who has no credit runs on, unless its cap forbids.
//!
//! This shares fairly and promises no deadline: what a server promises, another policy keeps.
//! Credit is at most two periods' share in either direction, so that nobody can save up a burst
//! or be ruined by one. Unlike Xen's, which samples who runs at each of its ticks and so can be
//! cheated by who sleeps over them, it charges what was used.
//!
//! Dealing out takes one step for each entity, once in a period; all else is a walk round a
//! set.

use crate::arith::mul_div;
use crate::{Decision, Entity, EntitySet, MAX_ENTITIES, Policy};

/// In which order they go: the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Has woken with credit.
    Boosted,
    /// Has credit.
    Under,
    /// Has none.
    Over,
}

const RANKS: [Rank; 3] = [Rank::Boosted, Rank::Under, Rank::Over];

/// A share of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    /// In proportion to the others'; zero counts as one.
    pub weight: u16,
    /// At most so many percent of the CPU, even if nobody else wants it; none: all of it.
    pub cap: Option<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    share: Share,
    /// In ticks; beyond zero it is owed.
    credit: i64,
    rank: Rank,
    work: bool,
    /// Whether it had work at any time in this period.
    active: bool,
    /// What it may use in this period, where it has a cap.
    left: u64,
}

/// One CPU's entities, by their shares.
#[derive(Clone, Debug)]
pub struct Credit {
    accounts: [Account; MAX_ENTITIES],
    /// Those that have work and may run, by rank.
    queues: [EntitySet; 3],
    /// Out of what their cap allows in this period.
    parked: EntitySet,
    current: Option<Entity>,
    /// Whose turn it was last, in each rank.
    last: [Entity; 3],
    since: u64,
    slice_end: u64,
    period_end: u64,
    period: u64,
    slice: u64,
}

impl Credit {
    /// Credit is dealt out every `period` ticks, and turns last `slice` at most; Xen has 30 ms
    /// for both. Everybody has weight 256 and no cap, as there.
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

    /// `entity` has this share from the next period on.
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

    /// What a cap allows in a period.
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

    /// Puts `entity`, which has work, where it belongs.
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

    /// Takes what was used from the one who used it.
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
        // Who runs has work.
        if over || account.left == 0 {
            self.put(current);
        }
    }

    /// The most credit, or debt, there can be.
    fn most(&self) -> i64 {
        // A period is at most 2^48.
        2 * self.period as i64
    }

    /// Deals out the credit of the periods that are over.
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
        account.rank = match account.credit > 0 {
            true if account.rank == Rank::Boosted => Rank::Boosted,
            true => Rank::Under,
            false => Rank::Over,
        };
        if account.work {
            self.put(entity);
        }
    }

    /// Who goes first.
    fn best(&self) -> Option<(Rank, Entity)> {
        RANKS.into_iter().find_map(|rank| {
            let queue = self.queues[rank as usize];
            Some((rank, queue.after(self.last[rank as usize])?))
        })
    }

    /// Until when the one that runs may go on.
    fn until(&self, current: Entity, now: u64) -> u64 {
        let account = self.account(current);
        let others = self.queues.iter().map(|queue| queue.len()).sum::<u32>() > 1;
        let mut until = self.period_end;
        if others {
            until = until.min(self.slice_end);
            // With its credit it loses its rank.
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
