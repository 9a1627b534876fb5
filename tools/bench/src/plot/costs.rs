//! The drawing of lmbench's rows: what each hypervisor costs beyond native.
//!
//! The axis is linear around zero and logarithmic beyond a few percent, so that a limit of 1 % can
//! be judged by eye even where another row is ten times native.

use super::mark::mark;
use crate::figure::{Figure, Group, PublishedAs, Terms};
use crate::figures::figures_on;
use crate::format;
use crate::machine::{Machine, Side};
use crate::model::Run;
use crate::verdict::{Outcome, Quantity, judge, quantity};
use hanok_draw::axis::{Axis, Scale};
use hanok_draw::markup::{Element, el};
use hanok_draw::shapes::{drawing, line, rect, text, tipped};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 214.0;
const RIGHT: f64 = 830.0;
const TOP: f64 = 52.0;
const ROW: f64 = 30.0;
/// The largest value for which the axis is linear.
const EVEN: f64 = 0.02;

/// One row: a figure with what each hypervisor costs, 0 being native.
struct Row {
    figure: &'static Figure,
    costs: Vec<(Side, Quantity)>,
}

/// The drawing; `None` where no row can be drawn.
pub(crate) fn draw(run: &Run) -> Option<Element> {
    let rows = rows(run);
    if rows.is_empty() {
        return None;
    }
    let bottom = TOP + ROW * rows.len() as f64;
    let axis = Axis::new(
        Scale::Around(EVEN),
        range(&rows, &run.machine),
        (LEFT, RIGHT),
    );
    let title = "Cost of lmbench's rows beyond native, by hypervisor; the table has the values";
    let mut svg = drawing(WIDTH, bottom + 30.0, title)
        .child(legend())
        .child(grid(&axis, bottom));
    for (at, row) in rows.iter().enumerate() {
        svg = svg.child(drawn(row, run, &axis, TOP + ROW * at as f64));
    }
    Some(svg.child(limits(&rows, &axis)))
}

fn rows(run: &Run) -> Vec<Row> {
    let figures = figures_on(run.machine.extensions).iter();
    let rows = figures
        .filter(|figure| figure.group == Group::Lmbench && figure.terms() == Terms::Ratio)
        .map(|figure| Row {
            figure,
            costs: costs(figure, run),
        });
    rows.filter(|row| !row.costs.is_empty()).collect()
}

fn costs(figure: &Figure, run: &Run) -> Vec<(Side, Quantity)> {
    let of = |side| Some((side, quantity(figure, run, side).ok()?));
    Side::HYPERVISORS.into_iter().filter_map(of).collect()
}

/// All values, limits and published ranges, with some room; never narrower than a limit's
/// neighbourhood.
fn range(rows: &[Row], machine: &Machine) -> (f64, f64) {
    let (mut low, mut high) = (-0.03_f64, 0.05_f64);
    for row in rows {
        let published = row.figure.published_on(machine);
        let published = published
            .filter(|one| one.given == PublishedAs::Ratio)
            .flat_map(|one| [one.low, one.high]);
        let measured = row
            .costs
            .iter()
            .flat_map(|(_, cost)| [cost.least, cost.greatest]);
        for value in published.chain(measured) {
            low = low.min(value - 1.0);
            high = high.max(value - 1.0);
        }
    }
    (low * 1.15, high * 1.15)
}

fn legend() -> Element {
    let mut group = el("g");
    let mut x = LEFT;
    for side in Side::HYPERVISORS {
        group = group
            .child(mark(side, x + 5.0, 13.0))
            .child(text(x + 15.0, 17.0, side.title()));
        x += 75.0;
    }
    group = group
        .child(rect((x, 10.0), (22.0, 6.0)).class("range xen"))
        .child(text(x + 28.0, 17.0, "published range"));
    x += 152.0;
    group
        .child(line((x, 6.0), (x, 20.0)).class("limit"))
        .child(text(x + 8.0, 17.0, "to reach (Hanok)"))
        .child(text(RIGHT + 22.0, 17.0, "Hanok").class("strong"))
}

fn grid(axis: &Axis, bottom: f64) -> Element {
    let mut group = el("g");
    for tick in axis.ticks(46.0) {
        let x = axis.place(tick);
        let class = if tick == 0.0 { "grid zero" } else { "grid" };
        let label = match tick {
            0.0 => "native".to_owned(),
            _ => tick_label(tick),
        };
        group = group.child(line((x, TOP - 6.0), (x, bottom)).class(class));
        for y in [TOP - 12.0, bottom + 18.0] {
            group = group.child(text(x, y, &label).class("tick middle"));
        }
    }
    group
}

/// `+5 %`, without the digits that a round value lacks.
fn tick_label(fraction: f64) -> String {
    let percent = (fraction * 1e4).round() / 100.0;
    format!("{percent:+} %")
}

fn drawn(row: &Row, run: &Run, axis: &Axis, top: f64) -> Element {
    let middle = top + ROW / 2.0;
    let mut group = el("g")
        .child(line((0.0, top + ROW), (WIDTH, top + ROW)).class("row"))
        .child(text(LEFT - 14.0, middle + 4.0, row.figure.title).class("end"))
        .child(judged(row.figure, run, middle));
    for one in row.figure.published_on(&run.machine) {
        if let (PublishedAs::Ratio, Some(side)) = (one.given, one.side) {
            let y = lane(side, middle);
            let (from, to) = (axis.place(one.low - 1.0), axis.place(one.high - 1.0));
            let tip = format!(
                "{}, published: {}",
                one.system,
                format::published(row.figure, one)
            );
            let range = rect((from, y - 3.0), (to - from, 6.0));
            group = group.child(tipped(range.class(format!("range {}", side.id())), tip));
        }
    }
    // Hanok last: on top.
    for (side, cost) in row.costs.iter().rev() {
        group = group.child(dot(row.figure, *side, cost, axis, lane(*side, middle)));
    }
    group
}

/// Each hypervisor's height in a row, so that equal ones do not hide each other.
fn lane(side: Side, middle: f64) -> f64 {
    match side {
        Side::Native | Side::Hanok => middle - 8.0,
        Side::Xen => middle,
        Side::Kvm => middle + 8.0,
    }
}

fn dot(figure: &Figure, side: Side, cost: &Quantity, axis: &Axis, y: f64) -> Element {
    let place = |value| axis.place(value - 1.0);
    let tip = format!(
        "{}, {}: {} beyond native",
        figure.title,
        side.title(),
        format::percent(cost.median - 1.0)
    );
    let whisker = line((place(cost.least), y), (place(cost.greatest), y));
    let group = el("g")
        .child(whisker.class(format!("whisker {}", side.id())))
        .child(mark(side, place(cost.median), y));
    tipped(group, tip)
}

fn judged(figure: &'static Figure, run: &Run, middle: f64) -> Element {
    let judged = judge(figure, run);
    let (sign, class) = match judged.outcome {
        Outcome::Reached if judged.doubtful => ("✓?", "doubtful"),
        Outcome::Reached => ("✓", "reached"),
        Outcome::Short(_) => ("✗", "short"),
        Outcome::NotMeasured(_) => ("not measured", "none"),
        Outcome::NoLimit => ("no limit", "none"),
    };
    let found = judged.quantity;
    let cost = found.map_or_else(String::new, |found| format::percent(found.median - 1.0));
    el("g")
        .child(text(RIGHT + 82.0, middle + 4.0, cost).class("end"))
        .child(text(RIGHT + 96.0, middle + 4.0, sign).class(class))
}

/// The limit of every row: one line with steps.
fn limits(rows: &[Row], axis: &Axis) -> Element {
    let mut group = el("g");
    for (at, row) in rows.iter().enumerate() {
        if let Some(limit) = row.figure.to_reach() {
            let (x, top) = (axis.place(limit - 1.0), TOP + ROW * at as f64);
            group = group.child(line((x, top), (x, top + ROW)).class("limit"));
        }
    }
    group
}
