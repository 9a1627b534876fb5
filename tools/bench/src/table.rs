//! Shows results on a terminal.
//!
//! The layout is comfy-table's, which fits the terminal's width; the content of the cells is
//! decided here. A missing value is a dash, and one of a side that failed says so: no gap may look
//! like a zero.

use std::fmt::Write;

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Row, Table};

use crate::compare::{Change, Comparison};
use crate::figure::{Figure, Group, Published, Terms};
use crate::format;
use crate::machine::{Machine, Side};
use crate::model::{Failure, Results, Run};
use crate::operations;
use crate::stats::{Spread, Summary};
use crate::verdict::{Judged, Outcome, Tally, judge_all, quantity};

/// No lines but the one below the header.
const RULED_HEADER: &str = "     ──            ";

/// How the terminal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Its columns; `None` off a terminal, where lines are as long as they need.
    pub width: Option<u16>,
    /// Whether colours may be used.
    pub colour: bool,
}

/// All of `results` for a terminal.
pub fn results_table(results: &Results, style: Style) -> String {
    let mut text = format!("Commit {}", results.commit);
    if results.modified {
        text += " with changes that are not committed";
    }
    text.push('\n');
    for run in &results.runs {
        run_text(&mut text, run, style);
    }
    text
}

/// What got worse, better or is gone, for a terminal.
pub fn comparison_table(comparison: &Comparison, style: Style) -> String {
    let mut text = format!(
        "{}: {} to {}\n",
        comparison.machine, comparison.from, comparison.to
    );
    for difference in &comparison.differences {
        text += &format!("Careful: {difference}\n");
    }
    let mut table = empty(style);
    table.set_header(["figure", "before", "now", "change", ""]);
    let (gone, both): (Vec<&Change>, Vec<&Change>) = comparison
        .changes
        .iter()
        .partition(|change| change.is_gone());
    for change in both {
        let shown = |value: Option<f64>| {
            value.map_or_else(dash, |value| format::quantity(change.figure, value))
        };
        let colour = if change.is_worse(comparison.tolerance) {
            Some(Color::Red)
        } else {
            None
        };
        table.add_row([
            Cell::new(change.figure.title),
            right(shown(change.before)),
            right(shown(change.now)),
            right(change.worse_by().map_or_else(dash, format::percent)),
            painted(change.word(comparison.tolerance), colour),
        ]);
    }
    text += &drawn(&mut table);
    if !gone.is_empty() {
        let names: Vec<_> = gone.iter().map(|change| change.figure.id).collect();
        text += &format!("Not measured now: {}.\n", names.join(", "));
    }
    let worse = comparison.worse().count();
    let tolerance = comparison.tolerance * 100.0;
    let figures = if worse == 1 {
        "figure is"
    } else {
        "figures are"
    };
    text += &format!("{worse} {figures} worse by more than {tolerance} %.\n");
    text
}

fn run_text(text: &mut String, run: &Run, style: Style) {
    let judged = judge_all(run);
    *text += &format!("\n{}\n", heading(run));
    let (shown, holes): (Vec<&Judged>, Vec<&Judged>) =
        judged.iter().partition(|one| is_measured(run, one.figure));
    for (group, title) in [(Group::Micro, "mechanism"), (Group::Lmbench, "lmbench")] {
        let rows: Vec<&Judged> = shown
            .iter()
            .copied()
            .filter(|one| one.figure.group == group)
            .collect();
        if !rows.is_empty() {
            *text += &format!("\n{}", drawn(&mut group_table(run, &rows, title, style)));
        }
    }
    text.push('\n');
    if !holes.is_empty() {
        let names: Vec<_> = holes.iter().map(|one| one.figure.id).collect();
        *text += &format!("Nowhere measured: {}.\n", names.join(", "));
    }
    *text += &summary_line(run, &judged);
    operations_text(text, run, style);
    for failure in &run.failures {
        failure_text(text, failure);
    }
}

/// What was counted beside the figures, and what that may cost on a CPU.
fn operations_text(text: &mut String, run: &Run, style: Style) {
    let counts = operations::counts(run);
    if counts.is_empty() {
        return;
    }
    *text += &format!("\n{}\n\n", operations::COUNTED);
    *text += &numbers(operations::counted_header(), counts, style);
    *text += &format!("\n{}\n\n", operations::ESTIMATE);
    *text += &numbers(
        operations::estimated_header(),
        operations::estimates(run),
        style,
    );
    let mut costs = empty(style);
    costs.set_header(operations::COSTS_HEADER);
    for [title, first, second, why] in operations::costs() {
        costs.add_row([
            Cell::new(title),
            right(first),
            right(second),
            Cell::new(why),
        ]);
    }
    *text += &format!("\n{}", drawn(&mut costs));
    for source in operations::sources() {
        *text += &format!("{source}\n");
    }
}

/// A table of numbers behind a title in each row.
fn numbers<T: Into<String>>(header: Vec<T>, rows: Vec<Vec<String>>, style: Style) -> String {
    let mut table = empty(style);
    let mut first = true;
    table.set_header(header.into_iter().map(|title| {
        let title = title.into();
        if std::mem::take(&mut first) {
            Cell::new(title)
        } else {
            right(title)
        }
    }));
    for row in rows {
        let mut cells = row.into_iter();
        let title = cells.next().map(Cell::new);
        table.add_row(
            title
                .into_iter()
                .chain(cells.map(right))
                .collect::<Vec<_>>(),
        );
    }
    drawn(&mut table)
}

/// Whether any side has it.
fn is_measured(run: &Run, figure: &Figure) -> bool {
    let mut sides = Side::ALL.iter();
    sides.any(|side| run.measured(figure.id, *side).is_some())
}

fn summary_line(run: &Run, judged: &[Judged]) -> String {
    let tally = Tally::of(judged);
    let differing = judged
        .iter()
        .filter(|one| matches!(widest(run, one.figure), Some(Spread::PlusMinus(_))));
    let single = judged
        .iter()
        .any(|one| widest(run, one.figure) == Some(Spread::Single));
    let figures = judged.iter().map(|one| one.figure);
    let shown = figures.filter(|figure| is_measured(run, figure));
    let other =
        format::other_units(shown, &run.machine).map_or_else(String::new, |line| line + "\n");
    let repeats = match (differing.count(), single) {
        (_, true) => "Some figures were measured once: their spread is not known.".to_owned(),
        (0, _) => "All repeats were identical.".to_owned(),
        (some, _) => format!("{some} figures differ between repeats, all others are identical."),
    };
    format!(
        "{} of {} limits reached, {} short, {} not measured. {repeats}\n\
         Values are medians of the repeats; behind each is what it costs beyond native: in percent, \
         or in the figure's unit and in percent.\n{other}",
        tally.reached,
        tally.limits(),
        tally.short,
        tally.not_measured
    )
}

fn heading(run: &Run) -> String {
    let machine = &run.machine;
    format!(
        "{}, {} MiB; QEMU {}, kernel {}, lmbench {}",
        machine.title(),
        machine.memory_mib,
        machine.qemu,
        machine.kernel,
        machine.lmbench
    )
}

fn failure_text(text: &mut String, failure: &Failure) {
    let side = failure.side.title();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{side} failed: {}", printable(&failure.why));
    for line in &failure.console {
        let _ = writeln!(text, "  | {}", printable(line));
    }
}

/// A guest's line without what would steer the reader's terminal.
fn printable(line: &str) -> String {
    let safe = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    line.chars().map(safe).collect()
}

fn group_table(run: &Run, rows: &[&Judged], title: &str, style: Style) -> Table {
    let mut table = empty(style);
    let mut header = vec![Cell::new(title), right("native")];
    for side in Side::HYPERVISORS {
        header.extend([right(side.id()), Cell::new("")]);
    }
    header.extend(["repeats", "published", "to reach", "verdict"].map(Cell::new));
    table.set_header(header);
    for judged in rows {
        table.add_row(row(run, judged));
    }
    table
}

fn row(run: &Run, judged: &Judged) -> Row {
    let figure = judged.figure;
    let title = format!("{}, {}", figure.title, format::unit(figure));
    let mut cells = vec![Cell::new(title), right(value(run, figure, Side::Native))];
    for side in Side::HYPERVISORS {
        cells.push(right(value(run, figure, side)));
        cells.push(right(against_native(run, figure, side)));
    }
    cells.push(Cell::new(repeats(run, figure)));
    cells.push(Cell::new(published(figure, &run.machine)));
    cells.push(right(format::bare_limit(figure).unwrap_or_else(dash)));
    cells.push(verdict(judged));
    Row::from(cells)
}

fn value(run: &Run, figure: &Figure, side: Side) -> String {
    match summary(run, figure, side) {
        Some(summary) => format::value(figure, summary.median),
        None if run.failures.iter().any(|failed| failed.side == side) => "failed".to_owned(),
        None => dash(),
    }
}

/// What `side` has against native, for figures that are judged so: what it costs beyond it in
/// percent, or in the figure's unit and in percent.
pub(crate) fn against_native(run: &Run, figure: &Figure, side: Side) -> String {
    match quantity(figure, run, side) {
        Ok(found) => match figure.terms() {
            Terms::Value => String::new(),
            Terms::Ratio => format::bare_quantity(figure, found.median),
            Terms::BeyondNative => {
                let beyond = format::bare_quantity(figure, found.median);
                let native = summary(run, figure, Side::Native).map(|native| native.median);
                match native {
                    Some(native) if native > 0.0 => {
                        format!("{beyond}, {}", format::percent(found.median / native))
                    }
                    _ => beyond,
                }
            }
        },
        Err(_) => String::new(),
    }
}

fn summary(run: &Run, figure: &Figure, side: Side) -> Option<Summary> {
    Summary::of(&run.measured(figure.id, side)?.values)
}

/// The widest spread of all sides: what a reader must allow for in this row.
pub(crate) fn widest(run: &Run, figure: &Figure) -> Option<Spread> {
    let sides = Side::ALL.into_iter();
    let spreads = sides.filter_map(|side| Some(summary(run, figure, side)?.spread));
    spreads.max_by(|a, b| width(*a).total_cmp(&width(*b)))
}

/// One run alone is the least that can be known, so it counts as the widest.
fn width(spread: Spread) -> f64 {
    match spread {
        Spread::Identical => 0.0,
        Spread::PlusMinus(by) => by,
        Spread::Single => f64::INFINITY,
    }
}

fn repeats(run: &Run, figure: &Figure) -> String {
    widest(run, figure).map_or_else(dash, format::spread)
}

/// What others reach, several values of one system drawn together. Those in the figure's
/// own terms, or all where there is none of these.
pub(crate) fn published(figure: &Figure, machine: &Machine) -> String {
    let fitting = figure.published_on(machine).any(|one| one.fits(figure));
    let mut together: Vec<(&str, Published)> = Vec::new();
    for one in figure
        .published_on(machine)
        .filter(|one| !fitting || one.fits(figure))
    {
        let name = family(one.system);
        let same = |(other, of): &&mut (&str, Published)| *other == name && of.given == one.given;
        match together.iter_mut().find(same) {
            Some((_, range)) => {
                range.low = range.low.min(one.low);
                range.high = range.high.max(one.high);
            }
            None => together.push((name, *one)),
        }
    }
    let shown = together
        .iter()
        .map(|(name, of)| format!("{name} {}", format::published(figure, of)));
    shown.collect::<Vec<_>>().join(", ")
}

/// A system's name without version and conditions: what is before the first digit or mark.
fn family(system: &str) -> &str {
    let end = system.find([',', '(']).unwrap_or(system.len());
    let name = system.split_at(end).0;
    match name.rsplit_once(' ') {
        Some((family, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => family,
        _ => name.trim(),
    }
}

fn verdict(judged: &Judged) -> Cell {
    let colour = match judged.outcome {
        Outcome::Reached if judged.doubtful => Some(Color::Yellow),
        Outcome::Reached => Some(Color::Green),
        Outcome::Short(_) => Some(Color::Red),
        Outcome::NotMeasured(_) | Outcome::NoLimit => None,
    };
    painted(format::verdict(judged), colour)
}

fn painted(text: impl Into<String>, colour: Option<Color>) -> Cell {
    let cell = Cell::new(text.into());
    match colour {
        Some(colour) => cell.fg(colour).add_attribute(Attribute::Bold),
        None => cell,
    }
}

fn right(text: impl Into<String>) -> Cell {
    Cell::new(text.into()).set_alignment(CellAlignment::Right)
}

fn dash() -> String {
    "-".to_owned()
}

fn empty(style: Style) -> Table {
    let mut table = Table::new();
    table.load_preset(RULED_HEADER);
    match style.width {
        Some(width) => {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            table.set_width(width);
        }
        None => {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
    }
    if style.colour {
        table.enforce_styling()
    } else {
        table.force_no_tty()
    };
    table
}

/// The table, its columns set apart by two blanks.
fn drawn(table: &mut Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    table.trim_fmt() + "\n"
}
