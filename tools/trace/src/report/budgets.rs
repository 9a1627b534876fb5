//! Budgets that were used up, promises that were not kept, and who had the CPU then.

use super::Subject;
use super::timeline::{Cpu, Who};
use super::waits::{Meanwhile, Wait};
use crate::model::Event;
use std::collections::BTreeMap;

/// Which of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A budget was used up.
    Throttled,
    /// A promise was not kept.
    Late,
}

/// What was told of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetFigures {
    pub count: u64,
    pub first: u64,
    pub last: u64,
    /// Who had the CPU while the task was held back: after its budget was used up until its next turn, and before the turn that came
    /// too late since the one before.
    pub meanwhile: Meanwhile,
}

/// What was told of each task that the report is about.
pub fn of(subject: &Subject<'_>) -> BTreeMap<(Kind, i32), BudgetFigures> {
    let mut figures = BTreeMap::new();
    for (cpu, record) in subject.records() {
        let (kind, task, count) = match &record.event {
            Event::Throttled { task, count } => (Kind::Throttled, task.number, *count),
            Event::Late { task, count } => (Kind::Late, task.number, *count),
            _ => continue,
        };
        if !subject.is_chosen(task) {
            continue;
        }
        let figures = figures
            .entry((kind, task))
            .or_insert_with(|| BudgetFigures {
                count: 0,
                first: record.at,
                last: record.at,
                meanwhile: Meanwhile::default(),
            });
        figures.count += u64::from(count);
        figures.first = figures.first.min(record.at);
        figures.last = figures.last.max(record.at);
        if let Some(cpu) = subject.cpus.get(cpu) {
            let (from, to) = held_back(cpu, kind, task, record.at);
            figures.meanwhile.add(cpu, from, to);
        }
    }
    figures
}

/// Whether the waiting task's budget was used up at the end of its turn before, which is when that is told.
pub fn is_used_up(subject: &Subject<'_>, wait: &Wait) -> bool {
    let Some(cpu) = subject.cpus.get(wait.cpu) else {
        return false;
    };
    let its = cpu.spans.iter().filter(|span| span.to <= wait.from);
    let turn = its.rev().find(|span| span.who == Who::Task(wait.task));
    let records = subject.machine.cpus.get(wait.cpu).into_iter().flatten();
    turn.is_some_and(|turn| {
        records
            .filter(|record| record.at > turn.from && record.at <= wait.from)
            .any(|record| {
                matches!(&record.event, Event::Throttled { task, .. } if task.number == wait.task)
            })
    })
}

/// When the task was held back, of which this was told at `at`, which is when it leaves the CPU.
fn held_back(cpu: &Cpu, kind: Kind, task: i32, at: u64) -> (u64, u64) {
    let is_its = |span: &&super::timeline::Span| span.who == Who::Task(task);
    let behind = cpu.spans.partition_point(|span| span.from < at);
    let (before, after) = cpu.spans.split_at(behind);
    match kind {
        Kind::Throttled => {
            let next = after.iter().find(is_its);
            (at, next.map_or(u64::MAX, |span| span.from))
        }
        Kind::Late => {
            let mut turns = before.iter().rev().filter(is_its);
            let start = turns.next().map_or(at, |turn| turn.from);
            (turns.next().map_or(0, |turn| turn.to), start)
        }
    }
}
