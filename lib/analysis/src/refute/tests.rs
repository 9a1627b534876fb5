use super::*;
use crate::edf::Outcome;
use crate::search_tests::loads;
use crate::supply::SupplyStart;
use hanok_task_model::{Policy, SwitchCost};
use std::vec;

fn work() -> Work {
    Work::new(Work::TEST)
}

fn workload(all: &[(i128, i128, i128)], cpus: u32) -> Workload {
    Workload {
        loads: loads(all),
        policy: Policy::Edf,
        cpus,
        server: Server::Periodic,
        prepaid: 0,
    }
}

/// A workload that is refused with all of `cpus` CPUs.
fn upon_all(all: &[(i128, i128, i128)], cpus: u32) -> ComponentRefusal {
    ComponentRefusal {
        workload: workload(all, cpus),
        supply: Supply::cores(cpus),
        upon: Supply::cores(cpus),
        interface: None,
        miss: Miss::Rate,
    }
}

fn interface(period: u64, budget: u64, deadline: u64) -> ResourceInterface {
    let [period, budget, deadline] = [period, budget, deadline].map(Nanos::new);
    ResourceInterface {
        period,
        budget,
        deadline,
    }
}

/// A model of which only the tick and the cost of a switch matter.
fn model(tick: u64, switch: u64) -> Model {
    let mut model = Model::new(Nanos::new(tick), vec![]);
    model.cost = SwitchCost {
        switch: Nanos::new(switch),
        refill: Nanos::ZERO,
    };
    model
}

/// The first task has a deadline in every second nanosecond, 150,000 of them before the one that
/// the second task misses. Later deadlines are kept.
#[test]
fn a_deadline_after_many_is_the_one_that_the_test_found() {
    let all = [
        (2, 1, 1),
        (1_000_000, 150_001, 300_000),
        (1 << 40, 1, 400_000),
    ];
    let found = find_late(
        &workload(&all, 1),
        &Supply::cores(1),
        Miss::At(300_000),
        &mut work(),
    );
    let found = found.unwrap();
    assert_eq!(
        (found.member, found.at),
        (Member::Task(TaskId(1)), Nanos::new(300_000))
    );
    assert_eq!((found.demand, found.supply), (300_001, 300_000));
}

/// At each of two deadlines of a member, the due work of all members and the work they carry in are
/// examined.
#[test]
fn a_look_for_who_is_late_on_several_cpus_is_four_at_each() {
    let all = vec![(10, 9, 10); 40];
    let mut work = work();
    let late = find_late_on_several(&workload(&all, 2), &Supply::cores(2), &mut work).unwrap();
    assert_eq!((late.0, late.1), (Member::Task(TaskId(0)), 10));
    assert_eq!(work.left(), Work::TEST - 4 * 40);
}

#[test]
fn a_period_that_does_is_half_as_long_or_less_in_whole_ticks() {
    let from = |period: i128, switch: u64, asked: &[(i128, i128, i128)]| {
        let mut refused = upon_all(asked, 1);
        refused.upon = Supply::new(period, 1, period, SupplyStart::Anywhere);
        working_period(&model(10, switch), &refused, &mut work()).map(Nanos::get)
    };
    // Without switching costs, all of any period can be budget.
    assert_eq!(from(85, 0, &[(100, 90, 100)]), Some(40));
    // Each period costs 2 * 5: of 80 there remain 70, of 20 there remain 10, and of 10 nothing.
    assert_eq!(from(170, 5, &[(400, 200, 400)]), Some(80));
    assert_eq!(from(45, 5, &[(400, 150, 400)]), Some(20));
    assert_eq!(from(45, 5, &[(400, 250, 400)]), None);
    assert_eq!(from(25, 5, &[(400, 1, 400)]), None);
}

#[test]
fn the_room_inside_is_the_largest_budget_in_whole_ticks() {
    let room = |tick: u64, switch: u64, all: &[(i128, i128, i128)]| {
        let mut refused = upon_all(all, 1);
        refused.workload.loads[0].member = Member::Component(ComponentId(7));
        less_inside(&model(tick, switch), &refused, ComponentId(7), &mut work())
    };
    let of = |budget| Change::MaxBudget(ComponentId(7), Nanos::new(budget));
    // The other one leaves 50 of 100; 4 are spent on switches, and 46 are four ticks.
    let found = room(10, 2, &[(100, 64, 100), (100, 50, 100)]);
    assert_eq!(found, Some((333_333, of(40))));
    // A tick less than its present budget.
    assert_eq!(
        room(1, 0, &[(100, 51, 100), (100, 50, 100)]),
        Some((19_607, of(50)))
    );
    let apart = Some((1_000_000, Change::Apart(ComponentId(7))));
    assert_eq!(room(10, 0, &[(100, 60, 100), (100, 95, 100)]), apart);
    assert_eq!(room(10, 0, &[(100, 60, 100), (100, 101, 100)]), None);
    // With times as long as possible.
    let long = [
        (1 << 58, (1 << 57) + (1 << 40), 1 << 58),
        (1 << 58, 1 << 57, 1 << 58),
    ];
    assert_eq!(room(1 << 40, 0, &long).unwrap().1, of(1 << 57));
}

#[test]
fn a_shorter_period_is_the_longest_that_does() {
    let longest =
        |all: &[(i128, i128, i128)], cpus: u32, interface: ResourceInterface, tick: u64| {
            let refused = upon_all(all, cpus);
            shorter_period(&refused, &interface, Nanos::new(tick), &mut work()).map(Nanos::get)
        };
    // All of the CPU is needed, so that the period is the budget.
    assert_eq!(longest(&[(10, 10, 10)], 1, interface(6, 5, 6), 1), Some(5));
    assert_eq!(
        longest(&[(100, 100, 100)], 1, interface(60, 50, 60), 10),
        Some(50)
    );
    assert_eq!(
        longest(&[(100, 101, 100)], 1, interface(60, 50, 60), 10),
        None
    );
    // Two budgets of 5 within 20: at first nothing is supplied for 2 (P - 5), and between them for
    // P - 5.
    assert_eq!(
        longest(&[(99, 10, 20)], 1, interface(12, 5, 12), 1),
        Some(8)
    );
    // The deadline stays 6, and no period is shorter than it: at first nothing is supplied for (P -
    // 5) + (6 - 5).
    assert_eq!(longest(&[(99, 10, 20)], 1, interface(12, 5, 6), 1), Some(9));
    assert_eq!(longest(&[(99, 10, 13)], 1, interface(12, 5, 6), 1), Some(6));
    assert_eq!(longest(&[(99, 10, 12)], 1, interface(12, 5, 6), 1), None);
    // With times as long as possible.
    let [all, half] = [1 << 58, 1 << 57];
    let whole = [(1 << 58, 1 << 57, 1 << 57)];
    assert_eq!(
        longest(&whole, 1, interface(all, half, all), 1 << 40),
        Some(half)
    );
}

/// On two CPUs, each period from half of the budget on is tried.
#[test]
fn a_shorter_period_on_several_cpus_is_the_longest_that_does() {
    let all = [(40, 11, 40), (40, 11, 40), (60, 11, 60)];
    let refused = upon_all(&all, 2);
    let suffices = |period: &u64| {
        let supply = Supply::parallel((*period).into(), 11, 2).unwrap();
        let found = global::test(&refused.workload.loads, 2, &supply, &mut work());
        matches!(found, Ok(Outcome::Kept(_)))
    };
    let wanted = (6..12).rev().find(suffices);
    assert!(wanted.is_some_and(|period| period < 11), "{wanted:?}");
    let found = shorter_period(&refused, &interface(12, 11, 12), Nanos::new(1), &mut work());
    assert_eq!(found.map(Nanos::get), wanted);
}

#[test]
fn a_longer_period_is_the_shortest_that_does() {
    let shortest = |all: &[(i128, i128, i128)]| {
        let refused = upon_all(all, 1);
        longer_period(&refused, Member::Task(TaskId(0)), &mut work()).map(Nanos::get)
    };
    // The other one leaves half of the time.
    assert_eq!(shortest(&[(10, 6, 10), (100, 50, 100)]), Some(12));
    assert_eq!(shortest(&[(10, 320, 10), (100, 50, 100)]), Some(640));
    assert_eq!(shortest(&[(10, 321, 10), (100, 50, 100)]), None);
    // Up to the longest time of a model.
    let half = (1 << 58, 1 << 57, 1 << 58);
    assert_eq!(
        shortest(&[(1 << 58, 1 << 58, 1 << 58), half]),
        Some(1 << 59)
    );
    assert_eq!(
        shortest(&[(1 << 58, 1 << 59, 1 << 58), half]),
        Some(Nanos::MAX.get())
    );
    assert_eq!(shortest(&[(1 << 58, (1 << 59) + 1, 1 << 58), half]), None);
}
