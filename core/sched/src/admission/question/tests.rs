//! Answers in pieces: against those in one go, and against servers that change while others run.

use super::*;
use crate::admission::{Work, holds, holds_alone};
use crate::{Entity, Policy, Servers, Slack};
use proptest::prelude::*;
use std::vec::Vec;

fn answer(question: &mut Question) -> Result<(), Refusal> {
    loop {
        match question.step() {
            Progress::More => {}
            Progress::Yes => return Ok(()),
            Progress::No(refusal) => return Err(refusal),
        }
    }
}

/// The last of `servers` is to have `wanted`.
fn asked(terms: Terms, servers: &[Reservation], wanted: Interface) -> Result<(), Refusal> {
    let mut question = Question::none();
    question.begin(terms)?;
    let (last, others) = servers.split_last().unwrap();
    others.iter().try_for_each(|server| question.add(*server))?;
    question.add_changed(*last, wanted)?;
    answer(&mut question)
}

fn interface() -> impl Strategy<Value = Interface> {
    let periods = prop_oneof![2..40u64, Just(12u64), Just(24u64)];
    (periods, 1..14u64, 0..30u64, any::<bool>()).prop_map(|(period, budget, late, implicit)| {
        let budget = budget.min(period);
        let deadline = (budget + late).min(period);
        let deadline = if implicit { period } else { deadline };
        Interface::new(period, budget, deadline).unwrap()
    })
}

fn server() -> impl Strategy<Value = Reservation> {
    (interface(), 0..4u64).prop_map(|(interface, priority)| Reservation {
        kind: Kind::Periodic,
        interface,
        priority,
    })
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::EarliestDeadline), Just(Order::Priority)]
}

fn whole(order: Order) -> Terms {
    Terms {
        order,
        supply: None,
        cost: 0,
    }
}

/// The time that each server has had in each of its periods by its deadline, by a count of ticks, with servers that
/// always have work, one of which changes at `at`. The answer is whether any had less than its budget.
fn misses(order: Order, servers: &[Reservation], wanted: Interface, at: u64) -> bool {
    let mut policy = Servers::<8>::new(order, Slack::Idle);
    let entity = |index| Entity::new(index).unwrap();
    let last = servers.len() - 1;
    for (index, server) in servers.iter().enumerate() {
        policy.reserve(entity(index), *server, 0).unwrap();
        policy.wake(entity(index), 0);
    }
    // Of each server: the start of its period, its interface there, and what it was given by the deadline.
    let mut now_in: Vec<_> = servers.iter().map(|s| (0, s.interface, 0)).collect();
    let mut decision = policy.pick(0);
    for now in 0..600 {
        if now == at {
            let _ = policy.change(entity(last), wanted, now).unwrap();
            decision = policy.pick(now);
        }
        if decision.until.is_some_and(|until| until <= now) {
            decision = policy.pick(now);
        }
        for (index, (start, interface, given)) in now_in.iter_mut().enumerate() {
            if now == *start + interface.period() {
                if *given < interface.budget() {
                    return true;
                }
                (*start, *given) = (now, 0);
                if index == last && now >= at {
                    *interface = wanted;
                }
            }
        }
        if let Some(run) = decision.run
            && let Some((start, interface, given)) = now_in.get_mut(run.index())
            && now < *start + interface.deadline()
        {
            *given += 1;
        }
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]
    /// Without a change on the way, both say the same.
    #[test]
    fn pieces_are_the_whole(
        servers in proptest::collection::vec(server(), 1..6),
        order in order(),
        supply in proptest::option::of(interface()),
    ) {
        let demands: Vec<_> = servers.iter().filter_map(|server| {
            served(order, server.interface, server.kind, server.priority, 0).ok()
        }).collect();
        let set = Set::new(&demands);
        let mut work = Work::new(u32::MAX);
        let expected = match supply {
            None => holds_alone(&set, order, &mut work),
            Some(supply) => holds(&set, order, supply, &mut work),
        };
        let terms = Terms { order, supply: supply.map(|supply| (supply, Kind::Periodic)), cost: 0 };
        let found = asked(terms, &servers, servers.last().unwrap().interface);
        prop_assert_eq!(found.is_ok(), expected.is_ok(), "{:?} {:?}", found, expected);
    }

    /// Whatever holds beside the others can be reached in two steps, by way of an interface that asks for no more than
    /// either.
    #[test]
    fn what_holds_is_reached_in_two_steps(
        servers in proptest::collection::vec(server(), 1..5),
        order in order(),
        wanted in interface(),
    ) {
        let (last, others) = servers.split_last().unwrap();
        let of = |interface| {
            let server = Reservation { interface, ..*last };
            others.iter().copied().chain([server]).collect::<Vec<_>>()
        };
        let old = last.interface;
        let both = Interface::new(
            old.period().max(wanted.period()),
            old.budget().min(wanted.budget()),
            old.deadline().max(wanted.deadline()),
        );
        let both = both.unwrap();
        let terms = whole(order);
        if asked(terms, &servers, old).is_ok() && asked(terms, &of(wanted), wanted).is_ok() {
            prop_assert_eq!(asked(terms, &servers, both), Ok(()));
            prop_assert_eq!(asked(terms, &of(both), wanted), Ok(()));
        }
    }

    /// What is admitted takes effect without a miss, whenever it is asked for.
    #[test]
    fn nobody_misses_on_the_way(
        servers in proptest::collection::vec(server(), 1..5),
        order in order(),
        wanted in interface(),
        at in 1..80u64,
    ) {
        let old = asked(whole(order), &servers, servers.last().unwrap().interface);
        if old.is_ok() && asked(whole(order), &servers, wanted).is_ok() {
            prop_assert!(!misses(order, &servers, wanted, at));
        }
    }
}

/// A change whose two modes both hold, and under whose way there somebody misses a deadline: it is refused.
#[test]
fn a_way_that_is_not_safe_is_refused() {
    let of = |period, budget, priority| Reservation {
        kind: Kind::Periodic,
        interface: Interface::periodic(period, budget).unwrap(),
        priority,
    };
    let servers = [of(20, 9, 1), of(10, 5, 0)];
    let wanted = Interface::periodic(5, 2).unwrap();
    let found = asked(whole(Order::Priority), &servers, wanted);
    assert_eq!(found, Err(Refusal::Transition));
    // By bandwidths it is safe.
    let found = asked(whole(Order::EarliestDeadline), &servers, wanted);
    assert_eq!(found, Ok(()));
}

/// Periods of 0.5 to 2 ms to the tick of 16 ns, with deadlines inside them, whose bandwidths come within 1/100,000 of the
/// core: the test ends within its steps.
#[test]
fn odd_periods_are_decided() {
    let (mut random, mut yes) = (1_u64, 0);
    let mut below = |limit| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    };
    for _ in 0..300 {
        // In millionths of the core.
        let (mut left, mut servers) = (999_990, Vec::new());
        let count = 2 + below(5);
        for at in (0..count).rev() {
            let share = if at == 0 { left } else { 1 + below(left / 2) };
            left -= share;
            let period = 31_250 + below(93_750);
            let budget = (period * share / 1_000_000).max(1);
            let deadline = period - below(1 + (period - budget) / 40);
            servers.push(Reservation {
                kind: Kind::Periodic,
                interface: Interface::new(period, budget, deadline).unwrap(),
                priority: 0,
            });
        }
        let wanted = servers.last().unwrap().interface;
        let found = asked(whole(Order::EarliestDeadline), &servers, wanted);
        assert_ne!(found, Err(Refusal::Undecided), "{servers:?}");
        yes += u32::from(found.is_ok());
    }
    assert!((50..=290).contains(&yes), "{yes}");
}

#[test]
fn what_a_server_costs_is_counted() {
    let of = |budget| Reservation {
        kind: Kind::Periodic,
        interface: Interface::periodic(100, budget).unwrap(),
        priority: 0,
    };
    for order in [Order::EarliestDeadline, Order::Priority] {
        let with = |cost, budget| {
            let terms = Terms {
                order,
                supply: None,
                cost,
            };
            asked(
                terms,
                &[of(50), of(20)],
                Interface::periodic(100, budget).unwrap(),
            )
        };
        assert_eq!(with(5, 40), Ok(()));
        assert!(with(5, 41).is_err());
        assert_eq!(with(0, 50), Ok(()));
        assert!(with(0, 51).is_err());
    }
}

#[test]
fn servers_of_which_nothing_is_proven_are_refused() {
    let of = |kind| Reservation {
        kind,
        interface: Interface::periodic(100, 10).unwrap(),
        priority: 0,
    };
    let wanted = Interface::periodic(100, 20).unwrap();
    let with = |order, kind| asked(whole(order), &[of(Kind::Periodic), of(kind)], wanted);
    assert_eq!(
        with(Order::EarliestDeadline, Kind::SoftBandwidth),
        Err(Refusal::Soft)
    );
    assert_eq!(
        with(Order::Priority, Kind::ConstantBandwidth),
        Err(Refusal::Moving)
    );
    assert_eq!(
        with(Order::EarliestDeadline, Kind::ConstantBandwidth),
        Ok(())
    );
    assert_eq!(with(Order::EarliestDeadline, Kind::Deferrable), Ok(()));
    let inside = Terms {
        order: Order::EarliestDeadline,
        supply: Some((Interface::periodic(50, 40).unwrap(), Kind::Periodic)),
        cost: 0,
    };
    assert!(asked(inside, &[of(Kind::Deferrable)], wanted).is_err());
    assert_eq!(asked(inside, &[of(Kind::Periodic)], wanted), Ok(()));
}

/// Whether nobody misses a deadline, by a count of all ticks: periods divide 720, and all are released at once.
fn by_definition(order: Order, servers: &[Reservation]) -> bool {
    let parts = |server: &Reservation| {
        let interface = server.interface;
        [interface.period(), interface.budget(), interface.deadline()]
    };
    let asked = |t: u64| {
        let demand = servers.iter().map(parts).map(|[period, budget, deadline]| {
            t.checked_sub(deadline)
                .map_or(0, |rest| (rest / period + 1) * budget)
        });
        demand.sum::<u64>()
    };
    if order == Order::EarliestDeadline {
        // Whatever the deadlines, more than 720 ticks are asked for in each 720, or the demand repeats.
        let all: u64 = servers
            .iter()
            .map(parts)
            .map(|[period, budget, _]| 720 / period * budget)
            .sum();
        return all <= 720 && (1..=2 * 720).all(|t| asked(t) <= t);
    }
    servers.iter().enumerate().all(|(index, server)| {
        let [_, own, deadline] = parts(server);
        let higher = |(other, server): (usize, &Reservation)| {
            ((server.priority, other) < (servers[index].priority, index)).then(|| parts(server))
        };
        (1..=deadline).any(|t| {
            let higher = servers.iter().enumerate().filter_map(higher);
            own + higher
                .map(|[period, budget, _]| t.div_ceil(period) * budget)
                .sum::<u64>()
                <= t
        })
    })
}

/// The periods of near sets: they divide 720.
const PERIODS: [u64; 14] = [4, 5, 6, 8, 9, 10, 12, 15, 16, 18, 20, 24, 30, 36];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    /// The largest budget that is admitted is the largest one with which nobody is late, beside servers that are
    /// themselves grown as far as they may be: what is found is on the edge.
    #[test]
    fn the_edge_is_where_it_is_by_definition(
        servers in proptest::collection::vec((0..PERIODS.len(), 1..20u64, 0..36u64, any::<bool>(), 0..6u64), 2..8),
        order in order(),
    ) {
        let of = |(period, budget, early, implicit, priority): (usize, u64, u64, bool, u64)| {
            let period = PERIODS[period];
            let deadline = if implicit { period } else { period - early.min(period / 2) };
            let interface = Interface::new(period, budget.clamp(1, (deadline / 3).max(1)), deadline).unwrap();
            Reservation { kind: Kind::Periodic, interface, priority }
        };
        let mut set: Vec<Reservation> = Vec::new();
        for server in servers.into_iter().map(of) {
            let interface = server.interface;
            let with = |budget| Interface::new(interface.period(), budget, interface.deadline()).unwrap();
            let there = set.clone();
            let held = |budget| {
                let mut set = there.clone();
                set.push(Reservation { interface: with(budget), ..server });
                let set: &[Reservation] = &set;
                let found = asked(whole(order), set, with(budget)).is_ok();
                prop_assert_eq!(found, by_definition(order, set), "{:?}", set);
                Ok(found)
            };
            let mut most = 0;
            for budget in 1..=interface.deadline() {
                if !held(budget)? {
                    break;
                }
                most = budget;
            }
            // All but the last leave something for those after them.
            if let Some(budget) = Some(interface.budget()).filter(|budget| *budget <= most) {
                set.push(Reservation { interface: with(budget), ..server });
            } else if most > 0 {
                set.push(Reservation { interface: with(most), ..server });
            }
        }
    }
}

/// A server that pays for its own switches costs those beside it nothing beyond its budget, which has to be more than the
/// payment; one that does not costs two switches more in each period.
#[test]
fn switches_are_paid_by_who_begins_inside_its_period() {
    let of = |kind, period, budget, priority| Reservation {
        kind,
        interface: Interface::periodic(period, budget).unwrap(),
        priority,
    };
    // Both switches take 4.
    let with = |order, kind, budget| {
        let terms = Terms {
            cost: 4,
            ..whole(order)
        };
        let other = of(Kind::Periodic, 100, 46, 1);
        let server = of(kind, 100, budget, 0);
        asked(terms, &[other, server], server.interface)
    };
    let edf = Order::EarliestDeadline;
    for kind in [Kind::Deferrable, Kind::ConstantBandwidth] {
        assert_eq!(with(edf, kind, 50), Ok(()));
        assert_eq!(with(edf, kind, 51), Err(Refusal::Overload));
        assert_eq!(with(edf, kind, 5), Ok(()));
        assert_eq!(with(edf, kind, 4), Err(Refusal::Prepaid));
    }
    assert_eq!(with(edf, Kind::Periodic, 46), Ok(()));
    assert_eq!(with(edf, Kind::Periodic, 47), Err(Refusal::Overload));
    // Under priorities it may run twice in a row: 20 until a period's end, of which the switch after it, 2, comes later,
    // then 20, and the third time 118 after the first began.
    let beside_twice = |budget| {
        let terms = Terms {
            cost: 4,
            ..whole(Order::Priority)
        };
        let first = of(Kind::Deferrable, 100, 20, 0);
        let interface = Interface::new(200, budget, 120).unwrap();
        let lower = Reservation {
            kind: Kind::Periodic,
            interface,
            priority: 1,
        };
        asked(terms, &[lower, first], first.interface)
    };
    assert_eq!(beside_twice(118 - 2 * 20 - 4), Ok(()));
    assert!(matches!(
        beside_twice(119 - 2 * 20 - 4),
        Err(Refusal::Late(_))
    ));
    // In a group of such a kind nothing is sure for who is in it.
    let inside = |cost| {
        let supply = Interface::periodic(10, 9).unwrap();
        let terms = Terms {
            order: edf,
            supply: Some((supply, Kind::Deferrable)),
            cost,
        };
        let server = of(Kind::Polling, 100, 10, 0);
        asked(terms, &[server], server.interface)
    };
    assert_eq!(inside(0), Ok(()));
    assert_eq!(inside(2), Err(Refusal::Switches));
}
