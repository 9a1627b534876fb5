//! Servers against a plain model that consists of the definitions alone, tick by tick.

use super::*;
use proptest::prelude::*;
use std::vec::Vec;

mod rules;
mod slack;

const N: usize = 8;
type E = Entity<N>;

fn entity(index: usize) -> E {
    E::new(index).unwrap()
}

fn periodic(period: u64, budget: u64) -> Interface {
    Interface::periodic(period, budget).unwrap()
}

fn one(kind: Kind, interface: Interface, priority: u64) -> Reservation {
    Reservation {
        kind,
        interface,
        priority,
    }
}

/// The entity that runs at each tick, if the policy is asked only at `until` and at events.
fn ticks(policy: &mut Servers<N>, from: u64, to: u64) -> Vec<Option<usize>> {
    let mut line = Vec::new();
    let mut decision = policy.pick(from);
    for now in from..to {
        if decision.until.is_some_and(|until| until <= now) {
            decision = policy.pick(now);
        }
        line.push(decision.run.map(E::index));
    }
    line
}

fn spell(line: &[Option<usize>]) -> std::string::String {
    let name = |who: &Option<usize>| who.map_or('.', |n| char::from(b'a' + n as u8));
    line.iter().map(name).collect()
}

#[test]
fn a_budget_is_an_upper_bound_and_comes_again() {
    for kind in [Kind::Periodic, Kind::Deferrable, Kind::ConstantBandwidth] {
        let mut policy = Servers::new(Order::EarliestDeadline, Slack::Idle);
        policy
            .reserve(entity(0), one(kind, periodic(5, 2), 0), 0)
            .unwrap();
        policy.wake(entity(0), 0);
        assert_eq!(
            spell(&ticks(&mut policy, 0, 15)),
            "aa...aa...aa...",
            "{kind:?}"
        );
    }
}

#[test]
fn soft_bandwidth_goes_on_with_a_later_deadline() {
    let mut policy = Servers::new(Order::EarliestDeadline, Slack::Idle);
    let soft = one(Kind::SoftBandwidth, periodic(4, 1), 0);
    policy.reserve(entity(0), soft, 0).unwrap();
    let hard = one(Kind::ConstantBandwidth, periodic(6, 3), 0);
    policy.reserve(entity(1), hard, 0).unwrap();
    policy.wake(entity(0), 0);
    assert_eq!(spell(&ticks(&mut policy, 0, 3)), "aaa");
    policy.wake(entity(1), 3);
    // The deadlines: 16 after three budgets, and 9.
    assert_eq!(spell(&ticks(&mut policy, 3, 9)), "bbbaaa");
}

#[test]
fn polling_loses_what_it_does_not_use_at_once() {
    let mut policy = Servers::new(Order::Priority, Slack::Idle);
    let poll = one(Kind::Polling, periodic(5, 2), 0);
    policy.reserve(entity(0), poll, 0).unwrap();
    policy.wake(entity(0), 1);
    assert_eq!(spell(&ticks(&mut policy, 1, 6)), "....a");
    policy.block(entity(0), 6);
    policy.wake(entity(0), 6);
    assert_eq!(spell(&ticks(&mut policy, 6, 12)), "....aa");
}

#[test]
fn deferrable_runs_twice_in_a_row_under_priorities_and_not_under_deadlines() {
    let line = |order| {
        let mut policy = Servers::new(order, Slack::Idle);
        let server = one(Kind::Deferrable, periodic(10, 4), 0);
        policy.reserve(entity(0), server, 0).unwrap();
        policy.wake(entity(0), 6);
        spell(&ticks(&mut policy, 6, 16))
    };
    assert_eq!(line(Order::Priority), "aaaaaaaa..");
    assert_eq!(line(Order::EarliestDeadline), "a...aaaa..");
}

#[test]
fn a_periodic_server_spends_while_it_waits() {
    let line = |slack| {
        let mut policy = Servers::new(Order::Priority, slack);
        policy
            .reserve(entity(0), one(Kind::Periodic, periodic(5, 3), 0), 0)
            .unwrap();
        policy
            .reserve(entity(1), one(Kind::Deferrable, periodic(10, 2), 1), 0)
            .unwrap();
        policy.wake(entity(1), 0);
        spell(&ticks(&mut policy, 0, 10))
    };
    assert_eq!(line(Slack::Idle), "...bb.....");
    // It runs in the other's place free of charge, and in the background when it is out of budget.
    assert_eq!(line(Slack::Share), "bbbbbbbbbb");
}

#[test]
fn grub_gives_the_unused_bandwidth_to_whoever_runs() {
    let mut policy = Servers::new(Order::EarliestDeadline, Slack::Reclaim);
    for index in 0..2 {
        let server = one(Kind::ConstantBandwidth, periodic(8, 4), 0);
        policy.reserve(entity(index), server, 0).unwrap();
    }
    policy.wake(entity(0), 0);
    // If it is alone, half a CPU is spent at half the rate.
    assert_eq!(spell(&ticks(&mut policy, 0, 16)), "aaaaaaaaaaaaaaaa");
    policy.wake(entity(1), 16);
    let line = spell(&ticks(&mut policy, 16, 32));
    assert_eq!(line.matches('a').count(), 8, "{line}");
    assert_eq!(line.matches('b').count(), 8, "{line}");
    // The other one's bandwidth is free at its 0-lag time, not before.
    policy.block(entity(1), 32);
    let line = spell(&ticks(&mut policy, 32, 48));
    assert_eq!(line.matches('a').count(), 16, "{line}");
}

/// Lipari and Baruah 2000: a server that blocks with all of its budget used keeps its bandwidth up
/// to its deadline; one that used none of it keeps none.
#[test]
fn grub_frees_a_bandwidth_at_its_zero_lag_time_and_not_before() {
    for (used, at_7) in [(4, 1), (2, 1)] {
        let mut policy = Servers::new(Order::EarliestDeadline, Slack::Reclaim);
        for index in 0..2 {
            let server = one(Kind::ConstantBandwidth, periodic(8, 4), 0);
            policy.reserve(entity(index), server, 0).unwrap();
            policy.wake(entity(index), 0);
        }
        let line = spell(&ticks(&mut policy, 0, used));
        assert_eq!(line, "aaaa"[..used as usize]);
        policy.block(entity(0), used);
        for now in used..8 {
            assert_eq!(policy.pick(now).run, Some(entity(1)));
        }
        // After 2 of 4 the 0-lag time is 4: from there on a tick costs half. (The half tick that is
        // left remains.)
        assert_eq!(policy.pick(7).run, Some(entity(1)));
        assert_eq!(policy.budget(entity(1)), Some(at_7), "{used}");
    }
}

#[test]
fn a_released_entity_has_no_budget_and_delays_no_other() {
    for kind in [
        Kind::Task,
        Kind::Periodic,
        Kind::Polling,
        Kind::Deferrable,
        Kind::ConstantBandwidth,
        Kind::SoftBandwidth,
    ] {
        let mut policy = Servers::new(Order::EarliestDeadline, Slack::Reclaim);
        policy
            .reserve(entity(1), one(kind, periodic(8, 4), 0), 0)
            .unwrap();
        policy.wake(entity(1), 0);
        ticks(&mut policy, 0, 6);
        policy.release(entity(1), 6);
        // Nobody runs, and no timer of the former server is left.
        let idle = policy.pick(6);
        assert_eq!((idle.run, idle.until), (None, None), "{kind:?}");
        assert_eq!(policy.interface(entity(1)), None, "{kind:?}");
        assert_eq!(policy.budget(entity(1)), None, "{kind:?}");
        assert_eq!(policy.period_end(entity(1), 6), None, "{kind:?}");
        let change = policy.change(entity(1), periodic(8, 1), 6);
        assert_eq!(change, Ok(ChangeStatus::NoServer), "{kind:?}");
        // Its bandwidth is free for the other at once.
        policy
            .reserve(
                entity(0),
                one(Kind::ConstantBandwidth, periodic(8, 4), 0),
                6,
            )
            .unwrap();
        policy.wake(entity(0), 6);
        let line = spell(&ticks(&mut policy, 6, 30));
        assert_eq!(line.matches('a').count(), 24, "{kind:?}: {line}");
    }
}

#[test]
fn a_late_timer_is_paid_back() {
    let mut policy = Servers::new(Order::Priority, Slack::Idle);
    let server = one(Kind::Deferrable, periodic(10, 4), 0);
    policy.reserve(entity(0), server, 0).unwrap();
    policy.wake(entity(0), 0);
    assert_eq!(policy.pick(0).until, Some(4));
    assert_eq!(policy.pick(7).until, Some(10));
    assert_eq!(policy.pick(10).until, Some(11));
    assert_eq!(policy.pick(11).run, None);
    assert_eq!(policy.pick(20).until, Some(24));
}

#[test]
fn a_yield_gives_up_the_rest_of_the_budget() {
    let mut policy = Servers::new(Order::EarliestDeadline, Slack::Idle);
    policy
        .reserve(entity(0), one(Kind::Deferrable, periodic(5, 3), 0), 0)
        .unwrap();
    policy.wake(entity(0), 0);
    assert_eq!(policy.pick(0).run, Some(entity(0)));
    policy.yield_now(entity(0), 1);
    assert_eq!(spell(&ticks(&mut policy, 1, 8)), "....aaa");
}

#[test]
fn suspended_time_is_not_charged() {
    let mut policy = Servers::new(Order::EarliestDeadline, Slack::Idle);
    policy
        .reserve(entity(0), one(Kind::Deferrable, periodic(9, 3), 0), 0)
        .unwrap();
    policy.wake(entity(0), 0);
    policy.pick(0);
    policy.suspend(1);
    assert_eq!(policy.pick(5).until, Some(7));
}

#[test]
fn a_reservation_that_cannot_be_kept_is_refused() {
    assert_eq!(Interface::new(5, 0, 5), Err(InterfaceError::NoBudget));
    assert_eq!(
        Interface::new(5, 4, 3),
        Err(InterfaceError::BudgetOverDeadline)
    );
    assert_eq!(
        Interface::new(5, 4, 6),
        Err(InterfaceError::DeadlineOverPeriod)
    );
    let early = Interface::new(5, 2, 3).unwrap();
    let mut policy = Servers::<N>::new(Order::EarliestDeadline, Slack::Idle);
    for kind in [
        Kind::Deferrable,
        Kind::ConstantBandwidth,
        Kind::SoftBandwidth,
    ] {
        let refused = policy.reserve(entity(0), one(kind, early, 0), 0);
        assert_eq!(refused, Err(InterfaceError::DeadlineBeforePeriod));
    }
    assert_eq!(
        policy.reserve(entity(0), one(Kind::Periodic, early, 0), 0),
        Ok(())
    );
}

/// A server by the definitions, for a caller that asks at every tick.
#[derive(Clone, Debug)]
struct Plain {
    kind: Kind,
    interface: Interface,
    priority: u64,
    start: u64,
    budget: u64,
    work: bool,
    /// The deadline of a constant bandwidth server.
    deadline: u64,
    /// For a polling server: whether it has had work since the period's start.
    polled: bool,
}

impl Plain {
    fn period_start(&self, now: u64) -> u64 {
        let period = self.interface.period();
        self.start + (now - self.start) / period * period
    }

    fn begin_tick(&mut self, now: u64) {
        let full = self.interface.budget();
        if self.kind.moves_deadline() {
            // Only a server with work and without budget waits for its deadline.
            let spent = self.work && self.budget == 0 && self.kind == Kind::ConstantBandwidth;
            if spent && now >= self.deadline {
                self.budget = full;
                self.deadline += self.interface.period();
            }
        } else if self.period_start(now) == now {
            self.budget = full;
            self.polled = self.work;
        }
    }

    fn wake(&mut self, now: u64, order: Order) {
        if std::mem::replace(&mut self.work, true) {
            return;
        }
        let (period, full) = (self.interface.period(), self.interface.budget());
        if self.kind.moves_deadline() {
            let left = self.deadline.saturating_sub(now);
            if now >= self.deadline || self.budget * period > left * full {
                self.budget = full;
                self.deadline = now + period;
            }
        } else if self.kind == Kind::Deferrable && order == Order::EarliestDeadline {
            let left = self.period_start(now) + period - now;
            self.budget = self.budget.min(left * full / period);
        } else if self.kind == Kind::Polling {
            self.polled |= self.period_start(now) == now;
        }
    }

    fn block(&mut self, now: u64) {
        if std::mem::replace(&mut self.work, false) && self.kind == Kind::Polling {
            // At the very start of the period it may still get work again.
            if self.polled && self.period_start(now) != now {
                self.budget = 0;
            }
            self.polled = false;
        }
    }

    fn key(&self, now: u64, order: Order) -> Option<u64> {
        let may = match self.kind {
            Kind::Periodic => self.budget > 0,
            Kind::Polling => self.budget > 0 && self.work && self.polled,
            _ => self.budget > 0 && self.work,
        };
        may.then(|| match order {
            Order::Priority => self.priority,
            Order::EarliestDeadline if self.kind.moves_deadline() => self.deadline,
            Order::EarliestDeadline => self.period_start(now) + self.interface.deadline(),
        })
    }

    fn run(&mut self) {
        self.budget -= 1;
        if self.budget == 0 && self.kind == Kind::SoftBandwidth {
            self.budget = self.interface.budget();
            self.deadline += self.interface.period();
        }
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Periodic),
        Just(Kind::Polling),
        Just(Kind::Deferrable),
        Just(Kind::ConstantBandwidth),
        Just(Kind::SoftBandwidth),
    ]
}

fn reservation() -> impl Strategy<Value = Reservation> {
    let times = (1..12u64).prop_flat_map(|period| (Just(period), 1..=period));
    (kind(), times, 0..4u64, 0..12u64).prop_map(|(kind, (period, budget), priority, early)| {
        let deadline = match kind {
            Kind::Periodic | Kind::Polling => (period - early.min(period)).max(budget),
            _ => period,
        };
        one(
            kind,
            Interface::new(period, budget, deadline).unwrap(),
            priority,
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn servers_do_what_their_definitions_say(
        reservations in proptest::collection::vec(reservation(), 1..6),
        fixed in any::<bool>(),
        events in proptest::collection::vec((0..4u64, 0..6usize, any::<bool>()), 0..60),
    ) {
        let order = if fixed { Order::Priority } else { Order::EarliestDeadline };
        let mut policy = Servers::<N>::new(order, Slack::Idle);
        let mut plain = Vec::new();
        for (index, r) in reservations.iter().enumerate() {
            policy.reserve(entity(index), *r, 0).unwrap();
            plain.push(Plain {
                kind: r.kind, interface: r.interface, priority: r.priority, start: 0,
                budget: r.interface.budget(), work: false, deadline: r.interface.period(),
                polled: false,
            });
        }
        let mut events = events.into_iter().peekable();
        let mut wait = events.peek().map(|e| e.0);
        let mut decision = Decision { run: None, until: Some(0) };
        for now in 0..200u64 {
            let mut asked = decision.until.is_some_and(|until| until <= now);
            for p in &mut plain { p.begin_tick(now); }
            while wait == Some(0) {
                let (_, who, wakes) = events.next().unwrap();
                wait = events.peek().map(|e| e.0);
                if who < plain.len() {
                    if wakes {
plain[who].wake(now, order); policy.wake(entity(who), now);
} else {
plain[who].block(now); policy.block(entity(who), now);
}
                    asked = true;
                }
            }
            wait = wait.map(|w| w - 1);
            if asked { decision = policy.pick(now); }
            let first = (0..plain.len()).filter_map(|i| Some((plain[i].key(now, order)?, i))).min();
            let expected = first.map(|(_, i)| i).filter(|i| plain[*i].work);
            prop_assert_eq!(decision.run.map(E::index), expected, "at {}: {:?}", now, plain);
            if let Some((_, first)) = first { plain[first].run(); }
        }
    }

    /// An entity that always has work gets at least its budget in each period, whatever the others
    /// do, if the bandwidths are at most one CPU.
    #[test]
    fn promises_are_kept_under_deadlines(
        reservations in proptest::collection::vec(reservation(), 2..6),
        grub in any::<bool>(),
        events in proptest::collection::vec((0..3u64, 1..6usize, any::<bool>()), 0..200),
    ) {
        let slack = if grub { Slack::Reclaim } else { Slack::Share };
        let mut policy = Servers::<N>::new(Order::EarliestDeadline, slack);
        let mut reserved = Vec::new();
        let (mut load, whole) = (0, 27720u64);
        for mut r in reservations {
            r.interface = periodic(r.interface.period(), r.interface.budget());
            load += whole / r.interface.period() * r.interface.budget();
            if load > whole { break; }
            policy.reserve(entity(reserved.len()), r, 0).unwrap();
            reserved.push(r);
        }
        prop_assume!(!reserved.is_empty());
        policy.wake(entity(0), 0);
        let (mut events, mut at) = (events.into_iter(), 0);
        let mut next = events.next();
        let (period, budget) = (reserved[0].interface.period(), reserved[0].interface.budget());
        let mut got = 0;
        for now in 0..300u64 {
            if now % period == 0 {
                prop_assert!(now == 0 || got >= budget, "{} of {} by {}", got, budget, now);
                // A soft server runs ahead, and is held to the sum.
                let soft = reserved[0].kind == Kind::SoftBandwidth && now > 0;
                got = if soft { got - budget } else { 0 };
            }
            while let Some((wait, who, wakes)) = next.filter(|e| at + e.0 <= now) {
                at += wait;
                if who < reserved.len() {
                    if wakes {
policy.wake(entity(who), now)
} else {
policy.block(entity(who), now)
}
                }
                next = events.next();
            }
            let decision = policy.pick(now);
            got += u64::from(decision.run == Some(entity(0)));
        }
    }

    /// No time, period or order of events makes it panic.
    #[test]
    fn any_time_is_taken(
        servers in proptest::collection::vec((kind(), any::<u64>(), any::<u64>(), any::<u64>()), 1..8),
        events in proptest::collection::vec((any::<u64>(), 0..8usize, 0..4u8), 0..60),
        grub in any::<bool>(),
    ) {
        let slack = if grub { Slack::Reclaim } else { Slack::Share };
        let mut policy = Servers::<N>::new(Order::EarliestDeadline, slack);
        let mut times: Vec<_> = events.iter().map(|e| e.0).collect();
        times.sort();
        for (index, (kind, period, budget, start)) in servers.into_iter().enumerate() {
            let period = period.max(1);
            let interface = periodic(period, budget % period + 1);
            policy.reserve(entity(index), one(kind, interface, 0), start.min(times.first().copied().unwrap_or(0))).unwrap();
        }
        for (now, (_, who, what)) in times.into_iter().zip(events) {
            match what {
                0 => policy.wake(entity(who), now),
                1 => policy.block(entity(who), now),
                2 => policy.yield_now(entity(who), now),
                _ => policy.suspend(now),
            }
            let decision = policy.pick(now);
            prop_assert!(decision.until.is_none_or(|until| until > now || now >= u64::MAX - 1),
                "{:?} at {}", decision, now);
        }
    }
}
