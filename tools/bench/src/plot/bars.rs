//! The drawing of one mechanism: what was measured here, what others published, and the limit.
//!
//! Bars start at zero, so that lengths can be compared. Where the greatest value is so much more
//! than the least that small ones would vanish, dots on a logarithmic axis take their place,
//! because lengths of bars would mislead there.

use super::mark::mark;
use crate::figure::{Figure, Terms};
use crate::format;
use crate::machine::{Machine, Side};
use crate::model::Run;
use crate::table;
use crate::verdict::quantity;
use hanok_draw::axis::{Axis, Scale};
use hanok_draw::markup::{Element, el};
use hanok_draw::shapes::{circle, drawing, line, rect, text, tipped};

const WIDTH: f64 = 500.0;
const LEFT: f64 = 180.0;
const RIGHT: f64 = 372.0;
const TOP: f64 = 20.0;
const ROW: f64 = 23.0;
/// What sets the published rows apart from those measured here.
const GAP: f64 = 18.0;
/// About the width of a digit of a label.
const DIGIT: f64 = 8.0;
/// From this ratio of greatest to least on, the axis is logarithmic.
const TOO_FAR: f64 = 25.0;

/// One line of the drawing.
struct Row {
    name: String,
    side: Option<Side>,
    published: bool,
    low: f64,
    value: f64,
    label: String,
    tip: String,
}

/// The drawing; `None` where nothing was measured.
pub(crate) fn draw(figure: &Figure, run: &Run) -> Option<Element> {
    let mut rows = measured(figure, run);
    if rows.is_empty() {
        return None;
    }
    rows.extend(published(figure, &run.machine));
    let places = places(&rows);
    let bottom = TOP + ROW * rows.len() as f64 + gap(&rows);
    let (axis, bars) = axis(figure, &rows);
    let title = format!("{}: measured, published, and to reach", figure.title);
    let drawn = rows.iter().zip(&places);
    // Labels last, so that no line runs through them.
    let marks = drawn.clone().map(|(row, y)| marked(row, &axis, bars, *y));
    let reach = figure.to_reach().map(|most| place_of(figure, most));
    let limit_at = reach.map(|most| axis.place(most));
    let labels = drawn.map(|(row, y)| {
        let end = axis.place(row.value.max(0.0)) + if bars { 6.0 } else { 11.0 };
        labelled(row, clear_of(limit_at, end, &row.label), *y)
    });
    Some(
        drawing(WIDTH, bottom + 24.0, &title)
            .child(grid(figure, &axis, bottom))
            .children(marks)
            .children(limit(figure, &axis, bottom))
            .children(divider(&rows))
            .children(labels),
    )
}

/// Room between what was measured and what was published, where there is both.
fn gap(rows: &[Row]) -> f64 {
    if rows.iter().any(|row| row.published) {
        GAP
    } else {
        0.0
    }
}

/// The middle of every row.
fn places(rows: &[Row]) -> Vec<f64> {
    let middle = |(at, row): (usize, &Row)| {
        let shift = if row.published { GAP } else { 0.0 };
        TOP + ROW * (at as f64 + 0.5) + shift
    };
    rows.iter().enumerate().map(middle).collect()
}

fn divider(rows: &[Row]) -> Option<Element> {
    let measured = rows.iter().filter(|row| !row.published).count();
    let y = TOP + ROW * measured as f64 + GAP * 0.75;
    (measured < rows.len()).then(|| text(LEFT - 8.0, y, "published").class("tick end"))
}

/// Where a quantity lies: a multiple of native by what it is beyond native.
fn place_of(figure: &Figure, quantity: f64) -> f64 {
    match figure.terms() {
        Terms::Ratio => quantity - 1.0,
        Terms::Value | Terms::BeyondNative => quantity,
    }
}

fn measured(figure: &Figure, run: &Run) -> Vec<Row> {
    let of = |side: Side| {
        let found = quantity(figure, run, side).ok()?;
        let against = table::against_native(run, figure, side);
        let label = if against.is_empty() {
            format::bare_quantity(figure, found.median)
        } else {
            against
        };
        Some(Row {
            name: side.title().to_owned(),
            side: Some(side),
            published: false,
            low: place_of(figure, found.median),
            value: place_of(figure, found.median),
            tip: format!("{} here: {label}", side.title()),
            label,
        })
    };
    Side::HYPERVISORS.into_iter().filter_map(of).collect()
}

fn published(figure: &Figure, machine: &Machine) -> impl Iterator<Item = Row> {
    let fitting = figure.published_on(machine);
    let fitting = fitting.filter(|one| one.fits(figure));
    fitting.map(|one| Row {
        name: one.system.to_owned(),
        side: one.side,
        published: true,
        low: place_of(figure, one.low),
        value: place_of(figure, one.high),
        label: format::published(figure, one),
        tip: format!("{}: {}", one.system, one.source),
    })
}

/// The axis, and whether bars may stand on it.
fn axis(figure: &Figure, rows: &[Row]) -> (Axis, bool) {
    let values = rows.iter().flat_map(|row| [row.low, row.value]);
    let reach = figure.to_reach().map(|most| place_of(figure, most));
    let values = values.chain(reach);
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        low = low.min(value);
        high = high.max(value);
    }
    if low > 0.0 && high / low > TOO_FAR {
        let around = (low / 1.6, high * 1.2);
        (Axis::new(Scale::Log, around, (LEFT, RIGHT)), false)
    } else {
        // Less than native is drawn to the left of zero.
        let around = (low.min(0.0), high.max(f64::MIN_POSITIVE) * 1.02);
        (Axis::new(Scale::Linear, around, (LEFT, RIGHT)), true)
    }
}

fn grid(figure: &Figure, axis: &Axis, bottom: f64) -> Element {
    let mut group = el("g");
    for tick in axis.ticks(62.0) {
        let x = axis.place(tick);
        let label = match figure.terms() {
            Terms::Ratio => format::bare_quantity(figure, tick + 1.0),
            Terms::Value | Terms::BeyondNative => format::bare_quantity(figure, tick),
        };
        group = group
            .child(line((x, TOP), (x, bottom)).class("grid"))
            .child(text(x, bottom + 16.0, short(&label)).class("tick middle"));
    }
    group
}

/// Without the zeros that a round value does not need.
fn short(label: &str) -> String {
    match label.strip_suffix(" %") {
        Some(number) if number.contains('.') => {
            format!("{} %", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => label.to_owned(),
    }
}

fn marked(row: &Row, axis: &Axis, bars: bool, middle: f64) -> Element {
    let group = if bars {
        bar(row, axis, middle)
    } else {
        spot(row, axis, middle)
    };
    tipped(group, &row.tip)
}

/// Where a label that would start at `end` starts, so that the limit's line does not run
/// through it.
fn clear_of(limit: Option<f64>, end: f64, label: &str) -> f64 {
    let width = DIGIT * label.chars().count() as f64;
    match limit {
        Some(x) if (end - 3.0..end + width).contains(&x) => x + 6.0,
        _ => end,
    }
}

fn labelled(row: &Row, end: f64, middle: f64) -> Element {
    let (name, value) = match (row.published, row.side) {
        (false, Some(Side::Hanok)) => ("end strong", "strong halo"),
        (false, _) => ("end", "strong halo"),
        (true, _) => ("end faint", "faint halo"),
    };
    let group = el("g")
        .child(text(LEFT - 8.0, middle + 4.0, &row.name).class(name))
        .child(text(end, middle + 4.0, &row.label).class(value));
    tipped(group, &row.tip)
}

fn class_of(row: &Row) -> String {
    let side = row.side.map_or("other", Side::id);
    if row.published {
        format!("published {side}")
    } else {
        format!("bar {side}")
    }
}

fn bar(row: &Row, axis: &Axis, middle: f64) -> Element {
    let (zero, end) = (axis.place(0.0), axis.place(row.value));
    let half = if row.published { 4.0 } else { 7.0 };
    let bar = rect(
        (zero.min(end), middle - half),
        ((end - zero).abs(), 2.0 * half),
    );
    el("g").child(bar.class(class_of(row)))
}

fn spot(row: &Row, axis: &Axis, middle: f64) -> Element {
    let x = axis.place(row.value);
    let group = el("g").child(line((LEFT, middle), (x, middle)).class("row"));
    match (row.published, row.side) {
        (false, Some(side)) => group.child(mark(side, x, middle)),
        _ => {
            let ring = circle((x, middle), 4.0);
            group.child(ring.class(class_of(row)))
        }
    }
}

fn limit(figure: &Figure, axis: &Axis, bottom: f64) -> Vec<Element> {
    let Some(most) = figure.to_reach() else {
        return Vec::new();
    };
    let x = axis.place(place_of(figure, most));
    let label = format!("to reach {}", format::bare_quantity(figure, most));
    vec![
        line((x, TOP - 4.0), (x, bottom)).class("limit"),
        text(x, TOP - 8.0, label).class("limit-label middle"),
    ]
}
