use super::*;
use crate::search_tests::loads;
use std::vec;

/// A candidate for each load.
fn candidates(all: &[(i128, i128, i128)]) -> Vec<Candidate> {
    let each = (0..).zip(loads(all)).map(|(id, load)| Candidate {
        vcpu: Vcpu {
            component: ComponentId(id),
            cpu: 0,
        },
        load,
        core: None,
    });
    each.collect()
}

fn pool(cores: u8, policy: Policy) -> Pool {
    Pool {
        policy,
        ..Pool::new("all", (0..cores).map(CoreId))
    }
}

#[test]
fn as_much_as_all_cores_is_not_too_much() {
    let half = (2, 1, 2);
    assert!(!are_too_many(&loads(&[half; 4]), 2));
    assert!(are_too_many(
        &loads(&[half, half, half, half, (1_000, 1, 1_000)]),
        2
    ));
}

/// Rates of an eighth, a quarter and a third; the last one is between two numbers of 62 bits.
#[test]
fn the_rate_of_a_core_is_that_of_those_on_it() {
    let pool = pool(2, Policy::Edf);
    let candidates = candidates(&[(8, 1, 8), (4, 1, 4), (3, 1, 3)]);
    let mut search = PlacementSearch::new(&pool, &candidates);
    let [eighth, quarter, third] = [1 << 59, 1 << 60, (1 << 62) / 3];
    let rates = |low, high| Rate { low, high };
    search.add_rate(0, 1, 1);
    search.add_rate(1, 1, 1);
    search.add_rate(2, 1, 1);
    let all = eighth + quarter + third;
    assert_eq!(search.used, [rates(0, 0), rates(all, all + 1)]);
    search.add_rate(1, 1, -1);
    let all = eighth + third;
    assert_eq!(search.used, [rates(0, 0), rates(all, all + 1)]);
}

#[test]
fn a_rate_decides_where_it_can() {
    let verdict = |policy, on: &[(i128, i128, i128)], new| {
        let pool = pool(1, policy);
        let all: Vec<_> = on.iter().copied().chain([new]).collect();
        let candidates = candidates(&all);
        let mut search = PlacementSearch::new(&pool, &candidates);
        (0..on.len()).for_each(|candidate| search.add_rate(candidate, 0, 1));
        search.by_rate(0, &candidates[on.len()])
    };
    assert_eq!(
        verdict(Policy::Edf, &[(2, 1, 2)], (3, 1, 3)),
        RateTest::Fits
    );
    assert_eq!(
        verdict(Policy::Edf, &[(2, 1, 2)], (4, 2, 4)),
        RateTest::Fits
    );
    assert_eq!(
        verdict(Policy::Edf, &[(2, 1, 2)], (3, 2, 3)),
        RateTest::TooMuch
    );
    assert_eq!(
        verdict(Policy::RateMonotonic, &[(2, 1, 2)], (3, 2, 3)),
        RateTest::TooMuch
    );
    // With a deadline within the period, or a policy that leaves time unused, the rate alone does
    // not decide.
    assert_eq!(
        verdict(Policy::Edf, &[(2, 1, 2)], (3, 1, 2)),
        RateTest::Undecided
    );
    assert_eq!(
        verdict(Policy::RateMonotonic, &[(2, 1, 2)], (3, 1, 3)),
        RateTest::Undecided
    );
    // Three thirds are one, but rounded rates cannot show it.
    assert_eq!(
        verdict(Policy::Edf, &[(3, 1, 3), (3, 1, 3)], (3, 1, 3)),
        RateTest::Undecided
    );
}

#[test]
fn a_search_stops_after_its_number_of_tries() {
    let pool = pool(3, Policy::Edf);
    let candidates = candidates(&[(2, 2, 2), (2, 1, 2)]);
    let mut search = PlacementSearch::new(&pool, &candidates);
    let mut work = Work::new(Work::TEST);
    search.assigned[0].push(0);
    search.add_rate(0, 0, 1);
    // The first core is full, and the second one has time left.
    search.tries = 2;
    assert_eq!(search.next_core(1, 0, &mut work), Ok(Some(1)));
    assert_eq!(search.tries, 0);
    assert_eq!(search.next_core(1, 0, &mut work), Ok(None));
    search.tries = 1;
    assert_eq!(search.next_core(1, 0, &mut work), Ok(None));
}

/// The largest budget that fits beside the others, in whole ticks.
#[test]
fn the_room_on_a_core_is_what_the_others_leave() {
    let largest_budget = |tick: u64, switch: u64, all: &[(i128, i128, i128)]| {
        let mut model = Model::new(Nanos::new(tick), vec![]);
        model.cost.switch = Nanos::new(switch);
        let vcpu = Vcpu {
            component: ComponentId(7),
            cpu: 0,
        };
        let mut loads = loads(all);
        loads[0].member = hanok_task_model::Member::Component(ComponentId(7));
        let refusal = PoolRefusal {
            pool: PoolId(0),
            vcpu: Some(vcpu),
            core: Some(CoreId(0)),
            workload: Workload {
                loads,
                policy: Policy::Edf,
                cpus: 1,
                server: Server::Periodic,
                prepaid: 0,
            },
            supply: Supply::cores(1),
            miss: Miss::Rate,
            certain: true,
        };
        super::largest_budget(&model, &refusal, vcpu, &mut Work::new(Work::TEST)).map(Nanos::get)
    };
    // The other one leaves 50 of 100; 4 are spent on switches, and 46 are four ticks.
    assert_eq!(
        largest_budget(10, 2, &[(100, 64, 100), (100, 50, 100)]),
        Some(40)
    );
    assert_eq!(
        largest_budget(1, 2, &[(100, 47, 100), (100, 50, 100)]),
        Some(46)
    );
    assert_eq!(
        largest_budget(1, 0, &[(100, 51, 100), (100, 50, 100)]),
        Some(50)
    );
    assert_eq!(
        largest_budget(10, 0, &[(100, 60, 100), (100, 91, 100)]),
        None
    );
    // With times as long as possible.
    let long = [
        (1 << 58, (1 << 57) + (1 << 40), 1 << 58),
        (1 << 58, 1 << 57, 1 << 58),
    ];
    assert_eq!(largest_budget(1 << 40, 0, &long), Some(1 << 57));
}
