//! Tests servers of every kind: least budgets computed by hand, refusals with their reasons, and
//! certificates that the checker believes for one kind and for no other.

use hanok_analysis::{Undecided, Unproven, Verdict, analyse};
use hanok_certificate_checker::check;
use hanok_task_model::{
    Component, ComponentId, CoreId, Home, Mode, Model, Nanos, Periods, Plan, Policy, Pool, PoolId,
    Priority, ResourceInterface, Server, Task, Window,
};
use proptest::prelude::*;

const ROOT: Home = Home::Pool(PoolId(0));
const ALL: [Server; 5] = [
    Server::Periodic,
    Server::Polling,
    Server::Deferrable,
    Server::ConstantBandwidth,
    Server::SoftBandwidth,
];

fn ns(time: u64) -> Nanos {
    Nanos::new(time)
}

fn model(policy: Policy) -> Model {
    let mut pool = Pool::new("one", [CoreId(0)]);
    pool.policy = policy;
    Model::new(ns(1), vec![pool])
}

fn server(model: &mut Model, home: Home, server: Server, period: u64) -> ComponentId {
    let plan = Plan::Find {
        periods: Periods::One(ns(period)),
        window: Window::Period,
    };
    let mut component = Component::new(model.components.len().to_string(), home, plan);
    component.server = server;
    component.priority = Some(Priority(model.components.len() as u32));
    model.add(component)
}

fn task(model: &mut Model, home: ComponentId, period: u64, execution: u64, deadline: u64) {
    let name = model.tasks.len().to_string();
    let mut task = Task::new(name, home, ns(period), ns(execution));
    task.deadline = ns(deadline);
    model.add_task(task);
}

/// The budget of `id`, with a certificate that the checker believes; the error says why there is
/// none.
fn budget(model: &Model, id: ComponentId) -> Result<u64, Option<Undecided>> {
    let analysis = analyse(model).unwrap();
    match (&analysis.components[id.0 as usize], analysis.certificate()) {
        (Verdict::Proven(proof), Some(certificate)) => {
            assert_eq!(check(model, &certificate), Ok(()));
            Ok(proof.interface.budget.get())
        }
        (Verdict::Undecided(why), _) => Err(Some(*why)),
        _ => Err(None),
    }
}

/// A polling server is without supply for a budget longer: a task of 4 within 28 needs 2 in 10 of a
/// periodic server (gap 16, and 2, 8, 2 more) and 3 of a polling one (gap 17).
#[test]
fn polling_servers_need_more_for_their_own_tasks() {
    for (kind, least) in ALL
        .into_iter()
        .zip([Some(2), Some(3), Some(2), Some(2), None])
    {
        let mut model = model(Policy::Edf);
        let id = server(&mut model, ROOT, kind, 10);
        task(&mut model, id, 100, 4, 28);
        assert_eq!(budget(&model, id).ok(), least, "{kind:?}");
    }
}

/// The neighbour is a server of 5 in 10. Under EDF, a deadline in the middle of the period fits
/// beside jobs that arrive with the period, but not beside bandwidth that may be asked for in any
/// part of it. Under priorities, a deferrable server above runs twice in a row.
#[test]
fn what_a_server_asks_of_those_beside_it() {
    let with = |policy, kind, (budget, deadline)| {
        let mut model = model(policy);
        let given = |budget, deadline| {
            Plan::Given(ResourceInterface {
                period: ns(10),
                budget: ns(budget),
                deadline: ns(deadline),
            })
        };
        let first = server(&mut model, ROOT, kind, 10);
        model.components[first.0 as usize].plan = given(4, 10);
        let second = server(&mut model, ROOT, Server::Periodic, 10);
        model.components[second.0 as usize].plan = given(budget, deadline);
        let certificate = analyse(&model).unwrap().certificate();
        certificate.map(|certificate| assert_eq!(check(&model, &certificate), Ok(())))
    };
    for (kind, tight, above) in [
        (Server::Periodic, true, true),
        (Server::Polling, true, true),
        (Server::Deferrable, false, false),
    ] {
        assert_eq!(with(Policy::Edf, kind, (6, 6)).is_some(), tight, "{kind:?}");
        assert!(with(Policy::Edf, kind, (6, 10)).is_some(), "{kind:?}");
        let found = with(Policy::FixedPriority, kind, (6, 10));
        assert_eq!(found.is_some(), above, "{kind:?}");
        assert!(with(Policy::FixedPriority, kind, (2, 10)).is_some());
    }
    assert!(with(Policy::Edf, Server::ConstantBandwidth, (6, 6)).is_none());
    assert!(with(Policy::Edf, Server::ConstantBandwidth, (6, 10)).is_some());
}

/// The analysis refuses what is not proven, with its reason; and the checker believes no
/// certificate of it, whoever wrote it.
#[test]
fn what_is_not_proven_is_refused() {
    let refused = |make: &dyn Fn(&mut Model), base: &Model| {
        let certificate = analyse(base).unwrap().certificate().expect("admitted");
        let mut changed = base.clone();
        make(&mut changed);
        assert!(check(&changed, &certificate).is_err());
        let analysis = analyse(&changed).unwrap();
        assert!(analysis.certificate().is_none());
        analysis
            .components
            .iter()
            .find_map(|verdict| match verdict {
                Verdict::Undecided(Undecided::Server(why)) => Some(*why),
                _ => None,
            })
    };
    let one = |policy| {
        let mut model = model(policy);
        let id = server(&mut model, ROOT, Server::Periodic, 10);
        task(&mut model, id, 100, 4, 90);
        model
    };
    let kind = |kind| move |model: &mut Model| model.components[0].server = kind;
    let soft = kind(Server::SoftBandwidth);
    assert_eq!(refused(&soft, &one(Policy::Edf)), Some(Unproven::Soft));
    let moving = kind(Server::ConstantBandwidth);
    let fixed = one(Policy::RateMonotonic);
    assert_eq!(refused(&moving, &fixed), Some(Unproven::Moving));
    let mut costly = one(Policy::Edf);
    costly.cost.switch = ns(1);
    let deferrable = kind(Server::Deferrable);
    // Two switches take 2, and are paid from the budget.
    let given = |budget| {
        move |model: &mut Model| {
            model.components[0].server = Server::Deferrable;
            let interface = ResourceInterface::periodic(ns(10), ns(budget));
            model.components[0].plan = Plan::Given(interface);
        }
    };
    assert_eq!(refused(&given(2), &costly), Some(Unproven::Prepaid));
    // In a group anybody may wake the group.
    let mut grouped = costly.clone();
    let home = Home::Component(ComponentId(0));
    let inner = server(&mut grouped, home, Server::Polling, 50);
    task(&mut grouped, inner, 500, 4, 400);
    assert_eq!(refused(&deferrable, &grouped), Some(Unproven::Switches));
    let mut global = one(Policy::Edf);
    global.pools[0].mode = Mode::Global;
    let polling = kind(Server::Polling);
    assert_eq!(refused(&polling, &global), Some(Unproven::Parallel));
    // A periodic server inside a server of another kind.
    let mut nested = one(Policy::Edf);
    let inner = server(
        &mut nested,
        Home::Component(ComponentId(0)),
        Server::Periodic,
        50,
    );
    task(&mut nested, inner, 500, 4, 400);
    for kind in ALL.into_iter().skip(1).take(3) {
        let outer = move |model: &mut Model| model.components[0].server = kind;
        assert_eq!(refused(&outer, &nested), Some(Unproven::Resting));
    }
}

fn trees() -> impl Strategy<Value = Model> {
    let one = (0..4usize, 5..40u64, 0..3usize, 0..4usize, 1..30u64);
    proptest::collection::vec(one, 1..6).prop_map(|all| {
        let mut model = model(Policy::Edf);
        for (index, (kind, period, policy, home, part)) in all.into_iter().enumerate() {
            let policies = [
                Policy::Edf,
                Policy::DeadlineMonotonic,
                Policy::FixedPriority,
            ];
            let home = match home {
                0 => ROOT,
                home => Home::Component(ComponentId(index.saturating_sub(home) as u32)),
            };
            let home = if index == 0 { ROOT } else { home };
            let id = server(&mut model, home, ALL[kind], period);
            let component = &mut model.components[id.0 as usize];
            component.policy = policies[policy];
            task(&mut model, id, 20 * period, 1 + period / part, 18 * period);
            if let Some(last) = model.tasks.last_mut() {
                last.jitter = ns(part);
                last.priority = Some(Priority(part as u32));
            }
        }
        model
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// The checker, which derives its rules from the definitions, believes what the analysis
    /// proves. It does not believe the same of other kinds of servers, where the kind matters to a
    /// proof.
    #[test]
    fn what_is_proven_is_believed(mut model in trees(), other in 1..4usize) {
        let Some(certificate) = analyse(&model).unwrap().certificate() else {
            return Ok(());
        };
        prop_assert_eq!(check(&model, &certificate), Ok(()));
        for component in &mut model.components {
            component.server = ALL[other];
        }
        let again = analyse(&model).unwrap();
        let proven = |component: &Verdict<_>| matches!(component, Verdict::Proven(_));
        if !again.components.iter().all(proven) {
            prop_assert!(check(&model, &certificate).is_err());
        }
    }
}
