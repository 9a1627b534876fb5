//! Tests each step of the test alone, against all instants one by one.

use super::*;
use crate::search_tests::{load, loads, work};
use crate::supply::SupplyStart;

/// At the instant that is found, the demand is more than the supply; one instant later it is not.
#[test]
fn a_descent_ends_at_a_miss() {
    let core = Supply::cores(1);
    let missed = descend(|_| 10, 10, 0, &core, (1, &mut work()));
    assert_eq!(missed, Ok(Err(9)));
    assert!(core.gives(10, 10).unwrap() && !core.gives(10, 9).unwrap());
    let kept = descend(|_| 10, 11, 10, &core, (1, &mut work()));
    assert_eq!(kept, Ok(Ok(std::vec![11, 10])));
}

/// Two periods near 2^64 whose rates differ from a whole CPU by one part in their product, which is
/// near 2^128. Exactly that many binary places decide.
#[test]
fn rates_that_hardly_differ_are_told_apart() {
    let long = 1i128 << 64;
    let compare = |other, one| {
        let both = [load(0, (long, other, long)), load(1, (long - 1, one, long))];
        compare_rates(&both, 1.into(), &mut work())
    };
    // (2^64 - 1) / 2^64 + 1 / (2^64 - 1) is 1 and 1 / (2^64 (2^64 - 1)).
    assert_eq!(compare(long - 1, 1), Ok(Ordering::Greater));
    // 1 / 2^64 + (2^64 - 2) / (2^64 - 1) is less than 1 by the same amount.
    assert_eq!(compare(1, long - 2), Ok(Ordering::Less));
    let equal = [load(0, (long, long - 1, long)), load(1, (long, 1, long))];
    assert_eq!(
        compare_rates(&equal, 1.into(), &mut work()),
        Ok(Ordering::Equal)
    );
}

/// From the end of the repetition on, demand and supply are those of one common multiple earlier
/// and a constant more. Before its end, one of them is not.
#[test]
fn a_repetition_is_over_as_soon_as_all_repeats() {
    let some: [(&[_], _); 5] = [
        (&[(4, 1, 4)], Supply::new(6, 3, 6, SupplyStart::Anywhere)),
        (&[(4, 1, 10)], Supply::new(6, 3, 6, SupplyStart::Period)),
        (&[(4, 1, 10), (6, 2, 3)], Supply::cores(1)),
        (
            &[(4, 1, 4), (10, 2, 25)],
            Supply::new(6, 3, 4, SupplyStart::Anywhere),
        ),
        (
            &[(4, 1, 2), (3, 1, 1)],
            Supply::new(8, 5, 5, SupplyStart::Anywhere),
        ),
    ];
    for (tasks, supply) in some {
        let loads = loads(tasks);
        let periods = loads.iter().map(|load| load.period);
        let common = periods.fold(supply.period(), num_integer::lcm);
        let grows = |t: i128| {
            let due = load::due(&loads, t + common) - load::due(&loads, t);
            let given = supply.within(t + common).unwrap() - supply.within(t).unwrap();
            (due, given)
        };
        let always = grows(100);
        let repeats_from = (0..100).rev().find(|t| grows(*t) != always);
        let repeats_from = repeats_from.map_or(0, |last| last + 1);
        let (tail, end) = repetition(&loads, &supply).unwrap();
        assert_eq!(tail, Tail::Repeats);
        assert_eq!(end, common + repeats_from, "{tasks:?} {supply:?}");
    }
}

/// The instant that is found is a deadline that is missed, however little the rate exceeds the
/// supply's.
#[test]
fn a_late_miss_is_a_deadline_that_is_missed() {
    let half = Supply::new(10, 5, 10, SupplyStart::Anywhere);
    let core = Supply::cores(1);
    let some: [(&[_], _); 4] = [
        (&[(10, 6, 10)], half),
        (&[(1_000, 501, 1_000)], half),
        (&[(100, 60, 100), (1_000, 401, 1_000)], core),
        (&[(7, 4, 30), (1_000, 430, 5_000)], core),
    ];
    for (tasks, supply) in some {
        let loads = loads(tasks);
        let at = late_miss(&loads, &supply).unwrap();
        let due = load::due(&loads, at);
        assert!(due > load::due(&loads, at - 1), "{tasks:?} {at}");
        assert!(supply.within(at).unwrap() < due.into(), "{tasks:?} {at}");
    }
    // Where no deadline is missed, none is found.
    let none = late_miss(&loads(&[(10, 1, 10)]), &core);
    assert_eq!(none, Err(Undecided::TooLarge));
}
