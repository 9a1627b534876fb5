//! What shares promise.

use super::*;
use proptest::prelude::*;
use std::vec::Vec;

fn entity(index: usize) -> Entity {
    Entity::new(index).unwrap()
}

/// The ticks that each of six entities gets. The policy is asked only when it must be.
fn run(policy: &mut Credit, from: u64, to: u64) -> [u64; 6] {
    let mut got = [0; 6];
    let mut now = from;
    while now < to {
        let decision = policy.pick(now);
        let next = decision.until.unwrap_or(to).min(to).max(now + 1);
        if let Some(run) = decision.run {
            got[run.index()] += next - now;
        }
        now = next;
    }
    got
}

fn share(weight: u16, cap: Option<u8>) -> Share {
    Share { weight, cap }
}

#[test]
fn time_goes_by_weight() {
    let mut policy = Credit::new(3000, 1000, Deals::Period, 0);
    for (index, weight) in [256, 512, 768].into_iter().enumerate() {
        policy.set_share(entity(index), share(weight, None));
        policy.wake(entity(index), 0);
    }
    let got = run(&mut policy, 0, 600_000);
    for (index, part) in [1, 2, 3].into_iter().enumerate() {
        let fair = 100_000 * part;
        assert!(got[index].abs_diff(fair) <= 6000, "{got:?}");
    }
}

#[test]
fn a_cap_holds_even_where_nobody_else_wants_the_cpu() {
    let mut policy = Credit::new(3000, 1000, Deals::Period, 0);
    policy.set_share(entity(0), share(256, Some(25)));
    policy.wake(entity(0), 0);
    let got = run(&mut policy, 0, 300_000);
    assert_eq!(got[0], 75_000);
    policy.wake(entity(1), 300_000);
    let got = run(&mut policy, 300_000, 600_000);
    assert!(got[0] <= 75_000 && got[0] + got[1] == 300_000, "{got:?}");
}

#[test]
fn an_entity_that_wakes_with_credit_runs_first_and_one_without_runs_last() {
    let mut policy = Credit::new(3000, 1000, Deals::Period, 0);
    policy.wake(entity(0), 0);
    policy.wake(entity(1), 0);
    let _ = run(&mut policy, 0, 3000);
    let _ = policy.pick(3000);
    policy.block(entity(1), 3000);
    assert!(policy.credit(entity(1)) > 0);
    assert_eq!(policy.pick(3000).run, Some(entity(0)));
    policy.wake(entity(2), 3200);
    assert_eq!(policy.pick(3200).run, Some(entity(0)), "no credit yet");
    policy.wake(entity(1), 3500);
    assert_eq!(
        policy.pick(3500).run,
        Some(entity(1)),
        "before the slice's end"
    );
}

#[test]
fn any_time_and_share_is_taken() {
    for (period, slice) in [(0, 0), (u64::MAX, u64::MAX), (1, u64::MAX)] {
        let mut policy = Credit::new(period, slice, Deals::Period, u64::MAX - 10);
        policy.set_share(entity(63), share(0, Some(255)));
        for now in [u64::MAX - 10, u64::MAX - 1, u64::MAX] {
            policy.wake(entity(63), now);
            policy.wake(entity(0), now);
            assert!(policy.pick(now).run.is_some());
            policy.yield_now(entity(0), now);
            let _ = policy.pick(now);
            policy.suspend(now);
            policy.block(entity(0), now);
        }
    }
}

proptest! {
    /// Only entities with work run; the CPU is never idle while an entity without a cap has work;
    /// caps hold in every period; and an entity that always has work gets its weight's part of all
    /// that is given, except for the two periods that credit may be ahead or behind.
    #[test]
    fn shares_are_kept(
        shares in proptest::collection::vec((1..1000u16, proptest::option::of(1..100u8)), 2..6),
        events in proptest::collection::vec((0..2500u64, 1..6usize, any::<bool>()), 0..60),
    ) {
        const PERIOD: u64 = 3000;
        let mut policy = Credit::new(PERIOD, 1000, Deals::Period, 0);
        for (index, (weight, cap)) in shares.iter().enumerate() {
            let cap = cap.filter(|_| index > 0);
            policy.set_share(entity(index), share(*weight, cap));
        }
        let mut ready = [false; 6];
        ready[0] = true;
        policy.wake(entity(0), 0);
        let (mut now, mut got) = (0, [0u64; 6]);
        let mut spent = [0u64; 6];
        let mut events: Vec<_> = events;
        events.push((200_000, 0, true));
        for (wait, who, wakes) in events {
            let until = now + wait;
            while now < until {
                let decision = policy.pick(now);
                prop_assert!(decision.run.is_some());
                let run = decision.run.unwrap().index();
                prop_assert!(ready[run]);
                let edge = (now / PERIOD + 1) * PERIOD;
                let next = decision.until.unwrap_or(until).min(until).min(edge);
                prop_assert!(next > now);
                got[run] += next - now;
                spent[run] += next - now;
                if let Some(cap) = shares[run].1.filter(|_| run > 0) {
                    prop_assert!(spent[run] <= PERIOD * u64::from(cap) / 100 + 1);
                }
                now = next;
                if now == edge { spent = [0; 6]; }
            }
            if who > 0 && who < shares.len() {
                ready[who] = wakes;
                if wakes {
policy.wake(entity(who), now)
} else {
policy.block(entity(who), now)
}
            }
        }
        let all: u64 = shares.iter().map(|(weight, _)| u64::from(*weight)).sum();
        let fair = now * u64::from(shares[0].0) / all;
        prop_assert!(got[0] + 4 * PERIOD >= fair, "{} of {}", got[0], fair);
    }
}

/// However late the policy is asked, the credit of all ended periods is distributed: of exactly
/// that many, each by weight, up to two periods' worth; and the current period ends where it would
/// have ended.
#[test]
fn periods_that_nobody_asked_in_are_dealt_out_all_the_same() {
    for late in [0, 1, 999, 1000, 1001, 1999, 2000, 2999, 7000] {
        let mut policy = Credit::new(1000, 400, Deals::Period, 50);
        policy.set_share(entity(1), share(768, None));
        policy.wake(entity(0), 50);
        policy.wake(entity(1), 50);
        let now = 1050 + late;
        let periods = (now - 50) as i64 / 1000;
        let _ = policy.pick(now);
        assert_eq!(
            policy.credit(entity(0)),
            (250 * periods).min(2000),
            "{late}"
        );
        assert_eq!(
            policy.credit(entity(1)),
            (750 * periods).min(2000),
            "{late}"
        );
        // An entity without work gets nothing.
        assert_eq!(policy.credit(entity(2)), 0);
        let mut alone = Credit::new(1000, 400, Deals::Period, 50);
        alone.wake(entity(0), 50);
        let until = 50 + (now - 50) / 1000 * 1000 + 1000;
        assert_eq!(alone.pick(now).until, Some(until), "{late}");
    }
    let mut policy = Credit::new(1000, 400, Deals::Period, 50);
    policy.wake(entity(0), 50);
    let _ = policy.pick(1049);
    assert_eq!(policy.credit(entity(0)), 0, "the period is not over");
}

/// An entity that had work in a period has a part of it, even if it has blocked since; then it gets
/// no more.
#[test]
fn an_entity_that_had_work_in_a_period_gets_a_part_of_it() {
    let mut policy = Credit::new(1000, 400, Deals::Period, 0);
    policy.wake(entity(0), 0);
    policy.wake(entity(1), 0);
    policy.block(entity(1), 100);
    policy.suspend(100);
    let _ = policy.pick(1000);
    let credits = [0, 1, 2].map(|index| policy.credit(entity(index)));
    assert_eq!(credits, [500, 500, 0]);
    policy.suspend(1000);
    let _ = policy.pick(2000);
    let credits = [0, 1, 2].map(|index| policy.credit(entity(index)));
    assert_eq!(credits, [1500, 500, 0]);
}

/// An entity that runs pays for each tick, and its debt is at most two periods.
#[test]
fn debt_is_limited() {
    let mut policy = Credit::new(1000, 400, Deals::Period, 0);
    policy.wake(entity(0), 0);
    assert_eq!(policy.pick(0).run, Some(entity(0)));
    policy.suspend(300);
    assert_eq!(policy.credit(entity(0)), -300);
    let _ = policy.pick(300);
    policy.block(entity(0), 50_000);
    assert_eq!(policy.credit(entity(0)), -2000);
}

/// Entities of the same rank have a slice each, in turn; an entity that yields has had its slice.
#[test]
fn slices_go_round() {
    let mut policy = Credit::new(100_000, 400, Deals::Period, 0);
    for index in 0..3 {
        policy.wake(entity(index), 0);
    }
    let mut order = Vec::new();
    for now in (0..2400).step_by(100) {
        let decision = policy.pick(now);
        assert_eq!(decision.until, Some(now / 400 * 400 + 400));
        order.push(decision.run.map(Entity::index));
    }
    let turns: Vec<_> = order.chunks(4).map(|turn| turn[0]).collect();
    assert!(
        order
            .chunks(4)
            .all(|turn| turn.iter().all(|run| *run == turn[0]))
    );
    assert_eq!(turns, [0, 1, 2, 0, 1, 2].map(Some));
    let first = policy.pick(2400).run.unwrap();
    policy.yield_now(first, 2450);
    assert_ne!(policy.pick(2450).run, Some(first));
    // An entity that does not run has no slice to give up.
    let decision = policy.pick(2450);
    policy.yield_now(first, 2460);
    assert_eq!(policy.pick(2460), decision);
}

/// A cap is a part of each period; what is used of it is gone until the next period begins.
#[test]
fn a_cap_limits_each_period() {
    let mut policy = Credit::new(1000, 400, Deals::Period, 0);
    policy.set_share(entity(0), share(256, Some(30)));
    policy.wake(entity(0), 0);
    assert_eq!(policy.pick(0).until, Some(300));
    assert_eq!(policy.pick(100).until, Some(300));
    // A lower cap is used from the next period on.
    policy.set_share(entity(0), share(256, Some(20)));
    assert_eq!(policy.pick(200).until, Some(300));
    let parked = policy.pick(300);
    assert_eq!((parked.run, parked.until), (None, Some(1000)));
    assert_eq!(policy.pick(1000).until, Some(1200));
    policy.block(entity(0), 1100);
    assert_eq!(policy.pick(1100).until, None);
}

mod plain;
