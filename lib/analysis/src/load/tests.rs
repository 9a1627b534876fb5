//! Tests deadlines, rates and head starts against all instants.

use super::*;
use crate::search_tests::load;
use crate::supply::Rational;
use std::vec::Vec;

/// Jobs and bandwidths of several shapes, some with jitter.
fn some() -> Vec<Load> {
    let mut all = Vec::new();
    for period in 1..9 {
        for execution in 1..=period {
            for deadline in execution..period + 4 {
                let jobs = load(0, (period, execution, deadline));
                all.push(jobs);
                all.push(Load {
                    jitter: deadline - execution,
                    ..jobs
                });
            }
            all.push(Load {
                arrival: Arrival::Bandwidth,
                ..load(0, (period, execution, period))
            });
        }
    }
    all
}

/// Deadlines are the instants at which more is due than right before.
#[test]
fn deadlines_are_where_the_demand_grows() {
    let mut none = 0;
    for load in some() {
        let grows: Vec<i128> = (0..60)
            .filter(|t| load.due(*t) > load.due(*t - 1))
            .collect();
        for t in 0..40 {
            let last = grows.iter().rev().find(|at| **at <= t);
            assert_eq!(load.last_due(t), last.copied(), "{load:?} {t}");
            let next = grows.iter().find(|at| **at >= t);
            assert_eq!(Some(load.next_due(t)), next.copied(), "{load:?} {t}");
            none += usize::from(last.is_none());
        }
    }
    assert!(none > 100, "{none}");
}

/// Both bounds equal the rate where 2^-62 is fine enough, and are next to it otherwise.
#[test]
fn a_rate_is_bounded_as_closely_as_can_be() {
    let one = 1 << FRACTION;
    let of = |all: &[(i128, i128)]| {
        let all: Vec<Load> = all.iter().map(|(p, c)| load(0, (*p, *c, *p))).collect();
        let Rate { low, high } = rate(&all);
        (low, high)
    };
    assert_eq!(of(&[]), (0, 0));
    assert_eq!(of(&[(4, 1)]), (one / 4, one / 4));
    assert_eq!(of(&[(4, 1), (8, 5)]), (one / 8 * 7, one / 8 * 7));
    let third = one / 3;
    assert!(3 * third < one && one < 3 * (third + 1));
    assert_eq!(of(&[(3, 1)]), (third, third + 1));
    assert_eq!(
        of(&[(3, 1), (4, 1)]),
        (third + one / 4, third + one / 4 + 1)
    );
    assert_eq!(of(&[(3, 1), (3, 1)]), (2 * third, 2 * third + 2));
}

/// No instant has more demand beyond the rate, and some instant has exactly that much, except for
/// rounding.
#[test]
fn a_head_start_is_the_most_that_is_due_beyond_the_rate() {
    let jobs = some().into_iter();
    for load in jobs.filter(|load| load.arrival == Arrival::Sporadic) {
        let beyond = |t| {
            let needed = Rational::new(load.execution * t, load.period);
            Rational::from(load.due(t)) - needed
        };
        let most = (0..60).map(beyond).max().unwrap_or_default();
        assert_eq!(head_start(&[load]), most.ceil().to_integer(), "{load:?}");
        let twice = [load, load];
        assert_eq!(head_start(&twice), 2 * head_start(&[load]));
    }
}
