//! Who gets what the servers leave.

use super::*;
use crate::{Deals, Interface, Kind, Node, Order, Reservation};
use proptest::prelude::*;
use std::string::String;
use std::vec::Vec;

fn promise(kind: Kind, period: u64, budget: u64) -> Reservation {
    let interface = Interface::periodic(period, budget).unwrap();
    Reservation {
        kind,
        interface,
        priority: 0,
    }
}

fn entity(index: usize) -> Entity {
    Entity::new(index).unwrap()
}

fn share(weight: u16, cap: Option<u8>) -> Share {
    Share { weight, cap }
}

/// Servers for the first entities, and shares for those from 8 on.
fn budgets<'a>(
    nodes: &'a mut [Node],
    slack: Slack,
    promises: &[Reservation],
    shares: &[Share],
) -> Budgets<'a> {
    let [root] = nodes else { panic!("one node") };
    let mut tree = Tree::new(root, &mut []);
    for (index, promise) in promises.iter().enumerate() {
        tree.add_vcpu(0, entity(index), *promise, 0).unwrap();
    }
    let mut all = Budgets::new(tree, Credit::new(100, 10, Deals::Used, 0), slack, 0);
    for (index, share) in shares.iter().enumerate() {
        all.add_best_effort(entity(8 + index), *share);
    }
    all
}

fn root(slack: Slack) -> [Node; 1] {
    [Node::new(Order::EarliestDeadline, slack)]
}

/// Who runs at each instant: the first entity is `a`, and dots are idle time.
fn line(policy: &mut Budgets<'_>, from: u64, to: u64) -> String {
    let mut decision = policy.pick(from);
    let mut line = String::new();
    for now in from..to {
        if decision.until.is_some_and(|until| until <= now) {
            decision = policy.pick(now);
        }
        let name = |who: Entity| char::from(b'a' + who.index() as u8);
        line.push(decision.run.map_or('.', name));
    }
    line
}

#[test]
fn what_nobody_was_promised_is_for_best_effort() {
    let mut nodes = root(Slack::Idle);
    let promises = [
        promise(Kind::Periodic, 10, 3),
        promise(Kind::Periodic, 10, 2),
    ];
    let mut policy = budgets(&mut nodes, Slack::Idle, &promises, &[share(256, None)]);
    policy.wake(entity(0), 0);
    policy.wake(entity(8), 0);
    // The second server has no work, and its time is nobody's.
    assert_eq!(line(&mut policy, 0, 20), "aaa..iiiiiaaa..iiiii");
    assert!(!policy.spends());
    policy.pick(20);
    assert_eq!(policy.pick(23).run, None);
    assert!(policy.spends());
}

#[test]
fn unused_promises_are_for_best_effort_where_they_are_shared() {
    let mut nodes = root(Slack::Share);
    let promises = [
        promise(Kind::Periodic, 10, 3),
        promise(Kind::Periodic, 10, 2),
    ];
    let mut policy = budgets(&mut nodes, Slack::Share, &promises, &[share(256, None)]);
    policy.wake(entity(0), 0);
    policy.wake(entity(8), 0);
    // Those who used their budgets up come after it.
    assert_eq!(line(&mut policy, 0, 10), "aaaiiiiiii");
    // The second one's budget was spent meanwhile.
    policy.wake(entity(1), 10);
    policy.block(entity(8), 10);
    assert_eq!(line(&mut policy, 10, 16), "aaabba");
    policy.wake(entity(8), 16);
    assert_eq!(line(&mut policy, 16, 20), "iiii");
}

#[test]
fn what_is_left_is_shared_by_weight_and_cap() {
    let mut nodes = root(Slack::Idle);
    let promises = [promise(Kind::Periodic, 10, 4)];
    let shares = [share(300, None), share(100, None)];
    let mut policy = budgets(&mut nodes, Slack::Idle, &promises, &shares);
    for index in [0, 8, 9] {
        policy.wake(entity(index), 0);
    }
    let line = line(&mut policy, 0, 4_000);
    let count = |name| line.chars().filter(|c| *c == name).count() as i64;
    assert_eq!(count('a'), 1_600);
    assert!((count('i') - 1_800).abs() < 60, "{}", count('i'));
    assert_eq!(policy.share(entity(9)), Some(share(100, None)));
    assert!(policy.change_share(entity(9), share(100, Some(5))));
    assert!(!policy.change_share(entity(0), share(1, None)));
    let line = self::line(&mut policy, 4_000, 8_000);
    let capped = line.chars().filter(|c| *c == 'j').count();
    assert!((150..=210).contains(&capped), "{capped}");
}

#[test]
fn nothing_is_charged_for_what_is_exempt() {
    let mut nodes = root(Slack::Idle);
    let promises = [promise(Kind::Periodic, 100, 30)];
    let mut policy = budgets(&mut nodes, Slack::Idle, &promises, &[share(1, None)]);
    policy.wake(entity(0), 0);
    policy.wake(entity(8), 0);
    policy.pick(0);
    policy.charge_until(5);
    policy.exempt(15);
    assert_eq!(policy.pick(15).until, Some(40));
    assert_eq!(policy.charged(), Some(entity(0)));
    assert_eq!(policy.pick(40).run, Some(entity(8)));
    assert_eq!(policy.charged(), Some(entity(8)));
    let credit = policy.rest.credit(entity(8));
    policy.exempt_switch(50);
    policy.charge_until(52);
    assert_eq!(policy.rest.credit(entity(8)), credit - 2);
}

/// What is inside a group pays nothing while somebody else has the time that the group has used up.
#[test]
fn a_group_in_the_background_is_not_charged_for_best_effort() {
    let mut root = Node::new(Order::EarliestDeadline, Slack::Share);
    let mut groups = [Node::new(Order::EarliestDeadline, Slack::Share)];
    let tree = Tree::new(&mut root, &mut groups);
    let rest = Credit::new(100, 10, Deals::Used, 0);
    let mut policy = Budgets::new(tree, rest, Slack::Share, 0);
    let group = policy
        .add_group(0, promise(Kind::Deferrable, 100, 10), 0)
        .unwrap();
    let inner = Grant::Promise(group, promise(Kind::Deferrable, 400, 20));
    policy.grant(entity(0), inner, 0).unwrap();
    policy.add_best_effort(entity(8), share(1, None));
    policy.wake(entity(0), 0);
    policy.wake(entity(8), 0);
    let line = line(&mut policy, 0, 400);
    let given = |from: usize| line[from..from + 100].matches('a').count();
    assert_eq!([0, 100].map(given), [10, 10], "{line}");
}

/// A group that spends its budget without work, and what is inside it, go on spending while best effort has the time that
/// another group would have had in the background.
#[test]
fn who_spends_without_work_goes_on_beside_best_effort() {
    let mut root = Node::new(Order::EarliestDeadline, Slack::Share);
    let node = || Node::new(Order::EarliestDeadline, Slack::Share);
    let mut groups = [node(), node()];
    let tree = Tree::new(&mut root, &mut groups);
    let rest = Credit::new(100, 10, Deals::Used, 0);
    let mut policy = Budgets::new(tree, rest, Slack::Share, 0);
    let idle = policy
        .add_group(0, promise(Kind::Periodic, 100, 30), 0)
        .unwrap();
    let spent = policy
        .add_group(0, promise(Kind::Deferrable, 50, 5), 0)
        .unwrap();
    for (index, group, what) in [
        (0, idle, promise(Kind::Periodic, 100, 30)),
        (1, spent, promise(Kind::Deferrable, 50, 5)),
    ] {
        policy
            .grant(entity(index), Grant::Promise(group, what), 0)
            .unwrap();
    }
    policy.add_best_effort(entity(8), share(1, None));
    policy.wake(entity(1), 0);
    policy.wake(entity(8), 0);
    assert_eq!(line(&mut policy, 0, 20), "bbbbbiiiiiiiiiiiiiii");
    policy.charge_until(20);
    let (servers, at) = policy.tree().servers_of(entity(0)).unwrap();
    assert_eq!(servers.budget(at), Some(15));
}

type Events = Vec<(u64, usize, bool)>;

fn events() -> impl Strategy<Value = Events> {
    proptest::collection::vec((0..12u64, 0..4usize, any::<bool>()), 0..120)
}

proptest! {
    /// Best effort takes nothing from anybody: those with promises run at the same instants without it.
    #[test]
    fn servers_run_as_without_best_effort(
        sizes in proptest::collection::vec((2..20u64, 1..8u64), 2),
        events in events(),
        slack in prop_oneof![Just(Slack::Idle), Just(Slack::Share)],
    ) {
        let promises: Vec<_> = sizes.iter()
            .map(|(period, budget)| promise(Kind::Periodic, *period, (*budget).min(*period))).collect();
        let (mut with, mut without) = (root(slack), root(slack));
        let shares = [share(1, None), share(2, Some(50))];
        let mut with = budgets(&mut with, slack, &promises, &shares);
        let mut without = budgets(&mut without, slack, &promises, &[]);
        let mut events = events.into_iter();
        let (mut next, mut at) = (events.next(), 0);
        for now in 0..300 {
            while let Some((wait, who, wakes)) = next.filter(|event| at + event.0 <= now) {
                at += wait;
                next = events.next();
                let who = entity(if who < 2 { who } else { 6 + who });
                for policy in [&mut with, &mut without] {
                    if wakes { policy.wake(who, now) } else { policy.block(who, now) }
                }
            }
            let promised = without.pick(now).run.filter(|_| !without.tree.runs_in_background());
            let run = with.pick(now).run;
            let own = run.filter(|run| run.index() < 2 && !with.tree.runs_in_background());
            prop_assert_eq!(own, promised, "at {}", now);
        }
    }

    /// Where the frequent case answers at once, it answers what the whole decision does, and leaves the same behind.
    #[test]
    fn what_is_chosen_at_once_is_what_is_chosen(
        sizes in proptest::collection::vec((any_kind(), 2..20u64, 1..8u64), 2),
        events in events(),
        yields in proptest::collection::vec(any::<bool>(), 300),
        slack in prop_oneof![Just(Slack::Idle), Just(Slack::Share), Just(Slack::Reclaim)],
    ) {
        let promises: Vec<_> = sizes.iter()
            .map(|(kind, period, budget)| promise(*kind, *period, (*budget).min(*period))).collect();
        let (mut quick, mut whole) = (root(slack), root(slack));
        let shares = [share(1, None), share(2, Some(50))];
        let mut quick = budgets(&mut quick, slack, &promises, &shares);
        let mut whole = budgets(&mut whole, slack, &promises, &shares);
        let mut events = events.into_iter();
        let (mut next, mut at, mut ran) = (events.next(), 0, None);
        for now in 0..300 {
            while let Some((wait, who, wakes)) = next.filter(|event| at + event.0 <= now) {
                at += wait;
                next = events.next();
                let who = entity(if who < 2 { who } else { 6 + who });
                for policy in [&mut quick, &mut whole] {
                    if wakes { policy.wake(who, now) } else { policy.block(who, now) }
                }
            }
            if let Some(ran) = ran.filter(|_| yields[now as usize]) {
                quick.yield_now(ran, now);
                whole.yield_now(ran, now);
            }
            let expected = whole.pick(now);
            let decision = match quick.choose_at_once(now) {
                Some((run, until)) => Decision {
                    run: Some(run),
                    until: (until != u64::MAX).then_some(until),
                },
                None => quick.pick(now),
            };
            prop_assert_eq!(decision, expected, "at {}", now);
            let left = |policy: &Budgets<'_>| {
                (policy.spends(), policy.charged(), policy.runs_extra())
            };
            prop_assert_eq!(left(&quick), left(&whole), "at {}", now);
            ran = decision.run;
        }
    }
}

fn any_kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Periodic),
        Just(Kind::Polling),
        Just(Kind::Deferrable),
        Just(Kind::ConstantBandwidth),
        Just(Kind::SoftBandwidth),
    ]
}

/// Ticks of a switch in what follows.
const SWITCH: u64 = 5;
/// The sleeper's period and budget, and the worker's.
const SLEEPER: [u64; 2] = [200, 60];
const WORKER: [u64; 2] = [300, 155];

/// What the worker had in each of its periods beside a vCPU of a higher priority that sleeps and wakes, and one of best
/// effort that does so, too: how long they run and sleep each time is in `wakes`. Switches take time, as on a board. And the
/// longest time for which the sleeper's server held the CPU in one of its periods. The worker has work if it `works`.
fn had_beside_sleepers(
    policy: &mut Budgets<'_>,
    wakes: [&[(u64, u64)]; 2],
    works: bool,
    periods: u64,
) -> (Vec<u64>, u64) {
    let (worker, sleepers) = (entity(1), [entity(0), entity(8)]);
    let mut wakes = wakes.map(|wakes| wakes.iter().copied().cycle());
    let mut next = wakes.each_mut().map(|wakes| wakes.next().unwrap());
    let mut wakes_at = [None; 2];
    let (mut now, mut resident) = (0, None);
    for who in sleepers {
        policy.wake(who, 0);
    }
    if works {
        policy.wake(worker, 0);
    }
    let mut had = std::vec![0; periods as usize];
    let mut held = std::vec![0; (periods * WORKER[0] / SLEEPER[0]) as usize + 1];
    while now < periods * WORKER[0] {
        let (run, until) = match policy.choose_at_once(now) {
            Some((run, until)) => (Some(run), Some(until)),
            None => {
                let Decision { run, until } = policy.pick(now);
                (run, until)
            }
        };
        let decided = now;
        if run.is_some() && run != resident {
            now += SWITCH;
            policy.exempt_switch(now);
            resident = run;
        }
        let sleeper = sleepers.iter().position(|who| run == Some(*who));
        let events = wakes_at.iter().copied().flatten().chain(until);
        let ends = sleeper.map(|at| now + next[at].0);
        let event = events.chain(ends).min().unwrap_or(u64::MAX).max(now);
        if run == Some(worker) {
            for tick in now..event.min(periods * WORKER[0]) {
                had[(tick / WORKER[0]) as usize] += 1;
            }
        }
        if policy.charged() == Some(sleepers[0])
            && let Some(held) = held.get_mut((decided / SLEEPER[0]) as usize)
        {
            *held += event.saturating_sub(decided);
        }
        if let Some(at) = sleeper {
            next[at].0 -= event - now;
            if next[at].0 == 0 {
                policy.block(sleepers[at], event);
                wakes_at[at] = Some(event + next[at].1);
                next[at] = wakes[at].next().unwrap();
            }
        }
        now = event;
        for (at, who) in sleepers.iter().enumerate() {
            if wakes_at[at].is_some_and(|at| at <= now) {
                wakes_at[at] = None;
                policy.wake(*who, now);
            }
        }
    }
    (had, held.into_iter().max().unwrap_or(0))
}

/// A sleeper's and a worker's servers, each in a group of its own if `grouped`, and one of best effort.
fn beside_a_sleeper(
    nodes: &mut [Node; 3],
    kind: Kind,
    worker: [u64; 2],
    slack: Slack,
    grouped: bool,
) -> Budgets<'_> {
    let promised = |[period, budget]: [u64; 2], priority| Reservation {
        priority,
        ..promise([kind, Kind::Periodic][priority as usize], period, budget)
    };
    let [root, groups @ ..] = nodes;
    let rest = Credit::new(100, 10, Deals::Used, 0);
    let mut all = Budgets::new(Tree::new(root, groups), rest, slack, 2 * SWITCH);
    for (index, terms) in [SLEEPER, worker].into_iter().enumerate() {
        let what = promised(terms, index as u64);
        let mut home = 0;
        if grouped {
            home = all.add_group(0, what, 0).unwrap();
        }
        let grant = Grant::Promise(home, what);
        all.grant(entity(index), grant, 0).unwrap();
    }
    all.add_best_effort(entity(8), share(256, None));
    all
}

proptest! {
    /// One that keeps its budget while it sleeps takes no more from a lower one than its budget in each period, switches
    /// included, however often it wakes.
    #[test]
    fn who_wakes_without_end_pays_for_the_switches(
        wakes in prop::collection::vec((1_u64..30, 1_u64..30), 1..20),
        long in 1_u64..300,
        kind in prop::sample::select(&[Kind::Deferrable, Kind::ConstantBandwidth][..]),
        slack in prop::sample::select(&[Slack::Idle, Slack::Share][..]),
        order in prop::sample::select(&[Order::Priority, Order::EarliestDeadline][..]),
        grouped in any::<bool>(),
    ) {
        prop_assume!(kind == Kind::Deferrable || order == Order::EarliestDeadline);
        let mut nodes = [(); 3].map(|()| Node::new(order, slack));
        // The worker may have all of the time.
        let worker = [WORKER[0]; 2];
        let mut policy = beside_a_sleeper(&mut nodes, kind, worker, slack, grouped);
        // Now and then it has work for longer than its budget lasts.
        let wakes = [&wakes[..], &[(long, 1)]].concat();
        let periods = 20;
        let (had, _) = had_beside_sleepers(&mut policy, [&wakes, &[(1, 1_000_000)]], true, periods);
        let taken = periods * WORKER[0] - had.iter().sum::<u64>();
        // The first switch to the worker, and the last one back to it.
        let [period, budget] = SLEEPER;
        let most = periods * WORKER[0] / period * budget + 2 * SWITCH;
        prop_assert!(taken <= most, "{taken} of {most}: {had:?}");
    }

    /// Beyond its budget a server costs others two switches in each period, however often its vCPU sleeps and wakes.
    #[test]
    fn wakes_are_at_the_expense_of_who_wakes(
        wakes in prop::collection::vec((1_u64..30, 1_u64..30), 1..20),
        others in prop::collection::vec((1_u64..30, 1_u64..30), 1..20),
        kind in prop::sample::select(&[Kind::Periodic, Kind::Polling][..]),
        slack in prop::sample::select(&[Slack::Idle, Slack::Share][..]),
        order in prop::sample::select(&[Order::Priority, Order::EarliestDeadline][..]),
        grouped in any::<bool>(), works in any::<bool>(),
    ) {
        // The sleeper twice with both switches, and the worker with one: the rest is nobody's.
        let [period, budget] = SLEEPER;
        let twice = 2 * (budget + 2 * SWITCH);
        prop_assert_eq!(twice + WORKER[1] + SWITCH, WORKER[0]);
        prop_assert!(WORKER[0] > period && WORKER[0] < 2 * period);
        let mut nodes = [(); 3].map(|()| Node::new(order, slack));
        let mut policy = beside_a_sleeper(&mut nodes, kind, WORKER, slack, grouped);
        let (had, held) = had_beside_sleepers(&mut policy, [&wakes, &others], works, 20);
        prop_assert!(!works || had.iter().all(|had| *had >= WORKER[1]), "{had:?}");
        prop_assert!(held <= budget + 2 * SWITCH, "{held}");
    }
}
