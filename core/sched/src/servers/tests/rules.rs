//! Single rules of servers, each in a case where that rule decides.

use super::*;

const EDF: Order = Order::EarliestDeadline;

fn bandwidth(period: u64, budget: u64) -> Reservation {
    one(Kind::ConstantBandwidth, periodic(period, budget), 0)
}

fn with(order: Order, slack: Slack, reservations: &[Reservation]) -> Servers<N> {
    let mut policy = Servers::new(order, slack);
    for (index, what) in reservations.iter().enumerate() {
        policy.reserve(entity(index), *what, 0).unwrap();
    }
    policy
}

/// The entity that pays at each tick, if the policy is asked only at `until`.
fn payers(policy: &mut Servers<N>, from: u64, to: u64) -> std::string::String {
    let mut line = Vec::new();
    let mut until = Some(from);
    for now in from..to {
        if until.is_some_and(|until| until <= now) {
            until = policy.pick(now).until;
        }
        line.push(policy.charged().map(E::index));
    }
    spell(&line)
}

/// Events of other entities do not end the payment of the one that runs; its own events do, unless
/// it also pays without work.
#[test]
fn an_entity_pays_until_it_stops_running() {
    let deferrable = |priority| one(Kind::Deferrable, periodic(10, 5), priority);
    let start = || {
        let what = [deferrable(0), deferrable(1)];
        let mut policy = with(Order::Priority, Slack::Idle, &what);
        policy.wake(entity(0), 0);
        policy.wake(entity(1), 0);
        assert_eq!(policy.pick(0).run, Some(entity(0)));
        assert_eq!(policy.charged(), Some(entity(0)));
        policy
    };
    let left = |policy: &mut Servers<N>| {
        policy.pick(3);
        [0, 1].map(|index| policy.budget(entity(index)))
    };
    let mut policy = start();
    policy.block(entity(1), 1);
    assert_eq!(left(&mut policy), [Some(2), Some(5)]);
    let mut policy = start();
    policy.release(entity(1), 1);
    assert_eq!(left(&mut policy), [Some(2), None]);
    let mut policy = start();
    policy.block(entity(0), 1);
    assert_eq!(policy.charged(), None);
    assert_eq!(left(&mut policy), [Some(4), Some(5)]);
    let mut policy = start();
    policy.release(entity(0), 1);
    assert_eq!(policy.charged(), None);
    assert_eq!(left(&mut policy), [None, Some(5)]);
    // The reservation that replaced its former one is not charged yet.
    let mut policy = start();
    policy.reserve(entity(0), deferrable(0), 1).unwrap();
    assert_eq!(left(&mut policy), [Some(5), Some(5)]);
    // A periodic server goes on paying.
    let what = [one(Kind::Periodic, periodic(10, 5), 0), deferrable(1)];
    let mut policy = with(Order::Priority, Slack::Idle, &what);
    policy.wake(entity(0), 0);
    policy.pick(0);
    policy.block(entity(0), 1);
    assert_eq!(policy.charged(), Some(entity(0)));
    assert_eq!(left(&mut policy), [Some(2), Some(5)]);
}

#[test]
fn a_job_has_the_deadline_that_it_is_given() {
    let task = |period| one(Kind::Task, periodic(period, 1), 0);
    let mut policy = with(EDF, Slack::Idle, &[task(50), task(60), task(70)]);
    policy.wake(entity(0), 5);
    assert_eq!(policy.pick(5).run, Some(entity(0)));
    policy.wake_until(entity(1), 6, 54);
    assert_eq!(policy.pick(6).run, Some(entity(1)));
    policy.wake_until(entity(2), 7, 55);
    assert_eq!(policy.pick(7).run, Some(entity(1)));
    policy.block(entity(1), 8);
    // Both deadlines are 55: the lower index goes first.
    assert_eq!(policy.pick(8).run, Some(entity(0)));
    policy.block(entity(0), 9);
    assert_eq!(policy.pick(9).run, Some(entity(2)));
}

/// Only an entity that is ready and has a budget has something to give up.
#[test]
fn an_entity_without_budget_or_turn_has_nothing_to_give_up() {
    let task = one(Kind::Task, periodic(10, 1), 0);
    let server = one(Kind::Deferrable, periodic(10, 4), 1);
    let mut policy = with(Order::Priority, Slack::Idle, &[task, server]);
    policy.wake(entity(0), 0);
    assert_eq!(policy.pick(0).run, Some(entity(0)));
    policy.yield_now(entity(0), 1);
    assert_eq!(policy.pick(1).run, Some(entity(0)), "a task has no budget");
    policy.block(entity(0), 2);
    policy.yield_now(entity(1), 2);
    assert_eq!(policy.budget(entity(1)), Some(4), "it waits for work");
    policy.wake(entity(1), 3);
    assert_eq!(policy.pick(3).until, Some(7));
}

/// A server without work loses its budget; at the very start of its period it may still get work
/// again.
#[test]
fn a_polling_server_without_work_has_no_budget() {
    let poll = one(Kind::Polling, periodic(5, 2), 0);
    let mut policy = with(Order::Priority, Slack::Idle, &[poll]);
    policy.wake(entity(0), 0);
    assert_eq!(policy.pick(0).run, Some(entity(0)));
    policy.block(entity(0), 0);
    policy.wake(entity(0), 0);
    let again = policy.pick(0);
    assert_eq!((again.run, again.until), (Some(entity(0)), Some(2)));
    policy.block(entity(0), 1);
    assert_eq!(policy.budget(entity(0)), Some(0));
    policy.wake(entity(0), 1);
    let late = policy.pick(1);
    assert_eq!((late.run, late.until), (None, Some(5)));
}

/// After any number of periods, to the tick: the last period that has begun counts.
#[test]
fn a_server_that_waited_for_periods_has_the_current_one() {
    for wait in 0..45 {
        for order in [EDF, Order::Priority] {
            let server = one(Kind::Deferrable, periodic(10, 4), 0);
            let mut policy = with(order, Slack::Idle, &[server]);
            policy.wake(entity(0), wait);
            let left = 10 - wait % 10;
            let worth = match order {
                Order::EarliestDeadline => left * 4 / 10,
                Order::Priority => 4,
            };
            assert_eq!(policy.budget(entity(0)), Some(worth), "{order:?} {wait}");
        }
    }
}

/// Abeni and Buttazzo 1998: a server that wakes keeps its deadline if the rest of its budget is at
/// most its bandwidth until then.
#[test]
fn a_deadline_that_can_be_kept_is_kept() {
    for used in 0..4u64 {
        for wake in used..12 {
            let mut policy = with(EDF, Slack::Idle, &[bandwidth(8, 4)]);
            policy.wake(entity(0), 0);
            policy.pick(0);
            policy.block(entity(0), used);
            policy.wake(entity(0), wake);
            let kept = wake < 8 && (4 - used) * 8 <= (8 - wake) * 4;
            let expected = if kept { 4 - used } else { 4 };
            assert_eq!(policy.budget(entity(0)), Some(expected), "{used} {wake}");
        }
    }
}

/// At the end of time the last period goes on.
#[test]
fn the_last_instant_has_an_answer() {
    for kind in [
        Kind::Periodic,
        Kind::Polling,
        Kind::Deferrable,
        Kind::ConstantBandwidth,
        Kind::SoftBandwidth,
    ] {
        for slack in [Slack::Idle, Slack::Share, Slack::Reclaim] {
            let mut policy = Servers::<N>::new(EDF, slack);
            let start = u64::MAX - 5;
            let server = one(kind, periodic(10, 4), 0);
            policy.reserve(entity(0), server, start).unwrap();
            policy.wake(entity(0), start);
            for now in [start, start + 3, u64::MAX, u64::MAX] {
                let _ = policy.pick(now);
            }
            policy.block(entity(0), u64::MAX);
            policy.wake(entity(0), u64::MAX);
            let _ = policy.pick(u64::MAX);
        }
    }
}

/// A change of a server that runs, and of one that waits, changes the bandwidth in use.
#[test]
fn grub_reckons_with_the_bandwidth_that_there_is() {
    let mut policy = with(EDF, Slack::Reclaim, &[bandwidth(8, 4)]);
    policy.wake(entity(0), 0);
    assert_eq!(policy.pick(0).until, Some(8));
    assert_eq!(
        policy.change(entity(0), periodic(8, 2), 0),
        Ok(ChangeStatus::Scheduled)
    );
    // Four ticks at half the rate; then two at a quarter of it.
    assert_eq!(payers(&mut policy, 0, 24), "aaaaaaaaaaaaaaaaaaaaaaaa");
    // The same, with a change that is made by the wake-up after the deadline.
    let mut policy = with(EDF, Slack::Reclaim, &[bandwidth(8, 4)]);
    assert_eq!(
        policy.change(entity(0), periodic(8, 2), 5),
        Ok(ChangeStatus::Scheduled)
    );
    policy.wake(entity(0), 9);
    assert_eq!(policy.interface(entity(0)), Some(periodic(8, 2)));
    assert_eq!(payers(&mut policy, 9, 25), "aaaaaaaaaaaaaaaa");
    // And not before it may.
    let mut policy = with(EDF, Slack::Reclaim, &[bandwidth(8, 4)]);
    assert_eq!(
        policy.change(entity(0), periodic(8, 2), 10),
        Ok(ChangeStatus::Scheduled)
    );
    policy.wake(entity(0), 9);
    assert_eq!(policy.interface(entity(0)), Some(periodic(8, 4)));
    assert_eq!(policy.budget(entity(0)), Some(4));
}

/// However large a budget is, it lasts at least as long as its ticks.
#[test]
fn grub_has_room_for_any_budget() {
    for budget in [1 << 4, 1 << 43, 1 << 44, 1 << 45, 1 << 62] {
        let mut policy = with(EDF, Slack::Reclaim, &[bandwidth(2 * budget, budget)]);
        policy.wake(entity(0), 0);
        let decision = policy.pick(0);
        assert_eq!(decision.run, Some(entity(0)));
        let until = decision.until.unwrap();
        assert!(until >= budget && until <= 2 * budget, "{budget}: {until}");
        // As long as there are bits for the fraction, the answer is exact.
        assert_eq!(until == 2 * budget, budget < 1 << 44, "{budget}");
    }
}

/// After seven ticks at half the rate, half a tick is left of four. Another server wakes with a
/// later deadline, and a tick costs a whole one: the first server does not get half of it.
#[test]
fn a_budget_of_less_than_a_tick_does_not_run() {
    let mut policy = with(EDF, Slack::Reclaim, &[bandwidth(8, 4), bandwidth(16, 8)]);
    policy.wake(entity(0), 0);
    assert_eq!(payers(&mut policy, 0, 7), "aaaaaaa");
    policy.wake(entity(1), 7);
    let decision = policy.pick(7);
    assert_eq!(decision.run, Some(entity(1)));
    assert_eq!(decision.until, Some(8), "the first one's next period");
}

/// At 3/4 of the rate 14 ticks last for 18, and the rest is not enough for one more. That the rate
/// falls at the same instant gives nothing back.
#[test]
fn a_used_up_budget_stays_used_up() {
    let mut policy = with(EDF, Slack::Reclaim, &[bandwidth(28, 14), bandwidth(64, 16)]);
    policy.wake(entity(0), 0);
    policy.wake(entity(1), 0);
    assert_eq!(policy.pick(0).until, Some(18));
    policy.block(entity(1), 18);
    // It runs at nobody's expense while no other would run.
    assert_eq!(policy.pick(18).until, Some(28));
    assert_eq!(policy.charged(), None);
}

/// At half the rate half a tick is left. A server with an earlier deadline wakes and blocks at
/// once, so that the rate is a whole one for no time: that takes nothing away.
#[test]
fn a_server_that_wakes_and_blocks_at_once_takes_nothing() {
    let all = [bandwidth(32, 4), bandwidth(64, 24), bandwidth(8, 4)];
    let mut policy = with(EDF, Slack::Reclaim, &all);
    policy.wake(entity(0), 0);
    policy.wake(entity(1), 0);
    let first = policy.pick(0);
    assert_eq!((first.run, first.until), (Some(entity(0)), Some(8)));
    policy.pick(7);
    policy.wake(entity(2), 7);
    assert_eq!(policy.pick(7).run, Some(entity(2)));
    policy.block(entity(2), 7);
    let on = policy.pick(7);
    assert_eq!((on.run, on.until), (Some(entity(0)), Some(8)));
}

/// A bandwidth whose 0-lag time has come is free at once, whether the policy is asked or not.
#[test]
fn a_server_past_its_zero_lag_time_frees_its_bandwidth_at_once() {
    let mut policy = with(EDF, Slack::Reclaim, &[bandwidth(8, 4), bandwidth(4, 2)]);
    policy.wake(entity(0), 0);
    assert_eq!(policy.pick(0).run, Some(entity(0)));
    policy.wake(entity(1), 2);
    assert_eq!(policy.pick(2).run, Some(entity(1)));
    assert_eq!(policy.budget(entity(0)), Some(3), "two at half the rate");
    // Three until 8, in proportion, begin at 2.
    policy.block(entity(0), 2);
    policy.pick(4);
    assert_eq!(policy.budget(entity(1)), Some(1), "two at half the rate");
}

/// Budgets of all servers that are due at the same moment are replenished a few at a time, and who runs is the
/// same as where they are replenished at once.
#[test]
fn as_many_budgets_as_there_can_be_are_replenished_in_pieces() {
    const ALL: usize = 64;
    const PIECE: usize = 8;
    let mut policy: Servers<ALL> = Servers::new(Order::EarliestDeadline, Slack::Idle);
    let all = || (0..ALL).map(|n| Entity::<ALL>::new(n).unwrap());
    for entity in all() {
        let interface = periodic(2 * ALL as u64, 1);
        let reservation = Reservation::rate_monotonic(Kind::Periodic, interface);
        policy.reserve(entity, reservation, 0).unwrap();
        policy.wake(entity, 0);
    }
    assert_eq!(Entity::<ALL>::new(ALL), None, "there is no further one");
    // Each spends its budget.
    let ran: std::collections::BTreeSet<_> = (0..=ALL as u64)
        .filter_map(|now| policy.pick(now).run.map(Entity::index))
        .collect();
    assert_eq!(ran.len(), ALL);
    let period = 2 * ALL as u64;
    assert_eq!(policy.replenish_some(period - 1, PIECE), Replenished::All);
    let mut at_once = policy.clone();
    for piece in 1..ALL / PIECE {
        let some = policy.replenish_some(period, PIECE);
        assert_eq!(some, Replenished::Some, "piece {piece}");
        let due = all().filter(|entity| policy.budget(*entity) == Some(0));
        assert_eq!(due.count(), ALL - piece * PIECE);
    }
    assert_eq!(policy.replenish_some(period, PIECE), Replenished::All);
    assert_eq!(policy.pick(period), at_once.pick(period));
}
