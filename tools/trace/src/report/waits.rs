//! How long tasks wait from when they have work until they run, and who has the CPU meanwhile.

use super::Subject;
use super::causes::Cause;
use super::timeline::{Who, overlapping};
use crate::model::{Event, Record};
use std::collections::BTreeMap;

/// A wait of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub task: i32,
    /// When it had work.
    pub from: u64,
    /// When it ran, and on which CPU.
    pub to: u64,
    pub cpu: usize,
}

impl Wait {
    pub fn time(&self) -> u64 {
        self.to - self.from
    }
}

/// All waits that end in the time of the report, of the tasks that it is about, in the order of their ends.
pub fn of(subject: &Subject<'_>) -> Vec<Wait> {
    let mut finder = Finder::new(subject.machine.cpus.len());
    let cpus = subject.machine.cpus.iter().enumerate();
    let mut records: Vec<_> = cpus
        .flat_map(|(cpu, records)| records.iter().map(move |record| (cpu, record)))
        .filter(|(_, record)| is_about_waits(record))
        .collect();
    records.sort_by_key(|(_, record)| record.at);
    for (cpu, record) in records {
        finder.record(cpu, record);
    }
    let mut waits = finder.waits;
    waits.retain(|wait| subject.window.has(wait.to) && subject.is_chosen(wait.task));
    waits
}

fn is_about_waits(record: &Record) -> bool {
    matches!(
        record.event,
        Event::Waking { .. } | Event::Switch { .. } | Event::Lost { .. }
    )
}

/// All CPUs as of the last record.
struct Finder {
    running: Vec<i32>,
    /// Since when tasks have work that do not run yet.
    waiting: BTreeMap<i32, u64>,
    waits: Vec<Wait>,
}

impl Finder {
    fn new(cpus: usize) -> Self {
        Self {
            running: vec![0; cpus],
            waiting: BTreeMap::new(),
            waits: Vec::new(),
        }
    }

    fn record(&mut self, cpu: usize, record: &Record) {
        match &record.event {
            // Whoever wakes is told so by several, of whom the first one counts.
            Event::Waking { task, .. }
                if task.number != 0 && !self.running.contains(&task.number) =>
            {
                self.waiting.entry(task.number).or_insert(record.at);
            }
            Event::Switch { next, .. } => {
                if let Some(running) = self.running.get_mut(cpu) {
                    *running = next.number;
                }
                if let Some(from) = self.waiting.remove(&next.number) {
                    self.waits.push(Wait {
                        task: next.number,
                        from,
                        to: record.at,
                        cpu,
                    });
                }
            }
            // Who runs and who waits on that CPU may have changed unseen, and tasks move.
            Event::Lost { .. } => {
                self.waiting.clear();
                if let Some(running) = self.running.get_mut(cpu) {
                    *running = 0;
                }
            }
            _ => {}
        }
    }
}

/// Who had a CPU in a wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meanwhile {
    /// Everybody's time there, and what of it was the hypervisor's.
    pub who: BTreeMap<Who, (u64, u64)>,
    /// The exits there.
    pub exits: BTreeMap<Cause, u64>,
    /// The interrupts there, by their numbers.
    pub interrupts: BTreeMap<u32, u64>,
}

impl Meanwhile {
    /// What was on this CPU from `from` to `to`.
    pub fn of(subject: &Subject<'_>, cpu: usize, from: u64, to: u64) -> Self {
        let mut meanwhile = Self::default();
        if let Some(cpu) = subject.cpus.get(cpu) {
            meanwhile.add(cpu, from, to);
            for exit in cpu
                .exits
                .iter()
                .filter(|exit| (from..to).contains(&exit.at))
            {
                *meanwhile.exits.entry(exit.cause).or_default() += 1;
            }
        }
        for record in subject.machine.cpus.get(cpu).into_iter().flatten() {
            if let Event::InterruptEntry { number, .. } = record.event
                && (from..to).contains(&record.at)
            {
                *meanwhile.interrupts.entry(number).or_default() += 1;
            }
        }
        meanwhile
    }

    /// Adds who had this CPU from `from` to `to`.
    pub fn add(&mut self, cpu: &super::Cpu, from: u64, to: u64) {
        for span in overlapping(&cpu.spans, from, to) {
            let (time, _) = self.who.entry(span.who).or_default();
            *time = time.saturating_add(span.within(from, to));
        }
        for span in overlapping(&cpu.inside, from, to) {
            let (_, time) = self.who.entry(span.who).or_default();
            *time = time.saturating_add(span.within(from, to));
        }
    }

    /// Everybody, the longest time first.
    pub fn by_time(&self) -> Vec<(Who, (u64, u64))> {
        let mut all: Vec<_> = self.who.iter().map(|(who, times)| (*who, *times)).collect();
        all.sort_by_key(|(_, (time, _))| std::cmp::Reverse(*time));
        all
    }
}
