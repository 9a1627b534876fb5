//! What a pass of the scheduler and a wake cost over the number of neighbours, as SVG.

use super::found::{Found, Point, course, domains};
use super::systems::Neighbours;
use hanok_draw::axis::{Axis, Scale};
use hanok_draw::markup::{Element, el};
use hanok_draw::shapes::{circle, course as line_through, drawing, line, text, tipped};

const WIDTH: f64 = 784.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 290.0;

const STYLE: &str = "\
text{font:13px 'DejaVu Sans','Segoe UI',sans-serif;fill:#22272e}.tick{fill:#59626d}.end{text-anchor:end}\
.grid{stroke:#e4e7eb}.course{fill:none;stroke-width:2}\
.a{stroke:#0b62a4}.b{stroke:#b4530a}.c{stroke:#2d7a46}.d{stroke:#7a3a9a}.e,.f{stroke:#6b7280}\
.course.b{stroke-dasharray:7 4}.course.c{stroke-dasharray:2 4}.course.e{stroke-dasharray:9 3 2 3}\
.course.f{stroke-dasharray:4 2}.middle{text-anchor:middle}\
circle{fill:#fff;stroke-width:2}";

/// One curve: its class, what it is, its points.
type Curve = (&'static str, &'static str, Vec<Point>);

/// The drawing.
pub fn draw(found: &Found) -> String {
    let pass = |neighbours| course(found, neighbours, "physical-timer");
    let curves: [Curve; 6] = [
        (
            "a",
            "emulated timer's interrupt, idle",
            pass(Neighbours::Idle),
        ),
        ("b", "the same, never started", pass(Neighbours::Off)),
        ("c", "the same, runnable", pass(Neighbours::Runnable)),
        (
            "d",
            "wake from WFI, idle",
            course(found, Neighbours::Idle, "wake"),
        ),
        ("e", "Xen: wake, idle domains", domains(found, "wake")),
        (
            "f",
            "Xen: timer, idle domains",
            domains(found, "physical-timer"),
        ),
    ];
    let points = || curves.iter().flat_map(|(_, _, points)| points);
    let most = |of: fn(&Point) -> f64| points().map(of).fold(1.0, f64::max);
    let across = Axis::new(Scale::Linear, (0.0, most(|point| point.0)), (LEFT, RIGHT));
    let up = Axis::new(
        Scale::Linear,
        (0.0, most(|point| point.1) * 1.1),
        (BOTTOM, TOP),
    );
    let title = "Instructions over the number of vCPUs that share the core";
    let mut svg = drawing(WIDTH, HEIGHT, title)
        .child(el("style").style(STYLE))
        .child(text(LEFT, 18.0, title))
        .child(ground(&across, &up));
    for (at, curve) in curves.iter().enumerate() {
        svg = svg.child(drawn(curve, at, &across, &up));
    }
    svg.source()
}

fn ground(across: &Axis, up: &Axis) -> Element {
    let mut group = el("g");
    for tick in up.ticks(30.0) {
        let y = up.place(tick);
        group = group
            .child(line((LEFT, y), (RIGHT, y)).class("grid"))
            .child(text(LEFT - 8.0, y + 4.0, tick.to_string()).class("tick end"));
    }
    for tick in across.ticks(40.0) {
        let x = across.place(tick);
        group = group.child(text(x, BOTTOM + 20.0, tick.to_string()).class("tick middle"));
    }
    group.child(text(LEFT, BOTTOM + 40.0, "further vCPUs on the core").class("tick"))
}

fn drawn((class, what, points): &Curve, at: usize, across: &Axis, up: &Axis) -> Element {
    let places: Vec<_> = points
        .iter()
        .map(|(count, cost)| (across.place(*count), up.place(*cost)))
        .collect();
    let mut group = el("g").child(line_through(&places).class(format!("course {class}")));
    for ((count, cost), place) in points.iter().zip(&places) {
        let mark = circle(*place, 3.5).class(*class);
        group = group.child(tipped(mark, format!("{count} beside: {cost:.0}, {what}")));
    }
    let y = TOP + 10.0 + 22.0 * at as f64;
    let sample = line((RIGHT + 12.0, y), (RIGHT + 36.0, y)).class(format!("course {class}"));
    group.child(sample).child(text(
        RIGHT + 42.0,
        y + 4.0,
        what.replace("emulated timer's interrupt", "timer"),
    ))
}
