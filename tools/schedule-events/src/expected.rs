//! What the simulator says of the same input: the description, in ticks, with the jobs' arrivals on the board.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail, ensure};
use hanok_simulator::{Jitter, Options, Slack, Timeline, What, simulate};
use hanok_task_model::{
    Component, Home, Model, Nanos, Plan, PoolId, Priority, ResourceInterface, Server, Task, TaskId,
};

use crate::{Span, append};

/// Nanoseconds in a second.
const SECOND: u128 = 1_000_000_000;
/// More than any comparison takes; what takes more is refused.
const EVENTS: u64 = 50_000_000;

/// What is known of a run beside the description.
#[derive(Clone, Debug)]
pub struct Input {
    /// When all servers began a period; nothing has happened until then.
    pub start: u64,
    /// For each component with tasks, the instant from which its tasks' offsets count.
    pub releases: BTreeMap<String, u64>,
    /// By how much each job takes less than is described.
    pub spare: u64,
    /// What a switch takes in the simulation.
    pub switch: u64,
    /// What becomes of time that is promised and not used.
    pub slack: Slack,
    /// Whether best effort has work all the time.
    pub busy: bool,
    /// The end.
    pub until: u64,
}

/// The name of all who are promised nothing.
pub const BEST_EFFORT: &str = "best effort";
/// Longer than any run.
const EVER: Nanos = Nanos::new(1 << 48);

/// Adds best effort that always has work: below all that are promised something, it always has a budget. That is so where
/// nobody has what others are promised. Where it is shared, the simulator itself knows best effort, which then goes
/// before all that have used their budgets up.
fn add_best_effort(model: &mut Model) {
    let plan = Plan::Given(ResourceInterface::periodic(EVER, EVER));
    let pool = model.pools.first();
    let id = model.add(Component {
        server: Server::Polling,
        core: pool.and_then(|pool| pool.cores.first().copied()),
        priority: Some(Priority(u32::MAX)),
        ..Component::new(BEST_EFFORT, Home::Pool(PoolId(0)), plan)
    });
    model.add_task(Task::new(BEST_EFFORT, id, EVER, EVER));
}

/// `model`, whose times are nanoseconds, in ticks of a counter of `frequency` Hz: budgets are rounded up, all else
/// down, as boards do.
///
/// # Errors
/// An interface is not given.
pub fn in_ticks(model: &Model, frequency: u64) -> Result<Model> {
    let mut model = model.clone();
    let down = |time: Nanos| scaled(time, frequency, 0);
    let up = |time: Nanos| scaled(time, frequency, SECOND - 1);
    model.tick = Nanos::new(1);
    for component in &mut model.components {
        let Plan::Given(ResourceInterface {
            period,
            budget,
            deadline,
        }) = component.plan
        else {
            bail!("{} has no budget that is written", component.name);
        };
        component.plan = Plan::Given(ResourceInterface {
            period: down(period),
            budget: up(budget),
            deadline: down(deadline),
        });
    }
    for task in &mut model.tasks {
        task.period = down(task.period);
        task.execution = down(task.execution);
        task.deadline = down(task.deadline);
        task.offset = down(task.offset);
        ensure!(task.jitter.is_zero(), "a task with jitter");
    }
    Ok(model)
}

fn scaled(time: Nanos, frequency: u64, more: u128) -> Nanos {
    let product = u128::from(time.get()) * u128::from(frequency) + more;
    Nanos::new(u64::try_from(product / SECOND).unwrap_or(u64::MAX))
}

/// What is to happen.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Who has each core, from the start on.
    pub cores: Vec<Vec<Span>>,
    /// When a job is there: each time from a release until all that were released are complete.
    busy: Vec<(u64, u64)>,
    /// The longest period of a server.
    longest: u64,
}

impl Expected {
    /// The instant before which nothing has happened that matters at `at`. While no job is there, only budgets that
    /// were used before differ from others, and these are of a period that goes on.
    pub fn depends(&self, at: u64) -> u64 {
        let began = self.busy.partition_point(|(since, _)| *since <= at);
        let last = began.checked_sub(1).and_then(|last| self.busy.get(last));
        let fresh = match last {
            Some((since, until)) if at <= *until => *since,
            Some(_) => at,
            None => 0,
        };
        fresh.saturating_sub(self.longest)
    }
}

/// What happens to `model`, which is in ticks.
///
/// # Errors
/// There is no simulation, or a component's arrivals are not known.
pub fn of(model: &Model, input: &Input) -> Result<Expected> {
    let described = model.cost.per_period().get();
    let model = arriving(model, input)?;
    let horizon = input.until.saturating_sub(input.start);
    let mut options = Options::new(What::System, horizon);
    // Servers pay what the description says, whatever the board's switches take.
    options.prepaid = Some(described);
    options.slack = input.slack;
    options.best_effort = input.busy;
    options.jitter = Jitter::None;
    options.events = EVENTS;
    let timeline = simulate(&model, &options).map_err(|error| anyhow!("{error}: {error:?}"))?;
    let left = (input.busy && input.slack != Slack::Idle).then(|| BEST_EFFORT.to_owned());
    let mut cores = vec![Vec::new(); timeline.cores];
    for segment in &timeline.segments {
        let Some(spans) = cores.get_mut(segment.core) else {
            continue;
        };
        let since = input.start + segment.start;
        rest(spans, &left, input.start, since);
        append(
            spans,
            Span {
                who: Some(owner(&model, segment.task)),
                since,
                until: input.start + segment.end,
            },
        );
    }
    for spans in &mut cores {
        rest(spans, &left, input.start, input.until);
    }
    let promised = model
        .components
        .iter()
        .filter(|one| one.name != BEST_EFFORT);
    let periods = promised.map(|one| match one.plan {
        Plan::Given(interface) => interface.period.get(),
        _ => 0,
    });
    Ok(Expected {
        cores,
        busy: busy(
            &timeline,
            input,
            model.tasks.len() - usize::from(is_added(input)),
        ),
        longest: periods.max().unwrap_or(0),
    })
}

/// `model` with the tasks' arrivals, and with what switches cost.
fn arriving(model: &Model, input: &Input) -> Result<Model> {
    let mut model = model.clone();
    model.cost.switch = Nanos::new(input.switch);
    model.cost.refill = Nanos::ZERO;
    for at in 0..model.tasks.len() {
        let name = owner(&model, TaskId(at as u32));
        let since = input.releases.get(&name);
        let since = since.with_context(|| format!("when {name} began is not known"))?;
        let since = since.checked_sub(input.start);
        let since = since.with_context(|| format!("{name} began before its server"))?;
        if let Some(task) = model.tasks.get_mut(at) {
            task.offset = Nanos::new(task.offset.get().saturating_add(since));
            let execution = task.execution.get().saturating_sub(input.spare);
            task.execution = Nanos::new(execution);
        }
    }
    if is_added(input) {
        add_best_effort(&mut model);
    }
    Ok(model)
}

/// Whether best effort is a server of the simulated model.
fn is_added(input: &Input) -> bool {
    input.busy && input.slack == Slack::Idle
}

/// The name of a task's component.
fn owner(model: &Model, task: TaskId) -> String {
    let component = model.task(task).map(|task| task.component);
    let component = component.and_then(|id| model.component(id));
    component.map_or_else(String::new, |component| component.name.clone())
}

/// No server has the core, but who has what is `left`, from the last span on until `until`.
fn rest(spans: &mut Vec<Span>, left: &Option<String>, start: u64, until: u64) {
    let since = spans.last().map_or(start, |last| last.until);
    append(
        spans,
        Span {
            who: left.clone(),
            since,
            until,
        },
    );
}

/// When a job of the first `tasks` tasks is there.
fn busy(timeline: &Timeline, input: &Input, tasks: usize) -> Vec<(u64, u64)> {
    let mut busy: Vec<(u64, u64)> = Vec::new();
    let jobs = timeline.jobs.iter();
    for job in jobs.filter(|job| (job.task.0 as usize) < tasks) {
        let since = input.start + job.release;
        let until = job.finish.map_or(u64::MAX, |finish| input.start + finish);
        match busy.last_mut() {
            Some((_, last)) if since <= *last => *last = until.max(*last),
            _ => busy.push((since, until)),
        }
    }
    busy
}
