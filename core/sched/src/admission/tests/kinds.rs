//! What each kind of server asks of the others, against servers that run tick by tick.

use super::*;
use crate::{Entity, Policy, Reservation, Servers, Slack};

const EDF: Order = Order::EarliestDeadline;

/// Changes a component so that it has one task, which needs `budget` in each `period`: it is due at
/// most a period after its arrival, and uses the whole budget.
fn component(ledger: &mut Ledger<4, 1>, at: usize, what: Reservation) -> Result<(), Refusal> {
    let interface = what.interface;
    let window = if interface.is_implicit() {
        Window::Period
    } else {
        Window::Deadline(interface.deadline())
    };
    let mut work = Work::new(AMPLE);
    let plan = Plan {
        period: interface.period(),
        window,
    };
    let change = Change::Component {
        plan,
        order: EDF,
        kind: what.kind,
        priority: what.priority,
    };
    ledger.admit(at, change, &mut work)?;
    // At the worst supply, this execution time needs exactly the budget.
    let lost = match what.kind {
        Kind::Polling => 0,
        _ => interface.budget(),
    };
    let length = interface.period() + interface.deadline() - lost;
    let demand = Demand::new(length, interface.budget(), length, 0, 0)?;
    let admitted = ledger.admit(at, Change::Task { place: 0, demand }, &mut work)?;
    assert_eq!(admitted.interface, Some(interface));
    Ok(())
}

fn admitted(order: Order, servers: &[Reservation]) -> Result<(), Refusal> {
    let mut ledger = Ledger::<4, 1>::new(order);
    let mut each = servers.iter().enumerate();
    each.try_for_each(|(at, what)| component(&mut ledger, at, *what))
}

fn server(kind: Kind, period: u64, budget: u64, deadline: u64, priority: u64) -> Reservation {
    let interface = Interface::new(period, budget, deadline).unwrap();
    Reservation {
        kind,
        interface,
        priority,
    }
}

/// Whether the last of `servers`, which always has work, gets its budget by its deadline in each
/// period. The other servers wake and block by `wakes`, and their first periods begin at `starts`.
fn keeps(order: Order, servers: &[Reservation], starts: &[u64], wakes: &[(u64, u64)]) -> bool {
    let mut policy = Servers::<4>::new(order, Slack::Idle);
    let entity = |at: usize| Entity::<4>::new(at).unwrap();
    let last = servers.len() - 1;
    let own = servers[last].interface;
    let mut got = 0;
    for now in 0..400 {
        for (at, what) in servers.iter().enumerate() {
            if starts[at] == now {
                policy.reserve(entity(at), *what, now).unwrap();
                if at == last {
                    policy.wake(entity(at), now);
                }
            }
        }
        for (at, (on, off)) in wakes
            .iter()
            .enumerate()
            .filter(|(at, _)| starts[*at] <= now)
        {
            match now % (on + off) {
                0 => policy.block(entity(at), now),
                phase if phase == *off => policy.wake(entity(at), now),
                _ => {}
            }
        }
        let run = policy.pick(now).run;
        let Some(since) = now.checked_sub(starts[last]) else {
            continue;
        };
        let phase = since % own.period();
        got = if phase == 0 { 0 } else { got };
        got += u64::from(run == Some(entity(last)));
        if phase + 1 == own.deadline() && got < own.budget() {
            return false;
        }
    }
    true
}

/// A deferrable server of high priority can run two budgets in a row: servers below it must have
/// room for that.
#[test]
fn a_deferrable_server_above_counts_twice_in_a_row() {
    let below = |budget| server(Kind::Periodic, 10, budget, 10, 2);
    let above = |kind| server(kind, 10, 4, 10, 1);
    for (kind, budget, fits) in [
        (Kind::Periodic, 6, true),
        (Kind::Polling, 6, true),
        (Kind::Deferrable, 2, true),
        (Kind::Deferrable, 3, false),
        (Kind::Deferrable, 6, false),
    ] {
        let found = admitted(Order::Priority, &[above(kind), below(budget)]);
        assert_eq!(found.is_ok(), fits, "{kind:?} {budget}: {found:?}");
    }
    // And it does so: from the end of one period, and again from the start of the next.
    let servers = [above(Kind::Deferrable), below(3)];
    let runs = |on, off, start| keeps(Order::Priority, &servers, &[0, start], &[(on, off)]);
    assert!((1..20).any(|on| (1..20).any(|off| (0..10).any(|start| !runs(on, off, start)))));
    // Below the server that is examined, that does not matter.
    let found = admitted(
        Order::Priority,
        &[
            server(Kind::Periodic, 10, 6, 10, 0),
            above(Kind::Deferrable),
        ],
    );
    assert_eq!(found, Ok(()));
}

/// Under EDF a server that wakes inside its period asks for its bandwidth in the rest of it. A
/// server with a deadline inside its period may not be able to spare that.
#[test]
fn beside_servers_that_begin_inside_deadlines_count_as_bandwidth() {
    let tight = server(Kind::Periodic, 10, 5, 5, 0);
    for kind in [Kind::Deferrable, Kind::ConstantBandwidth] {
        let moving = |budget| server(kind, 10, budget, 10, 0);
        assert_eq!(
            admitted(EDF, &[moving(5), tight]),
            Err(Refusal::Density),
            "{kind:?}"
        );
        assert_eq!(
            admitted(EDF, &[tight, moving(5)]),
            Err(Refusal::Density),
            "{kind:?}"
        );
        assert_eq!(
            admitted(EDF, &[moving(5), server(Kind::Periodic, 10, 5, 10, 0)]),
            Ok(())
        );
        let less = server(Kind::Periodic, 10, 4, 8, 0);
        assert_eq!(admitted(EDF, &[moving(5), less]), Ok(()), "{kind:?}");
    }
    assert_eq!(
        admitted(EDF, &[server(Kind::Periodic, 10, 5, 10, 0), tight]),
        Ok(())
    );
    // The refused set does miss: the deferrable server wakes as the other one's period begins.
    let servers = [server(Kind::Deferrable, 10, 5, 10, 0), tight];
    let runs = |on, off, start| keeps(EDF, &servers, &[0, start], &[(on, off)]);
    assert!((1..20).any(|on| (1..20).any(|off| (0..10).any(|start| !runs(on, off, start)))));
}

/// Under fixed priorities a bandwidth server that wakes inside its period begins a new period at
/// once, and runs its whole budget again: more than a deferrable server with the same promise ever
/// asks for.
#[test]
fn a_bandwidth_server_is_refused_where_priorities_decide() {
    let moving = server(Kind::ConstantBandwidth, 10, 5, 10, 1);
    let below = server(Kind::Periodic, 10, 5, 10, 2);
    let found = admitted(Order::Priority, &[below, moving]);
    assert_eq!(found, Err(Refusal::Moving));
    // As a periodic server it is accepted, and under EDF, too.
    let periodic = Reservation {
        kind: Kind::Periodic,
        ..moving
    };
    assert_eq!(admitted(Order::Priority, &[periodic, below]), Ok(()));
    assert_eq!(admitted(EDF, &[moving, below]), Ok(()));
    let runs = |kind, on, off, start| {
        let above = Reservation { kind, ..moving };
        keeps(Order::Priority, &[above, below], &[0, start], &[(on, off)])
    };
    let all_run =
        |kind| (1..20).all(|on| (1..20).all(|off| (0..10).all(|start| runs(kind, on, off, start))));
    assert!(all_run(Kind::Periodic) && !all_run(Kind::ConstantBandwidth));
}

/// A soft bandwidth server that has run ahead is far behind afterwards, and its next task waits for
/// longer than with any supply of its interface.
#[test]
fn a_soft_bandwidth_server_promises_its_tasks_nothing() {
    let soft = server(Kind::SoftBandwidth, 10, 1, 10, 0);
    assert_eq!(admitted(EDF, &[soft]), Err(Refusal::Soft));
    // It runs alone for 3 ticks; then a server with the rest of the bandwidth has work all the
    // time.
    let first_tick_after = |kind| {
        let mut policy = Servers::<4>::new(EDF, Slack::Idle);
        let [own, other] = [0, 1].map(|at| Entity::<4>::new(at).unwrap());
        let reserve = |policy: &mut Servers<4>, at, what| policy.reserve(at, what, 0).unwrap();
        reserve(&mut policy, own, Reservation { kind, ..soft });
        let rest = server(Kind::ConstantBandwidth, 30, 27, 30, 0);
        reserve(&mut policy, other, rest);
        policy.wake(own, 0);
        let ran = (0..3).filter(|now| policy.pick(*now).run == Some(own));
        assert_eq!(ran.count() == 3, kind == Kind::SoftBandwidth);
        policy.wake(other, 3);
        policy.block(own, 3);
        policy.wake(own, 3);
        (3..100).find(|now| policy.pick(*now).run == Some(own))
    };
    let promised = 3 + 2 * (10 - 1);
    assert!(first_tick_after(Kind::ConstantBandwidth).unwrap() <= promised);
    assert!(first_tick_after(Kind::SoftBandwidth).unwrap() > promised);
}

/// Nothing takes the CPU from a component without a server when its budget is used up.
#[test]
fn a_component_without_a_server_is_refused() {
    let free = server(Kind::Task, 10, 1, 10, 0);
    for order in [EDF, Order::Priority] {
        assert_eq!(admitted(order, &[free]), Err(Refusal::Unbounded));
    }
}

fn servers() -> impl Strategy<Value = Vec<(Reservation, u64, (u64, u64))>> {
    let kinds = [
        Kind::Periodic,
        Kind::Polling,
        Kind::Deferrable,
        Kind::ConstantBandwidth,
    ];
    let one = (
        proptest::sample::select(kinds.to_vec()),
        4..16u64,
        1..8u64,
        0..8u64,
        0..4u64,
    );
    let times = (0..16u64, (1..12u64, 1..12u64));
    let both = (one, times).prop_map(|((kind, period, budget, late, priority), (start, wakes))| {
        let budget = budget.min(period / 2).max(1);
        let deadline = match kind {
            Kind::Periodic | Kind::Polling => (budget + late).min(period),
            _ => period,
        };
        (
            server(kind, period, budget, deadline, priority),
            start,
            wakes,
        )
    });
    proptest::collection::vec(both, 2..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    /// A server that is admitted and always has work gets what it is promised, whatever the others
    /// do and whenever their periods begin.
    #[test]
    fn an_admitted_server_gets_its_budget(servers in servers(), fixed in any::<bool>()) {
        let mut all: Vec<Reservation> = servers.iter().map(|one| one.0).collect();
        // Bandwidth servers exist for EDF only.
        let fixed = fixed && all.iter().all(|one| one.kind != Kind::ConstantBandwidth);
        let order = if fixed { Order::Priority } else { EDF };
        let starts: Vec<u64> = servers.iter().map(|one| one.1).collect();
        let wakes: Vec<(u64, u64)> = servers[..servers.len() - 1].iter().map(|one| one.2).collect();
        let last = all.len() - 1;
        // If priorities are equal, the earlier server goes first, in both.
        if all[last].kind == Kind::ConstantBandwidth {
            all[last].kind = Kind::Deferrable;
        }
        if admitted(order, &all).is_ok() {
            prop_assert!(keeps(order, &all, &starts, &wakes), "{all:?} {starts:?} {wakes:?}");
        }
    }
}

/// A polling server has lost its budget when its task arrives just after the period's start: a
/// budget that is enough for a periodic server is too small.
#[test]
fn a_polling_server_s_tasks_wait_for_a_period_more() {
    let demand = Demand::new(100, 4, 28, 0, 0).unwrap();
    let budget = |kind| {
        let mut ledger = Ledger::<4, 1>::new(EDF);
        let mut work = Work::new(AMPLE);
        let plan = plan(10, Window::Period);
        let change = Change::Component {
            plan,
            order: EDF,
            kind,
            priority: 0,
        };
        ledger.admit(0, change, &mut work).unwrap();
        let admitted = ledger.admit(0, Change::Task { place: 0, demand }, &mut work);
        admitted.unwrap().interface.unwrap().budget()
    };
    assert_eq!((budget(Kind::Periodic), budget(Kind::Polling)), (2, 3));
    // The completion of a task of 4 that arrives at 1, beside a server that runs first and uses the
    // rest.
    let end = |budget: u64| {
        let mut policy = Servers::<4>::new(Order::Priority, Slack::Idle);
        let [first, own] = [0, 1].map(|at| Entity::<4>::new(at).unwrap());
        let others = server(Kind::Periodic, 10, 10 - budget, 10, 0);
        policy.reserve(first, others, 0).unwrap();
        policy
            .reserve(own, server(Kind::Polling, 10, budget, 10, 1), 0)
            .unwrap();
        policy.wake(own, 1);
        let ran = (1..100).filter(|now| policy.pick(*now).run == Some(own));
        ran.take(4).last().unwrap() + 1
    };
    assert!(end(2) > 1 + 28 && end(3) <= 1 + 28);
}
