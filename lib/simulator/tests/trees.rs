//! Tests trees of components, of one to four levels: trees that are barely admitted are simulated.
//!
//! Budgets are the least that the analysis finds at each level, and execution times grow until the
//! core is full, so that nothing is to spare. No admitted tree may miss a deadline, with and
//! without switching costs. A second program judges the same trees: it has a few lines, knows
//! periodic servers by their definition alone and examines every instant. Each job must end when
//! that program says.
//!
//! Two of three trees have servers of all kinds (periodic, polling, deferrable, bandwidth), as far
//! as the analysis is proven for them there; the others have periodic ones alone.
//!
//! Every run of the tests takes a sample. `HANOK_SETS=10000` sets the number of trees.

mod common;

use common::{Random, sets_or};
use hanok_analysis::{Work, decide};
use hanok_simulator::{Execution, Options, Slack, What, simulate};
use hanok_task_model::{
    Component, ComponentId, CoreId, Home, Member, Mode, Model, Nanos, Periods, Plan, Policy, Pool,
    PoolId, Priority, ResourceInterface, Server, Task, Window,
};
use std::collections::BTreeMap;

const POLICIES: [Policy; 5] = [
    Policy::Edf,
    Policy::Edf,
    Policy::RateMonotonic,
    Policy::DeadlineMonotonic,
    Policy::FixedPriority,
];

/// Adds a component with `levels` of components in it. Its period is near that of its home.
fn grow(model: &mut Model, home: Home, above: u64, levels: u64, random: &mut Random) {
    let period = match random.below(3) {
        0 => above * (1 + random.below(3)),
        1 => above + random.below(above),
        _ => above / 2 + random.below(2 * above),
    }
    .max(6);
    let windows = [
        Window::Period,
        Window::Period,
        Window::Budget,
        Window::Longest,
    ];
    let plan = Plan::Find {
        periods: Periods::One(Nanos::new(period)),
        window: random.one_of(&windows),
    };
    let name = model.components.len().to_string();
    let mut component = Component::new(name, home, plan);
    component.policy = random.one_of(&POLICIES);
    component.priority = Some(Priority(random.below(4) as u32));
    let id = model.add(component);
    let inner = match levels {
        0 => 0,
        _ => 1 + random.below(2),
    };
    let tasks = match inner {
        0 => 1 + random.below(2),
        _ => random.below(3),
    };
    for index in 0..inner {
        // One of them is as deep as possible.
        let levels = match index {
            0 => levels - 1,
            _ => random.below(levels),
        };
        grow(model, Home::Component(id), period, levels, random);
    }
    for _ in 0..tasks {
        let period = 5 * period + random.below(10 * period);
        let mut task = Task::new(
            model.tasks.len().to_string(),
            id,
            Nanos::new(period),
            Nanos::new(1 + random.below(period / 40 + 1)),
        );
        task.deadline = Nanos::new(period - random.below(3) * random.below(period / 6));
        task.offset = Nanos::new(random.below(2) * random.below(300));
        task.jitter = Nanos::new(random.below(2) * random.below(period / 16));
        task.priority = Some(Priority(random.below(4) as u32));
        model.add_task(task);
    }
}

/// Gives each component a kind of server, from the outside in. Kinds that would be refused in every
/// case are left out: soft ones; periodic ones in one of another kind; bandwidth servers under
/// priorities; in global pools all but periodic ones; and where switches cost something, groups that
/// may wake more often than once in a period.
fn mix(model: &mut Model, random: &mut Random) {
    let global = model.pools[0].mode == Mode::Global;
    let free = model.cost.per_period().is_zero();
    let members = model.members();
    for (index, members) in members.iter().enumerate() {
        let group = members
            .iter()
            .any(|member| matches!(member, Member::Component(_)));
        let wakes = free || !group;
        let (above, policy) = match model.components[index].home {
            Home::Pool(pool) => (Server::Periodic, model.pools[pool.0 as usize].policy),
            Home::Component(home) => {
                let home = &model.components[home.0 as usize];
                (home.server, home.policy)
            }
        };
        let server = match random.below(4) {
            _ if global => Server::Periodic,
            0 if above == Server::Periodic => Server::Periodic,
            1 if wakes => Server::Deferrable,
            2 if wakes && !policy.is_fixed() => Server::ConstantBandwidth,
            _ => Server::Polling,
        };
        let component = &mut model.components[index];
        component.server = server;
        if let (true, Plan::Find { window, .. }) = (server.needs_period(), &mut component.plan) {
            *window = Window::Period;
        }
    }
}

/// A system of up to four levels, which may be too much for its cores.
fn any(random: &mut Random) -> Model {
    let cores = match random.below(4) {
        0 => 2,
        _ => 1,
    };
    let mut pool = Pool::new("all", (0..cores).map(CoreId));
    pool.policy = random.one_of(&POLICIES);
    if cores == 2 && random.below(2) == 0 {
        (pool.mode, pool.policy) = (Mode::Global, Policy::Edf);
    }
    let mut model = Model::new(Nanos::new(1), vec![pool]);
    if random.below(3) == 0 {
        model.cost.switch = Nanos::new(1 + random.below(2));
        model.cost.refill = Nanos::new(random.below(2));
    }
    for index in 0..u64::from(cores) + random.below(2) {
        let levels = match index {
            0 => random.one_of(&[0, 1, 2, 2, 3, 3, 3, 3]),
            _ => random.below(2),
        };
        let above = 10 + random.below(20);
        grow(&mut model, Home::Pool(PoolId(0)), above, levels, random);
    }
    model
}

/// The interfaces and places of an admitted model.
struct Admitted {
    interfaces: BTreeMap<ComponentId, ResourceInterface>,
    placement: BTreeMap<(ComponentId, u32), CoreId>,
}

/// The largest number of steps for the analysis of a tree.
const STEPS: u64 = 100_000;
fn admitted(model: &Model) -> Option<Admitted> {
    // Models that take longer to decide are left out: of these sizes, few do.
    let certificate = decide(model, &mut Work::new(STEPS)).ok()?.certificate()?;
    let interfaces = certificate
        .components
        .iter()
        .map(|proof| (proof.component, proof.interface));
    let mut placement = BTreeMap::new();
    for core in certificate
        .cores
        .iter()
        .filter(|core| core.cores.len() == 1)
    {
        for vcpu in &core.vcpus {
            placement.insert((vcpu.component, vcpu.cpu), core.cores[0]);
        }
    }
    Some(Admitted {
        interfaces: interfaces.collect(),
        placement,
    })
}

/// An admitted tree, with execution times as long as a few tries find.
fn near_the_edge(random: &mut Random, mixed: bool) -> Option<(Model, Admitted)> {
    let mut model = any(random);
    if mixed {
        mix(&mut model, random);
    }
    if model.tasks.is_empty() {
        return None;
    }
    let mut found = admitted(&model)?;
    for _ in 0..10 {
        let mut more = model.clone();
        let factor = 10 + random.below(16);
        let all = random.below(2) == 0;
        let one = random.below(more.tasks.len() as u64) as usize;
        for (index, task) in more.tasks.iter_mut().enumerate() {
            if all || index == one {
                let longer = task.execution.get() * factor / 10 + 1;
                task.execution = Nanos::new(longer.min(task.period.get()));
            }
        }
        if let Some(better) = admitted(&more) {
            (model, found) = (more, better);
        }
    }
    Some((model, found))
}

/// The end of the examined time. All servers begin at 0 with their tasks released together or
/// shortly after, so that the worst case comes early. Four jobs of the least frequent task, and
/// some dozens of all others, meet each other at as many phases. A longer time finds no more: a
/// tree with a budget of a tick too little misses in the first of them (the trees of
/// `each_job_ends_as_under_ideal_servers`), and the common multiples of all periods, after which
/// everything repeats, cannot be reached.
fn horizon(model: &Model) -> u64 {
    let latest = |task: &Task| (task.offset.get(), task.jitter.get() + task.period.get());
    let ends = model.tasks.iter().map(latest);
    let (offset, period) = ends.fold((0, 0), |a, b| (a.0.max(b.0), a.1.max(b.1)));
    (offset + 4 * period).clamp(2_000, 40_000)
}

/// The ideal servers examine every instant up to here.
const TICKS: u64 = 8_000;

fn options(model: &Model, admitted: &Admitted, execution: Execution, slack: Slack) -> Options {
    let mut options = Options::new(What::System, horizon(model));
    options.interfaces = admitted.interfaces.clone();
    options.placement = admitted.placement.clone();
    options.execution = execution;
    options.slack = slack;
    options
}

fn levels(model: &Model) -> usize {
    let depth = |id: ComponentId| {
        let mut depth = 1;
        let mut at = id;
        while let Some(Home::Component(home)) = model.component(at).map(|c| c.home) {
            (at, depth) = (home, depth + 1);
        }
        depth
    };
    model.ids().map(|(id, _)| depth(id)).max().unwrap_or(0)
}

/// A tree in a few lines of text.
fn tree(model: &Model, found: &Admitted) -> String {
    let mut lines = vec![format!("{:?} {:?}", model.pools, model.cost)];
    for (id, component) in model.ids() {
        let ResourceInterface {
            period,
            budget,
            deadline,
        } = found.interfaces[&id];
        lines.push(format!(
            "  {id:?} in {:?}: {:?} by {:?}, {budget} within {deadline} in {period}, {:?}",
            component.home, component.server, component.policy, component.priority
        ));
        for task in model.tasks.iter().filter(|task| task.component == id) {
            let (t, c, d) = (task.period, task.execution, task.deadline);
            let (j, o) = (task.jitter, task.offset);
            let priority = task.priority;
            lines.push(format!(
                "    {c} in {t} by {d}, jitter {j}, from {o}, {priority:?}"
            ));
        }
    }
    lines.join("\n")
}

#[test]
fn no_tree_that_is_admitted_misses() {
    let mut random = Random(0x07ee_5eed);
    let (mut counts, mut costly, mut shared, mut global) = ([0; 4], 0, 0, 0);
    let (mut kinds, mut misses) = ([0; 4], Vec::new());
    while counts.iter().sum::<usize>() < sets_or(60) {
        let mixed = random.below(3) > 0;
        let Some((model, found)) = near_the_edge(&mut random, mixed) else {
            continue;
        };
        for component in &model.components {
            kinds[component.server as usize] += 1;
        }
        counts[levels(&model) - 1] += 1;
        let free = model.cost.per_period().is_zero();
        costly += usize::from(!free);
        global += usize::from(model.pools[0].mode == Mode::Global);
        let seed = random.below(1 << 60);
        for execution in [Execution::Worst, Execution::Random(seed)] {
            for slack in [Slack::Idle, Slack::Share] {
                // The number of switches is not bounded where others use what one leaves.
                if slack == Slack::Share && !free {
                    continue;
                }
                shared += usize::from(slack == Slack::Share);
                let timeline =
                    simulate(&model, &options(&model, &found, execution, slack)).unwrap();
                if let Some(miss) = timeline.misses().first() {
                    let what = format!("{miss:?} {execution:?} {slack:?}");
                    misses.push((model.components.len(), what, tree(&model, &found)));
                }
            }
        }
    }
    println!(
        "trees of 1 to 4 levels: {counts:?}; with costs {costly}, global {global}, shared {shared}; \
         periodic, polling, deferrable and bandwidth servers: {kinds:?}"
    );
    // The smallest trees are shown first: they are the easiest to understand.
    misses.sort();
    let shown = misses
        .iter()
        .take(4)
        .map(|(_, what, tree)| format!("{what}\n{tree}"));
    let shown: Vec<_> = shown.collect();
    assert!(
        misses.is_empty(),
        "{} misses:\n{}",
        misses.len(),
        shown.join("\n")
    );
    assert!(counts.iter().all(|count| *count > sets_or(60) / 30));
    assert!(kinds.iter().all(|count| *count > sets_or(60) / 20));
    assert!(costly > sets_or(60) / 8 && global > sets_or(60) / 30);
}

/// Periodic servers by definition, on one core.
struct Ideal<'a> {
    model: &'a Model,
    members: Vec<Vec<Member>>,
    interfaces: &'a BTreeMap<ComponentId, ResourceInterface>,
    left: BTreeMap<ComponentId, u64>,
    /// For each task, the jobs that were released: deadline, number, remaining work.
    jobs: Vec<Vec<(u64, u64, u64)>>,
    ends: BTreeMap<(usize, u64), u64>,
}

impl Ideal<'_> {
    fn step(&mut self, now: u64) {
        for (id, interface) in self.interfaces {
            if now.is_multiple_of(interface.period.get()) {
                self.left.insert(*id, interface.budget.get());
            }
        }
        for (index, task) in self.model.tasks.iter().enumerate() {
            let (offset, jitter, period) =
                (task.offset.get(), task.jitter.get(), task.period.get());
            // The first job is as late as its jitter allows, and the others are not delayed.
            let Some(since) = now.checked_sub(offset) else {
                continue;
            };
            let mut release = |number: u64| {
                let due = offset + number * period + task.deadline.get();
                self.jobs[index].push((due, number, task.execution.get()));
            };
            if since == jitter {
                (0..=jitter / period).for_each(&mut release);
            } else if since > jitter && since.is_multiple_of(period) {
                release(since / period);
            }
        }
        let roots: Vec<Member> = self.model.roots(PoolId(0)).map(Member::Component).collect();
        let policy = self.model.pools[0].policy;
        self.serve(policy, &roots, now);
    }

    /// Gives the instant to the first of `members`; a server gets it whether or not it has work, as
    /// long as it has budget.
    fn serve(&mut self, policy: Policy, members: &[Member], now: u64) {
        let rank = |member: &Member| {
            let (period, deadline, due, priority) = match member {
                Member::Task(id) => {
                    let task = self.model.task(*id)?;
                    let (due, _, _) = *self.jobs[id.0 as usize].first()?;
                    (task.period, task.deadline, due, task.priority)
                }
                Member::Component(id) => {
                    let interface = self.interfaces.get(id)?;
                    self.left.get(id).filter(|left| **left > 0)?;
                    let (period, deadline) = (interface.period, interface.deadline);
                    let due = now / period.get() * period.get() + deadline.get();
                    (period, deadline, due, self.model.component(*id)?.priority)
                }
            };
            Some(match policy {
                Policy::Edf => due,
                Policy::RateMonotonic => period.get(),
                Policy::DeadlineMonotonic => deadline.get(),
                Policy::FixedPriority => priority?.0.into(),
            })
        };
        let ranked = members
            .iter()
            .filter_map(|member| Some((rank(member)?, *member)));
        match ranked.min_by_key(|(rank, _)| *rank) {
            None => {}
            Some((_, Member::Component(id))) => {
                *self.left.get_mut(&id).unwrap() -= 1;
                let policy = self.model.component(id).unwrap().policy;
                let members = self.members[id.0 as usize].clone();
                self.serve(policy, &members, now);
            }
            Some((_, Member::Task(id))) => {
                let jobs = &mut self.jobs[id.0 as usize];
                jobs[0].2 -= 1;
                if jobs[0].2 == 0 {
                    let (_, number, _) = jobs.remove(0);
                    self.ends.insert((id.0 as usize, number), now + 1);
                }
            }
        }
    }
}

/// In the simulation of what is admitted, and of trees with a little less budget that may miss,
/// each job ends when ideal periodic servers end it.
#[test]
fn each_job_ends_as_under_ideal_servers() {
    let mut random = Random(0x001d_ea15);
    let (mut runs, mut nested, mut missed) = (0, 0, 0);
    while runs < sets_or(60) {
        let Some((model, mut found)) = near_the_edge(&mut random, false) else {
            continue;
        };
        if !model.cost.per_period().is_zero() || model.pools[0].cores.len() > 1 {
            continue;
        }
        if runs % 2 == 0 {
            for interface in found.interfaces.values_mut() {
                let less = interface.budget.get() - random.below(2);
                interface.budget = Nanos::new(less.max(1));
            }
        }
        runs += 1;
        nested += usize::from(levels(&model) > 1);
        let mut options = options(&model, &found, Execution::Worst, Slack::Idle);
        options.horizon = TICKS;
        let simulated = simulate(&model, &options).unwrap();
        let mut ideal = Ideal {
            model: &model,
            members: model.members(),
            interfaces: &found.interfaces,
            left: BTreeMap::new(),
            jobs: vec![Vec::new(); model.tasks.len()],
            ends: BTreeMap::new(),
        };
        (0..TICKS).for_each(|now| ideal.step(now));
        let ends = simulated.jobs.iter().filter_map(|job| {
            let end = job.finish?;
            Some(((job.task.0 as usize, job.number), end))
        });
        let ends: BTreeMap<_, _> = ends.collect();
        let differs = ideal
            .ends
            .iter()
            .find(|(job, end)| ends.get(job) != Some(end));
        assert!(
            differs.is_none(),
            "{differs:?}: {model:#?} {:#?}",
            found.interfaces
        );
        assert_eq!(ends.len(), ideal.ends.len());
        missed += usize::from(!simulated.misses().is_empty());
    }
    println!("compared: {runs}, of several levels {nested}, with misses {missed}");
    assert!(nested > sets_or(60) / 3 && missed > sets_or(60) / 20);
}

/// The tree whose misses showed that a server in an idle component has to spend its budget, too.
#[test]
fn a_server_in_an_idle_component_spends_its_budget() {
    let us = Nanos::from_micros;
    let mut model = Model::new(us(1), vec![Pool::new("all", [CoreId(0)])]);
    let given =
        |period: u64, budget: u64| Plan::Given(ResourceInterface::periodic(us(period), us(budget)));
    let group = model.add(Component::new("g", Home::Pool(PoolId(0)), given(50, 12)));
    let inner = model.add(Component::new("a", Home::Component(group), given(295, 30)));
    model.add_task(Task::new("t", group, us(166), us(17)));
    model.add_task(Task::new("u", inner, us(900), us(30)));
    let found = admitted(&model).expect("it is admitted");
    for offset in 0..300 {
        model.tasks[0].offset = us(offset);
        let mut options = options(&model, &found, Execution::Worst, Slack::Idle);
        options.horizon = us(20_000).get();
        let timeline = simulate(&model, &options).unwrap();
        assert_eq!(timeline.misses(), [], "{offset}");
    }
}
