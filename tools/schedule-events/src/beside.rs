//! A description and a record of a board that ran it.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, anyhow, ensure};
use hanok_simulator::Slack;
use hanok_task_model::{Component, Model, Nanos, Plan, Server};

use crate::compare::{Agreement, Bound, Difference, Event, compare, events};
use crate::expected::{self, Expected, Input};
use crate::record::{Core, Record, Vcpu};
use crate::{Span, start};

/// What the RTOS says before the instant from which its tasks' offsets count.
const RELEASE: &str = "rtos: first release at tick ";
/// Microseconds in a second.
const MICROS: u64 = 1_000_000;

/// Two events that are nearer, in microseconds, may be in another order on a board ([`Beside::comparable`]).
const NEAR: u64 = 10;

/// At the end so many times that is left out of it.
const LATER: u64 = 20;

/// What a run's jobs and its board are known to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What becomes of time that is promised and not used.
    pub slack: Slack,
    /// Whether best effort has work all the time; else it is as if nobody ran.
    pub busy: bool,
    /// By how much each job takes less than is described, in microseconds.
    pub spare: u64,
    /// By how much a job may take more or less for each time it is held back, in microseconds.
    pub held_back: u64,
    /// The longest time for which the board notices nothing, in microseconds: its longest exit.
    pub exit: u64,
    /// The most that a switch may take, in nanoseconds. It is known from elsewhere than the run.
    pub switch: u64,
    /// From the first job's arrival on, how long is compared, in microseconds.
    pub length: u64,
}

impl Terms {
    /// The RTOS's jobs (docs/write-a-guest.md) on a board that notices nothing for 5,000 instructions at most
    /// (docs/scheduling.md, the longest paths). Of each run so long is compared. What a switch may take depends on the
    /// machine, and is still to be said.
    pub const RTOS: Self = Self {
        slack: Slack::Idle,
        busy: false,
        spare: 2,
        held_back: 1,
        exit: 5,
        switch: 0,
        length: 60_000,
    };
}

/// A run that can be compared: core 0 of a board.
pub struct Beside<'a> {
    model: Model,
    record: &'a Record,
    core: &'a Core,
    input: Input,
    terms: Terms,
    /// The first arrival.
    first: u64,
}

/// The tick that a guest's console says.
///
/// # Errors
/// It says none.
pub fn release(console: &str) -> Result<u64> {
    let behind = console.split_once(RELEASE).map(|(_, behind)| behind);
    let behind = behind.with_context(|| format!("its console does not say {RELEASE:?}"))?;
    let word = behind.split_whitespace().next().unwrap_or_default();
    word.parse().with_context(|| format!("{RELEASE}{word}"))
}

impl<'a> Beside<'a> {
    /// Of a described `model`, what a board has reported, and when each component's tasks began.
    ///
    /// # Errors
    /// It is not known when servers began their periods, turns since the first arrival were lost, or a guest was still
    /// awake shortly before it.
    pub fn new(
        model: &Model,
        record: &'a Record,
        releases: BTreeMap<String, u64>,
        terms: Terms,
    ) -> Result<Self> {
        let model = expected::in_ticks(model, record.frequency)?;
        let core = record.cores.get(&0).context("nothing is said of core 0")?;
        agrees(&model, record)?;
        let arrivals = model.tasks.iter().map(|task| {
            let component = model.component(task.component);
            let since = component.and_then(|one| releases.get(&one.name));
            since.map(|since| since.saturating_add(task.offset.get()))
        });
        let first = arrivals.flatten().min().context("no task begins")?;
        let latest = releases.values().copied().max().unwrap_or(first);
        let longest = model.components.iter().map(period).max().unwrap_or(0);
        let keep = model.components.iter().filter(|one| keeps_periods(one));
        let periods: Vec<_> = keep.map(period).collect();
        ensure!(
            latest.saturating_add(longest) < first,
            "a guest began at {latest}, less than a period before the first job, which arrives at {first}"
        );
        let recorded = core.turns.values().next().map(|turn| turn.since);
        let recorded = recorded.filter(|since| *since < first);
        recorded.context("the turn before the first job was lost: the record begins later")?;
        let boundaries = record.boundaries.iter().filter_map(|(who, at)| {
            let promise = record.promises.get(who)?;
            let [name, numbered] = record.name(Vcpu {
                vm: who.0,
                vcpu: who.1,
            });
            let component = model.find(&name).or(model.find(&numbered));
            let component = model.component(component?)?;
            keeps_periods(component).then_some((promise.period, *at))
        });
        let boundaries: Vec<_> = boundaries.collect();
        let began = releases.values().copied().min().unwrap_or(first);
        let start = if periods.is_empty() {
            began
        } else {
            start::start(&boundaries, &periods, began)?
        };
        let until = first + terms.length * record.frequency / MICROS;
        let switch = (terms.switch * record.frequency).div_ceil(1_000 * MICROS);
        ensure!(
            core.switch_ticks <= switch * core.switches,
            "the run's {} switches took {} ticks, where each may take {switch} at most",
            core.switches,
            core.switch_ticks
        );
        let spare = terms.spare * record.frequency / MICROS;
        let input = Input {
            start,
            releases,
            spare,
            switch: switch / 2,
            slack: terms.slack,
            busy: terms.busy,
            until,
        };
        Ok(Self {
            model,
            record,
            core,
            input,
            terms,
            first,
        })
    }

    /// The first job's arrival.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The model, in ticks.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What the board did.
    pub fn happened(&self) -> Vec<Span> {
        self.core.spans(|vcpu| self.name(vcpu))
    }

    /// A server's name, or that of best effort; `None`: it is as if nobody ran.
    fn name(&self, vcpu: Vcpu) -> Option<String> {
        let mut names = self.record.name(vcpu).into_iter();
        let promised = names.find(|name| self.model.find(name).is_some());
        let best_effort = self.terms.busy.then(|| expected::BEST_EFFORT.to_owned());
        promised.or(best_effort)
    }

    /// What is to happen to `model`, which is [`Self::model`], or another one in its place.
    ///
    /// # Errors
    /// There is no simulation.
    pub fn expected(&self, model: &Model) -> Result<Expected> {
        expected::of(model, &self.input)
    }

    /// Until when the order of what is expected does not hang by less than [`NEAR`]: with jobs that all take so much more
    /// or less, or with switches that take nothing or twice as long, the same ones have the core one after the other.
    ///
    /// # Errors
    /// There is no simulation.
    pub fn comparable(&self) -> Result<u64> {
        let near = NEAR * self.record.frequency / MICROS;
        let with = |longer: u64, shorter: u64, switch: u64| -> Result<Vec<Event>> {
            let mut model = self.model.clone();
            for task in &mut model.tasks {
                task.execution =
                    Nanos::new((task.execution.get() + longer).saturating_sub(shorter));
            }
            let input = Input {
                switch,
                ..self.input.clone()
            };
            let expected = expected::of(&model, &input)?;
            let core = expected.cores.into_iter().next().unwrap_or_default();
            Ok(events(&core, self.first - 1))
        };
        let mut plain = with(0, 0, self.input.switch)?;
        // Those at the end have their counterparts in the others.
        plain.retain(|event| event.at + LATER * near < self.input.until);
        let others = [
            with(near, 0, self.input.switch)?,
            with(0, near, self.input.switch)?,
            with(0, 0, 0)?,
            with(0, 0, 2 * self.input.switch)?,
        ];
        for (at, event) in plain.iter().enumerate() {
            let of = others.iter().map(|other| other.get(at));
            for other in of {
                if other.is_none_or(|other| other.who != event.who) {
                    let other = other.map_or(event.at, |other| other.at);
                    return Ok(other.min(event.at).saturating_sub(near));
                }
            }
        }
        Ok(self.input.until)
    }

    /// The instant until which is compared.
    pub fn until(&self) -> u64 {
        self.input.until
    }

    /// Compares until an earlier instant.
    pub fn shorten(&mut self, until: u64) {
        self.input.until = self.input.until.min(until);
    }

    /// Compares what happened with what is expected.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self, happened: &[Span], expected: &Expected) -> Result<Agreement, Difference> {
        let none = Vec::new();
        let core = expected.cores.first().unwrap_or(&none);
        let window = (self.first - 1, self.input.until);
        compare(happened, core, window, self.bound(), |at| {
            expected.depends(at)
        })
    }

    /// How far events may be away: the board notices an event a tick and an exit late; each switch takes nothing or the
    /// most, and half of that in the simulation; and the job that is held back by it takes another time, too.
    pub fn bound(&self) -> Bound {
        let ticks = |micros: u64| (micros * self.record.frequency).div_ceil(MICROS);
        Bound {
            each: 1 + ticks(self.terms.exit),
            carried: self.input.switch + 1 + ticks(self.terms.held_back),
        }
    }

    /// An instant, or a time, in a unit for people.
    pub fn micros(&self, ticks: u64) -> f64 {
        ticks as f64 * MICROS as f64 / self.record.frequency as f64
    }

    /// What the run's switches took on average, in ticks.
    pub fn switch(&self) -> u64 {
        self.core.switch_ticks / self.core.switches.max(1)
    }

    /// Both schedules beside one another, a line for each event, in microseconds since the first job's arrival.
    pub fn listing(&self, happened: &[Span], expected: &Expected) -> String {
        let none = Vec::new();
        let core = expected.cores.first().unwrap_or(&none);
        let within = |span: &&Span| span.since >= self.first - 1 && span.since < self.input.until;
        let mut happened = happened.iter().filter(within);
        let mut expected = core.iter().filter(within);
        let mut said = String::new();
        let one = |span: Option<&Span>| match span {
            Some(span) => format!(
                "{:>10.1} {:<16}",
                self.micros(span.since - self.first.min(span.since)),
                span.who.as_deref().unwrap_or("-")
            ),
            None => format!("{:>10} {:<16}", "", ""),
        };
        loop {
            let (left, right) = (happened.next(), expected.next());
            if left.is_none() && right.is_none() {
                return said;
            }
            said += &format!("{} {}\n", one(left), one(right));
        }
    }

    /// A difference, for people.
    pub fn told(&self, difference: &Difference) -> String {
        let one = |event: &Option<Event>| match event {
            Some(event) => Told(self, event).to_string(),
            None => "nothing more".to_owned(),
        };
        format!(
            "after {} events the board's schedule differs from the simulated one (times are since the first job's \
             arrival)\n  happened: {}\n  expected: {}\n  at most {:.1} us away",
            difference.after,
            one(&difference.happened),
            one(&difference.expected),
            self.micros(difference.allowed)
        )
    }
}

struct Told<'a>(&'a Beside<'a>, &'a Event);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(beside, event) = self;
        let since = beside.micros(event.at.saturating_sub(beside.first));
        let who = event.who.as_deref().unwrap_or("no server");
        write!(
            f,
            "{who} has the core from {since:.1} us on, tick {}",
            event.at
        )
    }
}

/// Whether its periods follow one another from the start on. Servers that keep a bandwidth begin theirs as they wake.
pub fn keeps_periods(component: &Component) -> bool {
    !matches!(
        component.server,
        Server::ConstantBandwidth | Server::SoftBandwidth
    )
}

fn period(component: &Component) -> u64 {
    match component.plan {
        Plan::Given(interface) => interface.period.get(),
        _ => 1,
    }
}

/// The board has the interfaces that are described.
fn agrees(model: &Model, record: &Record) -> Result<()> {
    for ((vm, vcpu), promise) in &record.promises {
        let [name, numbered] = record.name(Vcpu {
            vm: *vm,
            vcpu: *vcpu,
        });
        let component = model.find(&name).or(model.find(&numbered));
        let component = component.and_then(|id| model.component(id));
        let Some(Plan::Given(described)) = component.map(|component| component.plan) else {
            return Err(anyhow!("{name} is not described, and has a server"));
        };
        let described = [described.period, described.budget, described.deadline].map(|t| t.get());
        let has = [promise.period, promise.budget, promise.deadline];
        ensure!(
            described == has,
            "{name} has period, budget and deadline of {has:?} ticks, and is described with {described:?}"
        );
    }
    Ok(())
}
