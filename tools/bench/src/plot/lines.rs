//! A figure of Hanok over commits.

use crate::figure::Figure;
use crate::format;
use crate::history::Entry;
use crate::machine::Side;
use crate::verdict::quantity;
use hanok_draw::axis::{Axis, Scale};
use hanok_draw::markup::{Element, el};
use hanok_draw::shapes::{circle, course, drawing, line, text, tipped};

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 118.0;
const LEFT: f64 = 12.0;
const RIGHT: f64 = 232.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 98.0;

/// A commit's value, in the figure's terms.
struct Point {
    at: usize,
    commit: String,
    value: f64,
}

/// The drawing of `figure` over `entries`, oldest first; `None` where no commit has it.
pub(crate) fn draw(figure: &Figure, entries: &[&Entry]) -> Option<Element> {
    let points = points(figure, entries);
    let last = points.last()?;
    let across = (0.0, entries.len().saturating_sub(1) as f64);
    let across = Axis::new(Scale::Linear, across, (LEFT, RIGHT));
    let up = Axis::new(Scale::Linear, range(figure, &points), (BOTTOM, TOP));
    let title = format!(
        "{} over {} commits, now {}",
        figure.title,
        points.len(),
        format::quantity(figure, last.value)
    );
    let mut svg = drawing(WIDTH, HEIGHT, &title).child(ground(figure, &up));
    svg = svg.children(limit(figure, &up));
    let place = |point: &Point| (across.place(point.at as f64), up.place(point.value));
    let places: Vec<_> = points.iter().map(place).collect();
    svg = svg.child(course(&places).class("course hanok"));
    for (point, (x, y)) in points.iter().zip(&places) {
        let value = format::quantity(figure, point.value);
        let dot = circle((*x, *y), 3.2);
        let tip = format!("{}: {value}", point.commit);
        svg = svg.child(tipped(dot.class("mark hanok"), tip));
    }
    Some(svg.child(ends(entries)))
}

fn points(figure: &Figure, entries: &[&Entry]) -> Vec<Point> {
    let of = |(at, entry): (usize, &&Entry)| {
        let found = quantity(figure, &entry.run(), Side::Hanok).ok()?;
        Some(Point {
            at,
            commit: entry.short_commit(),
            value: found.median,
        })
    };
    entries.iter().enumerate().filter_map(of).collect()
}

/// The range of all values and the limit. It does not start at zero: a line shows its course, not
/// its size.
fn range(figure: &Figure, points: &[Point]) -> (f64, f64) {
    let values = points.iter().map(|point| point.value);
    let values = values.chain(figure.to_reach());
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let room = ((high - low) * 0.12).max(high.abs() * 0.01);
    (low - room, high + room)
}

fn ground(figure: &Figure, up: &Axis) -> Element {
    let mut group = el("g");
    for tick in up.ticks(26.0) {
        let y = up.place(tick);
        let label = format::bare_quantity(figure, tick);
        group = group
            .child(line((LEFT, y), (RIGHT, y)).class("grid"))
            .child(text(WIDTH - 2.0, y + 3.5, label).class("tick end"));
    }
    group
}

fn limit(figure: &Figure, up: &Axis) -> Option<Element> {
    let y = up.place(figure.to_reach()?);
    let tip = format!("to reach: {}", format::limit(figure));
    Some(tipped(line((LEFT, y), (RIGHT, y)).class("limit"), tip))
}

fn ends(entries: &[&Entry]) -> Element {
    let of = |entry: Option<&&Entry>| entry.map(|entry| entry.short_commit()).unwrap_or_default();
    let mut group = el("g");
    if entries.len() > 1 {
        let first = text(LEFT, HEIGHT - 4.0, of(entries.first()));
        group = group.child(first.class("tick"));
    }
    let last = text(RIGHT, HEIGHT - 4.0, of(entries.last()));
    group.child(last.class("tick end"))
}

/// The newest commit's value of `figure`, in its terms.
pub(crate) fn latest(figure: &Figure, entries: &[&Entry]) -> Option<f64> {
    points(figure, entries).last().map(|point| point.value)
}
