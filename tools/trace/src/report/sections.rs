//! The sections of a report.

use super::budgets::{self, Kind};
use super::figures::{self, ExitFigures, Times};
use super::text::{Table, counted, folded, grouped, instant, share, short, shortened, time};
use super::timeline::Who;
use super::waits::{self, Meanwhile, Wait};
use super::{Board, Subject, WIDTH};
use crate::read::Trace;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The most rows of a table whose length the file decides.
const ROWS: usize = 20;
/// How many waits are explained of one task alone, and of each of several.
const EXPLAINED: (usize, usize) = (5, 1);
/// The most characters of the name of an event that is not known.
const EVENT: usize = 48;
/// The most addresses of devices.
const ADDRESSES: usize = 5;

/// The report of a machine, which runs on this board.
pub fn written(
    title: &str,
    trace: &Trace,
    subject: &Subject<'_>,
    board: Option<&Board<'_>>,
) -> String {
    let mut sections = vec![head(title, trace, subject)];
    if subject.chosen.is_none() {
        sections.push(cpus(subject));
    }
    sections.push(tasks(subject));
    sections.push(wakes(subject, board));
    let exits = figures::of_exits(subject);
    sections.push(causes(subject, &exits));
    sections.push(addresses(&exits));
    sections.push(interrupts(subject));
    sections.push(told(subject, Kind::Throttled));
    sections.push(told(subject, Kind::Late));
    if subject.chosen.is_none() {
        sections.push(unknown(trace));
    }
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

fn head(title: &str, trace: &Trace, subject: &Subject<'_>) -> String {
    let window = subject.window;
    let records = subject.records().count() as u64;
    let from = match window.from - window.origin {
        0 => String::new(),
        from => format!(" from {} on", instant(from)),
    };
    let mut text = format!(
        "{}: {}{from}, {}, {}\n",
        plain(title),
        instant(window.length()),
        counted(subject.cpus.len() as u64, "CPU"),
        counted(records, "event"),
    );
    for note in &trace.notes {
        text += &folded(&format!("note: {}", plain(note)), 0, WIDTH);
    }
    let (known, unknown) = figures::lost(subject);
    if known > 0 {
        let were = if known == 1 { "was" } else { "were" };
        text += &format!("note: {} {were} lost\n", counted(known, "record"));
    }
    if unknown > 0 {
        let places = counted(unknown, "place");
        text += &format!("note: records were lost at {places}, nobody knows how many\n");
    }
    text
}

fn plain(text: &str) -> String {
    text.chars()
        .filter(|character| !character.is_control())
        .collect()
}

fn cpus(subject: &Subject<'_>) -> String {
    let all = figures::of_cpus(subject);
    let is_whole = all.iter().all(|cpu| cpu.unknown == 0);
    let mut heads = vec![
        "CPU",
        "busy",
        "in the hypervisor",
        "idle",
        "switches",
        "interrupts",
    ];
    if !is_whole {
        heads.push("not recorded");
    }
    let mut table = Table::new(&heads);
    let length = subject.window.length();
    for (number, cpu) in all.iter().enumerate() {
        // Shares are of the time that is known.
        let known = cpu.busy + cpu.idle;
        let mut cells = vec![
            number.to_string(),
            share(cpu.busy, known),
            cpu.hypervisor
                .map_or("-".to_owned(), |time| share(time, known)),
            share(cpu.idle, known),
            grouped(cpu.switches),
            grouped(cpu.interrupts),
        ];
        if !is_whole {
            cells.push(share(cpu.unknown, length));
        }
        table.row(cells);
    }
    table.written(0)
}

fn tasks(subject: &Subject<'_>) -> String {
    let mut all: Vec<_> = figures::of_tasks(subject).into_iter().collect();
    all.sort_by_key(|(_, task)| Reverse(task.turns.total));
    let heads = [
        "task",
        "CPU time",
        "share",
        "turns",
        "average turn",
        "longest turn",
        "preempted",
    ];
    let mut table = Table::new(&heads);
    for (task, figures) in all.iter().take(ROWS) {
        table.row([
            subject.name(*task),
            time(figures.turns.total),
            share(figures.turns.total, subject.window.length()),
            grouped(figures.turns.count),
            time(figures.turns.average()),
            time(figures.turns.longest),
            grouped(figures.preempted),
        ]);
    }
    with_rest(&table, all.len(), "task")
}

/// A table, and how many rows more there would be.
fn with_rest(table: &Table, rows: usize, what: &str) -> String {
    if table.is_empty() {
        return String::new();
    }
    let mut text = table.written(0);
    if let more @ 1.. = rows.saturating_sub(ROWS) {
        text += &format!("and {} with less\n", counted(more as u64, what));
    }
    text
}

fn wakes(subject: &Subject<'_>, board: Option<&Board<'_>>) -> String {
    let mut by_task: BTreeMap<i32, Vec<Wait>> = BTreeMap::new();
    for wait in waits::of(subject) {
        by_task.entry(wait.task).or_default().push(wait);
    }
    let mut all: Vec<_> = by_task.into_values().collect();
    for waits in &mut all {
        waits.sort_by_key(|wait| Reverse(wait.time()));
    }
    let longest = |waits: &Vec<Wait>| waits.first().map_or(0, Wait::time);
    all.sort_by_key(|waits| Reverse(longest(waits)));
    let mut table = Table::new(&[
        "from wake to run",
        "wakes",
        "average",
        "longest",
        "of which at",
    ]);
    for waits in all.iter().take(ROWS) {
        let mut times = Times::default();
        waits.iter().for_each(|wait| times.add(wait.time()));
        let Some(first) = waits.first() else { continue };
        table.row([
            subject.name(first.task),
            grouped(times.count),
            time(times.average()),
            time(times.longest),
            instant(first.from - subject.window.origin.min(first.from)),
        ]);
    }
    let mut text = with_rest(&table, all.len(), "task");
    let (of_one, of_each) = EXPLAINED;
    let most = if subject.chosen.is_some() {
        of_one
    } else {
        of_each
    };
    for wait in all
        .iter()
        .take(ROWS)
        .flat_map(|waits| waits.iter().take(most))
    {
        text.push('\n');
        text += &explained(subject, wait);
        text += &board.map_or_else(String::new, |board| beneath(board, wait));
    }
    text
}

/// Why a task waited.
fn explained(subject: &Subject<'_>, wait: &Wait) -> String {
    let Wait { from, to, cpu, .. } = *wait;
    let mut text = format!(
        "{} had work at {} and ran {} later, on CPU {cpu}; meanwhile there:\n",
        subject.name(wait.task),
        instant(from - subject.window.origin.min(from)),
        time(wait.time()),
    );
    let meanwhile = Meanwhile::of(subject, cpu, from, to);
    text += &who_ran(subject, &meanwhile);
    if budgets::is_used_up(subject, wait) {
        text += "  its budget had been used up\n";
    }
    let exits = meanwhile.exits.iter();
    text += &listed("exits", exits.map(|(cause, count)| (cause.words(), *count)));
    let interrupts = meanwhile.interrupts.iter();
    text += &listed(
        "interrupts",
        interrupts.map(|(number, count)| (number.to_string(), *count)),
    );
    text
}

/// Who had the board's CPU while a guest's task waited. It is the CPU on which the vCPU that the task ran on ran last.
fn beneath(board: &Board<'_>, wait: &Wait) -> String {
    let Some(vcpu) = board.guest.vcpus.get(wait.cpu) else {
        return String::new();
    };
    let its = Who::Task(*vcpu);
    let last = |cpu: &super::Cpu| {
        let before = cpu.spans.iter().filter(|span| span.from <= wait.to);
        before
            .rev()
            .find(|span| span.who == its)
            .map(|span| span.to)
    };
    let cpus = board.subject.cpus.iter().enumerate();
    let found = cpus.filter_map(|(number, cpu)| Some((last(cpu)?, number)));
    let Some((_, cpu)) = found.max() else {
        return String::new();
    };
    let meanwhile = Meanwhile::of(board.subject, cpu, wait.from, wait.to);
    let vcpu = board.subject.name(*vcpu);
    let ran = who_ran(board.subject, &meanwhile);
    format!("  beneath it, on the board's CPU {cpu}, of which {vcpu} is its vCPU:\n{ran}")
}

/// A line for each of the first who had the CPU.
fn who_ran(subject: &Subject<'_>, meanwhile: &Meanwhile) -> String {
    let all = meanwhile.by_time();
    let mut table = Table::headless();
    for (who, (whole, hypervisor)) in all.iter().take(ROWS) {
        let who = match who {
            Who::Task(task) => subject.name(*task),
            Who::Idle => "idle".to_owned(),
            Who::Unknown => "not recorded".to_owned(),
        };
        let mut cells = vec![who, time(*whole)];
        if *hypervisor > 0 {
            cells.push(format!("{} of it in the hypervisor", time(*hypervisor)));
        }
        table.row(cells);
    }
    table.written(2)
}

fn listed(what: &str, all: impl Iterator<Item = (String, u64)>) -> String {
    let parts: Vec<_> = all
        .map(|(words, count)| match count {
            1 => words,
            count => format!("{words} ({} times)", grouped(count)),
        })
        .collect();
    if parts.is_empty() {
        return String::new();
    }
    folded(&format!("{what}: {}", parts.join(", ")), 2, WIDTH)
}

fn causes(subject: &Subject<'_>, exits: &ExitFigures) -> String {
    let mut all: Vec<_> = exits.causes.iter().collect();
    all.sort_by_key(|(_, exit)| Reverse((exit.times.total, exit.count)));
    let mut table = Table::new(&["exit", "count", "total", "average", "longest"]);
    for (cause, exit) in all.iter().take(ROWS) {
        let [total, average, longest] = of_times(&exit.times);
        table.row([cause.words(), grouped(exit.count), total, average, longest]);
    }
    let mut text = with_rest(&table, all.len(), "cause");
    if text.is_empty() {
        return text;
    }
    let (from, to) = (subject.window.from, subject.window.to);
    let is_ours = |who| matches!(who, Who::Task(task) if subject.is_chosen(task));
    let of_all = |time: &dyn Fn(&super::Cpu) -> u64| -> u64 {
        subject
            .cpus
            .iter()
            .fold(0, |sum, cpu| sum.saturating_add(time(cpu)))
    };
    let hypervisor = of_all(&|cpu| cpu.hypervisor(from, to, is_ours));
    let busy = of_all(&|cpu| cpu.time(from, to, is_ours));
    let count = exits.causes.values().map(|exit| exit.count).sum();
    text += &format!(
        "in the hypervisor: {} in {}, {} of the tasks' CPU time\n",
        time(hypervisor),
        counted(count, "exit"),
        share(hypervisor, busy),
    );
    let instructions = exits.instructions;
    if instructions.count > 0 {
        text += &format!(
            "its instructions: {}, {} on average before an entry, {} at most\n",
            grouped(instructions.total),
            grouped(instructions.average()),
            grouped(instructions.longest),
        );
    }
    text
}

/// The sum, the average and the longest, if any is known.
fn of_times(times: &Times) -> [String; 3] {
    match times.count {
        0 => ["-"; 3].map(str::to_owned),
        _ => [times.total, times.average(), times.longest].map(time),
    }
}

fn addresses(exits: &ExitFigures) -> String {
    let mut all: Vec<_> = exits.addresses.iter().collect();
    all.sort_by_key(|(_, count)| Reverse(**count));
    let mut table = Table::new(&["device access at", "count"]);
    for (address, count) in all.iter().take(ADDRESSES) {
        table.row([format!("{address:#012x}"), grouped(**count)]);
    }
    let more = all.len().saturating_sub(ADDRESSES);
    if table.is_empty() {
        return String::new();
    }
    let mut text = table.written(0);
    if more > 0 {
        text += &format!("and other addresses: {}\n", grouped(more as u64));
    }
    text
}

fn interrupts(subject: &Subject<'_>) -> String {
    let mut all: Vec<_> = figures::of_interrupts(subject).into_iter().collect();
    all.sort_by_key(|(_, interrupt)| Reverse(interrupt.count));
    let mut table = Table::new(&["interrupt", "count", "total", "average", "longest"]);
    for (number, interrupt) in all.iter().take(ROWS) {
        let name = match &interrupt.name {
            name if *name == format!("interrupt {number}") => number.to_string(),
            name => format!("{number} {}", short(name)),
        };
        let [total, average, longest] = of_times(&interrupt.times);
        table.row([name, grouped(interrupt.count), total, average, longest]);
    }
    with_rest(&table, all.len(), "interrupt")
}

fn told(subject: &Subject<'_>, kind: Kind) -> String {
    let of_kind = budgets::of(subject)
        .into_iter()
        .filter(|((found, _), _)| *found == kind);
    let all: Vec<_> = of_kind.collect();
    let (what, when) = match kind {
        Kind::Throttled => ("budget used up", "until it ran again"),
        Kind::Late => ("promise not kept", "before it ran"),
    };
    let mut table = Table::new(&[what, "times", "first", "last"]);
    let since = |at: u64| instant(at - subject.window.origin.min(at));
    for ((_, task), figures) in all.iter().take(ROWS) {
        table.row([
            subject.name(*task),
            grouped(figures.count),
            since(figures.first),
            since(figures.last),
        ]);
    }
    let mut text = with_rest(&table, all.len(), "task");
    for ((_, task), figures) in all.iter().take(ROWS) {
        let ran = who_ran(subject, &figures.meanwhile);
        if !ran.is_empty() {
            text += &format!("{}, {when}:\n{ran}", subject.name(*task));
        }
    }
    text
}

fn unknown(trace: &Trace) -> String {
    if trace.unknown.is_empty() {
        return String::new();
    }
    let mut all: Vec<_> = trace.unknown.iter().collect();
    all.sort_by_key(|(_, count)| Reverse(**count));
    let shown = all.iter().take(ROWS);
    let parts: Vec<_> = shown
        .map(|(name, count)| format!("{} {}", shortened(name, EVENT), grouped(**count)))
        .collect();
    folded(&format!("other events: {}", parts.join(", ")), 0, WIDTH)
}
