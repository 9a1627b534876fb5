//! The credit scheduler against a plain model of its rule, tick by tick.

use super::*;

const PERIOD: u64 = 30;

struct Account {
    share: Share,
    credit: i64,
    /// It has woken with credit, and still has some.
    boosted: bool,
    work: bool,
    active: bool,
    left: u64,
}

impl Account {
    fn new(share: Share) -> Self {
        Self {
            share,
            credit: 0,
            boosted: false,
            work: false,
            active: false,
            left: Self::allowed(share),
        }
    }

    fn allowed(share: Share) -> u64 {
        PERIOD * u64::from(share.cap.unwrap_or(100)) / 100
    }

    fn rank(&self) -> usize {
        match (self.credit > 0, self.boosted) {
            (true, true) => 0,
            (true, false) => 1,
            (false, _) => 2,
        }
    }

    fn may_run(&self) -> bool {
        self.work && (self.share.cap.is_none() || self.left > 0)
    }
}

struct Model {
    all: Vec<Account>,
    current: Option<usize>,
    slice: u64,
    slice_end: u64,
    last: [usize; 3],
}

impl Model {
    /// The entity that runs pays for a tick.
    fn pass(&mut self) {
        if let Some(current) = self.current {
            let account = &mut self.all[current];
            account.credit = (account.credit - 1).max(-2 * PERIOD as i64);
            account.left = account.left.saturating_sub(1);
            account.boosted &= account.credit > 0;
        }
    }

    fn deal(&mut self) {
        let active = self.all.iter().filter(|account| account.active);
        let weights: u64 = active.map(|a| u64::from(a.share.weight)).sum();
        for account in &mut self.all {
            let allowed = Account::allowed(account.share);
            account.left = allowed;
            if account.active {
                let fair = PERIOD * u64::from(account.share.weight) / weights;
                let dealt = account.credit + fair.min(allowed) as i64;
                account.credit = dealt.min(2 * PERIOD as i64);
            }
            account.active = account.work;
            account.boosted &= account.credit > 0;
        }
    }

    fn wake(&mut self, who: usize) {
        let account = &mut self.all[who];
        if !account.work {
            account.work = true;
            account.active = true;
            account.boosted = account.credit > 0;
        }
    }

    fn block(&mut self, who: usize) {
        self.all[who].work = false;
        self.current = self.current.filter(|current| *current != who);
    }

    /// The entities of the first rank in which one may run.
    fn first_ones(&self) -> Vec<usize> {
        let may = |who: &usize| self.all[*who].may_run();
        let best = (0..self.all.len()).filter(may);
        let best = best.map(|who| self.all[who].rank()).min();
        let first = |who: &usize| may(who) && Some(self.all[*who].rank()) == best;
        (0..self.all.len()).filter(first).collect()
    }

    /// Whether the running entity may go on at `now`. `makes_room` says whether it must give way to
    /// entities of the same rank.
    fn goes_on(&self, now: u64, makes_room: bool) -> bool {
        let among = |current| self.first_ones().contains(&current);
        self.current.is_some_and(among) && (now < self.slice_end || !makes_room)
    }

    fn pick(&mut self, now: u64) -> Option<usize> {
        if !self.goes_on(now, true) {
            let first = self.first_ones();
            self.current = first.first().map(|any| {
                let last = &mut self.last[self.all[*any].rank()];
                let round = |who: &&usize| (**who + MAX_ENTITIES - 1 - *last) % MAX_ENTITIES;
                *last = *first.iter().min_by_key(round).unwrap();
                self.slice_end = now + self.slice;
                *last
            });
        }
        self.current
    }

    /// Whether the last choice still holds without a new question.
    fn holds(&self, now: u64) -> bool {
        let waiting = self.all.iter().filter(|account| account.may_run());
        let others = waiting.count() > 1;
        self.goes_on(now, others) || self.first_ones().is_empty() && self.current.is_none()
    }
}

fn shares() -> impl Strategy<Value = Vec<Share>> {
    let cap = prop_oneof![2 => Just(None), 1 => (0..100u8).prop_map(Some)];
    let one = (1..5u16, cap).prop_map(|(weight, cap)| share(weight, cap));
    proptest::collection::vec(one, 1..6)
}

type CreditEvent = (u64, usize, u8);

fn alike(shares: &[Share], slice: u64, steps: Vec<CreditEvent>) -> Result<(), TestCaseError> {
    let mut policy = Credit::new(PERIOD, slice, Deals::Period, 0);
    for (index, share) in shares.iter().enumerate() {
        policy.set_share(entity(index), *share);
    }
    let mut model = Model {
        all: shares.iter().map(|share| Account::new(*share)).collect(),
        current: None,
        slice,
        slice_end: 0,
        last: [MAX_ENTITIES - 1; 3],
    };
    let mut steps = steps.into_iter();
    let mut next = steps.next();
    let (mut at, mut until) = (0, Some(0));
    for now in 0..400 {
        if now > 0 {
            model.pass();
        }
        let mut asked = until.is_some_and(|until| until <= now);
        if now > 0 && now % PERIOD == 0 {
            // The policy is asked at each period's end, so that it distributes the credit then.
            model.deal();
            asked = true;
            let run = policy.pick(now).run.map(Entity::index);
            prop_assert_eq!(run, model.pick(now), "at {}", now);
        }
        let mut idle = false;
        while let Some((wait, who, what)) = next.filter(|step| at + step.0 <= now) {
            at += wait;
            next = steps.next();
            let who = who % shares.len();
            match what {
                0..6 => {
                    model.wake(who);
                    policy.wake(entity(who), now);
                }
                6..10 => {
                    model.block(who);
                    policy.block(entity(who), now);
                }
                10 => {
                    if model.current == Some(who) {
                        model.slice_end = now;
                    }
                    policy.yield_now(entity(who), now);
                }
                _ => {
                    model.current = None;
                    idle = true;
                    policy.suspend(now);
                }
            }
            asked = true;
        }
        if idle {
            // Nobody runs until the next tick.
            (model.current, until) = (None, Some(now + 1));
            policy.suspend(now);
            continue;
        }
        if asked {
            let decision = policy.pick(now);
            until = decision.until;
            prop_assert_eq!(
                decision.run.map(Entity::index),
                model.pick(now),
                "at {}",
                now
            );
            for (index, account) in model.all.iter().enumerate() {
                prop_assert_eq!(policy.credit(entity(index)), account.credit, "at {}", now);
            }
        }
        prop_assert!(model.holds(now), "asked too late at {}", now);
    }
    Ok(())
}

proptest! {
    #[test]
    fn the_credit_scheduler_does_what_its_rule_says(
        shares in shares(),
        slice in 1..20u64,
        steps in proptest::collection::vec((0..12u64, 0..6usize, 0..12u8), 0..80),
    ) {
        alike(&shares, slice, steps)?;
    }
}

/// A new cap is used from the next period on, whatever was used; a first cap, from now on; neither
/// takes the CPU away at once.
#[test]
fn a_change_of_a_share_gives_no_credit() {
    let mut policy = Credit::new(1000, 400, Deals::Period, 0);
    policy.set_share(entity(0), share(256, Some(30)));
    policy.wake(entity(0), 0);
    assert_eq!(policy.pick(0).until, Some(300));
    assert_eq!(policy.pick(250).until, Some(300));
    policy.set_share(entity(0), share(256, Some(20)));
    assert_eq!(policy.pick(250).until, Some(300));
    policy.set_share(entity(0), share(256, None));
    assert_eq!(policy.pick(260).until, Some(1000));
    policy.pick(270);
    policy.set_share(entity(0), share(256, Some(10)));
    assert_eq!(policy.pick(270).until, Some(370));
    policy.set_share(entity(0), share(256, None));
    policy.set_share(entity(0), share(256, Some(0)));
    assert_eq!(policy.pick(270).run, Some(entity(0)));
    assert_eq!(policy.pick(271).run, None);
}
