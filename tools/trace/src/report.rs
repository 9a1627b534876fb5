//! What people ask of a trace, answered in plain text: who had the CPUs, how long tasks waited and for whom, why the hypervisor was
//! entered and what that took, and which budgets and promises were not enough.
//!
//! `timeline` says who had each CPU when; `figures`, `waits` and `budgets` count over it, and `sections` puts that into tables of
//! [`WIDTH`] columns. Nothing is guessed: where records were lost, a CPU counts as not recorded until its next record, and a wait or an
//! exit that such a gap may have cut counts for nothing.

mod budgets;
mod causes;
pub(crate) use causes::Cause;
mod figures;
mod sections;
mod text;
mod timeline;
mod waits;

use crate::model::{Event, Guest, Machine, Place, Record};
use crate::read::Trace;
use std::collections::BTreeMap;
use timeline::Cpu;

/// The most columns of a line.
pub const WIDTH: usize = 100;

/// What a report is to be about.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// One task alone.
    pub task: Option<String>,
    /// Nanoseconds since the first record at which it begins.
    pub from: Option<u64>,
    /// Nanoseconds since the first record at which it ends.
    pub to: Option<u64>,
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReportError {
    /// Nobody is called so.
    #[error("no task is called {name}; there is: {}", known.join(", "))]
    NoTask {
        /// The name that was asked for.
        name: String,
        /// The names of the tasks, or some of them.
        known: Vec<String>,
    },
    /// Nothing was recorded in the time that was asked for.
    #[error("--from is not before --to, or after the last record, at {0:.6} s")]
    NoTime(f64),
    /// There is no record at all.
    #[error("no file has a record of a known event")]
    Empty,
}

/// The time that a report is about, in nanoseconds on the board's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    /// The time of the first record of all, from which times are told.
    origin: u64,
    from: u64,
    to: u64,
}

impl Window {
    fn has(&self, at: u64) -> bool {
        (self.from..=self.to).contains(&at)
    }

    /// The part of a time that is in it.
    fn clipped(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let (from, to) = (from.max(self.from), to.min(self.to));
        (from < to).then_some((from, to))
    }

    fn length(&self) -> u64 {
        self.to - self.from
    }
}

/// A machine whose times are the board's.
struct Subject<'a> {
    machine: &'a Machine,
    window: Window,
    /// Which tasks it is about; `None`: all of them.
    chosen: Option<Vec<i32>>,
    names: BTreeMap<i32, String>,
    cpus: Vec<Cpu>,
}

/// The board of a guest, if that was recorded, too.
struct Board<'a> {
    subject: &'a Subject<'a>,
    guest: &'a Guest,
}

impl<'a> Board<'a> {
    fn of(guest: &Subject<'_>, all: &'a [Subject<'a>]) -> Option<Self> {
        let Place::Guest { host, .. } = guest.machine.place else {
            return None;
        };
        let boards = all.iter().filter(|subject| subject.machine.id == host);
        boards
            .filter_map(|subject| match &subject.machine.place {
                Place::Host { guests } => Some((subject, guests)),
                Place::Guest { .. } => None,
            })
            .find_map(|(subject, guests)| {
                let guest = guests.iter().find(|known| known.id == guest.machine.id)?;
                Some(Board { subject, guest })
            })
    }
}

impl<'a> Subject<'a> {
    fn of(machine: &'a Machine, trace: &Trace, window: Window, chosen: Option<Vec<i32>>) -> Self {
        let cpus = machine.cpus.iter().zip(&trace.is_cut);
        let cpus = cpus.map(|(records, is_cut)| Cpu::of(records, window, *is_cut));
        Self {
            machine,
            window,
            chosen,
            names: names(machine),
            cpus: cpus.collect(),
        }
    }

    /// Whether the report is about this task.
    fn is_chosen(&self, task: i32) -> bool {
        self.chosen
            .as_ref()
            .is_none_or(|chosen| chosen.contains(&task))
    }

    fn name(&self, task: i32) -> String {
        match self.names.get(&task) {
            Some(name) => text::short(name),
            None => format!("task {task}"),
        }
    }

    /// All records in the window, with the CPUs that they are of.
    fn records(&self) -> impl Iterator<Item = (usize, &Record)> {
        let window = self.window;
        let cpus = self.machine.cpus.iter().enumerate();
        cpus.flat_map(|(cpu, records)| records.iter().map(move |record| (cpu, record)))
            .filter(move |(_, record)| window.has(record.at))
    }
}

/// The report of files, each with its name.
///
/// # Errors
/// Nobody has the task's name, or nothing was recorded in that time.
pub fn report(files: &[(String, Trace)], options: &Options) -> Result<String, ReportError> {
    let machines: Vec<_> = files
        .iter()
        .map(|(_, trace)| shifted(&trace.machine))
        .collect();
    let window = window(&machines, options)?;
    let chosen: Vec<_> = machines
        .iter()
        .map(|machine| chosen(machine, options))
        .collect();
    if let Some(name) = &options.task
        && chosen.iter().flatten().all(Vec::is_empty)
    {
        return Err(no_task(name, &machines));
    }
    let subjects: Vec<_> = (files.iter().zip(&machines).zip(chosen))
        .map(|(((_, trace), machine), chosen)| Subject::of(machine, trace, window, chosen))
        .collect();
    let mut sections = Vec::new();
    for ((file, trace), subject) in files.iter().zip(&subjects) {
        if subject.chosen.as_ref().is_some_and(Vec::is_empty) {
            continue;
        }
        let board = Board::of(subject, &subjects);
        let title = title(file, subject.machine, board.as_ref());
        sections.push(sections::written(&title, trace, subject, board.as_ref()));
    }
    Ok(sections.join("\n"))
}

/// The machine with its records at the board's times.
fn shifted(machine: &Machine) -> Machine {
    let mut machine = machine.clone();
    if let Place::Guest { shift, .. } = machine.place {
        for record in machine.cpus.iter_mut().flatten() {
            record.at = record.at.saturating_add_signed(shift);
        }
    }
    machine
}

fn window(machines: &[Machine], options: &Options) -> Result<Window, ReportError> {
    let records = || {
        machines
            .iter()
            .flat_map(|machine| machine.cpus.iter().flatten())
    };
    let (Some(origin), Some(last)) = (
        records().map(|record| record.at).min(),
        records().map(|record| record.at).max(),
    ) else {
        return Err(ReportError::Empty);
    };
    let time = |since: u64| origin.saturating_add(since);
    let window = Window {
        origin,
        from: time(options.from.unwrap_or(0)),
        to: options.to.map_or(last, time).min(last),
    };
    let is_empty = window.from >= window.to && (options.from.is_some() || options.to.is_some());
    if is_empty {
        return Err(ReportError::NoTime((last - origin) as f64 / 1e9));
    }
    Ok(window)
}

/// The tasks of the name that was asked for.
fn chosen(machine: &Machine, options: &Options) -> Option<Vec<i32>> {
    let wanted = options.task.as_ref()?;
    let names = names(machine).into_iter();
    Some(
        names
            .filter(|(_, name)| name == wanted)
            .map(|(task, _)| task)
            .collect(),
    )
}

fn no_task(name: &str, machines: &[Machine]) -> ReportError {
    const MOST: usize = 20;
    let mut known: Vec<_> = machines
        .iter()
        .flat_map(names)
        .map(|(_, name)| name)
        .collect();
    known.dedup();
    if known.len() > MOST {
        known.truncate(MOST);
        known.push("...".to_owned());
    }
    let name = name.to_owned();
    ReportError::NoTask { name, known }
}

/// The names of all tasks but the idle ones: those that the file lists, else those in events.
fn names(machine: &Machine) -> BTreeMap<i32, String> {
    let mut names = BTreeMap::new();
    for record in machine.cpus.iter().flatten() {
        let tasks = match &record.event {
            Event::Switch { previous, next, .. } => [Some(previous), Some(next)],
            Event::Waking { task, .. } => [Some(task), None],
            _ => [None, None],
        };
        for task in tasks.into_iter().flatten() {
            let name = || task.name.clone();
            names.entry(task.number).or_insert_with(name);
        }
    }
    let listed = machine
        .tasks
        .iter()
        .map(|(task, name)| (*task, name.clone()));
    names.extend(listed);
    names.remove(&0);
    names
}

/// What a file's machine is called. The board knows the names of its guests.
fn title(file: &str, machine: &Machine, board: Option<&Board<'_>>) -> String {
    match (&machine.place, board) {
        (Place::Guest { .. }, Some(board)) => {
            format!("{file} (guest {})", text::short(&board.guest.name))
        }
        (Place::Guest { .. }, None) => format!("{file} (a guest)"),
        (Place::Host { .. }, _) => file.to_owned(),
    }
}

#[cfg(test)]
mod tests;
