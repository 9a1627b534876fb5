//! Tests large and odd models: they are answered within a known number of steps, or refused.

use crate::common::{ROOT, find, given, model, ns, vm};
use hanok_analysis::load::{Arrival, Load};
use hanok_analysis::{Placement, Undecided, Verdict, Work, analyse, decide, edf, response};
use hanok_certificate_checker::check;
use hanok_task_model::{
    Component, Descent, Home, Member, Plan, Policy, Proof, ResourceInterface, Tail, Task, TaskId,
    Window,
};
use std::cmp::Ordering;

fn load(id: u32, period: i128, execution: i128) -> Load {
    Load {
        member: Member::Task(TaskId(id)),
        period,
        execution,
        deadline: period,
        jitter: 0,
        priority: None,
        arrival: Arrival::Sporadic,
        begins_with_period: false,
        place: 0,
    }
}

/// The first `count` primes from `from` on.
fn primes(from: u64, count: usize) -> Vec<u64> {
    let prime = |n: &u64| {
        (2..)
            .take_while(|d| d * d <= *n)
            .all(|d| !n.is_multiple_of(d))
    };
    (from..).filter(prime).take(count).collect()
}

/// Sums of fractions whose common denominator fits into no integer are compared with sums in which
/// each fraction appears as (C, T) and as (T - C, T), with one less or more in one place.
#[test]
fn rates_compare_exactly_whatever_the_periods() {
    let odd = primes(1_000_003, 500);
    let pairs = odd.iter().zip(0..).flat_map(|(period, id)| {
        let (period, part) = (i128::from(*period), i128::from(*period / 3));
        [
            load(2 * id, period, part),
            load(2 * id + 1, period, period - part),
        ]
    });
    let mut loads: Vec<Load> = pairs.collect();
    let compare = |loads: &[Load], whole: i128| {
        let mut work = Work::new(3_000_000);
        edf::compare_rates(loads, whole.into(), &mut work)
    };
    assert_eq!(compare(&loads, 500), Ok(Ordering::Equal));
    assert_eq!(compare(&loads, 501), Ok(Ordering::Less));
    loads[7].execution += 1;
    assert_eq!(compare(&loads, 500), Ok(Ordering::Greater));
    loads[7].execution -= 2;
    assert_eq!(compare(&loads, 500), Ok(Ordering::Less));
    loads[7].execution += 1;
    // One part in 10^12, beside the sum of 499 others.
    loads[11].period += 1;
    assert_eq!(compare(&loads, 500), Ok(Ordering::Less));
    let mut work = Work::new(100);
    let short = edf::compare_rates(&loads, 500.into(), &mut work);
    assert_eq!(short, Err(Undecided::TooLong));
}

/// A whole CPU, deadlines that are periods, a thousand odd periods: the sum of rates decides, and
/// only the sum is computed.
#[test]
fn a_thousand_odd_periods_are_decided_by_their_sum() {
    let odd = primes(1_000_003, 1_000);
    let system = |more: u64| {
        let mut model = model(1);
        let plan = given(1_000, 1_000, 1_000);
        let tasks: Vec<_> = odd
            .iter()
            .map(|period| (*period, period / 1_000 + more, *period))
            .collect();
        vm(&mut model, ROOT, plan, Policy::Edf, &tasks);
        model
    };
    let full = system(0);
    let certificate = analyse(&full)
        .unwrap()
        .certificate()
        .expect("less than all");
    assert_eq!(certificate.components[0].proof, Proof::Utilization);
    assert_eq!(check(&full, &certificate), Ok(()));
    let over = analyse(&system(2)).unwrap();
    assert!(matches!(over.components[0], Verdict::Refuted(_)));
    // Nor has the model an interface, which is found out without a step.
    let mut wanted = system(2);
    wanted.components[0].plan = find(1_000, Window::Period);
    let over = analyse(&wanted).unwrap();
    assert!(matches!(over.components[0], Verdict::Refuted(_)));
    // The checker does not believe a certificate that claims more than the supply, nor a descent
    // where the sum decides.
    assert!(check(&system(2), &certificate).is_err());
    let mut other = certificate.clone();
    let instants = vec![1_000_004, 1];
    other.components[0].proof = Proof::Edf(Descent {
        instants,
        tail: Tail::Lines,
    });
    assert!(check(&full, &other).is_err());
}

/// Exactly full, with periods whose common multiple is beyond 128 bits.
#[test]
fn a_full_cpu_with_odd_periods_is_kept_and_one_more_is_not() {
    let odd = primes(1_000_003, 40);
    let system = |more: u64| {
        let mut model = model(1);
        let mut tasks = Vec::new();
        for period in &odd {
            // Forty times a fortieth; each has the last part of its period to itself.
            let part = period / 80;
            tasks.extend([
                (*period * 40, part, *period * 40),
                (*period * 40, period - part, *period * 40),
            ]);
        }
        tasks[0].1 += more;
        vm(&mut model, ROOT, given(10, 10, 10), Policy::Edf, &tasks);
        model
    };
    let certificate = analyse(&system(0))
        .unwrap()
        .certificate()
        .expect("one exactly");
    assert_eq!(check(&system(0), &certificate), Ok(()));
    assert!(check(&system(1), &certificate).is_err());
    assert!(matches!(
        analyse(&system(1)).unwrap().components[0],
        Verdict::Refuted(_)
    ));
}

/// The longest deadline of a given budget, by trying each.
#[test]
fn the_longest_deadline_is_the_longest_that_does() {
    for (tasks, budget) in [
        ([(200, 28, 200), (300, 36, 300)], 32),
        ([(100, 9, 70), (90, 10, 60)], 40),
        ([(400, 30, 400), (500, 20, 450)], 30),
    ] {
        for policy in [Policy::Edf, Policy::DeadlineMonotonic] {
            let with = |plan: Plan| {
                let mut model = model(1);
                vm(&mut model, ROOT, plan, policy, &tasks);
                let analysis = analyse(&model).unwrap();
                let certificate = analysis.certificate()?;
                assert_eq!(check(&model, &certificate), Ok(()));
                Some((model, certificate))
            };
            let suffices = |deadline: &u64| with(given(120, budget, *deadline)).is_some();
            let longest = (budget..=120).filter(suffices).max();
            let (period, budget) = (ns(120), ns(budget));
            let found = with(Plan::Longest { period, budget });
            let deadline = found
                .as_ref()
                .map(|(_, found)| found.components[0].interface.deadline.get());
            assert_eq!(deadline, longest, "{tasks:?} {policy:?}");
            let Some((model, mut certificate)) = found else {
                continue;
            };
            // It is proven that a tick more is too late, and no other deadline is believed.
            let proof = &mut certificate.components[0];
            assert_eq!(proof.least.is_some(), longest < Some(120));
            proof.interface = ResourceInterface {
                deadline: ns(longest.unwrap() - 1),
                ..proof.interface
            };
            assert!(check(&model, &certificate).is_err());
        }
    }
}

/// Proven response times are compared with the worst ones of a plain scheduler: they are never
/// less, and under fixed priorities they are equal.
#[test]
fn responses_are_not_less_than_what_happens() {
    let sets: [&[(u64, u64, u64)]; 4] = [
        &[(10, 2, 10), (15, 4, 15), (40, 9, 40)],
        &[(8, 2, 5), (12, 3, 12), (20, 4, 18)],
        &[(7, 3, 7), (21, 5, 20)],
        &[(5, 1, 4), (9, 2, 9), (30, 6, 25), (45, 5, 45)],
    ];
    for tasks in sets {
        for policy in [Policy::Edf, Policy::DeadlineMonotonic] {
            let mut model = model(1);
            vm(&mut model, ROOT, given(1, 1, 1), policy, tasks);
            let analysis = analyse(&model).unwrap();
            assert!(analysis.certificate().is_some(), "{tasks:?}");
            let found = analysis.responses(&model);
            let longest = longest_responses(tasks, policy);
            for ((response, longest), task) in found.iter().zip(&longest).zip(tasks) {
                let response = response.unwrap();
                let (most, slack) = (response.most, response.slack);
                assert_eq!(most + slack, i128::from(task.2));
                assert!(
                    most >= i128::from(*longest),
                    "{tasks:?} {policy:?}: {found:?} {longest:?}"
                );
                if policy.is_fixed() {
                    assert_eq!(most, i128::from(*longest), "{tasks:?}");
                }
            }
            assert!(found.iter().any(|response| response.unwrap().slack > 0));
        }
    }
    // Nothing is proven of tasks of a component that is refused.
    let mut model = model(1);
    vm(
        &mut model,
        ROOT,
        given(10, 1, 10),
        Policy::Edf,
        &[(10, 2, 10)],
    );
    assert_eq!(analyse(&model).unwrap().responses(&model), [None]);
}

/// The longest time from arrival to completion of each task, for some offsets of each.
fn longest_responses(tasks: &[(u64, u64, u64)], policy: Policy) -> Vec<u64> {
    let mut longest = vec![0; tasks.len()];
    for round in 0..200u64 {
        let offset = |at: usize| round * (at as u64 * 7 + 3) % tasks[at].0 * u64::from(round > 0);
        let mut jobs: Vec<(u64, usize, u64, u64)> = Vec::new();
        for now in 0..1_000 {
            for (at, (period, execution, deadline)) in tasks.iter().enumerate() {
                if now >= offset(at) && (now - offset(at)).is_multiple_of(*period) {
                    let key = if policy.is_fixed() {
                        *deadline
                    } else {
                        now + deadline
                    };
                    jobs.push((key, at, now, *execution));
                }
            }
            jobs.sort();
            if let Some(first) = jobs.first_mut() {
                first.3 -= 1;
                if first.3 == 0 {
                    let (_, at, arrival, _) = jobs.remove(0);
                    longest[at] = longest[at].max(now + 1 - arrival);
                }
            }
        }
    }
    longest
}

/// Twenty thousand groups, side by side and nested: each is examined once, whatever the answer is.
#[test]
fn twenty_thousand_groups_are_answered_in_one_walk() {
    for nested in [false, true] {
        let mut model = model(1);
        let mut home = ROOT;
        for index in 0..20_000u64 {
            let period = if nested { 1_000_000 } else { 1_000_000 + index };
            let plan = if nested {
                given(period, period, period)
            } else {
                find(period, Window::Period)
            };
            let component = Component::new(format!("g{index}"), home, plan);
            let id = model.add(component);
            if nested {
                home = Home::Component(id)
            } else {
                model.add_task(Task::new("t", id, ns(20 * period), ns(7)));
            }
        }
        let mut work = Work::new(Work::TEST);
        let analysis = decide(&model, &mut work).unwrap();
        let certificate = analysis.certificate().expect("proven");
        assert_eq!(check(&model, &certificate), Ok(()));
        assert!(work.left() > 0);
    }
}

/// Under fixed priorities each member is compared with all above it. Some thousand side by side are
/// answered, positively or not, and what would need too many steps is refused as such.
#[test]
fn thousands_of_groups_under_fixed_priorities_are_answered_or_refused() {
    let system = |count: u64, budget: u64| {
        let mut model = model(1);
        model.pools[0].policy = Policy::RateMonotonic;
        for index in 0..count {
            let period = 1_000_000 + index;
            let plan = given(period, budget, period);
            let id = model.add(Component::new(format!("g{index}"), ROOT, plan));
            model.add_task(Task::new("t", id, ns(4 * period), ns(7)));
        }
        model
    };
    let model = system(4_000, 240);
    let analysis = decide(&model, &mut Work::new(Work::TEST)).unwrap();
    let certificate = analysis.certificate().expect("proven");
    assert_eq!(check(&model, &certificate), Ok(()));
    // A thousand budgets of 1,000 fill the core: the one after them has no place.
    let crowd = |count, budget| {
        let over = decide(&system(count, budget), &mut Work::new(Work::TEST)).unwrap();
        let Placement::Refused(refusal) = &over.pools[0] else {
            panic!("{:?}", over.pools[0]);
        };
        let executions = refusal.workload.loads.iter().map(|load| load.execution);
        executions.sum::<i128>()
    };
    assert_eq!(crowd(1_200, 1_000), 1_001_000);
    // Of more budgets, one of those after them is named.
    assert!(crowd(4_000, 300) > 1_000_000);
    let many = decide(&system(20_000, 40), &mut Work::new(Work::MODEL)).unwrap();
    assert_eq!(many.pools[0], Placement::Undecided(Undecided::TooLong));
}

/// The steps for response times are bounded, too: without steps, the response is the deadline.
#[test]
fn without_steps_the_response_is_the_deadline() {
    let mut system = model(1);
    vm(
        &mut system,
        ROOT,
        given(2, 1, 2),
        Policy::Edf,
        &[(50, 4, 40), (70, 9, 60)],
    );
    let analysis = analyse(&system).unwrap();
    let workload = analysis
        .workload(&system, hanok_task_model::ComponentId(0))
        .unwrap();
    let interface = analysis
        .interface(hanok_task_model::ComponentId(0))
        .unwrap();
    let supply = hanok_analysis::upon(&interface, &workload).unwrap();
    let none = response::of(&workload, &supply, &mut Work::new(0));
    assert!(none.iter().all(|response| response.slack == 0));
    let all = response::of(&workload, &supply, &mut Work::new(Work::TEST));
    assert!(all.iter().all(|response| response.slack > 0), "{all:?}");
}
