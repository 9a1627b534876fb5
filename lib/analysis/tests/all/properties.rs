//! Compares tests and least budgets with their definitions, instant by instant.

use hanok_analysis::edf::{self, Outcome};
use hanok_analysis::least::{self, Shape};
use hanok_analysis::load::{self, Arrival, Load};
use hanok_analysis::supply::{Rational, Supply, SupplyStart};
use hanok_analysis::{Work, fixed};
use hanok_task_model::{Member, Policy, TaskId};
use proptest::prelude::*;

fn work() -> Work {
    Work::new(Work::TEST)
}

/// Up to four members whose periods have a common multiple of at most 120.
fn loads() -> impl Strategy<Value = Vec<Load>> {
    let periods = prop::sample::select(vec![4i128, 5, 6, 8, 10, 12, 15, 20, 24, 30]);
    let member = (periods, 1i128..5, -3i128..8, 0i128..3);
    prop::collection::vec(member, 1..5).prop_map(|all| {
        let load =
            |(id, (period, execution, shift, jitter)): (u32, (i128, i128, i128, i128))| Load {
                member: Member::Task(TaskId(id)),
                period,
                execution: execution.min(period),
                deadline: (period + shift).max(2),
                jitter,
                priority: None,
                arrival: Arrival::Sporadic,
                begins_with_period: false,
                place: 0,
            };
        (0..).zip(all).map(load).collect()
    })
}

fn supplies() -> impl Strategy<Value = (i128, i128, i128, SupplyStart)> {
    let start = prop::sample::select(vec![SupplyStart::Anywhere, SupplyStart::Period]);
    (1i128..9, 0i128..9, 0i128..9, start).prop_map(|(p, b, l, start)| {
        let b = 1 + b % p;
        (p, b, b + l % (p - b + 1), start)
    })
}

/// Whether the demand is at most the supply at every instant of two common multiples (and of the
/// time before everything repeats itself), and in the long run.
fn edf_by_definition(loads: &[Load], supply: &Supply) -> bool {
    let rate: Rational = loads
        .iter()
        .map(|load| Rational::new(load.execution, load.period))
        .sum();
    let long_run = rate <= supply.exact_rate().unwrap();
    // The periods of the loads divide 120; the period of the supply is below 9.
    let all = 2 * 120 * 84;
    long_run
        && (0..all).all(|t| {
            let due = |load: &Load| {
                let after = t - (load.deadline - load.jitter);
                if after < 0 {
                    0
                } else {
                    (after / load.period + 1) * load.execution
                }
            };
            let demand: i128 = loads.iter().map(due).sum();
            Rational::from(demand) <= supply.within(t).unwrap()
        })
}

/// Whether each member has an instant in its window by which all its work is supplied.
fn fixed_by_definition(loads: &[Load], supply: &Supply) -> bool {
    (0..loads.len()).all(|place| {
        let own = &loads[place];
        (1..=own.deadline.min(own.period) - own.jitter).any(|t| {
            let jobs = |load: &Load| (t + load.jitter + load.period - 1) / load.period;
            let higher: i128 = loads[..place]
                .iter()
                .map(|load| jobs(load) * load.execution)
                .sum();
            Rational::from(higher + own.execution) <= supply.within(t).unwrap()
        })
    })
}

fn edf_keeps(loads: &[Load], supply: &Supply) -> bool {
    matches!(
        edf::test(loads, supply, &mut work()).unwrap(),
        Outcome::Kept(_)
    )
}

fn fixed_keeps(loads: &[Load], supply: &Supply) -> bool {
    matches!(
        fixed::test(loads, supply, &mut work()).unwrap(),
        Outcome::Kept(_)
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn edf_is_exact(loads in loads(), (p, b, l, start) in supplies()) {
        let supply = Supply::new(p, b, l, start);
        prop_assert_eq!(edf_keeps(&loads, &supply), edf_by_definition(&loads, &supply));
        let core = Supply::cores(1);
        prop_assert_eq!(edf_keeps(&loads, &core), edf_by_definition(&loads, &core));
    }

    #[test]
    fn fixed_priorities_are_exact(mut loads in loads(), (p, b, l, start) in supplies()) {
        load::rank(&mut loads, Policy::DeadlineMonotonic);
        let supply = Supply::new(p, b, l, start);
        prop_assert_eq!(fixed_keeps(&loads, &supply), fixed_by_definition(&loads, &supply));
    }

    /// The least budget suffices, and one that is less by a part in a hundred million does not.
    #[test]
    fn the_least_budget_is_the_least(
        mut loads in loads(), period in 1i128..9, slack in 0i128..3,
        tight: bool, start in prop::sample::select(vec![SupplyStart::Anywhere, SupplyStart::Period]),
    ) {
        let slack = (tight && slack < period).then_some(slack);
        let shape = Shape { period, slack, start };
        let less = |budget: Rational| budget - Rational::new(1, 100_000_000);
        let found = least::edf(&loads, &shape, &mut work()).unwrap();
        let most = shape.supply(shape.most().into()).unwrap();
        match found {
            Some(budget) => {
                prop_assert!(edf_keeps(&loads, &shape.supply(budget).unwrap()));
                prop_assert!(edf_by_definition(&loads, &shape.supply(budget).unwrap()));
                prop_assert!(!edf_keeps(&loads, &shape.supply(less(budget)).unwrap()));
            }
            None => prop_assert!(!edf_by_definition(&loads, &most)),
        }
        load::rank(&mut loads, Policy::RateMonotonic);
        match least::fixed(&loads, &shape, &mut work()).unwrap() {
            Some(budget) => {
                prop_assert!(fixed_by_definition(&loads, &shape.supply(budget).unwrap()));
                prop_assert!(!fixed_by_definition(&loads, &shape.supply(less(budget)).unwrap()));
            }
            None => prop_assert!(!fixed_by_definition(&loads, &most)),
        }
    }

    #[test]
    fn demand_is_monotone(mut loads in loads(), t in 0i128..400) {
        prop_assert!(load::due(&loads, t) <= load::due(&loads, t + 1));
        prop_assert!(load::requested(&loads, t) <= load::requested(&loads, t + 1));
        for place in 0..loads.len() {
            for cpus in 1..4 {
                let competing = |t| hanok_analysis::global::competing(&loads, place, cpus, t);
                prop_assert!(competing(t) <= competing(t + 1));
            }
        }
        let before = load::due(&loads, t);
        loads[0].execution += 1;
        prop_assert!(before <= load::due(&loads, t));
    }
}
