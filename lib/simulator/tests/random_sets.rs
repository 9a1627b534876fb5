//! Tests random sets of tasks: none that is admitted misses a deadline, and it is counted which
//! refused ones would not have missed.
//!
//! Four programs judge each set, which share nothing but the question: the analysis, which the
//! tools use, in rationals; admission, which the board uses (`core/sched`), in integers; the
//! simulator, which runs `core/sched`'s policies event by event; and a very plain program below,
//! which examines every tick. The last two run the worst case on one CPU: all first jobs are
//! released at once, as late as their jitter allows, when the supply of the interface has just
//! ended for as long as it can.
//!
//! Every run of the tests has a few hundred sets. For 10,000:
//!
//! ```text
//! cargo test --release -p hanok-simulator --test random_sets -- --ignored --nocapture
//! ```

mod common;

use common::{One, Random};
use hanok_analysis::{Verdict, analyse};
use hanok_sched::admission::{self, Demand, Plan, Refusal, Set, Window, Work};
use hanok_sched::{Interface, Order};
use hanok_simulator::{Options, Supply, What, simulate};
use hanok_task_model as model;
use model::{Component, ComponentId, CoreId, Home, Model, Nanos, Policy, Pool, PoolId};

/// Divisors of 120: hyperperiods are short enough to examine every tick.
const PERIODS: [u64; 12] = [4, 5, 6, 8, 10, 12, 15, 20, 24, 30, 40, 60];

#[derive(Clone, Debug)]
struct Case {
    tasks: Vec<One>,
    policy: Policy,
    interface: Interface,
}

fn case(random: &mut Random) -> Case {
    let policies = [
        Policy::Edf,
        Policy::Edf,
        Policy::RateMonotonic,
        Policy::DeadlineMonotonic,
        Policy::FixedPriority,
    ];
    let policy = random.one_of(&policies);
    let number = 1 + random.below(5);
    let tasks = (0..number).map(|_| one(random, number, policy));
    let tasks: Vec<_> = tasks.collect();
    Case {
        interface: interface(random, &tasks, policy),
        tasks,
        policy,
    }
}

fn one(random: &mut Random, number: u64, policy: Policy) -> One {
    let period = random.one_of(&PERIODS);
    let execution = 1 + random.below(2 * period / (number + 1) + 1);
    // Deadlines beyond the period only where the tests are for these as well.
    let most = match policy {
        Policy::Edf => period + period / 2,
        _ => period,
    };
    let deadline = match random.below(2) {
        0 => period,
        _ => most - random.below(most / 2 + 1),
    };
    let jitter = match random.below(3) {
        0 => random.below(deadline / 3 + 1),
        _ => 0,
    };
    let priority = random.below(4);
    One {
        period,
        execution,
        deadline,
        jitter,
        priority,
    }
}

/// An interface near the edge between too little and enough: close to the least one.
fn interface(random: &mut Random, tasks: &[One], policy: Policy) -> Interface {
    let period = random.one_of(&[1, 2, 3, 5, 6, 8, 10, 12, 15, 20]);
    let window = match random.below(3) {
        0 => Window::Period,
        1 => Window::Budget,
        _ => Window::Deadline(1 + random.below(period)),
    };
    let plan = Plan { period, window };
    let demands = demands(tasks, policy).unwrap_or_default();
    let set = Set::new(&demands);
    let least = admission::least_budget(&set, order(policy), plan, &mut Work::new(1 << 24));
    let budget = match least {
        Ok(least) => (least.budget + random.below(3)).saturating_sub(1),
        Err(_) => 1 + random.below(period),
    };
    let deadline = match window {
        Window::Period => period,
        Window::Budget => budget,
        Window::Deadline(deadline) => deadline,
    };
    let budget = budget.clamp(1, deadline.clamp(1, period));
    Interface::new(period, budget, deadline.clamp(budget, period)).unwrap()
}

fn order(policy: Policy) -> Order {
    match policy {
        Policy::Edf => Order::EarliestDeadline,
        _ => Order::Priority,
    }
}

fn priority(task: &One, policy: Policy) -> u64 {
    match policy {
        Policy::Edf => 0,
        Policy::RateMonotonic => task.period,
        Policy::DeadlineMonotonic => task.deadline,
        Policy::FixedPriority => task.priority,
    }
}

fn demands(tasks: &[One], policy: Policy) -> Result<Vec<Demand>, Refusal> {
    let each = tasks.iter().map(|t| {
        Demand::new(
            t.period,
            t.execution,
            t.deadline,
            t.jitter,
            priority(t, policy),
        )
    });
    each.collect()
}

fn admitted(case: &Case) -> Result<(), Refusal> {
    let demands = demands(&case.tasks, case.policy)?;
    let mut work = Work::new(1 << 24);
    admission::holds(
        &Set::new(&demands),
        order(case.policy),
        case.interface,
        &mut work,
    )
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The end of the examined time: what comes later repeats what came before, if no deadline was
/// missed by then.
fn horizon(case: &Case) -> u64 {
    let lcm = |a: u64, b: u64| a / gcd(a, b) * b;
    let periods = case.tasks.iter().map(|task| task.period);
    // Late deadlines hide an overload for longer.
    latest_jitter(case) + 12 * periods.fold(case.interface.period(), lcm) + 200
}

fn latest_jitter(case: &Case) -> u64 {
    case.tasks.iter().map(|task| task.jitter).max().unwrap_or(0)
}

/// Whether a tick is supplied: nothing is supplied for as long as possible, from the common release
/// on.
fn supplied(case: &Case, now: u64) -> bool {
    let (period, budget) = (case.interface.period(), case.interface.budget());
    let starved = period + case.interface.deadline() - 2 * budget;
    let since = now.checked_sub(latest_jitter(case) + starved);
    since.is_some_and(|since| since % period < budget)
}

/// Whether no deadline is missed, tick by tick.
fn plainly_holds(case: &Case) -> bool {
    let together = latest_jitter(case);
    // (deadline, task, remaining), by task and arrival.
    let mut jobs: Vec<(u64, usize, u64)> = Vec::new();
    for now in 0..horizon(case) {
        for (index, task) in case.tasks.iter().enumerate() {
            // Only the first job is held back, and by less than a period.
            let first = together - task.jitter;
            if now == together {
                jobs.push((first + task.deadline, index, task.execution));
            } else if now > together && (now - first).is_multiple_of(task.period) {
                jobs.push((now + task.deadline, index, task.execution));
            }
        }
        if jobs.iter().any(|(deadline, _, _)| *deadline <= now) {
            return false;
        }
        if !supplied(case, now) {
            continue;
        }
        let key = |(at, (deadline, task, _)): &(usize, &(u64, usize, u64))| match case.policy {
            Policy::Edf => (*deadline, *task, *at),
            policy => (priority(&case.tasks[*task], policy), *task, *at),
        };
        if let Some((at, _)) = jobs.iter().enumerate().min_by_key(key) {
            jobs[at].2 -= 1;
            if jobs[at].2 == 0 {
                jobs.remove(at);
            }
        }
    }
    true
}

fn promise(case: &Case) -> model::ResourceInterface {
    model::ResourceInterface {
        period: Nanos::new(case.interface.period()),
        budget: Nanos::new(case.interface.budget()),
        deadline: Nanos::new(case.interface.deadline()),
    }
}

/// The case as a model of one component.
fn system(case: &Case) -> (Model, ComponentId) {
    let ns = Nanos::new;
    let mut system = Model::new(ns(1), vec![Pool::new("one", [CoreId(0)])]);
    let plan = model::Plan::Given(promise(case));
    let mut component = Component::new("vm", Home::Pool(PoolId(0)), plan);
    component.policy = case.policy;
    let vm = system.add(component);
    let together = latest_jitter(case);
    for (index, one) in case.tasks.iter().enumerate() {
        system.add_task(one.task(index.to_string(), vm, together - one.jitter));
    }
    (system, vm)
}

/// The analysis's answer; `None` if it could not decide.
fn analysed(case: &Case) -> Option<bool> {
    let (system, vm) = system(case);
    let analysis = analyse(&system).unwrap();
    match &analysis.components[vm.0 as usize] {
        Verdict::Proven(_) => Some(true),
        Verdict::Refuted(_) => Some(false),
        _ => None,
    }
}

/// Whether no deadline is missed in the simulation.
fn simulated(case: &Case) -> bool {
    let (system, vm) = system(case);
    let together = latest_jitter(case);
    let Supply::Periodic {
        first,
        length,
        period,
    } = Supply::worst(promise(case))
    else {
        panic!("the worst supply is periodic");
    };
    let supply = Supply::Periodic {
        first: first + together,
        length,
        period,
    };
    let options = Options::new(What::Component(vm, supply), horizon(case));
    simulate(&system, &options).unwrap().misses().is_empty()
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    sets: u32,
    admitted: u32,
    admitted_and_missed: u32,
    refused_and_schedulable: u32,
    judges_disagree: u32,
    undecided: u32,
    analysis_disagrees: u32,
}

fn judge(number: u32, seed: u64) -> Counts {
    let mut random = Random(seed);
    let mut counts = Counts::default();
    while counts.sets < number {
        let case = case(&mut random);
        // A task that can be released after its deadline is no question of scheduling.
        if demands(&case.tasks, case.policy).is_err() {
            continue;
        }
        counts.sets += 1;
        let (admitted, plainly, simulated) =
            (admitted(&case), plainly_holds(&case), simulated(&case));
        counts.admitted += u32::from(admitted.is_ok());
        counts.undecided += u32::from(admitted == Err(Refusal::Undecided));
        let analysed = analysed(&case);
        counts.undecided += u32::from(analysed.is_none());
        let differs = analysed.is_some_and(|analysed| analysed != admitted.is_ok());
        let wrong = [
            (differs, &mut counts.analysis_disagrees),
            (
                admitted.is_ok() && !simulated,
                &mut counts.admitted_and_missed,
            ),
            (
                admitted.is_err() && plainly,
                &mut counts.refused_and_schedulable,
            ),
            (simulated != plainly, &mut counts.judges_disagree),
        ];
        for (wrong, count) in wrong {
            if wrong {
                println!(
                    "{case:?}: {admitted:?}, analysed {analysed:?}, by ticks {plainly}, simulated {simulated}"
                );
                *count += 1;
            }
        }
    }
    println!("{counts:?}");
    counts
}

fn must_agree(number: u32) {
    let counts = judge(number, 0x5eed);
    let expected = Counts {
        sets: number,
        admitted: counts.admitted,
        ..Counts::default()
    };
    assert_eq!(counts, expected);
    // Some sets are admitted and some are not: the interfaces are near the edge.
    assert!(counts.admitted > number / 4 && counts.admitted < number / 4 * 3);
}

#[test]
fn four_hundred_sets_are_judged_alike() {
    must_agree(400);
}

#[test]
#[ignore = "a minute in a release build"]
fn ten_thousand_sets_are_judged_alike() {
    must_agree(10_000);
}
