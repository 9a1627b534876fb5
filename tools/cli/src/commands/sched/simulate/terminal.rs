//! The timeline in a terminal: a line for each core and each task.

use std::fmt::Write;

use hanok_simulator::Segment;
use hanok_task_model::TaskId;

use super::shown::Shown;
use crate::commands::sched::times::readable;

/// The number of columns for the time.
const WIDTH: u64 = 80;

/// Signs for how much of a column's time something ran.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

/// The timeline, the tasks' table, and the misses.
pub fn write(shown: &Shown) -> String {
    let mut text = format!("{}\n\n", shown.title);
    let names: Vec<_> = shown.rows.iter().map(|task| shown.name(*task)).collect();
    let all = names.iter().chain(&shown.cores);
    let margin = all.map(|name| name.chars().count()).max().unwrap_or(0);
    axis(&mut text, shown, margin);
    for (core, name) in shown.cores.iter().enumerate() {
        line(&mut text, shown, (margin, name), |s| s.core == core);
    }
    for (task, name) in shown.rows.iter().zip(&names) {
        line(&mut text, shown, (margin, name), |s| s.task == *task);
        marks(&mut text, shown, margin, *task);
    }
    text.push('\n');
    table(&mut text, shown, &names, margin);
    misses(&mut text, shown);
    text
}

fn axis(text: &mut String, shown: &Shown, margin: usize) {
    let (from, to) = (readable(shown.from), readable(shown.to));
    let room = (WIDTH as usize).saturating_sub(to.len());
    let _ = writeln!(text, "{:margin$}  {:<room$}{to}", "", from);
}

/// The column of an instant.
fn column(shown: &Shown, at: u64) -> usize {
    let since = u128::from(at.saturating_sub(shown.from));
    let column = since * u128::from(WIDTH) / u128::from(shown.to - shown.from);
    usize::try_from(column).unwrap_or(usize::MAX)
}

/// The times that a column covers.
fn span(shown: &Shown, column: u64) -> (u64, u64) {
    let length = u128::from(shown.to - shown.from);
    let at = |column: u64| {
        let since = length * u128::from(column) / u128::from(WIDTH);
        shown.from + u64::try_from(since).unwrap_or(0)
    };
    (at(column), at(column + 1))
}

fn line(
    text: &mut String,
    shown: &Shown,
    (margin, name): (usize, &str),
    mine: impl Fn(&Segment) -> bool,
) {
    let mut busy = vec![0u64; WIDTH as usize];
    let segments = shown.timeline.segments.iter();
    for segment in segments.filter(|s| s.end > shown.from && s.start < shown.to && mine(s)) {
        let (first, last) = (column(shown, segment.start), column(shown, segment.end));
        for (index, busy) in busy.iter_mut().enumerate().take(last + 1).skip(first) {
            let (start, end) = span(shown, index as u64);
            let overlap = segment
                .end
                .min(end)
                .saturating_sub(segment.start.max(start));
            *busy += overlap;
        }
    }
    let shades = (0..).zip(&busy).map(|(index, busy)| {
        let (start, end) = span(shown, index);
        shade(*busy, end - start)
    });
    let shades: String = shades.collect();
    let _ = writeln!(text, "{name:<margin$}  {shades}");
}

fn shade(busy: u64, length: u64) -> char {
    let level = match (busy, length) {
        (0, _) => 0,
        (busy, length) if busy >= length => 4,
        (busy, length) => 1 + (busy * 3 / length.max(1)).min(2),
    };
    SHADES.get(level as usize).copied().unwrap_or(' ')
}

/// A line below a task with its missed deadlines, if it has any.
fn marks(text: &mut String, shown: &Shown, margin: usize, task: TaskId) {
    let horizon = shown.timeline.horizon;
    let mut line = vec![' '; WIDTH as usize];
    let mut any = false;
    for job in shown.timeline.jobs.iter().filter(|job| job.task == task) {
        let seen = job.deadline >= shown.from && job.deadline <= shown.to;
        if seen && job.is_missed(horizon) {
            let at = column(shown, job.deadline).min(line.len() - 1);
            line[at] = '!';
            any = true;
        }
    }
    if any {
        let line: String = line.into_iter().collect();
        let _ = writeln!(text, "{:margin$}  {}", "", line.trim_end());
    }
}

fn table(text: &mut String, shown: &Shown, names: &[String], margin: usize) {
    let _ = writeln!(
        text,
        "{:<margin$}  {:>6}  {:>6}  {:>16}  {:>14}",
        "task", "jobs", "missed", "longest response", "deadline"
    );
    let summaries = shown.timeline.summaries(shown.model.tasks.len());
    for (id, name) in shown.rows.iter().zip(names) {
        let (Some(summary), Some(task)) = (summaries.get(id.0 as usize), shown.model.task(*id))
        else {
            continue;
        };
        let _ = writeln!(
            text,
            "{name:<margin$}  {:>6}  {:>6}  {:>16}  {:>14}",
            summary.jobs,
            summary.missed,
            readable(summary.longest),
            readable(task.deadline.get())
        );
    }
    for (core, name) in shown.cores.iter().enumerate() {
        let busy = u128::from(shown.timeline.busy(core)) * 1000;
        let permille = busy / u128::from(shown.timeline.horizon.max(1));
        let (whole, tenth) = (permille / 10, permille % 10);
        let _ = writeln!(text, "{name:<margin$}  busy {whole}.{tenth} %");
    }
}

/// The first of the missed deadlines.
fn misses(text: &mut String, shown: &Shown) {
    let misses = shown.timeline.misses();
    let Some(first) = misses.first() else {
        let _ = write!(text, "\nNo deadline is missed.");
        return;
    };
    let late = first.finish.map_or_else(
        || "it was not complete by the end".to_owned(),
        |finish| format!("it was complete at {}", readable(finish)),
    );
    let _ = write!(
        text,
        "\n{} deadlines are missed; the first: job {} of {}, due at {}: {late}.",
        misses.len(),
        first.number,
        shown.name(first.task),
        readable(first.deadline),
    );
}
