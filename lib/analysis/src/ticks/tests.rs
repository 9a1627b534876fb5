use super::*;
use crate::search_tests::loads;
use proptest::prelude::*;
use std::vec::Vec;

fn work() -> Work {
    Work::new(Work::TEST)
}

fn wanted(loads: &[Load], tick: i128, window: Window) -> InterfaceRequest<'_> {
    InterfaceRequest {
        loads,
        policy: Policy::Edf,
        server: Server::Periodic,
        window,
        tick,
        cost: tick,
        prepaid: 0,
    }
}

fn kept(loads: &[Load], supply: &Supply) -> bool {
    let found = test::keeps(loads, Policy::Edf, supply, &mut work());
    matches!(found, Ok(Outcome::Kept(_)))
}

/// The budget that halving finds for members with a period, an execution time and a deadline each.
fn tried(
    all: &[(i128, i128, i128)],
    (period, tick): (i128, i128),
    window: Window,
) -> Result<Option<i128>, Undecided> {
    let loads = loads(all);
    let wanted = wanted(&loads, tick, window);
    wanted.by_trying(&wanted.shape(period, SupplyStart::Anywhere), &mut work())
}

#[test]
fn halving_finds_a_budget_wherever_it_is() {
    // A tick of ten in a hundred suffices, although nine tenths of it stay unused.
    assert_eq!(
        tried(&[(1_000, 1, 1_000)], (100, 10), Window::Period),
        Ok(Some(10))
    );
    // A period of one tick that is needed completely.
    assert_eq!(
        tried(&[(10, 9, 10)], (10, 10), Window::Period),
        Ok(Some(10))
    );
    // A period of ten ticks that the rate needs completely.
    assert_eq!(
        tried(&[(10, 10, 10)], (10, 1), Window::Period),
        Ok(Some(10))
    );
    // All ticks but the one for the switch are not enough; nor are all ticks where two deadlines
    // are too short.
    assert_eq!(tried(&[(10, 10, 10)], (10, 1), Window::Budget), Ok(None));
    assert_eq!(
        tried(&[(9, 5, 5), (10, 1, 5)], (10, 1), Window::Period),
        Err(Undecided::TooLong)
    );
    // No tick fits beside the one for the switch.
    assert_eq!(
        tried(&[(1_000, 1, 1_000)], (10, 10), Window::Budget),
        Ok(None)
    );
    // Two of three ticks supply at least 100 until 300; 150 need all three.
    assert_eq!(
        tried(&[(300, 150, 300)], (300, 100), Window::Period),
        Ok(Some(300))
    );
}

/// Jobs of 999,999 in each million hold the last one up for 200,000 periods, and each period is a
/// step of two looks: more than the part of one budget.
#[test]
fn one_budget_takes_no_more_than_its_part() {
    let million = 1_000_000;
    let long = million * million;
    let loads = loads(&[(million, million - 1, million), (long, 200_000, long)]);
    let wanted = InterfaceRequest {
        policy: Policy::RateMonotonic,
        ..wanted(&loads, 1, Window::Period)
    };
    let shape = wanted.shape(million, SupplyStart::Anywhere);
    let mut work = work();
    assert!(!wanted.suffices(&shape, million, &mut work));
    assert!(work.left() >= Work::TEST - Work::TEST / 64);
    // With enough steps, the test passes.
    let supply = Supply::new(million, million, million, SupplyStart::Anywhere);
    let kept = test::keeps(&loads, wanted.policy, &supply, &mut work);
    assert!(matches!(kept, Ok(Outcome::Kept(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn halving_finds_the_least(
        all in prop::collection::vec((20i128..90, 1i128..12, 0i128..20), 1..4),
        period in 1i128..9, tick in 1i128..12, tight: bool,
    ) {
        let all: Vec<_> = all
            .iter()
            .map(|(period, execution, less)| (*period, *execution, (period - less).max(*execution)))
            .collect();
        let loads = loads(&all);
        let period = period * tick;
        let window = if tight { Window::Budget } else { Window::Period };
        let suffices = |ticks: &i128| {
            let deadline = if tight { (ticks + 1) * tick } else { period };
            kept(&loads, &Supply::new(period, ticks * tick, deadline, SupplyStart::Anywhere))
        };
        let most = period / tick - i128::from(tight);
        match tried(&all, (period, tick), window) {
            Ok(Some(budget)) => {
                prop_assert_eq!((1..=most).find(suffices).map(|ticks| ticks * tick), Some(budget));
            }
            _ => prop_assert_eq!((1..=most).find(suffices), None),
        }
    }

    #[test]
    fn the_longest_deadline_is_the_last_that_does(
        all in prop::collection::vec((20i128..90, 1i128..8, 0i128..20), 1..3),
        period in 2i128..12, budget in 1i128..12, tick in 1i128..4,
    ) {
        let all: Vec<_> = all
            .iter()
            .map(|(period, execution, less)| (*period, *execution, (period - less).max(*execution)))
            .collect();
        let loads = loads(&all);
        let budget = budget.min(period - 1);
        let supply = |ticks: i128| {
            Supply::new(period * tick, budget * tick, ticks * tick, SupplyStart::Anywhere)
        };
        // The shortest deadline suffices; other cases are not asked.
        let suffices = |ticks: &i128| kept(&loads, &supply(*ticks));
        if suffices(&(budget + 1)) {
            let last = (budget + 1..=period).rev().find(suffices).unwrap();
            let wanted = wanted(&loads, tick, Window::Longest);
            let found = wanted.longest(period * tick, budget * tick, SupplyStart::Anywhere, &mut work());
            prop_assert_eq!(found, Ok(last * tick));
        }
    }
}
