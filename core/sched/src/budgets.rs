//! The policy of a pCPU on which budgets are enforced: first a tree of servers, then those without a
//! promise.
//!
//! vCPUs that are promised nothing, *best effort*, have what is left: time that was promised to
//! nobody, and, where [`Slack`] gives it away, time that was promised and is not used. They share it
//! by weight, up to a cap ([`Credit`]). A vCPU that has used its own budget up comes after them, as
//! it has had what it was promised.
//!
//! A vCPU that runs at the expense of a server without work is charged twice: that server's budget
//! is spent, and so is the credit of the one that runs, so that weights hold for whatever is left.

use crate::asking::Asking;
use crate::{Credit, Decision, Entity, EntitySet, PlaceError, Policy, Replenished, Reservation};
use crate::{Share, Slack, Tree};

/// What a vCPU has of its pCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// A promise, in a group of the tree (0: in none).
    Promise(usize, Reservation),
    /// A share of what is left.
    Share(Share),
}

/// Servers, and those without a promise.
#[derive(Debug)]
pub struct Budgets<'a> {
    pub(crate) tree: Tree<'a>,
    rest: Credit,
    slack: Slack,
    /// The vCPUs without a promise that may run.
    best_effort: EntitySet,
    /// Whether the last decision named one of these.
    rest_runs: bool,
    /// Whether the last decision named one that does not run at its own expense; where others get a server's time, also
    /// for the decision after it, and as long as the same one pays: the CPU may have been idle in between.
    in_between: bool,
    /// Whether the last decision did, where others get a server's time.
    at_anothers: bool,
    /// Whether the last decision left the CPU idle at the expense of a server.
    spends: bool,
    /// The instant at which the first server began.
    began: Option<u64>,
    /// The question that is being answered.
    pub(crate) asking: Asking,
    /// What the switch to a server and the one back take, in ticks.
    pub(crate) cost: u64,
}

impl<'a> Budgets<'a> {
    /// Servers in `tree`, with the use of unused time that its nodes have, and best effort by `rest`. The switch to a
    /// server and the one back take `cost` ticks: admission reckons with them in each period of a periodic or polling
    /// server beyond its budget, and others pay them from theirs ([`crate::Servers::set_prepaid`]).
    pub fn new(mut tree: Tree<'a>, rest: Credit, slack: Slack, cost: u64) -> Self {
        tree.set_prepaid(cost);
        Self {
            tree,
            rest,
            slack,
            best_effort: EntitySet::EMPTY,
            rest_runs: false,
            in_between: false,
            at_anothers: false,
            spends: false,
            began: None,
            asking: Asking::none(),
            cost,
        }
    }

    /// The instant from which on servers have their promises, if `now` is when one is added. All of a core begin
    /// their periods together, though they are added one after the other: the analysis of groups rests on
    /// that.
    pub fn begin(&mut self, now: u64) -> u64 {
        *self.began.get_or_insert(now)
    }

    /// Gives `entity`, which has no work yet, what it is granted.
    pub fn grant(&mut self, entity: Entity, grant: Grant, now: u64) -> Result<(), PlaceError> {
        match grant {
            Grant::Promise(group, reservation) => {
                let began = self.begin(now);
                self.tree.add_vcpu(group, entity, reservation, began)
            }
            Grant::Share(share) => {
                self.add_best_effort(entity, share);
                Ok(())
            }
        }
    }

    /// Adds a group, see [`Tree::add_group`].
    pub fn add_group(
        &mut self,
        home: usize,
        reservation: Reservation,
        now: u64,
    ) -> Result<usize, PlaceError> {
        let began = self.begin(now);
        self.tree.add_group(home, reservation, began)
    }

    /// The servers.
    pub fn tree(&mut self) -> &mut Tree<'a> {
        &mut self.tree
    }

    /// Lets `entity`, which has no promise and no work yet, use a share of what is left.
    fn add_best_effort(&mut self, entity: Entity, share: Share) {
        self.rest.set_share(entity, share);
        self.best_effort.insert(entity);
    }

    /// Gives `entity` another share, from the next of the credit's periods on. Returns whether it is best
    /// effort; else nothing changes.
    pub fn change_share(&mut self, entity: Entity, share: Share) -> bool {
        let known = self.best_effort.contains(entity);
        if known {
            self.rest.set_share(entity, share);
        }
        known
    }

    /// The share of `entity`, if it is best effort.
    pub fn share(&self, entity: Entity) -> Option<Share> {
        let known = self.best_effort.contains(entity);
        known.then(|| self.rest.share(entity))
    }

    /// As [`Tree::settle_some`].
    pub fn settle_some(&mut self, now: u64, most: usize) -> Replenished {
        self.tree.settle_some(now, most)
    }

    /// [`Policy::pick`] in the most frequent case, which is that a vCPU with a budget runs and nothing is due: the vCPU,
    /// and until when ([`u64::MAX`]: until an event). `None` says nothing: ask [`Policy::pick`].
    #[inline(always)]
    pub fn choose_at_once(&mut self, now: u64) -> Option<(Entity, u64)> {
        if self.in_between {
            return None;
        }
        let chosen = self.tree.choose_at_once(now)?;
        self.spends = false;
        Some(chosen)
    }

    /// Whether what [`Self::served`] answers may have changed for a vCPU since it was asked.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.tree.has_news()
    }

    /// Whether the last decision named one that runs beyond its budget, or at the expense of another one's.
    #[inline]
    pub fn runs_extra(&self) -> bool {
        !self.rest_runs && self.tree.runs_in_background()
    }

    /// As [`crate::Servers::served`].
    #[inline]
    pub fn served(&mut self, entity: Entity) -> Option<(u32, u32)> {
        let (servers, at) = self.tree.servers_of(entity)?;
        servers.served(at)
    }

    /// Charges whoever pays for the time since the last call.
    pub fn charge_until(&mut self, now: u64) {
        self.tree.charge_until(now);
        self.rest.charge_until(now);
    }

    /// Nobody is charged for the time since the last call.
    pub fn exempt(&mut self, now: u64) {
        self.tree.exempt(now);
        self.rest.exempt_switch(now);
    }

    /// Notes whether the last `decision` came in between.
    #[inline(never)]
    fn note_in_between(&mut self, decision: &Decision) {
        let at_anothers =
            self.rest_runs || decision.run.is_some() && self.tree.charged() != decision.run;
        let before = core::mem::replace(&mut self.at_anothers, at_anothers);
        self.in_between &= self.tree.payer_stays();
        self.in_between |= before | at_anothers;
    }

    /// [`Policy::exempt_switch`], where somebody ran at another's expense or does so now.
    #[inline(never)]
    fn exempt_switch_in_between(&mut self, now: u64) {
        if self.rest_runs {
            self.tree.exempt_switch_to_rest(now);
            self.rest.exempt_switch(now);
        } else {
            self.tree.exempt_first_switch(now);
        }
    }

    /// Whether those without a promise may use the CPU, after the tree's `decision`.
    fn leaves(&self, decision: &Decision) -> bool {
        match decision.run {
            Some(_) => self.tree.runs_in_background(),
            None => !self.tree.spends() || self.slack != Slack::Idle,
        }
    }
}

impl Policy for Budgets<'_> {
    fn wake(&mut self, entity: Entity, now: u64) {
        if self.best_effort.contains(entity) {
            self.rest.wake(entity, now);
        } else {
            self.tree.wake(entity, now);
        }
    }

    fn block(&mut self, entity: Entity, now: u64) {
        if self.best_effort.contains(entity) {
            self.rest.block(entity, now);
        } else {
            self.tree.block(entity, now);
        }
    }

    fn yield_now(&mut self, entity: Entity, now: u64) {
        if self.best_effort.contains(entity) {
            self.rest.yield_now(entity, now);
        } else {
            self.tree.yield_now(entity, now);
        }
    }

    fn pick(&mut self, now: u64) -> Decision {
        let mut decision = self.tree.pick(now);
        let rest_ran = core::mem::replace(&mut self.rest_runs, false);
        self.spends = decision.run.is_none() && self.tree.spends();
        if !self.best_effort.is_empty() && self.leaves(&decision) {
            let rest = self.rest.pick(now);
            if let Some(until) = rest.until {
                let earlier = decision.until.map_or(until, |other| other.min(until));
                decision.until = Some(earlier);
            }
            if rest.run.is_some() {
                if decision.run.is_some() {
                    self.tree.is_replaced(now);
                }
                decision.run = rest.run;
                self.rest_runs = true;
                self.spends = false;
            }
        } else if rest_ran {
            self.rest.suspend(now);
        }
        if self.slack == Slack::Idle {
            self.in_between = self.rest_runs;
        } else {
            self.note_in_between(&decision);
        }
        decision
    }

    fn spends(&self) -> bool {
        self.spends
    }

    fn charged(&self) -> Option<Entity> {
        let payer = self.tree.charged();
        payer.or_else(|| self.rest.charged().filter(|_| self.rest_runs))
    }

    #[inline]
    fn exempt_switch(&mut self, now: u64) {
        if self.in_between {
            self.exempt_switch_in_between(now);
        } else {
            self.tree.exempt_switch(now);
        }
    }

    fn suspend(&mut self, now: u64) {
        self.tree.suspend(now);
        self.rest.suspend(now);
    }
}

#[cfg(test)]
mod tests;
