use super::*;
use crate::search_tests::loads;
use crate::supply::{Rational, SupplyStart};
use hanok_task_model::{Policy, Server};
use proptest::prelude::*;

fn workload(all: &[(i128, i128, i128)], policy: Policy, cpus: u32) -> Workload {
    let mut loads = loads(all);
    load::rank(&mut loads, policy);
    Workload {
        loads,
        policy,
        cpus,
        server: Server::Periodic,
        prepaid: 0,
    }
}

fn slacks(workload: &Workload, supply: Supply) -> Vec<i128> {
    let found = of(workload, &supply, &mut Work::new(Work::TEST));
    let each = found.iter().zip(&workload.loads).map(|(found, own)| {
        assert_eq!(
            (found.member, found.most),
            (own.member, own.deadline - found.slack)
        );
        found.slack
    });
    each.collect()
}

/// The least time that is left to `own`, by trying each t from its window on: the time from the
/// instant by which the work due within t is supplied. `None` where a deadline is missed.
fn least_left(loads: &[Load], own: &Load, supply: &Supply) -> Option<i128> {
    let mut reached = 0;
    let left = (own.window()..1_000).map(|t| {
        let demand = load::due(loads, t).into();
        while supply.within(reached).unwrap() < demand {
            reached += 1;
        }
        t - reached
    });
    let least = left.min().unwrap();
    (least >= 0).then_some(least)
}

#[test]
fn what_is_left_of_a_whole_core_is_known() {
    let whole = Supply::cores(1);
    // Alone, the task needs only its own time.
    assert_eq!(slacks(&workload(&[(10, 3, 9)], Policy::Edf, 1), whole), [6]);
    // The second has 5 units of work before its end within 9, and the first 2 within 6.
    let both = workload(&[(20, 2, 6), (20, 3, 9)], Policy::Edf, 1);
    assert_eq!(slacks(&both, whole), [4, 4]);
    // Until 9 only 5 are due. The window of the third is longer, and only 4 are left to it.
    let three = workload(&[(20, 2, 6), (20, 3, 9), (20, 7, 16)], Policy::Edf, 1);
    assert_eq!(slacks(&three, whole), [4, 4, 4]);
    let ranked = workload(
        &[(20, 2, 6), (20, 3, 9), (20, 7, 16)],
        Policy::DeadlineMonotonic,
        1,
    );
    assert_eq!(slacks(&ranked, whole), [4, 4, 4]);
    // A job whose deadline is before a tight one is not delayed by it.
    let tight = workload(&[(30, 1, 2), (30, 8, 9), (30, 1, 20)], Policy::Edf, 1);
    assert_eq!(slacks(&tight, whole), [0, 0, 10]);
}

/// The third and fourth deadlines are the tightest: 3 are due at 31 and supplied at 30, 4 are due
/// at 40 and supplied at 39. (The supply is 5/4 in periods of 10, with nothing for 8.75 at first.)
#[test]
fn what_is_left_is_looked_for_far_enough() {
    let supply = Supply::rational(10, Rational::new(5, 4), None, SupplyStart::Period).unwrap();
    let one = workload(&[(9, 1, 13)], Policy::Edf, 1);
    assert_eq!(slacks(&one, supply), [1]);
    assert_eq!(least_left(&one.loads, &one.loads[0], &supply), Some(1));
}

/// For several CPUs nothing more is known than that deadlines are kept.
#[test]
fn nothing_is_left_on_several_cpus() {
    let two = workload(&[(10, 1, 10), (20, 2, 20)], Policy::Edf, 2);
    assert_eq!(slacks(&two, Supply::cores(2)), [0, 0]);
}

/// Jobs of 999,999 in each million hold the last one up for 700,000 periods, and each period is a
/// step of two looks: more than the part of one member.
#[test]
fn one_member_takes_no_more_than_its_part() {
    let million = 1_000_000;
    let long = million * million;
    let all = [(million, million - 1, million), (long, 700_000, long)];
    let hard = workload(&all, Policy::RateMonotonic, 1);
    let mut work = Work::new(Work::TEST);
    let found = of(&hard, &Supply::cores(1), &mut work);
    assert_eq!(
        found.iter().map(|one| one.slack).collect::<Vec<_>>(),
        [1, 0]
    );
    assert!(work.left() >= Work::TEST - Work::TEST / 16 - 10);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_is_left_is_the_least_of_all_instants(
        all in prop::collection::vec((20i128..60, 1i128..8, 0i128..40), 1..4),
        (period, less, late) in (2i128..9, 0i128..4, 0i128..8),
    ) {
        let budget = (period - less).max(1);
        let late = late.min(period - budget);
        let supply = Supply::new(period, budget, budget + late, SupplyStart::Anywhere);
        let all: Vec<_> = all
            .iter()
            .map(|(period, execution, less)| (*period, *execution, (period - less).max(*execution)))
            .collect();
        let loads = loads(&all);
        // Where the rates are close, the answer may be that nothing is left.
        let rate = edf::exact_rate(&loads).unwrap();
        if rate * 10 <= supply.exact_rate().unwrap() * 9 {
            let wanted: Option<Vec<i128>> =
                loads.iter().map(|own| least_left(&loads, own, &supply)).collect();
            if let Some(wanted) = wanted {
                prop_assert_eq!(slacks(&workload(&all, Policy::Edf, 1), supply), wanted);
            }
        }
    }
}
