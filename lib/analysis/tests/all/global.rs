//! Tests global EDF: what the analysis admits and the checker believes is run on a scheduler of a
//! few lines that examines every instant.
//!
//! That scheduler knows nothing of the analysis's tests, of `core/sched` or of the simulator. A set
//! near the edge is one whose longest execution time is as long as the analysis allows. The worst
//! arrivals are not known for several CPUs (a common release is not the worst there). So each set
//! is run with a common release, with random offsets, and with random delays between arrivals and
//! random jitter; for tiny sets, every possible sequence of arrivals is run.
//!
//! Every run of the tests takes a sample. `HANOK_SETS=10000` sets the number of sets.

use crate::common::{Random, ns};
use hanok_analysis::analyse;
use hanok_certificate_checker::check;
use hanok_task_model::{
    Certificate, Component, CoreId, Descent, Home, Mode, Model, Plan, Pool, PoolId, Proof,
    ResourceInterface, Tail, Task,
};
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug)]
struct One {
    period: u64,
    execution: u64,
    deadline: u64,
    jitter: u64,
}

/// Tasks on `cpus` CPUs, which supply `budget` instants in each period.
#[derive(Clone, Debug)]
struct Set {
    tasks: Vec<One>,
    cpus: usize,
    period: u64,
    budget: u64,
}

fn sets() -> usize {
    let sets = std::env::var("HANOK_SETS").ok();
    sets.map_or(300, |sets| sets.parse().expect("a number of sets"))
}

/// A component on several CPUs with these tasks, and as many cores; on one CPU, a component under
/// EDF.
fn of_tasks(set: &Set) -> Model {
    let mut pool = Pool::new("all", (0..set.cpus as u8).map(CoreId));
    pool.mode = Mode::Partitioned;
    let mut model = Model::new(ns(1), vec![pool]);
    let plan = Plan::Given(ResourceInterface::periodic(ns(set.period), ns(set.budget)));
    let mut component = Component::new("vm", Home::Pool(PoolId(0)), plan);
    component.cpus = set.cpus as u32;
    let id = model.add(component);
    for (index, one) in set.tasks.iter().enumerate() {
        let mut task = Task::new(index.to_string(), id, ns(one.period), ns(one.execution));
        task.deadline = ns(one.deadline);
        task.jitter = ns(one.jitter);
        model.add_task(task);
    }
    model
}

/// A global pool of components that promise what the tasks need: the other way to reach the test.
fn of_interfaces(set: &Set) -> Model {
    let mut pool = Pool::new("all", (0..set.cpus as u8).map(CoreId));
    pool.mode = Mode::Global;
    let mut model = Model::new(ns(1), vec![pool]);
    for (index, one) in set.tasks.iter().enumerate() {
        let plan = Plan::Given(ResourceInterface {
            period: ns(one.period),
            budget: ns(one.execution),
            deadline: ns(one.deadline),
        });
        let name = index.to_string();
        model.add(Component::new(name, Home::Pool(PoolId(0)), plan));
    }
    model
}

/// The certificate, if the analysis has one; the checker must believe it.
fn admitted(model: &Model) -> Option<Certificate> {
    let certificate = analyse(model).ok()?.certificate()?;
    assert_eq!(check(model, &certificate), Ok(()), "{model:#?}");
    Some(certificate)
}

/// A set whose last task is as long as the analysis allows.
fn near_the_edge(random: &mut Random, cpus: usize, supplied: bool) -> Option<Set> {
    let number = cpus + 1 + random.below(4) as usize;
    let mut tasks = Vec::new();
    for _ in 0..number {
        let period = random.pick(&[4, 5, 6, 8, 9, 10, 12, 15, 16, 20, 24, 30]);
        let most = (2 * period * cpus as u64 / number as u64).clamp(1, period);
        let execution = 1 + random.below(most);
        let deadline = match random.below(3) {
            0 => period,
            _ => execution + random.below(period - execution + 1),
        };
        let jitter = match random.below(4) {
            0 if supplied => random.below(deadline - execution + 1),
            _ => 0,
        };
        tasks.push(One {
            period,
            execution,
            deadline,
            jitter,
        });
    }
    let (period, budget) = if supplied && random.below(2) == 0 {
        let period = 2 + random.below(4);
        let all = period * cpus as u64;
        (period, all - random.below(all / 3 + 1))
    } else {
        (1, cpus as u64)
    };
    let mut set = Set {
        tasks,
        cpus,
        period,
        budget,
    };
    let model = |set: &Set| {
        if supplied {
            of_tasks(set)
        } else {
            of_interfaces(set)
        }
    };
    // Shorten the tasks until the set is admitted; then lengthen each one as far as possible.
    while admitted(&model(&set)).is_none() {
        let longest = set.tasks.iter_mut().max_by_key(|task| task.execution)?;
        match longest.execution {
            1 => return None,
            _ => longest.execution -= 1,
        }
    }
    let first = random.below(number as u64) as usize;
    for at in (0..number).map(|at| (at + first) % number) {
        loop {
            let mut more = set.clone();
            more.tasks[at].execution += 1;
            let one = more.tasks[at];
            if one.execution > one.deadline - one.jitter || admitted(&model(&more)).is_none() {
                break;
            }
            set = more;
        }
    }
    Some(set)
}

/// A job of a task: its remaining work and its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    due: u64,
    task: usize,
    left: u64,
}

/// When jobs arrive.
#[derive(Clone, Copy, Debug)]
enum Arrivals {
    Together,
    Offsets,
    Sporadic,
}

/// The first deadline that is missed within `horizon` instants, if one is.
fn run(set: &Set, arrivals: Arrivals, horizon: u64, random: &mut Random) -> Option<u64> {
    let offset = |one: &One, random: &mut Random| match arrivals {
        Arrivals::Together => 0,
        _ => random.below(one.period),
    };
    let mut next: Vec<u64> = set.tasks.iter().map(|one| offset(one, random)).collect();
    let mut held: Vec<(u64, Job)> = Vec::new();
    let mut jobs: Vec<Job> = Vec::new();
    // For each instant of a period, the number of CPUs that are supplied.
    let mut given: Vec<usize> = Vec::new();
    for now in 0..horizon {
        if now.is_multiple_of(set.period) {
            given = supply(set, now, random);
        }
        for (task, one) in set.tasks.iter().enumerate() {
            if next[task] != now {
                continue;
            }
            let late = match arrivals {
                Arrivals::Together => {
                    if now == 0 {
                        one.jitter
                    } else {
                        0
                    }
                }
                _ => random.pick(&[0, one.jitter, random.0 % (one.jitter + 1)]),
            };
            let job = Job {
                due: now + one.deadline,
                task,
                left: one.execution,
            };
            held.push((now + late, job));
            let wait = match arrivals {
                Arrivals::Sporadic => random.pick(&[0, 0, 1, random.0 % one.period]),
                _ => 0,
            };
            next[task] = now + one.period + wait;
        }
        jobs.extend(
            held.iter()
                .filter(|(at, _)| *at == now)
                .map(|(_, job)| *job),
        );
        held.retain(|(at, _)| *at > now);
        jobs.sort();
        for job in jobs.iter_mut().take(given[(now % set.period) as usize]) {
            job.left -= 1;
        }
        jobs.retain(|job| job.left > 0);
        if let Some(job) = jobs.iter().find(|job| job.due <= now + 1) {
            return Some(job.due);
        }
    }
    None
}

/// The number of CPUs in each instant of the period that begins at `now`: the budget as early as
/// possible in the first period and late from then on, or anywhere.
fn supply(set: &Set, now: u64, random: &mut Random) -> Vec<usize> {
    let mut left = set.budget as usize;
    let mut given = vec![0; set.period as usize];
    let early = now == 0;
    let anywhere = random.below(3) == 0;
    while left > 0 {
        let room = (0..given.len()).filter(|at| given[*at] < set.cpus);
        let room: Vec<usize> = room.collect();
        let at = match (anywhere, early) {
            (true, _) => room[random.below(room.len() as u64) as usize],
            (false, true) => room[0],
            (false, false) => room[room.len() - 1],
        };
        given[at] += 1;
        left -= 1;
    }
    given
}

fn misses(set: &Set, random: &mut Random) -> Option<(Arrivals, u64)> {
    use Arrivals::{Offsets, Sporadic, Together};
    let kinds = [Together, Offsets, Offsets, Offsets, Sporadic, Sporadic];
    let mut all = kinds.into_iter();
    all.find_map(|kind| Some((kind, run(set, kind, 1_500, random)?)))
}

/// Sets near the edge, by turns of interfaces in a global pool and of tasks in a component on
/// several CPUs, on 1 to 4 CPUs: no admitted set misses a deadline.
#[test]
fn nothing_admitted_misses() {
    let mut random = Random(0x91_0ba1);
    let mut counts = [0; 4];
    let mut upon_supplies = 0;
    while counts.iter().sum::<usize>() < sets() {
        let cpus = 1 + random.below(4) as usize;
        let supplied = random.below(2) == 0;
        let Some(set) = near_the_edge(&mut random, cpus, supplied) else {
            continue;
        };
        counts[cpus - 1] += 1;
        upon_supplies += usize::from(set.period > 1);
        let missed = misses(&set, &mut random);
        assert!(missed.is_none(), "{missed:?}: {set:?}");
    }
    println!("admitted, on 1 to 4 CPUs: {counts:?}, upon partial supplies: {upon_supplies}");
    assert!(counts.iter().all(|count| *count > sets() / 10));
    assert!(upon_supplies > sets() / 20);
}

/// A task's period, execution time and deadline.
type Times = (u64, u64, u64);

/// Sets that were admitted by an earlier version, and that miss a deadline.
const MISSING: [(usize, &[Times]); 2] = [
    (3, &[(100, 9, 9), (100, 9, 9), (100, 9, 9), (100, 9, 9)]),
    (2, &[(15, 4, 9), (24, 15, 24), (30, 13, 14)]),
];

fn set_of(cpus: usize, tasks: &[Times]) -> Set {
    let one = |&(period, execution, deadline): &Times| One {
        period,
        execution,
        deadline,
        jitter: 0,
    };
    Set {
        tasks: tasks.iter().map(one).collect(),
        cpus,
        period: 1,
        budget: cpus as u64,
    }
}

#[test]
fn sets_that_miss_are_refused_both_ways() {
    for (cpus, tasks) in MISSING {
        let set = set_of(cpus, tasks);
        let mut random = Random(7);
        let mut runs = (0..200).filter_map(|_| misses(&set, &mut random));
        assert!(runs.next().is_some(), "{set:?} misses");
        assert!(admitted(&of_tasks(&set)).is_none(), "{set:?}");
        assert!(admitted(&of_interfaces(&set)).is_none(), "{set:?}");
    }
}

/// Whether some sequence of arrivals makes a deadline be missed. All sequences are tried by
/// visiting all states that can be reached. A task's state is the time since its job arrived, up to
/// its period, and the job's remaining work.
fn can_miss(set: &Set) -> bool {
    type State = Vec<(u64, u64)>;
    let start: State = set.tasks.iter().map(|one| (one.period, 0)).collect();
    let mut known = BTreeSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some(state) = open.pop() {
        let may = |task: &usize| state[*task].0 >= set.tasks[*task].period;
        let may: Vec<usize> = (0..state.len()).filter(may).collect();
        for chosen in 0..1u32 << may.len() {
            let mut next = state.clone();
            for (bit, task) in may.iter().enumerate() {
                if chosen >> bit & 1 == 1 {
                    next[*task] = (0, set.tasks[*task].execution);
                }
            }
            let left = |task: usize, (age, _): &(u64, u64)| set.tasks[task].deadline - age;
            let mut ready: Vec<(u64, usize)> = Vec::new();
            for (task, one) in next.iter().enumerate().filter(|(_, one)| one.1 > 0) {
                ready.push((left(task, one), task));
            }
            ready.sort();
            for (_, task) in ready.into_iter().take(set.cpus) {
                next[task].1 -= 1;
            }
            for (task, one) in next.iter_mut().enumerate() {
                one.0 = (one.0 + 1).min(set.tasks[task].period);
                if one.1 > 0 && one.0 >= set.tasks[task].deadline {
                    return true;
                }
            }
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    false
}

/// For tiny sets every sequence of arrivals is tried. Sets that can miss are refused by the
/// analysis; some of the refused sets cannot miss, as the test is only sufficient.
#[test]
fn of_tiny_sets_none_can_miss() {
    let mut random = Random(0x0077_1177);
    let (mut admitted_sets, mut refused, mut missing) = (0, 0, 0);
    while admitted_sets < sets() / 2 {
        let cpus = 1 + random.below(3) as usize;
        let number = cpus + 1 + random.below(2) as usize;
        let tasks: Vec<Times> = (0..number)
            .map(|_| {
                let period = 2 + random.below(5);
                let execution = 1 + random.below(period.min(3));
                let deadline = execution + random.below(period - execution + 1);
                (period, execution, deadline)
            })
            .collect();
        let set = set_of(cpus, &tasks);
        let yes = admitted(&of_interfaces(&set)).is_some();
        assert_eq!(yes, admitted(&of_tasks(&set)).is_some(), "{set:?}");
        if !yes && refused > sets() {
            continue;
        }
        let misses = can_miss(&set);
        assert!(!(yes && misses), "{set:?}");
        admitted_sets += usize::from(yes);
        refused += usize::from(!yes);
        missing += usize::from(misses);
    }
    println!("tiny sets: {admitted_sets} admitted, {refused} refused, {missing} can miss");
    assert!(missing > sets() / 10 && missing < refused);
}

/// A proof as it would be if the other members could only fill t - C_k instants.
fn forged(set: &Set) -> Option<Vec<Descent>> {
    let cpus = set.cpus as u64;
    let demand = |own: &One, at: usize, t: u64| {
        let mut carried = Vec::new();
        let mut sum = cpus * own.execution;
        for (index, one) in set.tasks.iter().enumerate() {
            let jobs = (t + one.period).saturating_sub(one.deadline) / one.period;
            let rest = t % one.period;
            let with = t / one.period * one.execution + rest.min(one.execution);
            let (less, cap) = if index == at {
                (own.execution, t - own.deadline)
            } else {
                (0, t.saturating_sub(own.execution))
            };
            let bound = |work: u64| work.saturating_sub(less).min(cap);
            sum += bound(jobs * one.execution);
            carried.push(bound(with) - bound(jobs * one.execution));
        }
        carried.sort();
        sum + carried.iter().rev().take(set.cpus - 1).sum::<u64>()
    };
    let mut descents = Vec::new();
    for (at, own) in set.tasks.iter().enumerate() {
        // Far enough for any of these sets that is not full.
        let due = own.deadline + 600 * own.period;
        let mut instants = vec![due + 1];
        while let Some(last) = instants.last().copied().filter(|last| *last > own.deadline) {
            let next = demand(own, at, last - 1).div_ceil(cpus);
            if next >= last {
                return None;
            }
            instants.push(next);
        }
        descents.push(Descent {
            instants,
            tail: Tail::Lines,
        });
    }
    Some(descents)
}

/// Tests the checker alone: it believes neither a forged proof of a set that misses, nor the
/// analysis's proof of another set.
#[test]
fn the_checker_believes_no_proof_of_a_set_that_misses() {
    let mut random = Random(0xf0_49ed);
    let (mut tried, mut seen) = (0, 0);
    let mut try_on = |set: &Set| {
        let Some(descents) = forged(set) else { return };
        let model = of_interfaces(set);
        let vcpus = model
            .ids()
            .map(|(component, _)| hanok_task_model::Vcpu { component, cpu: 0 });
        let components = model
            .ids()
            .map(|(component, _)| hanok_task_model::ComponentProof {
                component,
                interface: match model.component(component).unwrap().plan {
                    Plan::Given(interface) => interface,
                    _ => unreachable!("all are given"),
                },
                aligned: false,
                proof: Proof::Idle,
                least: None,
                exact: None,
            });
        let certificate = Certificate {
            components: components.collect(),
            cores: vec![hanok_task_model::CoreProof {
                pool: PoolId(0),
                cores: model.pools[0].cores.clone(),
                vcpus: vcpus.collect(),
                proof: Proof::Global(descents),
            }],
        };
        tried += 1;
        assert!(check(&model, &certificate).is_err(), "{set:?}");
    };
    for (cpus, tasks) in MISSING {
        try_on(&set_of(cpus, tasks));
    }
    while seen < sets() {
        let cpus = 2 + random.below(3) as usize;
        let Some(mut set) = near_the_edge(&mut random, cpus, false) else {
            continue;
        };
        seen += 1;
        // A little more than what is admitted.
        let at = random.below(set.tasks.len() as u64) as usize;
        let one = &mut set.tasks[at];
        if one.execution == one.deadline {
            continue;
        }
        one.execution += 1;
        if misses(&set, &mut random).is_some() {
            try_on(&set);
        }
    }
    println!("forged proofs: {tried}");
    assert!(tried > 1);
}
