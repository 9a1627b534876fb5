//! Who had a CPU when, and when its hypervisor ran.

use super::Window;
use super::causes::Cause;
use crate::model::{Event, Record};

/// Who has a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// A task.
    Task(i32),
    /// Nobody.
    Idle,
    /// That was not recorded.
    Unknown,
}

impl Who {
    pub fn of(task: i32) -> Self {
        match task {
            0 => Self::Idle,
            task => Self::Task(task),
        }
    }
}

/// A time in which somebody has the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: u64,
    pub to: u64,
    pub who: Who,
}

impl Span {
    /// The nanoseconds of it that are also from `from` to `to`.
    pub fn within(&self, from: u64, to: u64) -> u64 {
        self.to.min(to).saturating_sub(self.from.max(from))
    }
}

/// An exit of a guest.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    pub at: u64,
    pub task: i32,
    pub cause: Cause,
    /// The address that it is about.
    pub about: u64,
    /// How long it took until a guest was entered, or the CPU was idle; `None`: its end was not recorded.
    pub took: Option<u64>,
}

/// One CPU over the time of a report.
#[derive(Debug, Default)]
pub struct Cpu {
    /// All of the time, in order; neighbours differ in who has the CPU.
    pub spans: Vec<Span>,
    /// When the hypervisor ran for somebody, in order.
    pub inside: Vec<Span>,
    /// All exits, in order.
    pub exits: Vec<Left>,
}

impl Cpu {
    /// The CPU with these records. Of a cut-off file its end is not known.
    pub fn of(records: &[Record], window: Window, is_cut: bool) -> Self {
        let mut builder = Builder::new(window);
        records.iter().for_each(|record| builder.record(record));
        if is_cut {
            builder.goes_on(builder.last, Who::Unknown);
        }
        builder.goes_on(u64::MAX, Who::Unknown);
        builder.cpu
    }

    /// The time from `from` to `to` of those for whom this says yes.
    pub fn time(&self, from: u64, to: u64, is_wanted: impl Fn(Who) -> bool) -> u64 {
        sum(
            overlapping(&self.spans, from, to)
                .iter()
                .filter(|span| is_wanted(span.who)),
            from,
            to,
        )
    }

    /// The hypervisor's time from `from` to `to` for those for whom this says yes.
    pub fn hypervisor(&self, from: u64, to: u64, is_wanted: impl Fn(Who) -> bool) -> u64 {
        sum(
            overlapping(&self.inside, from, to)
                .iter()
                .filter(|span| is_wanted(span.who)),
            from,
            to,
        )
    }
}

fn sum<'a>(spans: impl Iterator<Item = &'a Span>, from: u64, to: u64) -> u64 {
    spans.map(|span| span.within(from, to)).sum()
}

/// Those of the spans, which are in order, that have a part from `from` to `to`.
pub fn overlapping(spans: &[Span], from: u64, to: u64) -> &[Span] {
    let first = spans.partition_point(|span| span.to <= from);
    let end = spans.partition_point(|span| span.from < to);
    spans.get(first..end).unwrap_or_default()
}

/// A CPU as of the last record.
struct Builder {
    window: Window,
    who: Who,
    since: u64,
    last: u64,
    /// Whether a guest was left, and none was entered since.
    is_left: bool,
    /// Since when the hypervisor runs for somebody.
    inside: Option<u64>,
    /// The last exit, of which the end is missing.
    exit: Option<Left>,
    cpu: Cpu,
}

impl Builder {
    fn new(window: Window) -> Self {
        Self {
            window,
            who: Who::Unknown,
            since: window.from,
            last: window.from,
            is_left: false,
            inside: None,
            exit: None,
            cpu: Cpu::default(),
        }
    }

    fn record(&mut self, record: &Record) {
        let at = record.at;
        // The first record after a gap tells who runs. That somebody wakes may have been told later.
        if self.who == Who::Unknown
            && !matches!(record.event, Event::Waking { .. } | Event::Lost { .. })
        {
            self.goes_on(at, Who::of(record.task));
        }
        match &record.event {
            Event::Switch { next, .. } => self.goes_on(at, Who::of(next.number)),
            Event::Exit {
                reason,
                syndrome,
                about,
                ..
            } => {
                self.end_exit(None);
                self.exit = Some(Left {
                    at,
                    task: record.task,
                    cause: Cause::of(*reason, *syndrome),
                    about: *about,
                    took: None,
                });
                self.is_left = true;
                self.begin_inside(at);
            }
            Event::Entry { .. } => {
                self.end_exit(Some(at));
                self.end_inside(at);
                self.is_left = false;
            }
            Event::Lost { .. } => {
                self.end_exit(None);
                self.goes_on(self.last, Who::Unknown);
                self.is_left = false;
            }
            _ => {}
        }
        self.last = at;
    }

    /// Somebody else has the CPU from `at` on.
    fn goes_on(&mut self, at: u64, who: Who) {
        if who == self.who && at != u64::MAX {
            return;
        }
        self.end_inside(at);
        match who {
            Who::Task(_) => {}
            Who::Idle => self.end_exit(Some(at)),
            Who::Unknown => self.end_exit(None),
        }
        put(&mut self.cpu.spans, self.window, self.since, at, self.who);
        (self.who, self.since) = (who, at);
        if self.is_left {
            self.begin_inside(at);
        }
    }

    fn begin_inside(&mut self, at: u64) {
        if matches!(self.who, Who::Task(_)) {
            self.inside.get_or_insert(at);
        }
    }

    fn end_inside(&mut self, at: u64) {
        if let Some(since) = self.inside.take() {
            put(&mut self.cpu.inside, self.window, since, at, self.who);
        }
    }

    /// The exit has ended at that time, or nobody knows when.
    fn end_exit(&mut self, at: Option<u64>) {
        if let Some(mut exit) = self.exit.take() {
            exit.took = at.map(|at| at - exit.at);
            if self.window.has(exit.at) {
                self.cpu.exits.push(exit);
            }
        }
    }
}

fn put(spans: &mut Vec<Span>, window: Window, from: u64, to: u64, who: Who) {
    if let Some((from, to)) = window.clipped(from, to) {
        spans.push(Span { from, to, who });
    }
}
