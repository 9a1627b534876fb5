//! Tests what is said where no interface suffices, and how a search shares its steps.

use super::*;
use crate::search_tests::{loads, work};
use hanok_task_model::{CoreId, Home, Pool, PoolId};
use std::vec;

fn ns(time: i128) -> Nanos {
    narrow(time).unwrap()
}

fn on(cpus: u32, tasks: &[(i128, i128, i128)]) -> Workload {
    Workload {
        loads: loads(tasks),
        policy: Policy::Edf,
        cpus,
        server: Server::Periodic,
        prepaid: 0,
    }
}

/// A task that a whole CPU serves, and that no server serves once switches are paid for. It is
/// refused with the most that a server with the shortest period in whole ticks gives.
#[test]
fn what_nothing_serves_is_refused_upon_the_shortest_period() {
    let workload = on(1, &[(20, 10, 10)]);
    let wanted = InterfaceRequest {
        loads: &workload.loads,
        policy: workload.policy,
        server: workload.server,
        window: Window::Budget,
        tick: 5,
        cost: 5,
        prepaid: 0,
    };
    for (least, period) in [(10, 10), (11, 15), (14, 15), (15, 15)] {
        let (least, most) = (ns(least), ns(40));
        let periods = Periods::Range { least, most };
        let refused = no_interface_suffices(&workload, &wanted, periods, &mut work()).unwrap();
        let most = Supply::new(
            period,
            period - 5,
            period,
            crate::supply::SupplyStart::Anywhere,
        );
        assert_eq!((refused.supply, refused.upon), (most, most), "{least:?}");
        assert_eq!(refused.interface, None);
        let Miss::At(at) = refused.miss else {
            panic!("{:?}", refused.miss);
        };
        let due = load::due(&workload.loads, at);
        assert!(most.within(at).unwrap() < due.into(), "{at}");
    }
}

/// With twice the steps that one period takes, four periods are tried: the first one leaves steps
/// to the others.
#[test]
fn a_period_leaves_steps_to_the_others() {
    let model = Model::new(ns(1), Vec::new());
    let workload = on(2, &[(40_000, 900, 40_000); 20]);
    let spent = |work: Work| Work::TEST - work.left();
    let mut one = work();
    let first = global::least(&workload.loads, 2, (1_000, 1), &mut one).unwrap();
    assert!(first.is_some());
    let mut twice = Work::new(2 * spent(one));
    let periods = Periods::Range {
        least: ns(1_000),
        most: ns(1_003),
    };
    let id = ComponentId(0);
    let found = parallel(&model, id, periods, workload.clone(), &mut twice);
    let proof = found.unwrap().unwrap();
    let supply = upon(&proof.interface, &workload).unwrap();
    let again = global::test(&workload.loads, 2, &supply, &mut work());
    assert_eq!(again, Ok(Outcome::Kept(proof.proof)));
    assert!(twice.left() > 0);
}

/// Where one test takes too many steps, it is unknown whether a change would help; but the other
/// changes keep their steps.
#[test]
fn one_test_of_a_change_does_not_take_all_that_is_left() {
    let workload = on(2, &[(1_000_000, 1, 1_000_000); 450]);
    let supply = Supply::cores(2);
    let mut all = work();
    let outcome = global::test(&workload.loads, 2, &supply, &mut all);
    assert!(matches!(outcome, Ok(Outcome::Kept(_))));
    assert!(Work::TEST - all.left() > Work::TEST / 64);
    let mut all = work();
    assert!(!are_kept(&workload, &supply, &mut all));
    assert!(Work::TEST - all.left() <= Work::TEST / 64);
    let few = on(2, &[(1_000_000, 1, 1_000_000); 5]);
    assert!(are_kept(&few, &supply, &mut all));
}

/// A report asks for other periods with what the model asks for. For several CPUs nothing can be
/// asked.
#[test]
fn what_is_wanted_is_what_the_model_asks_for() {
    let mut model = Model::new(ns(5), vec![Pool::new("all", [CoreId(0), CoreId(1)])]);
    model.cost.switch = ns(3);
    let cost = wide(model.cost.per_period());
    assert!(cost > 0);
    let plans = [Window::Period, Window::Budget, Window::Longest].map(|window| Plan::Find {
        periods: Periods::One(ns(100)),
        window,
    });
    let given = Plan::Given(ResourceInterface::periodic(ns(100), ns(50)));
    let windows = [
        Window::Period,
        Window::Budget,
        Window::Longest,
        Window::Period,
    ];
    let home = Home::Pool(PoolId(0));
    for (place, plan) in plans.into_iter().chain([given, plans[0]]).enumerate() {
        let id = model.add(Component::new("vm", home, plan));
        model.add_task(Task::new("task", id, ns(1_000), ns(10)));
        model.components[place].name = std::format!("vm {place}");
    }
    model.components[4].cpus = 2;
    let analysis = crate::analyse(&model).unwrap();
    let workload = Workload {
        policy: Policy::DeadlineMonotonic,
        server: Server::Polling,
        ..on(1, &[(1_000, 10, 1_000)])
    };
    for (place, window) in (0..).zip(windows) {
        let wanted = analysis.wanted(&model, ComponentId(place), &workload);
        let wanted = wanted.expect("one CPU");
        assert_eq!(wanted.loads, &workload.loads[..]);
        assert_eq!(wanted.policy, Policy::DeadlineMonotonic);
        assert_eq!((wanted.server, wanted.window), (Server::Polling, window));
        assert_eq!((wanted.tick, wanted.cost), (5, (cost + 4) / 5 * 5));
    }
    for place in [4, 5] {
        let none = analysis.wanted(&model, ComponentId(place), &workload);
        assert!(none.is_none(), "{place}");
    }
}
