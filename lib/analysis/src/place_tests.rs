use super::*;
use crate::search_tests::loads;
use std::vec;

/// A vCPU for each load.
fn items(all: &[(i128, i128, i128)]) -> Vec<Item> {
    let each = (0..).zip(loads(all)).map(|(id, load)| Item {
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

/// Rates of an eighth, a quarter and a third; the last one is between two numbers.
#[test]
fn the_rate_of_a_core_is_that_of_those_on_it() {
    let pool = pool(2, Policy::Edf);
    let items = items(&[(8, 1, 8), (4, 1, 4), (3, 1, 3)]);
    let mut search = Search::new(&pool, &items);
    let [eighth, quarter, third] = [1 << 59, 1 << 60, (1 << 62) / 3];
    let rates = |low, high| Rate { low, high };
    search.count(0, 1, 1);
    search.count(1, 1, 1);
    search.count(2, 1, 1);
    let all = eighth + quarter + third;
    assert_eq!(search.used, [rates(0, 0), rates(all, all + 1)]);
    search.count(1, 1, -1);
    let all = eighth + third;
    assert_eq!(search.used, [rates(0, 0), rates(all, all + 1)]);
}

#[test]
fn a_rate_decides_where_it_can() {
    let told = |policy, on: &[(i128, i128, i128)], new| {
        let pool = pool(1, policy);
        let all: Vec<_> = on.iter().copied().chain([new]).collect();
        let items = items(&all);
        let mut search = Search::new(&pool, &items);
        (0..on.len()).for_each(|item| search.count(item, 0, 1));
        search.by_rate(0, &items[on.len()])
    };
    assert_eq!(told(Policy::Edf, &[(2, 1, 2)], (3, 1, 3)), Some(true));
    assert_eq!(told(Policy::Edf, &[(2, 1, 2)], (4, 2, 4)), Some(true));
    assert_eq!(told(Policy::Edf, &[(2, 1, 2)], (3, 2, 3)), Some(false));
    assert_eq!(
        told(Policy::RateMonotonic, &[(2, 1, 2)], (3, 2, 3)),
        Some(false)
    );
    // A deadline within the period, or a policy that leaves time unused: not by that alone.
    assert_eq!(told(Policy::Edf, &[(2, 1, 2)], (3, 1, 2)), None);
    assert_eq!(told(Policy::RateMonotonic, &[(2, 1, 2)], (3, 1, 3)), None);
    // Three thirds are one, but not by numbers that are rounded.
    assert_eq!(told(Policy::Edf, &[(3, 1, 3), (3, 1, 3)], (3, 1, 3)), None);
}

#[test]
fn a_search_tries_so_often() {
    let pool = pool(3, Policy::Edf);
    let items = items(&[(2, 2, 2), (2, 1, 2)]);
    let mut search = Search::new(&pool, &items);
    let mut work = Work::new(Work::TEST);
    search.chosen[0].push(0);
    search.count(0, 0, 1);
    // The first core is full, the second one has room.
    search.tries = 2;
    assert_eq!(search.next_core(1, 0, &mut work), Ok(Some(1)));
    assert_eq!(search.tries, 0);
    assert_eq!(search.next_core(1, 0, &mut work), Ok(None));
    search.tries = 1;
    assert_eq!(search.next_core(1, 0, &mut work), Ok(None));
}

/// The largest budget beside the others, in whole ticks.
#[test]
fn the_room_on_a_core_is_what_the_others_leave() {
    let room = |tick: u64, switch: u64, all: &[(i128, i128, i128)]| {
        let mut model = Model::new(Nanos::new(tick), vec![]);
        model.cost.switch = Nanos::new(switch);
        let vcpu = Vcpu {
            component: ComponentId(7),
            cpu: 0,
        };
        let mut loads = loads(all);
        loads[0].member = hanok_task_model::Member::Component(ComponentId(7));
        let crowded = Crowded {
            pool: PoolId(0),
            vcpu: Some(vcpu),
            core: Some(CoreId(0)),
            workload: Workload {
                loads,
                policy: Policy::Edf,
                cpus: 1,
                server: Server::Periodic,
            },
            supply: Supply::cores(1),
            miss: Miss::Rate,
            certain: true,
        };
        super::room(&model, &crowded, vcpu, &mut Work::new(Work::TEST)).map(Nanos::get)
    };
    // Of 100, the other one leaves 50; 4 go into switches, and 46 are four ticks.
    assert_eq!(room(10, 2, &[(100, 64, 100), (100, 50, 100)]), Some(40));
    assert_eq!(room(1, 2, &[(100, 47, 100), (100, 50, 100)]), Some(46));
    assert_eq!(room(1, 0, &[(100, 51, 100), (100, 50, 100)]), Some(50));
    assert_eq!(room(10, 0, &[(100, 60, 100), (100, 91, 100)]), None);
    // Times as long as they can be.
    let long = [
        (1 << 58, (1 << 57) + (1 << 40), 1 << 58),
        (1 << 58, 1 << 57, 1 << 58),
    ];
    assert_eq!(room(1 << 40, 0, &long), Some(1 << 57));
}
