//! Each step of the test by itself, against the instants one by one.

use super::*;
use crate::search_tests::{load, loads, work};
use crate::supply::Start;

/// The demand at the instant that is named is more than the supply, and right after it is not.
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
/// near 2^128: so many binary places decide, and less do not.
#[test]
fn rates_that_hardly_differ_are_told_apart() {
    let long = 1i128 << 64;
    let compare = |other, one| {
        let both = [load(0, (long, other, long)), load(1, (long - 1, one, long))];
        compare_rates(&both, 1.into(), &mut work())
    };
    // (2^64 - 1) / 2^64 + 1 / (2^64 - 1) is 1 and 1 / (2^64 (2^64 - 1)).
    assert_eq!(compare(long - 1, 1), Ok(Ordering::Greater));
    // 1 / 2^64 + (2^64 - 2) / (2^64 - 1) is as much less than 1.
    assert_eq!(compare(1, long - 2), Ok(Ordering::Less));
    let equal = [load(0, (long, long - 1, long)), load(1, (long, 1, long))];
    assert_eq!(
        compare_rates(&equal, 1.into(), &mut work()),
        Ok(Ordering::Equal)
    );
}

/// From one common multiple after that instant on, demand and supply are those of a common multiple
/// before and as much more each time; from an instant before it, one of them is not.
#[test]
fn a_repetition_is_over_as_soon_as_all_repeats() {
    let some: [(&[_], _); 5] = [
        (&[(4, 1, 4)], Supply::new(6, 3, 6, Start::Anywhere)),
        (&[(4, 1, 10)], Supply::new(6, 3, 6, Start::Period)),
        (&[(4, 1, 10), (6, 2, 3)], Supply::cores(1)),
        (
            &[(4, 1, 4), (10, 2, 25)],
            Supply::new(6, 3, 4, Start::Anywhere),
        ),
        (
            &[(4, 1, 2), (3, 1, 1)],
            Supply::new(8, 5, 5, Start::Anywhere),
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
        let settled = (0..100).rev().find(|t| grows(*t) != always);
        let settled = settled.map_or(0, |last| last + 1);
        let (tail, end) = repetition(&loads, &supply).unwrap();
        assert_eq!(tail, Tail::Repeats);
        assert_eq!(end, common + settled, "{tasks:?} {supply:?}");
    }
}

/// What is named is a deadline, and it is missed, however little the rate is too much.
#[test]
fn a_late_miss_is_a_deadline_that_is_missed() {
    let half = Supply::new(10, 5, 10, Start::Anywhere);
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
    // Where none is, none is found.
    let none = late_miss(&loads(&[(10, 1, 10)]), &core);
    assert_eq!(none, Err(Undecided::TooLarge));
}
