//! Tests servers of mixed kinds on one core, with tasks that have release jitter: what the ledger
//! ([`hanok_sched::admission::Ledger`], the admission test of the board) admits is simulated.
//!
//! Each set is made as large as possible: execution times grow as long as the ledger admits them.
//! Then none of its tasks may miss a deadline, whatever the offsets, the jitter and the execution
//! times are. The simulation knows none of the ledger's rules: it runs the policies of `core/sched`
//! and compares the end of each job with its deadline.
//!
//! Every run of the tests takes a sample. `HANOK_SETS=10000` sets the number of sets.

mod common;

use common::{One, Random, sets_or};
use hanok_sched::admission::{Change, Demand, Ledger, Plan, Window, Work};
use hanok_sched::{Interface, Order};
use hanok_simulator::{Execution, Jitter, Kind, Options, Slack, What, simulate};
use hanok_task_model as model;
use model::{Component, CoreId, Home, Model, Nanos, Policy, Pool, PoolId, Priority, Task};

/// The last kind is to be refused.
const KINDS: [Kind; 10] = [
    Kind::Periodic,
    Kind::Periodic,
    Kind::Polling,
    Kind::Polling,
    Kind::Deferrable,
    Kind::Deferrable,
    Kind::Deferrable,
    Kind::ConstantBandwidth,
    Kind::ConstantBandwidth,
    Kind::SoftBandwidth,
];

#[derive(Clone, Debug)]
struct Server {
    kind: Kind,
    plan: Plan,
    order: Order,
    priority: u64,
    tasks: Vec<One>,
}

#[derive(Clone, Debug)]
struct Case {
    order: Order,
    servers: Vec<Server>,
}

fn order(random: &mut Random) -> Order {
    random.one_of(&[Order::EarliestDeadline, Order::Priority])
}

fn task(random: &mut Random, above: u64) -> One {
    let period = 2 * above + random.below(5 * above);
    let jitter = match random.below(3) {
        0 => 0,
        1 => random.below(period / 2),
        _ => random.below(period + period / 2),
    };
    let deadline = match random.below(4) {
        0 => period,
        1 => period - random.below(period / 3),
        // From the latest release on, at most a period.
        2 => period + random.below(jitter + 1),
        _ => period + random.below(period),
    };
    One {
        period,
        execution: 1 + random.below(period / 20 + 1),
        deadline,
        jitter,
        priority: random.below(4),
    }
}

fn server(random: &mut Random) -> Server {
    let kind = random.one_of(&KINDS);
    let period = 4 + random.below(16);
    let window = match kind {
        Kind::Periodic | Kind::Polling => match random.below(3) {
            0 => Window::Budget,
            1 => Window::Deadline(1 + random.below(period)),
            _ => Window::Period,
        },
        _ => Window::Period,
    };
    let number = 1 + random.below(2);
    Server {
        kind,
        plan: Plan { period, window },
        order: order(random),
        priority: random.below(4),
        tasks: (0..number).map(|_| task(random, period)).collect(),
    }
}

fn case(random: &mut Random) -> Case {
    let number = 1 + random.below(2) + random.below(3);
    Case {
        order: order(random),
        servers: (0..number).map(|_| server(random)).collect(),
    }
}

/// The interfaces that the ledger gives, if it admits all of them.
fn admitted(case: &Case) -> Option<Vec<Interface>> {
    let mut ledger = Ledger::<4, 4>::new(case.order);
    for (at, server) in case.servers.iter().enumerate() {
        let mut work = Work::new(100_000);
        let component = Change::Component {
            plan: server.plan,
            order: server.order,
            kind: server.kind,
            priority: server.priority,
        };
        ledger.admit(at, component, &mut work).ok()?;
        for (place, t) in server.tasks.iter().enumerate() {
            let demand = Demand::new(t.period, t.execution, t.deadline, t.jitter, t.priority);
            let change = Change::Task {
                place,
                demand: demand.ok()?,
            };
            ledger.admit(at, change, &mut work).ok()?;
        }
    }
    (0..case.servers.len())
        .map(|at| ledger.interface(at))
        .collect()
}

/// An admitted set, with execution times as long as a few tries find.
fn near_the_edge(random: &mut Random) -> Option<(Case, Vec<Interface>)> {
    let mut case = case(random);
    let mut found = admitted(&case)?;
    for _ in 0..20 {
        let mut more = case.clone();
        let at = random.below(more.servers.len() as u64) as usize;
        let tasks = &mut more.servers[at].tasks;
        let place = random.below(tasks.len() as u64) as usize;
        tasks[place].execution += 1 + random.below(tasks[place].execution);
        if let Some(better) = admitted(&more) {
            (case, found) = (more, better);
        }
    }
    Some((case, found))
}

fn policy(order: Order) -> Policy {
    match order {
        Order::EarliestDeadline => Policy::Edf,
        Order::Priority => Policy::FixedPriority,
    }
}

fn system(case: &Case, interfaces: &[Interface], random: &mut Random) -> (Model, Options) {
    let ns = Nanos::new;
    let mut pool = Pool::new("one", [CoreId(0)]);
    pool.policy = policy(case.order);
    let mut system = Model::new(ns(1), vec![pool]);
    let options = Options::new(What::System, HORIZON);
    for (at, (server, promise)) in case.servers.iter().zip(interfaces).enumerate() {
        let plan = model::Plan::Given(model::ResourceInterface {
            period: ns(promise.period()),
            budget: ns(promise.budget()),
            deadline: ns(promise.deadline()),
        });
        let mut component = Component::new(at.to_string(), Home::Pool(PoolId(0)), plan);
        component.policy = policy(server.order);
        component.priority = Some(Priority(server.priority as u32));
        component.server = match server.kind {
            Kind::Periodic | Kind::Task => model::Server::Periodic,
            Kind::Polling => model::Server::Polling,
            Kind::Deferrable => model::Server::Deferrable,
            Kind::ConstantBandwidth => model::Server::ConstantBandwidth,
            Kind::SoftBandwidth => model::Server::SoftBandwidth,
        };
        let id = system.add(component);
        for one in &server.tasks {
            let name = system.tasks.len().to_string();
            let offset = random.below(2) * random.below(60);
            system.add_task(one.task(name, id, offset));
        }
    }
    (system, options)
}

const HORIZON: u64 = 1_500;

#[test]
fn no_kind_of_server_that_is_admitted_misses() {
    let mut random = Random(0x005e_ed0f_4159);
    let (mut done, mut mixed, mut missed) = (0, 0, Vec::new());
    while done < sets_or(300) {
        let Some((case, interfaces)) = near_the_edge(&mut random) else {
            continue;
        };
        done += 1;
        let first = case.servers[0].kind;
        mixed += usize::from(case.servers.iter().any(|server| server.kind != first));
        for _ in 0..6 {
            let (system, mut options) = system(&case, &interfaces, &mut random);
            let seed = random.below(1 << 60);
            options.jitter = random.one_of(&[Jitter::First, Jitter::Random(seed)]);
            options.execution = random.one_of(&[Execution::Worst, Execution::Random(seed)]);
            options.slack = random.one_of(&[Slack::Idle, Slack::Share]);
            let timeline = simulate(&system, &options).unwrap();
            if let Some(miss) = timeline.misses().first() {
                missed.push(format!("{miss:?} {case:?} {interfaces:?}"));
                break;
            }
        }
    }
    println!(
        "sets: {done}, of mixed kinds {mixed}, with misses {}",
        missed.len()
    );
    let (count, shown) = (
        missed.len(),
        missed.iter().take(12).cloned().collect::<Vec<_>>(),
    );
    assert!(
        missed.is_empty(),
        "{count} of {done} miss:\n{}",
        shown.join("\n")
    );
    assert!(mixed > sets_or(300) / 4);
}

/// A job that ends when the next one already waits leaves its polling server with work, so that the
/// budget is not lost. (An earlier simulator let the server go idle for no time at all.)
#[test]
fn a_polling_server_with_the_next_job_waiting_keeps_its_budget() {
    let ns = Nanos::new;
    let mut system = Model::new(ns(1), vec![Pool::new("one", [CoreId(0)])]);
    let plan = model::Plan::Given(model::ResourceInterface::periodic(ns(9), ns(9)));
    let server = system.add(Component::new("vm", Home::Pool(PoolId(0)), plan));
    let mut task = Task::new("t", server, ns(23), ns(23));
    (task.deadline, task.offset) = (ns(34), ns(38));
    system.add_task(task);
    let mut options = Options::new(What::System, 200);
    options.kind = Some(Kind::Polling);
    let timeline = simulate(&system, &options).unwrap();
    // The first job waits for the period that begins at 45, and no other job waits.
    let ends: Vec<_> = timeline.jobs.iter().filter_map(|job| job.finish).collect();
    assert_eq!(ends, [68, 91, 114, 137, 160, 183]);
}
