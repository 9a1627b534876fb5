//! Published figures, exactly.

use hanok_analysis::least::{self, Shape};
use hanok_analysis::load::{Arrival, Load, rank};
use hanok_analysis::supply::{Rational, SupplyStart};
use hanok_analysis::{Undecided, Work};
use hanok_task_model::{Member, Policy, TaskId};

/// Tasks of (period, execution, deadline).
fn loads(tasks: &[(i128, i128, i128)]) -> Vec<Load> {
    let load = |(id, (period, execution, deadline)): (u32, &(i128, i128, i128))| Load {
        member: Member::Task(TaskId(id)),
        period: *period,
        execution: *execution,
        deadline: *deadline,
        jitter: 0,
        priority: None,
        arrival: Arrival::Sporadic,
        begins_with_period: false,
        place: 0,
    };
    (0..).zip(tasks).map(load).collect()
}

/// The least budget as `numerator/denominator`.
fn least(
    tasks: &[(i128, i128, i128)],
    policy: Policy,
    period: i128,
    slack: Option<i128>,
) -> Result<Option<Rational>, Undecided> {
    let mut loads = loads(tasks);
    rank(&mut loads, policy);
    let start = SupplyStart::Anywhere;
    let shape = Shape {
        period,
        slack,
        start,
    };
    let mut work = Work::new(Work::TEST);
    match policy {
        Policy::Edf => least::edf(&loads, &shape, &mut work),
        _ => least::fixed(&loads, &shape, &mut work),
    }
}

const IMPLICIT: [(i128, i128, i128); 2] = [(50, 7, 50), (75, 9, 75)];
const CONSTRAINED: [(i128, i128, i128); 3] = [(45, 2, 25), (65, 3, 30), (85, 4, 40)];
const SMALL: [(i128, i128, i128); 2] = [(30, 5, 30), (50, 2, 50)];
const EQUAL: [(i128, i128, i128); 2] = [(200, 10, 200), (200, 100, 200)];

#[test]
fn the_least_budgets_are_exact() {
    use Policy::{DeadlineMonotonic as Dm, RateMonotonic as Rm};
    type Row = (
        &'static [(i128, i128, i128)],
        i128,
        Policy,
        [(i128, i128); 4],
    );
    let rows: [Row; 6] = [
        (&IMPLICIT, 10, Rm, [(39, 14), (7, 2), (13, 5), (16, 5)]),
        (&IMPLICIT, 25, Rm, [(8, 1), (23, 2), (13, 2), (23, 3)]),
        (&IMPLICIT, 30, Rm, [(43, 4), (38, 3), (8, 1), (23, 2)]),
        (&CONSTRAINED, 5, Dm, [(9, 7), (9, 7), (9, 8), (9, 8)]),
        (&SMALL, 10, Rm, [(5, 2), (3, 1), (31, 15), (7, 3)]),
        (&EQUAL, 50, Rm, [(32, 1), (32, 1), (55, 2), (55, 2)]),
    ];
    for (tasks, period, fixed, expected) in rows {
        let asked = [
            (Policy::Edf, None),
            (fixed, None),
            (Policy::Edf, Some(0)),
            (fixed, Some(0)),
        ];
        for ((policy, slack), (numerator, denominator)) in asked.into_iter().zip(expected) {
            let found = least(tasks, policy, period, slack).unwrap().unwrap();
            let expected = Rational::new(numerator, denominator);
            assert_eq!(found, expected, "{tasks:?} {period} {policy:?} {slack:?}");
        }
    }
}
