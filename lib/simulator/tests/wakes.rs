//! Deferrable and bandwidth servers where each switch takes time: they wake as often as they like, and nobody misses a
//! deadline.
//!
//! Systems are drawn at random and admitted by a hair by the analysis. Then they are simulated, with a real switch at every
//! change of who runs. Servers that may wake more often than once in a period have jobs that come one by one; and some of
//! them are hostile and sleep and wake without end, whatever was described of them: their own jobs do not count then.
//!
//! `HANOK_SETS=10000` sets the number of systems.

mod common;

use common::{Random, sets_or};
use hanok_analysis::{Work, decide};
use hanok_simulator::{Jitter, Options, What, simulate};
use hanok_task_model::{
    Component, ComponentId, CoreId, Home, Model, Nanos, Periods, Plan, Policy, Pool, PoolId,
    Priority, ResourceInterface, Server, Task, Window,
};
use std::collections::BTreeMap;

const POLICIES: [Policy; 3] = [
    Policy::Edf,
    Policy::DeadlineMonotonic,
    Policy::FixedPriority,
];
/// The end of the examined time.
const HORIZON: u64 = 6_000;
/// How often each system is simulated with jobs that come at other instants, and with hostile servers.
const RUNS: u64 = 8;

fn ns(time: u64) -> Nanos {
    Nanos::new(time)
}

/// Whether a server of this kind may wake any number of times.
fn wakes(server: Server) -> bool {
    matches!(server, Server::Deferrable | Server::ConstantBandwidth)
}

fn kind(random: &mut Random, policy: Policy) -> Server {
    match random.below(6) {
        0 => Server::Periodic,
        1 => Server::Polling,
        2 | 3 if policy == Policy::Edf => Server::ConstantBandwidth,
        _ => Server::Deferrable,
    }
}

/// One core, servers on it, or some of them in a group on it, with some tasks each.
fn any(random: &mut Random) -> Model {
    let mut pool = Pool::new("core", [CoreId(0)]);
    pool.policy = random.one_of(&POLICIES);
    let policy = pool.policy;
    let mut model = Model::new(ns(1), vec![pool]);
    model.cost.switch = ns(1 + random.below(2));
    model.cost.refill = ns(random.below(2));
    let core = Home::Pool(PoolId(0));
    let mut homes = vec![(core, policy)];
    if random.below(4) == 0 {
        let mut group = server(random, "group".to_string(), core);
        group.server = random.one_of(&[Server::Periodic, Server::Polling]);
        let inside = group.policy;
        homes.push((Home::Component(model.add(group)), inside));
    }
    for at in 0..2 + random.below(3) {
        let (home, policy) = random.one_of(&homes);
        let mut own = server(random, at.to_string(), home);
        own.server = kind(random, policy);
        let of_polling = home != core && model.components[0].server != Server::Periodic;
        if own.server == Server::Periodic && of_polling {
            own.server = Server::Polling;
        }
        let Plan::Find { periods, .. } = own.plan else {
            unreachable!("budgets are to be found");
        };
        let Periods::One(period) = periods else {
            unreachable!("with one period");
        };
        let id = model.add(own);
        for _ in 0..1 + random.below(4) {
            let period = period.get() * 2 + random.below(period.get() * 10);
            let name = model.tasks.len().to_string();
            let mut task = Task::new(name, id, ns(period), ns(1 + random.below(2)));
            task.deadline = ns(period - random.below(2) * random.below(period / 3));
            task.priority = Some(Priority(random.below(4) as u32));
            model.add_task(task);
        }
    }
    model
}

fn server(random: &mut Random, name: String, home: Home) -> Component {
    let periods = Periods::One(ns(12 + random.below(40)));
    let window = Window::Period;
    let mut server = Component::new(name, home, Plan::Find { periods, window });
    server.policy = random.one_of(&POLICIES);
    server.priority = Some(Priority(random.below(6) as u32));
    server
}

type Interfaces = BTreeMap<ComponentId, ResourceInterface>;

fn admitted(model: &Model) -> Option<Interfaces> {
    let certificate = decide(model, &mut Work::new(100_000)).ok()?.certificate()?;
    let each = certificate.components.iter();
    Some(each.map(|one| (one.component, one.interface)).collect())
}

/// An admitted system, with execution times as long as some tries find.
fn near_the_edge(random: &mut Random) -> Option<(Model, Interfaces)> {
    let mut model = any(random);
    let mut found = admitted(&model)?;
    for _ in 0..16 {
        let mut more = model.clone();
        let at = random.below(more.tasks.len() as u64) as usize;
        let task = &mut more.tasks[at];
        let longer = task.execution.get() + 1 + random.below(task.execution.get());
        task.execution = ns(longer.min(task.deadline.get()));
        if let Some(better) = admitted(&more) {
            (model, found) = (more, better);
        }
    }
    Some((model, found))
}

/// The same system with jobs that come at other instants; and with some of the servers that may wake hostile, if there is
/// any: which tasks are theirs.
fn changed(model: &Model, hostile: bool, random: &mut Random) -> (Model, Vec<bool>) {
    let mut model = model.clone();
    let mut theirs = vec![false; model.tasks.len()];
    let storms: Vec<bool> = model
        .components
        .iter()
        .map(|one| hostile && wakes(one.server) && random.below(3) > 0)
        .collect();
    for (at, task) in model.tasks.iter_mut().enumerate() {
        // Some come together, and some right before the others.
        let latest = random.one_of(&[1, 1, 8, task.period.get()]);
        task.offset = ns(random.below(latest));
        if storms[task.component.0 as usize] {
            theirs[at] = true;
            task.execution = ns(1 + random.below(3));
            let period = 4 + random.below(30);
            (task.period, task.deadline) = (ns(period), ns(period));
            task.jitter = ns(random.below(period));
        }
    }
    (model, theirs)
}

fn shown(model: &Model, found: &Interfaces) -> String {
    let mut text = format!("{:?} {:?}", model.pools[0].policy, model.cost);
    for (id, one) in model.ids() {
        let interface = found[&id];
        let (budget, period) = (interface.budget, interface.period);
        text += &format!(
            "\n  {id:?} in {:?}: {:?} by {:?}, ",
            one.home, one.server, one.policy
        );
        text += &format!("{budget} in {period}, {:?}", one.priority);
        for task in model.tasks.iter().filter(|task| task.component == id) {
            let (execution, period, deadline) = (task.execution, task.period, task.deadline);
            text += &format!(
                "\n    {execution} in {period} by {deadline}, from {}",
                task.offset
            );
        }
    }
    text
}

#[test]
fn nobody_misses_beside_who_wakes_without_end() {
    let mut random = Random(0x3a7e_5eed);
    let (mut systems, mut runs, mut jobs, mut storms) = (0, 0, 0, 0);
    let mut found = Vec::new();
    while systems < sets_or(60) {
        let Some((model, interfaces)) = near_the_edge(&mut random) else {
            continue;
        };
        if !model.components.iter().any(|one| wakes(one.server)) {
            continue;
        }
        systems += 1;
        for run in 0..2 * RUNS {
            let (model, theirs) = changed(&model, run >= RUNS, &mut random);
            let mut options = Options::new(What::System, HORIZON);
            options.interfaces = interfaces.clone();
            options.jitter = Jitter::Random(random.below(1 << 60));
            let timeline = simulate(&model, &options).unwrap();
            runs += 1;
            storms += usize::from(theirs.contains(&true));
            jobs += timeline.jobs.len();
            let misses = timeline.misses();
            let miss = misses.iter().find(|job| !theirs[job.task.0 as usize]);
            if let Some(miss) = miss {
                let text = format!("{miss:?}\n{}", shown(&model, &interfaces));
                found.push((model.tasks.len(), text));
            }
        }
    }
    println!("{systems} systems, {runs} simulations, {storms} with hostile servers, {jobs} jobs");
    found.sort();
    let first: Vec<_> = found
        .iter()
        .take(2)
        .map(|(_, text)| text.as_str())
        .collect();
    assert!(
        found.is_empty(),
        "{} misses:\n{}",
        found.len(),
        first.join("\n")
    );
    assert!(storms > runs / 4);
}

/// A job has what the analysis says, also where others of its server woke the server right before it, each time at the
/// expense of the budget: the next one comes a period later, and as late as may be.
#[test]
fn wakes_right_before_a_job_are_reckoned_with() {
    let of = |deadline: u64| {
        let mut pool = Pool::new("core", [CoreId(0)]);
        pool.policy = Policy::FixedPriority;
        let mut model = Model::new(ns(1), vec![pool]);
        model.cost.switch = ns(1);
        let mut add = |name: &str, kind, budget, priority| {
            let given = ResourceInterface::periodic(ns(40), ns(budget));
            let mut server = Component::new(name, Home::Pool(PoolId(0)), Plan::Given(given));
            (server.server, server.priority) = (kind, Some(Priority(priority)));
            server.policy = Policy::FixedPriority;
            model.add(server)
        };
        let first = add("first", Server::Polling, 22, 0);
        let wakes = add("wakes", Server::Deferrable, 16, 1);
        let mut task = |of, [offset, period, execution, deadline]: [u64; 4], priority| {
            let name = model.tasks.len().to_string();
            let mut task = Task::new(name, of, ns(period), ns(execution));
            (task.offset, task.deadline) = (ns(offset), ns(deadline));
            task.priority = Some(Priority(priority));
            model.add_task(task);
        };
        // It has all of its time from the second period on, at the start of each.
        task(first, [40, 400, 22, 400], 0);
        // Five of one tick, one after the other, and then the one that has the highest priority.
        let job = [6, 4_000, 12, deadline];
        task(wakes, job, 0);
        for (at, offset) in [0, 2, 3, 4, 5].into_iter().enumerate() {
            task(wakes, [offset, 4_000, 1, 4_000], 1 + at as u32);
        }
        model
    };
    let least = (1..400).find(|deadline| admitted(&of(*deadline)).is_some());
    let model = of(least.unwrap());
    let mut options = Options::new(What::System, 2_000);
    options.interfaces = admitted(&model).unwrap();
    let timeline = simulate(&model, &options).unwrap();
    assert_eq!(timeline.misses(), []);
    // Without these wakes 64 would do: a budget right before it, and twelve of the next one at the end of its period. And
    // 66 where each job is reckoned with its own wake alone: that is not enough, as the other jobs' are before it.
    let job = timeline.jobs.iter().find(|job| job.task.0 == 1).unwrap();
    let response = job.finish.unwrap() - job.arrival;
    assert!(response > 66, "{response}");
}
