//! Systems of small numbers on one core, judged by the analysis, by the board's admission, and by
//! [`ticks`](crate::ticks).

use std::path::Path;

use anyhow::Result;
use hanok_sched::admission::{Progress, Question, Terms};
use hanok_sched::{Interface, Kind as Served, Order, Reservation};

use crate::check::check;
use crate::random::Random;
use crate::system::{Guest, Kind, Policy, Server, System, Task, Vm};
use crate::ticks::{Periodic, core_holds, group_holds, polling_holds, server_holds};

/// Periods of servers and of tasks, whose common multiple is small.
const PERIODS: [u64; 11] = [2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 18];
const TASK_PERIODS: [u64; 9] = [8, 9, 10, 12, 15, 18, 20, 24, 36];

/// What the judges said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// By `hanok sched check`.
    pub analysis: bool,
    /// By the board's admission, of the servers at the core.
    pub board: bool,
    /// By the definitions, all levels.
    pub exact: bool,
    /// By the definitions, the servers at the core.
    pub exact_core: bool,
}

/// A random system of small numbers, with budgets; about half of them are schedulable.
pub fn draw(random: &mut Random) -> System {
    let core = random.one_of(&Policy::ALL);
    let mut system = System {
        board: None,
        switch: 0,
        refill: 0,
        cores: vec![core],
        groups: Vec::new(),
        vms: Vec::new(),
        spread: None,
    };
    let count = random.from(1, 3) as usize;
    let whole = random.from(60, 100) as f64 / 100.0;
    for share in random.shares(count, whole) {
        let server = server(&mut system, None, share, random);
        // A group has the time of one or two VMs in it.
        if random.chance(1, 3) {
            let at = system.groups.len();
            let within = random.from(60, 110) as f64 / 100.0;
            let own = (server.budget.unwrap_or(1) as f64) / server.period as f64;
            let group = Server {
                kind: Kind::Periodic,
                ..server
            };
            system.groups.push(group);
            let inner = random.from(1, 2) as usize;
            for share in random.shares(inner, own * within) {
                let server = self::server(&mut system, Some(at), share, random);
                vm(&mut system, server, random);
            }
        } else {
            vm(&mut system, server, random);
        }
    }
    system
}

/// A server of about this share of the core, in a group or at the core.
fn server(system: &mut System, home: Option<usize>, share: f64, random: &mut Random) -> Server {
    let period = match home {
        None => random.one_of(&PERIODS),
        Some(group) => system.groups[group].period * random.from(1, 3),
    };
    let budget = (share * period as f64).round().clamp(1.0, period as f64) as u64;
    let deadline = if random.chance(1, 2) {
        period
    } else {
        random.from(budget, period)
    };
    Server {
        home,
        core: 0,
        // A polling one in a group may be refused although it would do: docs/scheduling.md says so.
        kind: match home {
            None if random.chance(1, 3) => Kind::Polling,
            _ => Kind::Periodic,
        },
        period,
        budget: Some(budget),
        deadline: Some(deadline),
        window: "period",
        priority: system.servers().count() as u32,
        policy: random.one_of(&Policy::ALL),
    }
}

fn vm(system: &mut System, server: Server, random: &mut Random) {
    let [period, budget] = [server.period, server.budget.unwrap_or(1)];
    let count = random.from(1, 2) as usize;
    let whole = budget as f64 / period as f64 * random.from(10, 60) as f64 / 100.0;
    let tasks = random.shares(count, whole).into_iter().enumerate();
    let tasks = tasks.map(|(at, share)| {
        let period = random.one_of(&TASK_PERIODS);
        let execution = (share * period as f64).round().clamp(1.0, period as f64) as u64;
        let deadline = random.from(execution.max(period * 3 / 4), period);
        Task {
            period,
            execution,
            deadline,
            offset: 0,
            priority: at as u32,
        }
    });
    let tasks = tasks.collect();
    let guest = Guest {
        kernel: "guest:rtos".to_owned(),
        cmdline: String::new(),
        ask: 0,
    };
    system.vms.push(Vm {
        server,
        tasks,
        guest,
    });
}

/// A member's rank under `policy`; `None`: its deadline decides.
fn rank(policy: Policy, period: u64, deadline: u64, priority: u32) -> Option<u64> {
    match policy {
        Policy::Edf => None,
        Policy::Rm => Some(period),
        Policy::Dm => Some(deadline),
        Policy::Fixed => Some(priority.into()),
    }
}

fn of_server(server: &Server, policy: Policy) -> Periodic {
    let deadline = server.deadline.unwrap_or(server.period);
    Periodic {
        period: server.period,
        time: server.budget.unwrap_or(0),
        deadline,
        rank: rank(policy, server.period, deadline, server.priority),
    }
}

fn of_task(task: &Task, policy: Policy) -> Periodic {
    Periodic {
        period: task.period,
        time: task.execution,
        deadline: task.deadline,
        rank: rank(policy, task.period, task.deadline, task.priority),
    }
}

/// The members of the core (`None`) or of a group.
fn members(system: &System, home: Option<usize>) -> Vec<Periodic> {
    let policy = match home {
        None => system.cores[0],
        Some(group) => system.groups[group].policy,
    };
    let inside = system.servers().filter(|server| server.home == home);
    inside.map(|server| of_server(server, policy)).collect()
}

/// Whether two of `all` have the same rank, so that the definition leaves open who goes first.
fn is_open(all: &[Periodic]) -> bool {
    let mut ranks: Vec<_> = all.iter().filter_map(|one| one.rank).collect();
    let count = ranks.len();
    ranks.sort_unstable();
    ranks.dedup();
    ranks.len() != count
}

/// The judgements; `None` where the definition leaves something open.
///
/// # Errors
/// The description has faults, or the certificate is not believed.
pub fn judge(system: &System, boards: &Path) -> Result<Option<Judged>> {
    let at_core = members(system, None);
    let (mut open, exact_core) = (is_open(&at_core), core_holds(&at_core));
    let mut exact = exact_core;
    for (at, group) in system.groups.iter().enumerate() {
        let inside = members(system, Some(at));
        open |= is_open(&inside);
        let [budget, deadline] = [group.budget, group.deadline].map(|time| time.unwrap_or(0));
        exact &= group_holds(&inside, group.period, budget, deadline);
    }
    for vm in &system.vms {
        let server = &vm.server;
        let tasks = vm.tasks.iter().map(|task| of_task(task, server.policy));
        let tasks: Vec<_> = tasks.collect();
        open |= is_open(&tasks);
        let [budget, deadline] = [server.budget, server.deadline].map(|time| time.unwrap_or(0));
        exact &= match server.kind {
            Kind::Polling => polling_holds(&tasks, server.period, budget, deadline),
            _ => server_holds(&tasks, server.period, budget, deadline),
        };
    }
    let fits = at_core
        .iter()
        .map(|one| one.time as f64 / one.period as f64);
    // The description is refused before the analysis where budgets are more than the core.
    let over = fits.sum::<f64>() > 1.0 + 1e-9 || overfull_group(system);
    if open {
        return Ok(None);
    }
    Ok(Some(Judged {
        analysis: !over && check(&system.description(), boards)?.kept,
        board: board(&at_core, system.cores[0]),
        exact,
        exact_core,
    }))
}

fn overfull_group(system: &System) -> bool {
    let groups = system.groups.iter().enumerate();
    let mut over = groups.map(|(at, group)| {
        let share = |one: &Periodic| one.time as f64 / one.period as f64;
        let inside: f64 = members(system, Some(at)).iter().map(share).sum();
        inside > share(&of_server(group, Policy::Edf)) + 1e-9
    });
    over.any(|over| over)
}

/// What the board's admission says of servers at a core.
fn board(servers: &[Periodic], policy: Policy) -> bool {
    let order = match policy {
        Policy::Edf => Order::EarliestDeadline,
        _ => Order::Priority,
    };
    let terms = Terms {
        order,
        supply: None,
        cost: 0,
    };
    let Ok(mut question) = Question::new(terms) else {
        return false;
    };
    for server in servers {
        let interface = Interface::new(server.period, server.time, server.deadline);
        let Ok(interface) = interface else {
            return false;
        };
        let reservation = Reservation {
            kind: Served::Periodic,
            interface,
            priority: server.rank.unwrap_or(0),
        };
        if question.add(reservation).is_err() {
            return false;
        }
    }
    loop {
        match question.step() {
            Progress::More => {}
            Progress::Yes => return true,
            Progress::No(_) => return false,
        }
    }
}
