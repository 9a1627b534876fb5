//! Questions while servers run.

use super::*;
use std::vec::Vec;

use crate::{Credit, Deals, Grant, Kind, Node, Order, Policy, Reservation, Slack, Tree};

/// A question may last so many ticks, and rest for 100.
const LONGEST: u64 = 800;

fn promise(period: u64, budget: u64) -> Reservation {
    Reservation {
        kind: Kind::Periodic,
        interface: Interface::periodic(period, budget).unwrap(),
        priority: period,
    }
}

fn vcpu(index: usize) -> Entity {
    Entity::new(index).unwrap()
}

/// Asks until there is an answer, a step at each tick.
fn ask(budgets: &mut Budgets<'_>, who: usize, wanted: Interface, now: &mut u64) -> Answer {
    loop {
        *now += 1;
        match budgets.ask(vcpu(who), wanted, Asker::Guest, LONGEST, *now) {
            Answer::More => {}
            answer => return answer,
        }
    }
}

/// The same at one instant.
fn ask_at(budgets: &mut Budgets<'_>, who: usize, wanted: Interface, now: u64) -> Answer {
    loop {
        match budgets.ask(vcpu(who), wanted, Asker::Guest, LONGEST, now) {
            Answer::More => {}
            answer => return answer,
        }
    }
}

fn with(order: Order, promises: &[Reservation], run: impl FnOnce(&mut Budgets<'_>)) {
    let mut root = Node::new(order, Slack::Idle);
    let mut groups = [Node::new(Order::EarliestDeadline, Slack::Idle)];
    let tree = Tree::new(&mut root, &mut groups);
    let rest = Credit::new(100, 10, Deals::Used, 0);
    let mut budgets = Budgets::new(tree, rest, Slack::Idle, 0);
    for (index, promise) in promises.iter().enumerate() {
        let grant = Grant::Promise(0, *promise);
        budgets.grant(vcpu(index), grant, 0).unwrap();
        budgets.wake(vcpu(index), 0);
    }
    run(&mut budgets);
}

#[test]
fn a_yes_takes_effect_at_a_period_s_end_and_a_no_changes_nothing() {
    let edf = Order::EarliestDeadline;
    with(edf, &[promise(100, 40), promise(50, 20)], |budgets| {
        let mut now = 10;
        let more = Interface::periodic(50, 30).unwrap();
        assert_eq!(ask(budgets, 1, more, &mut now), Answer::Yes(50));
        budgets.pick(now);
        assert_eq!(budgets.tree().interface(vcpu(1)).unwrap().budget(), 20);
        let over = Interface::periodic(100, 41).unwrap();
        // What is scheduled counts already.
        let Answer::No(_) = ask(budgets, 0, over, &mut now) else {
            panic!("more than all");
        };
        budgets.pick(60);
        assert_eq!(budgets.tree().interface(vcpu(1)), Some(more));
        assert_eq!(budgets.tree().interface(vcpu(0)).unwrap().budget(), 40);
    });
}

/// One gets less and another one more: the latter has it once the former has less.
#[test]
fn more_comes_after_less() {
    let edf = Order::EarliestDeadline;
    with(edf, &[promise(300, 240), promise(50, 10)], |budgets| {
        let mut now = 10;
        let less = Interface::periodic(300, 120).unwrap();
        assert_eq!(ask(budgets, 0, less, &mut now), Answer::Yes(300));
        let more = Interface::periodic(50, 30).unwrap();
        assert_eq!(ask(budgets, 1, more, &mut now), Answer::Yes(300));
    });
    // Where bandwidths do not decide, it is asked again later.
    with(
        Order::Priority,
        &[promise(300, 200), promise(50, 10)],
        |budgets| {
            let mut now = 10;
            let less = Interface::periodic(300, 120).unwrap();
            assert_eq!(ask(budgets, 0, less, &mut now), Answer::Yes(300));
            let more = Interface::periodic(50, 25).unwrap();
            assert_eq!(ask(budgets, 1, more, &mut now), Answer::Later(300));
            budgets.pick(301);
            now = 301;
            assert_eq!(ask(budgets, 1, more, &mut now), Answer::Yes(350));
        },
    );
}

/// A change that others count on is not put off by another question of the same vCPU.
#[test]
fn a_yes_stands_until_it_has_taken_effect() {
    let edf = Order::EarliestDeadline;
    with(edf, &[promise(100, 50), promise(70, 35)], |budgets| {
        let mut now = 1;
        let less = Interface::periodic(100, 10).unwrap();
        assert_eq!(ask(budgets, 0, less, &mut now), Answer::Yes(100));
        let more = Interface::periodic(70, 63).unwrap();
        assert_eq!(ask(budgets, 1, more, &mut now), Answer::Yes(140));
        let other = Interface::periodic(100, 9).unwrap();
        assert_eq!(ask(budgets, 0, other, &mut now), Answer::Later(100));
        budgets.pick(141);
        now = 141;
        assert_eq!(ask(budgets, 0, other, &mut now), Answer::Yes(200));
    });
}

#[test]
fn a_full_home_answers_too() {
    let all = [promise(1_000, 10); 64];
    with(Order::Priority, &all, |budgets| {
        let wanted = Interface::periodic(1_000, 20).unwrap();
        assert_eq!(ask(budgets, 63, wanted, &mut 0), Answer::Yes(1_000));
    });
}

#[test]
fn one_question_is_answered_at_a_time() {
    let edf = Order::EarliestDeadline;
    with(edf, &[promise(100, 40), promise(50, 20)], |budgets| {
        let wanted = Interface::periodic(100, 30).unwrap();
        assert_eq!(
            budgets.ask(vcpu(0), wanted, Asker::Guest, LONGEST, 5),
            Answer::More
        );
        assert_eq!(
            budgets.ask(vcpu(1), wanted, Asker::Guest, LONGEST, 6),
            Answer::Later(18)
        );
        // A person need not wait for a guest, and no guest takes a person's place, not even the vCPU's own.
        let person = |budgets: &mut Budgets<'_>, now| {
            let wanted = Interface::periodic(50, 25).unwrap();
            budgets.ask(vcpu(1), wanted, Asker::Person, LONGEST, now)
        };
        assert_eq!(person(budgets, 7), Answer::More);
        for who in [0, 1] {
            assert_eq!(
                budgets.ask(vcpu(who), wanted, Asker::Guest, LONGEST, 8),
                Answer::Later(20)
            );
        }
        // The person is not heard of any more. Of those who wait the first after its vCPU is next.
        let mut now = 200;
        assert_eq!(ask(budgets, 1, wanted, &mut now), Answer::Later(213));
        for who in [0, 1] {
            assert_eq!(ask(budgets, who, wanted, &mut now), Answer::Yes(300));
        }
    });
}

#[test]
fn a_member_of_a_group_gets_no_more_than_the_group_has() {
    with(Order::EarliestDeadline, &[promise(100, 40)], |budgets| {
        let group = budgets.add_group(0, promise(50, 20), 0).unwrap();
        let grant = Grant::Promise(group, promise(200, 20));
        budgets.grant(vcpu(8), grant, 0).unwrap();
        let mut now = 10;
        let fits = Interface::periodic(200, 60).unwrap();
        assert_eq!(ask(budgets, 8, fits, &mut now), Answer::Yes(200));
        now = 400;
        budgets.wake(vcpu(8), now);
        budgets.pick(now);
        // 60 of 200 take 3 periods of 20, and the group may be late by 60.
        let over = Interface::periodic(200, 61).unwrap();
        let Answer::No(Refusal::Late(_)) = ask(budgets, 8, over, &mut now) else {
            panic!("later than the group's supply");
        };
        assert_eq!(
            ask(budgets, 9, over, &mut now),
            Answer::No(Refusal::NothingThere)
        );
    });
}

/// A vCPU that always asks for something else holds nobody up for ever.
#[test]
fn a_question_that_is_always_another_one_is_given_up() {
    let edf = Order::EarliestDeadline;
    with(edf, &[promise(100, 40), promise(50, 20)], |budgets| {
        for now in 0..2_000 {
            let wanted = Interface::periodic(100, 1 + now % 30).unwrap();
            let _ = budgets.ask(vcpu(0), wanted, Asker::Guest, LONGEST, now);
            let other = Interface::periodic(50, 21).unwrap();
            if let Answer::More = budgets.ask(vcpu(1), other, Asker::Guest, LONGEST, now) {
                assert!(now >= LONGEST);
                return;
            }
        }
        panic!("it is held up for ever");
    });
}

/// The instants at which vCPU 1 asks and has an answer, while vCPU 0 ends each of its questions in time, and begins the
/// next one at once: it asks three times at each instant, and vCPU 1 at each tenth.
fn answered_beside_a_storm(order: Order, wanted: Interface, until: u64) -> Vec<u64> {
    let mut answered = Vec::new();
    let promises = [promise(100, 40), promise(50, 10)];
    with(order, &promises, |budgets| {
        let mut random = 1_u64;
        for now in 1..until {
            budgets.pick(now);
            for _ in 0..3 {
                random = random.wrapping_mul(6_364_136_223_846_793_005) | 1;
                // A third of the time it is given another interface, which takes effect at the period's end.
                let storm = Interface::periodic(100, 38 + (random >> 60) % 3).unwrap();
                let _ = budgets.ask(vcpu(0), storm, Asker::Guest, LONGEST, now);
            }
            if now % 10 == 0 {
                match ask_at(budgets, 1, wanted, now) {
                    Answer::Later(_) | Answer::More => {}
                    Answer::Yes(_) | Answer::No(_) => answered.push(now),
                }
            }
        }
    });
    answered
}

/// A neighbour that always asks, and always has just been granted something, keeps nobody from an answer: neither by the
/// questions, nor, where earlier changes have to take effect first, by the changes.
#[test]
fn who_asks_for_ever_keeps_nobody_from_an_answer() {
    for order in [Order::EarliestDeadline, Order::Priority] {
        let wanted = Interface::new(50, 10, 40).unwrap();
        let answered = answered_beside_a_storm(order, wanted, 30_000);
        let mut last = 0;
        for at in answered.iter().chain([&30_000]) {
            assert!(at - last <= 1_100, "{order:?}: none from {last} to {at}");
            last = *at;
        }
    }
}

/// Whoever does not come in its turn loses it; and a turn that is kept for earlier changes ends, however often its vCPU
/// asks meanwhile.
#[test]
fn a_turn_ends() {
    let edf = Order::EarliestDeadline;
    let promises = [promise(100, 10), promise(50, 10), promise(9_000, 900)];
    with(edf, &promises, |budgets| {
        let wanted = Interface::periodic(100, 12).unwrap();
        let mut first = |who, now| budgets.ask(vcpu(who), wanted, Asker::Guest, LONGEST, now);
        assert_eq!(first(0, 1), Answer::More);
        assert_eq!(first(1, 1), Answer::Later(13));
        assert_eq!(first(2, 1), Answer::Later(13));
        let mut now = 1;
        assert_eq!(ask(budgets, 0, wanted, &mut now), Answer::Yes(100));
        // vCPU 1 has 100 ticks, and vCPU 2 then eight times as many, as its period is so long.
        assert_eq!(ask(budgets, 2, wanted, &mut now), Answer::Later(now + 12));
        now += 100;
        let more = Interface::periodic(9_000, 901).unwrap();
        assert_eq!(ask(budgets, 0, wanted, &mut now), Answer::Later(now + 12));
        now += 700;
        assert_eq!(ask(budgets, 2, more, &mut now), Answer::Yes(9_000));
        // That takes effect late, and what vCPU 1 asks for has to wait for it.
        budgets.pick(now);
        let early = Interface::new(50, 10, 40).unwrap();
        let began = now;
        let mut turns = 0;
        while now < began + 3_000 {
            let Answer::Later(_) = ask(budgets, 1, early, &mut { now }) else {
                panic!("before the change has taken effect");
            };
            now += 10;
            let other = Interface::periodic(100, 11).unwrap();
            // Out of its turn it is told to ask again soon.
            let soon = Answer::Later(now + 1 + 12);
            turns += u64::from(ask(budgets, 0, other, &mut { now }) != soon);
        }
        assert!(turns >= 3, "{turns}");
    });
}

/// A group that does not run takes no note of a change whose instant has come. Another question before it does would
/// put that change off, and others have been granted what it gives back.
#[test]
fn a_yes_of_which_nobody_took_note_yet_stands() {
    with(Order::EarliestDeadline, &[promise(100, 40)], |budgets| {
        let group = budgets.add_group(0, promise(50, 20), 0).unwrap();
        let grant = Grant::Promise(group, promise(200, 20));
        budgets.grant(vcpu(8), grant, 0).unwrap();
        let mut now = 10;
        let less = Interface::periodic(200, 10).unwrap();
        assert_eq!(ask(budgets, 8, less, &mut now), Answer::Yes(200));
        now = 230;
        let other = Interface::periodic(200, 9).unwrap();
        assert_eq!(ask(budgets, 8, other, &mut now), Answer::Later(243));
        budgets.wake(vcpu(8), 250);
        for now in 250..300 {
            let _ = budgets.pick(now);
        }
        now = 300;
        assert_eq!(budgets.tree().interface(vcpu(8)), Some(less));
        assert_eq!(ask(budgets, 8, other, &mut now), Answer::Yes(400));
    });
}

/// A vCPU without work, as one that is off, is changed by a person again and again: each change takes effect without it, and
/// when it wakes it has what it was last given.
#[test]
fn who_has_no_work_is_changed_again() {
    let kinds = [
        Kind::Polling,
        Kind::Deferrable,
        Kind::ConstantBandwidth,
        Kind::Periodic,
    ];
    for kind in kinds {
        let reservation = Reservation {
            kind,
            ..promise(100, 40)
        };
        with(Order::EarliestDeadline, &[reservation], |budgets| {
            let _ = budgets.pick(0);
            budgets.block(vcpu(0), 1);
            let mut now = 10;
            for budget in [30, 20, 10] {
                let wanted = Interface::periodic(100, budget).unwrap();
                let Answer::Yes(from) = ask(budgets, 0, wanted, &mut now) else {
                    panic!("{kind:?} {budget}");
                };
                assert!(from <= now + 100, "{kind:?}");
                // The kind that spends its budget without work is charged at each tick.
                for now in now..=from + 30 {
                    let _ = budgets.pick(now);
                }
                now = from + 30;
            }
            let wakes = (now / 100 + 2) * 100;
            for now in now..wakes {
                let _ = budgets.pick(now);
            }
            now = wakes;
            budgets.wake(vcpu(0), now);
            let ran = (now..now + 100).filter(|now| budgets.pick(*now).run.is_some());
            assert_eq!(ran.count(), 10, "{kind:?}");
        });
    }
}

/// A vCPU that asks for another interface for ever, the edges of 64 bits among them, gets some of them, and the others
/// have their budgets in each of their periods, to the tick.
#[test]
fn who_asks_for_ever_takes_nothing_from_the_others() {
    let others = [(40, 9), (70, 20), (110, 11)];
    for order in [Order::EarliestDeadline, Order::Priority] {
        let promises = [(50, 10), others[0], others[1], others[2]].map(|(p, b)| promise(p, b));
        with(order, &promises, |budgets| {
            let (mut random, mut yes, mut no) = (0x9e37_79b9_u64, 0, 0);
            let mut draw = |edges: [u64; 8]| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                edges[(random >> 61) as usize]
            };
            let mut given = [0; 3];
            for now in 0..100_000 {
                for (given, (period, budget)) in given.iter_mut().zip(others) {
                    if now > 0 && now % period == 0 {
                        assert_eq!(*given, budget, "{order:?}: the period that ends at {now}");
                        *given = 0;
                    }
                }
                let period = draw([1, 2, 30, 50, 77, 400, u64::MAX - 1, u64::MAX]);
                let budget = draw([0, 1, 5, 10, 20, 150, u64::MAX / 2, u64::MAX]);
                if let Ok(wanted) = Interface::periodic(period, budget) {
                    // A question of several steps is asked to its end.
                    for _ in 0..100 {
                        match budgets.ask(vcpu(0), wanted, Asker::Guest, LONGEST, now) {
                            Answer::More => continue,
                            Answer::Yes(_) => yes += 1,
                            _ => no += 1,
                        }
                        break;
                    }
                }
                if let Some(run) = budgets.pick(now).run
                    && let Some(given) = given.get_mut(run.index().wrapping_sub(1))
                {
                    *given += 1;
                }
            }
            assert!(yes > 100 && no > 10_000, "{order:?}: {yes} {no}");
        });
    }
}
