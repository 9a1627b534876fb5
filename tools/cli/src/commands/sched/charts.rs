//! Drawings of the page: demand against supply, bandwidth over period, shares of the cores.
//!
//! All values are computed exactly; only positions in the drawing are floating point.

use hanok_analysis::supply::Supply;
use hanok_analysis::{InterfaceRequest, Verdict};
use hanok_analysis::{Work, Workload, cost_beyond, global, load, price, upon};
use hanok_draw::axis::{Axis, Scale};
use hanok_draw::labels::{self, Point, Rectangle};
use hanok_draw::markup::{Element, el};
use hanok_draw::shapes::{circle, course, drawing, line, text};
use hanok_task_model::{ComponentId, Nanos, Periods, Plan, Proof};

use super::found::{Found, percent};

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 258.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 546.0;
/// The height above the plot, for a line of text.
const TOP: f64 = 22.0;
const BOTTOM: f64 = 220.0;
/// The number of points of a curve.
const SAMPLES: i128 = 480;
/// The number of periods that are tried for a drawing.
const PERIODS: u32 = 90;

/// A unit that makes the numbers of an axis short, and its size.
fn unit(most: f64) -> (f64, &'static str) {
    match most {
        most if most >= 2e9 => (1e9, "s"),
        most if most >= 2e6 => (1e6, "ms"),
        most if most >= 2e3 => (1e3, "us"),
        _ => (1.0, "ns"),
    }
}

/// The two axes of a drawing, with their marks in units.
struct Frame {
    across: Axis,
    up: Axis,
}

impl Frame {
    fn new(scale: Scale, across: (f64, f64), up: (f64, f64)) -> Self {
        Self {
            across: Axis::new(scale, across, (LEFT, RIGHT)),
            up: Axis::new(Scale::Linear, up, (BOTTOM, TOP)),
        }
    }

    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        (self.across.place(x), self.up.place(y))
    }

    /// The grid, the marks and the axes' names.
    fn ground(&self, across: (f64, &str), up: (f64, &str)) -> Element {
        let mut group = el("g");
        for tick in self.up.ticks(26.0) {
            let y = self.up.place(tick);
            let label = text(LEFT - 6.0, y + 4.0, number(tick / up.0));
            group = group.child(line((LEFT, y), (RIGHT, y)).class("grid"));
            group = group.child(label.class("tick end"));
        }
        for tick in self.across.ticks(52.0) {
            let x = self.across.place(tick);
            let label = text(x, BOTTOM + 16.0, number(tick / across.0));
            group = group.child(line((x, TOP), (x, BOTTOM)).class("grid"));
            group = group.child(label.class("tick middle"));
        }
        let below = text(RIGHT, BOTTOM + 33.0, across.1).class("tick end");
        let above = text(LEFT, TOP - 8.0, up.1).class("tick");
        group.child(below).child(above)
    }
}

/// A number without trailing zeros.
fn number(value: f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    format!("{rounded}")
}

/// What is drawn of a component: its members, their supply, and the instant that matters.
struct Scene {
    workload: Workload,
    supply: Supply,
    mark: Option<i128>,
}

fn scene(found: &Found<'_>, id: ComponentId) -> Option<Scene> {
    match found.analysis.components.get(id.0 as usize)? {
        Verdict::Refuted(refused) => {
            let member = found.analysis.refutations.iter().find(|refuted| {
                let inside = refused.workload.loads.iter();
                refuted.vcpu.is_none() && inside.clone().any(|load| load.member == refuted.member)
            });
            let mut workload = refused.workload.clone();
            let late = member.map(|refuted| refuted.member);
            let place = workload
                .loads
                .iter()
                .position(|load| Some(load.member) == late);
            if let (true, Some(place)) = (workload.policy.is_fixed(), place) {
                // Lower priorities do not delay it.
                workload.loads.truncate(place + 1);
            }
            Some(Scene {
                workload,
                supply: refused.supply,
                mark: member.map(|refuted| i128::from(refuted.at.get())),
            })
        }
        Verdict::Proven(proof) => {
            let workload = found.analysis.workload(found.model(), id)?;
            let supply = upon(&proof.interface, &workload).ok()?;
            let mark = match &proof.proof {
                Proof::Fixed(ends) => ends.last().map(|end| i128::from(*end)),
                _ => None,
            };
            Some(Scene {
                workload,
                supply,
                mark,
            })
        }
        _ => None,
    }
}

impl Scene {
    /// The demand at `t`: of all members under EDF, of the lowest one with all above it under fixed
    /// priorities, of the member that needs most on several CPUs.
    fn demand(&self, t: i128) -> i128 {
        let loads = &self.workload.loads;
        if self.workload.cpus > 1 {
            let places = (0..loads.len()).filter(|place| t >= loads[*place].window());
            let each = places.map(|place| global::competing(loads, place, self.workload.cpus, t));
            return each.max().unwrap_or(0);
        }
        if !self.workload.policy.is_fixed() {
            load::due(loads, t)
        } else if t > 0 {
            load::requested(loads, t)
        } else {
            0
        }
    }

    /// The last instant of the drawing.
    fn end(&self) -> i128 {
        let windows = self.workload.loads.iter().map(|load| load.window().max(1));
        let longest = windows.clone().max().unwrap_or(1);
        let shortest = windows.min().unwrap_or(1);
        let fixed = self.workload.policy.is_fixed();
        let lowest = self
            .workload
            .loads
            .last()
            .map_or(1, |load| load.fixed_window());
        let far = if fixed { lowest } else { longest * 3 / 2 };
        // More periods would make the drawing a grey area.
        let visible = (self.supply.period() * 40).max(shortest * 3 / 2);
        far.min(visible).max(self.mark.unwrap_or(0) * 9 / 8).max(1)
    }

    /// The instant with the least surplus of supply, until `end`.
    fn tightest(&self, end: i128) -> Option<i128> {
        if let Some(mark) = self.mark {
            return Some(mark);
        }
        let loads = &self.workload.loads;
        let mut best: Option<(f64, i128)> = None;
        let mut at = 0;
        for _ in 0..2_000 {
            let next = loads.iter().map(|load| load.next_due(at)).min()?;
            if next > end {
                break;
            }
            let given = self.supply.within(next).ok()?.to_integer();
            let spare = (given - self.demand(next)) as f64;
            let better = best.is_none_or(|(least, _)| spare < least);
            if self.demand(next) > 0 && better {
                best = Some((spare, next));
            }
            at = next + 1;
        }
        best.map(|(_, at)| at)
    }
}

/// The drawing of a component's demand and supply.
pub fn demand(found: &Found<'_>, id: ComponentId) -> Option<Element> {
    let scene = scene(found, id)?;
    if scene.workload.loads.is_empty() {
        return None;
    }
    let end = scene.end();
    let at = |index: i128| end * index / SAMPLES;
    let given = |t: i128| scene.supply.within(t).ok().map(|r| r.to_integer() as f64);
    let top = given(end)?.max(scene.demand(end) as f64).max(1.0) * 1.06;
    let frame = Frame::new(Scale::Linear, (0.0, end as f64), (0.0, top));
    let (across, up) = (unit(end as f64), unit(top));
    let mut supplied = Vec::new();
    let mut demanded = Vec::new();
    let mut last = 0.0;
    for t in (0..=SAMPLES).map(at) {
        supplied.push(frame.place(t as f64, given(t)?));
        let now = scene.demand(t) as f64;
        // A step is drawn upright.
        demanded.push(frame.place(t as f64, last));
        demanded.push(frame.place(t as f64, now));
        last = now;
    }
    let title = format!("Demand and least supply of {}", found.component(id));
    let mut svg = drawing(WIDTH, HEIGHT, &title).child(frame.ground(
        (across.0, &format!("{} after the worst release", across.1)),
        (up.0, &format!("{} of CPU time", up.1)),
    ));
    svg = svg.child(course(&supplied).class("course supply"));
    svg = svg.child(course(&demanded).class("course demand"));
    if let Some(mark) = scene.tightest(end) {
        svg = svg.child(marked(&scene, &frame, mark, &[&supplied, &demanded]));
    }
    Some(svg)
}

/// A label near `at` that covers none of `lines`, and a line to it where it is far.
fn label(at: Point, words: String, class: &str, lines: &[&[Point]]) -> Element {
    let plot = Rectangle {
        from: (LEFT, TOP),
        to: (RIGHT, BOTTOM),
    };
    let found = labels::place(at, words.chars().count(), plot, lines);
    let (x, y) = found.start();
    let lead = found.lead.map(|near| line(at, near).class("lead"));
    el("g")
        .children(lead)
        .child(text(x, y, words).class(format!("{class} halo")))
}

/// The instant with the least surplus, or the one where the supply is too little.
fn marked(scene: &Scene, frame: &Frame, mark: i128, curves: &[&[Point]; 2]) -> Element {
    let demand = scene.demand(mark.max(1));
    let given = scene
        .supply
        .within(mark)
        .map_or(0, |given| given.to_integer());
    let (x, y) = frame.place(mark as f64, demand as f64);
    let (_, there) = frame.place(mark as f64, given as f64);
    let at = super::found::time(mark);
    let short = demand > given;
    let words = if short {
        format!("{at}: {} short", super::found::time(demand - given))
    } else if scene.workload.policy.is_fixed() {
        let last = scene.workload.loads.last();
        let due = last.map_or(0, |load| load.fixed_window());
        format!("complete at {at}, due at {}", super::found::time(due))
    } else {
        format!("{at}: {} to spare", super::found::time(given - demand))
    };
    let class = if short { "short" } else { "reached" };
    let instant = [(x, TOP), (x, BOTTOM)];
    let [supplied, demanded] = *curves;
    let label = label((x, y), words, class, &[supplied, demanded, &instant]);
    el("g")
        .child(line((x, TOP), (x, BOTTOM)).class("instant"))
        .child(line((x, y), (x, there)).class(format!("gap {class}")))
        .child(circle((x, y), 3.4).class("demand"))
        .child(label)
}

/// The drawing of the share of a CPU that a component takes, over its period.
pub fn bandwidth(found: &Found<'_>, id: ComponentId) -> Option<Element> {
    let component = found.model().component(id)?;
    let workload = found.analysis.workload(found.model(), id)?;
    let wanted = found.analysis.wanted(found.model(), id, &workload)?;
    let chosen = found.proof(id).map(|proof| proof.interface);
    let (least, most) = match component.plan {
        Plan::Find {
            periods: Periods::Range { least, most },
            ..
        } => (least, most),
        Plan::Find {
            periods: Periods::One(period),
            ..
        } => around(period),
        Plan::Given(interface) => around(interface.period),
        Plan::Longest { period, .. } => around(period),
    };
    let points = sampled(&wanted, least, most, chosen.map(|found| found.period));
    let first = points.first()?;
    let top = points
        .iter()
        .map(|point| point.2)
        .fold(first.2, f64::max)
        .min(1.2)
        * 1.05;
    let low = points.iter().map(|point| point.1).fold(first.1, f64::min);
    let rate: f64 = workload
        .loads
        .iter()
        .map(|load| load.execution as f64 / load.period as f64)
        .sum();
    let bottom = (low.min(rate) * 0.92).max(0.0);
    let ends = (least.get().max(1) as f64, most.get() as f64);
    let frame = Frame::new(Scale::Log, ends, (bottom * 100.0, top * 100.0));
    let across = unit(ends.1);
    let title = format!(
        "Share of a CPU that {} takes, over its period",
        found.component(id)
    );
    let place = |period: f64, share: f64| frame.place(period, share * 100.0);
    let own: Vec<_> = points.iter().map(|point| place(point.0, point.1)).collect();
    let all: Vec<_> = points.iter().map(|point| place(point.0, point.2)).collect();
    let (_, limit) = place(ends.0, rate);
    let ground = frame.ground(
        (across.0, &format!("period in {}", across.1)),
        (1.0, "% of a CPU"),
    );
    let mut svg = drawing(WIDTH, HEIGHT, &title)
        .child(ground)
        .child(line((LEFT, limit), (RIGHT, limit)).class("limit"))
        .child(course(&own).class("course supply"))
        .child(course(&all).class("course cost"));
    if let Some(interface) = chosen {
        let period = interface.period.get() as f64;
        let model = found.model();
        let cost = model
            .component(id)
            .map_or(0, |own| cost_beyond(model, own).get()) as f64;
        let share = (interface.budget.get() as f64 + cost) / period;
        let (x, y) = place(period, share);
        let dot = circle((x, y), 4.2).class("chosen");
        let words = format!("{}: {}", interface.period, percent(share));
        let limit = [(LEFT, limit), (RIGHT, limit)];
        let label = label((x, y), words, "strong", &[&own, &all, &limit]);
        svg = svg.child(dot).child(label);
    }
    Some(svg)
}

/// From a quarter to four times the period.
fn around(period: Nanos) -> (Nanos, Nanos) {
    let quarter = (period.get() / 4).max(1);
    (
        Nanos::new(quarter),
        Nanos::new(period.get().saturating_mul(4)),
    )
}

/// Periods at equal ratios and whole fractions of the members' periods, each with the share of the
/// budget alone and with switching costs.
fn sampled(
    wanted: &InterfaceRequest<'_>,
    least: Nanos,
    most: Nanos,
    chosen: Option<Nanos>,
) -> Vec<(f64, f64, f64)> {
    let mut work = Work::new(Work::TEST);
    let (low, high) = (least.get().max(1) as f64, most.get().max(1) as f64);
    let mut points: Vec<(f64, f64, f64)> = Vec::new();
    let even = |index: u32| {
        let part = f64::from(index) / f64::from(PERIODS);
        (low * (high / low).powf(part)) as i128
    };
    let mut periods: Vec<i128> = (0..=PERIODS).map(even).collect();
    let members = wanted.loads.iter().take(12);
    periods.extend(members.flat_map(|load| (1..=12).map(|part| load.period / part)));
    periods.extend(chosen.map(|period| i128::from(period.get())));
    periods.retain(|period| (low as i128..=high as i128).contains(period));
    let mut ticks: Vec<i128> = periods
        .iter()
        .map(|period| (period / wanted.tick).max(1))
        .collect();
    ticks.sort_unstable();
    ticks.dedup();
    for ticks in ticks {
        if let Some(found) = price(wanted, ticks * wanted.tick, &mut work) {
            let period = found.period as f64;
            let with = found.budget as f64 + wanted.cost as f64;
            points.push((period, found.budget as f64 / period, with / period));
        }
    }
    points
}
