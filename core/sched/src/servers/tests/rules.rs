//! Single rules of servers, each where it is the one that decides.

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

/// Who pays at each tick, when all that is asked is asked at `until`.
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

/// What others do in the meantime does not stop who runs from paying; what it does itself does,
/// unless it pays for nothing as well.
#[test]
fn who_runs_pays_until_it_runs_no_more() {
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
    // What it has in place of its former server is not at its expense yet.
    let mut policy = start();
    policy.reserve(entity(0), deferrable(0), 1).unwrap();
    assert_eq!(left(&mut policy), [Some(5), Some(5)]);
    // A periodic server pays on.
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
    // 55 both: the lower index.
    assert_eq!(policy.pick(8).run, Some(entity(0)));
    policy.block(entity(0), 9);
    assert_eq!(policy.pick(9).run, Some(entity(2)));
}

/// Only who is ready, and has a budget, has something to give.
#[test]
fn who_has_no_budget_or_no_turn_gives_nothing() {
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

/// What has no work loses its budget; at the period's very start it may yet come back.
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

/// After any number of periods, to the tick: it is the last one that has begun that counts.
#[test]
fn who_waited_for_periods_has_the_last_one() {
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

/// Abeni and Buttazzo 1998: who wakes keeps its deadline where the rest of its budget is no more
/// than its bandwidth until then.
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

/// A change of a server that runs, and of one that waits, is a change of what is in use.
#[test]
fn grub_reckons_with_the_bandwidth_that_there_is() {
    let mut policy = with(EDF, Slack::Reclaim, &[bandwidth(8, 4)]);
    policy.wake(entity(0), 0);
    assert_eq!(policy.pick(0).until, Some(8));
    policy.change(entity(0), periodic(8, 2), 0).unwrap();
    // Four at half the rate; then two at a quarter of it.
    assert_eq!(payers(&mut policy, 0, 24), "aaaaaaaaaaaaaaaaaaaaaaaa");
    // The same, taken up by the wake-up after the deadline.
    let mut policy = with(EDF, Slack::Reclaim, &[bandwidth(8, 4)]);
    policy.change(entity(0), periodic(8, 2), 5).unwrap();
    policy.wake(entity(0), 9);
    assert_eq!(policy.interface(entity(0)), Some(periodic(8, 2)));
    assert_eq!(payers(&mut policy, 9, 25), "aaaaaaaaaaaaaaaa");
    // And not before it may.
    let mut policy = with(EDF, Slack::Reclaim, &[bandwidth(8, 4)]);
    policy.change(entity(0), periodic(8, 2), 10).unwrap();
    policy.wake(entity(0), 9);
    assert_eq!(policy.interface(entity(0)), Some(periodic(8, 4)));
    assert_eq!(policy.budget(entity(0)), Some(4));
}

/// However large a budget is, it lasts no shorter than by its ticks.
#[test]
fn grub_has_room_for_any_budget() {
    for budget in [1 << 4, 1 << 43, 1 << 44, 1 << 45, 1 << 62] {
        let mut policy = with(EDF, Slack::Reclaim, &[bandwidth(2 * budget, budget)]);
        policy.wake(entity(0), 0);
        let decision = policy.pick(0);
        assert_eq!(decision.run, Some(entity(0)));
        let until = decision.until.unwrap();
        assert!(until >= budget && until <= 2 * budget, "{budget}: {until}");
        // As long as there are bits for the fraction, it is told exactly.
        assert_eq!(until == 2 * budget, budget < 1 << 44, "{budget}");
    }
}

/// After seven ticks at half the rate half a tick is left of four. Another one comes with a later
/// deadline, and a tick costs a whole one: it is not given half of it.
#[test]
fn what_is_too_little_for_a_tick_is_not_run() {
    let mut policy = with(EDF, Slack::Reclaim, &[bandwidth(8, 4), bandwidth(16, 8)]);
    policy.wake(entity(0), 0);
    assert_eq!(payers(&mut policy, 0, 7), "aaaaaaa");
    policy.wake(entity(1), 7);
    let decision = policy.pick(7);
    assert_eq!(decision.run, Some(entity(1)));
    assert_eq!(decision.until, Some(8), "the first one's next period");
}

/// At 3/4 of the rate 14 ticks last for 18, and what is left is not enough for one more. That the
/// rate falls at the same instant gives nothing back.
#[test]
fn what_was_used_up_stays_used_up() {
    let mut policy = with(EDF, Slack::Reclaim, &[bandwidth(28, 14), bandwidth(64, 16)]);
    policy.wake(entity(0), 0);
    policy.wake(entity(1), 0);
    assert_eq!(policy.pick(0).until, Some(18));
    policy.block(entity(1), 18);
    // It runs at nobody's expense where nobody else would.
    assert_eq!(policy.pick(18).until, Some(28));
    assert_eq!(policy.charged(), None);
}

/// At half the rate half a tick is left. Somebody with an earlier deadline who has nothing to do
/// after all makes the rate a whole one for no time: that takes nothing.
#[test]
fn who_merely_looks_in_takes_nothing_from_the_others() {
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

/// A bandwidth whose 0-lag time has come is free at once, asked or not.
#[test]
fn who_has_used_what_it_might_leaves_at_once() {
    let mut policy = with(EDF, Slack::Reclaim, &[bandwidth(8, 4), bandwidth(4, 2)]);
    policy.wake(entity(0), 0);
    assert_eq!(policy.pick(0).run, Some(entity(0)));
    policy.wake(entity(1), 2);
    assert_eq!(policy.pick(2).run, Some(entity(1)));
    assert_eq!(policy.budget(entity(0)), Some(3), "two at half the rate");
    // Three until 8, in proportion, are begun at 2.
    policy.block(entity(0), 2);
    policy.pick(4);
    assert_eq!(policy.budget(entity(1)), Some(1), "two at half the rate");
}
