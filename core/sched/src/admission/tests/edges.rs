//! Admission at its limits: bandwidths that differ from the supply by one unit of 2^-64, the
//! longest times, and just enough work.

use super::*;

const EDF: Order = Order::EarliestDeadline;

fn alone(tasks: &[Demand]) -> Result<(), Refusal> {
    holds_alone(&Set::new(tasks), EDF, &mut Work::new(AMPLE))
}

/// Equal parts that fill a period exactly: each one is rounded up, and the sum is exactly one CPU.
#[test]
fn equal_parts_need_the_whole_and_no_more() {
    for count in [2u64, 3, 7, 49] {
        for unit in [1, 100, 1_000_003] {
            let period = count * unit;
            let all: Vec<_> = (0..count).map(|_| task(period, unit)).collect();
            let found = least(&all, EDF, plan(period, Window::Period));
            assert_eq!(found, Ok(period), "{count} {unit}");
            assert_eq!(alone(&all), Ok(()));
            let mut more = all.clone();
            more.push(task(period * 1000, 1));
            let found = least(&more, EDF, plan(period, Window::Period));
            assert!(found.is_err(), "{count} {unit}");
            assert!(alone(&more).is_err());
        }
    }
}

/// Two tasks of periods p and q ask for 1 + 1 / (p q) of a CPU, and their common multiple fits:
/// that is one unit of 2^-64 too much.
#[test]
fn a_part_of_a_tick_too_much_is_too_much() {
    let (p, q) = ((1 << 32) - 5, (1 << 32) - 17);
    let (first, second) = (3_937_053_350u64, 357_913_940u64);
    let asked = u128::from(first) * u128::from(q) + u128::from(second) * u128::from(p);
    assert_eq!(asked, u128::from(p) * u128::from(q) + 1);
    let two = [task(p, first), task(q, second)];
    assert_eq!(
        least(&two, EDF, plan(1, Window::Period)),
        Err(Refusal::Overload)
    );
    assert!(alone(&two).is_err());
    // The same beside 13 of 16: one tick more is needed, and found without further work.
    let (p, q) = ((1 << 30) - 35, (1 << 30) - 41);
    let (first, second) = (592_794_946u64, 279_620_256u64);
    let asked = u128::from(first) * u128::from(q) + u128::from(second) * u128::from(p);
    assert_eq!(16 * asked, 13 * u128::from(p) * u128::from(q) + 1);
    let two = [task(p, first), task(q, second)];
    let found = least_budget(
        &Set::new(&two),
        EDF,
        plan(16, Window::Period),
        &mut Work::new(20_000),
    );
    let found = found.unwrap();
    assert_eq!(
        found,
        Least {
            budget: 14,
            exact: true
        }
    );
}

/// If the common multiple does not fit, 1 - 1 / (p q) cannot be told from 1 + 1 / (p q): neither is
/// admitted, and neither is called an overload. A certain overload is.
#[test]
fn what_cannot_be_decided_is_not_admitted() {
    let (p, q) = ((1 << 33) - 9, (1 << 33) - 25);
    for (first, second, over) in [
        (4_831_838_203u64, 3_758_096_373u64, false),
        (3_758_096_380, 4_831_838_194, true),
    ] {
        let asked = u128::from(first) * u128::from(q) + u128::from(second) * u128::from(p);
        let all = u128::from(p) * u128::from(q);
        assert_eq!(asked, if over { all + 1 } else { all - 1 });
        let two = [task(p, first), task(q, second)];
        assert_eq!(alone(&two), Err(Refusal::Undecided));
    }
    assert_eq!(alone(&[task(10, 6), task(10, 6)]), Err(Refusal::Overload));
    let half = Interface::periodic(10, 5).unwrap();
    let holds = |tasks: &[Demand]| holds(&Set::new(tasks), EDF, half, &mut Work::new(AMPLE));
    assert_eq!(holds(&[task(10, 6)]), Err(Refusal::Overload));
    let late = [Demand::new(p, p / 2 + 2, 2 * p, 0, 0).unwrap()];
    assert_eq!(holds(&late), Err(Refusal::Overload));
}

/// A budget is at most as long as the given deadline.
#[test]
fn a_budget_has_its_deadline_s_room() {
    for deadline in 1..=10 {
        for execution in 1..=10 {
            // The deadline is two periods long: the task can wait for the worst supply.
            let tasks = [Demand::new(10, execution, 20, 0, 0).unwrap()];
            let found = least(&tasks, EDF, plan(10, Window::Deadline(deadline)));
            assert_eq!(
                found.is_ok(),
                execution <= deadline,
                "{deadline} {execution}"
            );
        }
    }
}

#[test]
fn the_longest_time_is_taken_and_a_longer_one_is_not() {
    let tasks = [task(MAX_TIME, 1)];
    for order in [EDF, Order::Priority] {
        for (period, taken) in [(MAX_TIME, true), (MAX_TIME + 1, false), (u64::MAX, false)] {
            let interface = Interface::periodic(period, period).unwrap();
            let found = holds(&Set::new(&tasks), order, interface, &mut Work::new(AMPLE));
            assert_eq!(found, if taken { Ok(()) } else { Err(Refusal::Time) });
            let found = least(&tasks, order, plan(period, Window::Budget));
            assert_eq!(found == Err(Refusal::Time), !taken, "{found:?}");
        }
        assert_eq!(
            least(&tasks, order, plan(0, Window::Budget)),
            Err(Refusal::Time)
        );
        for deadline in [0, 11] {
            let plan = plan(10, Window::Deadline(deadline));
            assert_eq!(least(&tasks, order, plan), Err(Refusal::Time));
        }
    }
}

/// Of tasks with equal priorities, only those earlier in the table are more important.
#[test]
fn equals_go_in_the_order_of_the_table() {
    let of = |execution, deadline| Demand::new(10, execution, deadline, 0, 5).unwrap();
    let (short, long) = (of(3, 3), of(3, 6));
    let holds = |tasks: &[Demand]| {
        holds_alone(&Set::new(tasks), Order::Priority, &mut Work::new(AMPLE)).is_ok()
    };
    assert!(holds(&[short, long]));
    assert!(!holds(&[long, short]));
}

/// For 3/4 of a CPU, or a whole one, less 10^-12, the least budget cannot be found, but one that is
/// a tick larger can, if there is one.
#[test]
fn a_tick_more_is_the_most_where_budgets_are_small() {
    let (p, q) = (1_000_003, 1_000_033);
    let found = |tasks: &[Demand]| {
        let plan = plan(4, Window::Budget);
        least_budget(&Set::new(tasks), EDF, plan, &mut Work::new(20_000))
    };
    let tasks = [task(p, 558_335), task(q, 191_673)];
    assert_eq!(4 * (558_335 * q + 191_673 * p), 3 * p * q - 1);
    assert_eq!(
        found(&tasks),
        Ok(Least {
            budget: 4,
            exact: false
        })
    );
    // Early deadlines, so that the least budget cannot be found for a whole CPU either.
    let early = |period, execution| Demand::new(period, execution, period - 1, 0, 0).unwrap();
    let tasks = [early(p, 233_334), early(q, 766_692)];
    assert_eq!(233_334 * q + 766_692 * p, p * q - 1);
    assert_eq!(found(&tasks), Err(Refusal::Undecided));
}

/// One comparison covers all instants up to the one by which a demand is met: a million deadlines
/// are examined in a few steps.
#[test]
fn instants_that_one_comparison_covers_are_not_visited() {
    let tasks = [Demand::new(10, 4, 2_000_000, 0, 0).unwrap()];
    let interface = Interface::periodic(1_000_000, 450_000).unwrap();
    let mut work = Work::new(1000);
    assert_eq!(holds(&Set::new(&tasks), EDF, interface, &mut work), Ok(()));
}

proptest! {
    /// The work that an answer needed can be computed, and exactly that much is enough.
    #[test]
    fn the_work_that_is_needed_is_enough(
        tasks in demands(), period in 1..12u64, budget in 1..12u64, fixed in any::<bool>(),
    ) {
        let (order, tasks) = ordered(fixed, tasks);
        let interface = Interface::periodic(period, budget.min(period)).unwrap();
        let set = Set::new(&tasks);
        let with = |visits| {
            let mut work = Work::new(visits);
            (holds(&set, order, interface, &mut work), work.left())
        };
        let (found, left) = with(AMPLE);
        let used = AMPLE - left;
        prop_assert_eq!(with(used), (found, 0));
        if used > 0 {
            prop_assert_eq!(with(used - 1).0, Err(Refusal::Undecided));
        }
        prop_assert_eq!(with(used + 7), (found, 7));
    }
}
