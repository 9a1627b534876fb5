//! What is counted over the time of a report: of CPUs, tasks, exits and interrupts.

use super::Subject;
use super::causes::Cause;
use super::timeline::Who;
use crate::model::{Event, State};
use std::collections::BTreeMap;

/// Times that are summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub count: u64,
    pub total: u64,
    pub longest: u64,
}

impl Times {
    pub fn add(&mut self, time: u64) {
        self.count += 1;
        self.total = self.total.saturating_add(time);
        self.longest = self.longest.max(time);
    }

    pub fn average(&self) -> u64 {
        self.total.checked_div(self.count).unwrap_or_default()
    }
}

/// A CPU's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuFigures {
    pub busy: u64,
    pub idle: u64,
    pub unknown: u64,
    /// What of the busy time was the hypervisor's; `None`: no exit was recorded.
    pub hypervisor: Option<u64>,
    pub switches: u64,
    pub interrupts: u64,
}

/// Each CPU's time.
pub fn of_cpus(subject: &Subject<'_>) -> Vec<CpuFigures> {
    let (from, to) = (subject.window.from, subject.window.to);
    let of_cpu = |cpu: &super::Cpu| CpuFigures {
        busy: cpu.time(from, to, |who| matches!(who, Who::Task(_))),
        idle: cpu.time(from, to, |who| who == Who::Idle),
        unknown: cpu.time(from, to, |who| who == Who::Unknown),
        hypervisor: (!cpu.exits.is_empty()).then(|| cpu.hypervisor(from, to, |_| true)),
        ..CpuFigures::default()
    };
    let mut figures: Vec<_> = subject.cpus.iter().map(of_cpu).collect();
    for (cpu, record) in subject.records() {
        if let Some(figures) = figures.get_mut(cpu) {
            figures.switches += u64::from(matches!(record.event, Event::Switch { .. }));
            figures.interrupts += u64::from(matches!(record.event, Event::InterruptEntry { .. }));
        }
    }
    figures
}

/// A task's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskFigures {
    /// Its turns: each is the time from a switch to it until one away from it.
    pub turns: Times,
    /// How often another task got the CPU while it could go on.
    pub preempted: u64,
}

/// Each task's time, of those that had any.
pub fn of_tasks(subject: &Subject<'_>) -> BTreeMap<i32, TaskFigures> {
    let mut figures: BTreeMap<i32, TaskFigures> = BTreeMap::new();
    for span in subject.cpus.iter().flat_map(|cpu| &cpu.spans) {
        if let Who::Task(task) = span.who
            && subject.is_chosen(task)
        {
            figures
                .entry(task)
                .or_default()
                .turns
                .add(span.to - span.from);
        }
    }
    for (_, record) in subject.records() {
        if let Event::Switch {
            previous,
            state: State::Ready,
            next,
        } = &record.event
            && next.number != 0
            && let Some(figures) = figures.get_mut(&previous.number)
        {
            figures.preempted += u64::from(next.number != previous.number);
        }
    }
    figures
}

/// Exits, and what of the hypervisor's instructions is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitFigures {
    pub causes: BTreeMap<Cause, ExitTimes>,
    /// How often addresses of the guest's memory were accessed that a device has.
    pub addresses: BTreeMap<u64, u64>,
    /// The hypervisor's instructions before entries, where they are counted: of a time of one nanosecond each.
    pub instructions: Times,
}

/// The exits of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitTimes {
    pub count: u64,
    /// Of those whose end was recorded.
    pub times: Times,
}

/// The exits of the tasks that the report is about.
pub fn of_exits(subject: &Subject<'_>) -> ExitFigures {
    let mut figures = ExitFigures::default();
    let exits = subject.cpus.iter().flat_map(|cpu| &cpu.exits);
    for exit in exits.filter(|exit| subject.is_chosen(exit.task)) {
        let of_cause = figures.causes.entry(exit.cause).or_default();
        of_cause.count += 1;
        exit.took
            .into_iter()
            .for_each(|took| of_cause.times.add(took));
        if exit.cause.is_access() {
            *figures.addresses.entry(exit.about).or_default() += 1;
        }
    }
    for (_, record) in subject.records() {
        if let Event::Entry {
            instructions: count @ 1..,
            ..
        } = record.event
            && subject.is_chosen(record.task)
        {
            figures.instructions.add(count.into());
        }
    }
    figures
}

/// The interrupts of one number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterruptFigures {
    pub name: String,
    pub count: u64,
    /// How long they were handled, of those whose end was recorded.
    pub times: Times,
}

/// The interrupts, by their numbers, that came while a task had the CPU that the report is about.
pub fn of_interrupts(subject: &Subject<'_>) -> BTreeMap<u32, InterruptFigures> {
    let mut figures: BTreeMap<u32, InterruptFigures> = BTreeMap::new();
    for records in &subject.machine.cpus {
        let mut begun = None;
        for record in records
            .iter()
            .filter(|record| subject.window.has(record.at))
        {
            match &record.event {
                Event::InterruptEntry { number, name } if subject.is_chosen(record.task) => {
                    let interrupt = figures.entry(*number).or_default();
                    interrupt.count += 1;
                    interrupt.name.clone_from(name);
                    begun = Some((*number, record.at));
                }
                Event::InterruptExit { number, .. } => {
                    if let Some((_, at)) = begun.take_if(|(begun, _)| begun == number) {
                        let interrupt = figures.entry(*number).or_default();
                        interrupt.times.add(record.at - at);
                    }
                }
                Event::Lost { .. } => begun = None,
                _ => {}
            }
        }
    }
    figures
}

/// How many records were lost, and how often nobody knows how many.
pub fn lost(subject: &Subject<'_>) -> (u64, u64) {
    let counts = subject
        .records()
        .filter_map(|(_, record)| match record.event {
            Event::Lost { count } => Some(count),
            _ => None,
        });
    counts.fold((0, 0), |(known, unknown): (u64, u64), count| match count {
        0 => (known, unknown + 1),
        count => (known.saturating_add(count), unknown),
    })
}
