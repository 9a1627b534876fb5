//! The timeline as a drawing: cores above, tasks below, with releases and deadlines of jobs.

use hanok_draw::markup::{Element, el};
use hanok_draw::shapes::{circle, drawing, line, rect, text, tipped};
use hanok_simulator::{Job, Segment};
use hanok_task_model::{ComponentId, TaskId};

use super::shown::Shown;
use crate::commands::sched::times::readable;

/// The position where time begins if names are short, and the width of the time axis, in pixels.
const LEFT: f64 = 170.0;
const WIDTH: f64 = 1000.0;
const RIGHT: f64 = 30.0;
/// The approximate width of a character in pixels.
const CHARACTER: f64 = 7.5;
/// The largest length of a name in the drawing; the table has longer ones.
const LONGEST: usize = 60;
/// The height of a row, and of the bar in it, in pixels.
const ROW: f64 = 34.0;
const BAR: f64 = 18.0;
/// The height above the first row in pixels.
const TOP: f64 = 76.0;
/// The gap between the cores and the tasks, and between components, in pixels.
const GAP: f64 = 16.0;

/// One colour for each component, which repeat; they also differ in lightness.
const COLOURS: [&str; 8] = [
    "#2f6f9f", "#d08c2f", "#4f9a6a", "#a0527d", "#7a8f2a", "#6a5aa8", "#b3583f", "#3f9a9a",
];
const INK: &str = "#22272e";
const FAINT: &str = "#8a929c";
const GRID: &str = "#e4e7eb";
const WRONG: &str = "#c9252d";
const PAPER: &str = "#ffffff";

/// The drawing.
pub fn draw(shown: &Shown) -> Element {
    let picture = Picture::new(shown);
    let rows = picture.rows();
    let bottom = rows.last().map_or(TOP, |row| row.y + ROW);
    let (legend, end) = picture.legend(bottom + 30.0);
    let (width, height) = (picture.left + WIDTH + RIGHT, end + 26.0);
    let title = text(20.0, 28.0, &shown.title).attr("font-size", 16);
    drawing(width, height, &shown.title)
        .attr("width", width)
        .attr("height", height)
        .attr("font-family", "DejaVu Sans, Segoe UI, sans-serif")
        .attr("font-size", 12)
        .attr("fill", INK)
        .child(rect((0.0, 0.0), (width, height)).attr("fill", PAPER))
        .child(title.attr("font-weight", "bold"))
        .child(picture.axis(bottom))
        .children(rows.iter().map(|row| picture.row(row)))
        .child(legend)
}

/// What a row shows.
#[derive(Clone, Copy)]
enum Of {
    Core(usize),
    Task(TaskId),
}

struct Row {
    of: Of,
    name: String,
    y: f64,
}

struct Picture<'a> {
    shown: &'a Shown<'a>,
    /// The position where time begins, behind the names.
    left: f64,
}

impl<'a> Picture<'a> {
    fn new(shown: &'a Shown<'a>) -> Self {
        let names = shown.rows.iter().map(|task| shown.name(*task));
        let lengths = names.chain(shown.cores.iter().cloned());
        let longest = lengths.map(|name| text_length(&shortened(&name)));
        Self {
            shown,
            left: longest.fold(LEFT, |left, length| left.max(24.0 + CHARACTER * length)),
        }
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut y = TOP;
        for (core, name) in self.shown.cores.iter().enumerate() {
            let (of, name) = (Of::Core(core), name.clone());
            rows.push(Row { of, name, y });
            y += ROW;
        }
        let mut last = None;
        for task in &self.shown.rows {
            let component = self.shown.model.task(*task).map(|task| task.component);
            if last != component {
                y += GAP;
                last = component;
            }
            let (of, name) = (Of::Task(*task), self.shown.name(*task));
            rows.push(Row { of, name, y });
            y += ROW;
        }
        rows
    }

    #[expect(clippy::cast_precision_loss, reason = "pixels")]
    fn x(&self, at: u64) -> f64 {
        let at = at.clamp(self.shown.from, self.shown.to);
        let (since, length) = (at - self.shown.from, self.shown.to - self.shown.from);
        self.left + WIDTH * since as f64 / length as f64
    }

    fn axis(&self, bottom: f64) -> Element {
        let step = step(self.shown.to - self.shown.from);
        let first = self.shown.from.div_ceil(step).saturating_mul(step);
        let next = |at: &u64| at.checked_add(step);
        let ticks = std::iter::successors(Some(first), next).take_while(|at| *at <= self.shown.to);
        let marks = ticks.flat_map(|at| {
            let x = self.x(at);
            let label = text(x, TOP - 16.0, readable(at)).attr("fill", FAINT);
            [
                line((x, TOP - 10.0), (x, bottom)).attr("stroke", GRID),
                label.attr("text-anchor", "middle"),
            ]
        });
        el("g").children(marks)
    }

    fn row(&self, row: &Row) -> Element {
        let y = row.y;
        let base = y + BAR + 6.0;
        let name = text(self.left - 12.0, y + BAR + 1.0, shortened(&row.name));
        let ground = line((self.left, base), (self.left + WIDTH, base));
        let of = row.of;
        let mine = |segment: &&Segment| match of {
            Of::Core(core) => segment.core == core,
            Of::Task(task) => segment.task == task,
        };
        let timeline = self.shown.timeline;
        let seen = |start: u64, end: u64| end > self.shown.from && start < self.shown.to;
        let segments = timeline.segments.iter().filter(mine);
        let segments = segments.filter(|s| seen(s.start, s.end));
        let mut group = el("g")
            .child(name.attr("text-anchor", "end"))
            .child(ground.attr("stroke", FAINT).attr("stroke-width", 0.6))
            .children(segments.map(|segment| self.segment(segment, base)));
        if let Of::Task(task) = row.of {
            let jobs = timeline.jobs.iter().filter(|job| job.task == task);
            let jobs =
                jobs.filter(|job| job.arrival < self.shown.to && job.deadline >= self.shown.from);
            group = group.children(jobs.flat_map(|job| self.job(job, y, base)));
        }
        group
    }

    fn segment(&self, segment: &Segment, base: f64) -> Element {
        let (x, end) = (self.x(segment.start), self.x(segment.end));
        let what = if segment.switching { "switch to " } else { "" };
        let (height, colour) = if segment.switching {
            (BAR / 2.0, FAINT)
        } else {
            (BAR, self.colour(segment.task))
        };
        let bar = el("rect")
            .fine("x", x)
            .at("y", base - height)
            .fine("width", (end - x).max(0.7))
            .at("height", height);
        let tip = format!(
            "{what}{}: {} to {}",
            self.shown.name(segment.task),
            readable(segment.start),
            readable(segment.end),
        );
        tipped(bar.attr("fill", colour), tip)
    }

    /// An arrow up at the release, one down at the deadline; red where it was missed.
    fn job(&self, job: &Job, top: f64, base: f64) -> Vec<Element> {
        let top = top - 1.0;
        let mut drawn = Vec::new();
        if job.release >= self.shown.from && job.release < self.shown.to {
            let x = self.x(job.release);
            let arrow = format!("M{x:.1} {base:.1}V{top:.1}m-3 5l3 -5l3 5");
            drawn.push(stroke(arrow, INK, 1.0));
        }
        if job.deadline > self.shown.to {
            return drawn;
        }
        let x = self.x(job.deadline);
        let missed = job.is_missed(self.shown.timeline.horizon);
        let (colour, thick) = if missed { (WRONG, 2.4) } else { (FAINT, 1.0) };
        let (left, right, head) = (x - 3.0, x + 3.0, base - 5.0);
        let arrow = format!(
            "M{x:.1} {top:.1}V{base:.1}M{left:.1} {head:.1}L{x:.1} {base:.1}L{right:.1} {head:.1}"
        );
        drawn.push(stroke(arrow, colour, thick));
        if missed {
            let tip = format!("missed: due at {}", readable(job.deadline));
            let disc = circle((x, top), 6.5).attr("fill", WRONG);
            let mark = text(x, top + 3.6, "!").attr("text-anchor", "middle");
            let mark = mark.attr("font-size", 10).attr("font-weight", "bold");
            drawn.extend([tipped(disc, tip), mark.attr("fill", PAPER)]);
        }
        drawn
    }

    /// The legend from `y` on, in as many lines as it needs, and the position of the last one.
    fn legend(&self, mut y: f64) -> (Element, f64) {
        let mut group = el("g");
        let mut x = self.left;
        let right = self.left + WIDTH;
        let mut seen: Vec<ComponentId> = Vec::new();
        for task in &self.shown.rows {
            let Some(component) = self.shown.model.task(*task).map(|task| task.component) else {
                continue;
            };
            if seen.contains(&component) {
                continue;
            }
            seen.push(component);
            let name = shortened(self.shown.component(component));
            let width = 40.0 + CHARACTER * text_length(&name);
            if x + width > right && x > self.left {
                (x, y) = (self.left, y + 20.0);
            }
            let sample = rect((x, y - 10.5), (12.0, 12.0)).attr("fill", self.colour(*task));
            group = group.child(sample).child(text(x + 18.0, y, name));
            x += width;
        }
        if x + 330.0 > right {
            (x, y) = (self.left, y + 20.0);
        }
        let switch = if self.shown.timeline.segments.iter().any(|s| s.switching) {
            "; low and grey: a switch"
        } else {
            ""
        };
        let words = format!("\u{2191} release, \u{2193} deadline{switch}");
        (group.child(text(x, y, words).attr("fill", FAINT)), y)
    }

    fn colour(&self, task: TaskId) -> &'static str {
        let component = self.shown.model.task(task).map(|task| task.component);
        let mut seen: Vec<_> = Vec::new();
        for row in &self.shown.rows {
            let of = self.shown.model.task(*row).map(|task| task.component);
            if !seen.contains(&of) {
                seen.push(of);
            }
        }
        let place = seen.iter().position(|of| *of == component).unwrap_or(0);
        COLOURS[place % COLOURS.len()]
    }
}

/// A very long name without its middle: its end tells tasks apart.
fn shortened(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= LONGEST {
        return name.to_owned();
    }
    let half = LONGEST / 2;
    let begin: String = letters.iter().take(half).collect();
    let end: String = letters.iter().skip(letters.len() - half + 1).collect();
    format!("{begin}\u{2026}{end}")
}

#[expect(clippy::cast_precision_loss, reason = "pixels")]
fn text_length(text: &str) -> f64 {
    text.chars().count() as f64
}

/// The distance of two marks of the axis: 1, 2 or 5 times a power of ten, for eight to twenty
/// marks.
fn step(length: u64) -> u64 {
    let mut step = 1u64;
    loop {
        for factor in [1, 2, 5] {
            let step = step.saturating_mul(factor);
            if length / step <= 16 {
                return step;
            }
        }
        step = step.saturating_mul(10);
    }
}

/// The outline of a shape.
fn stroke(path: String, colour: &'static str, thick: f64) -> Element {
    let path = el("path").attr("d", path).attr("fill", "none");
    path.attr("stroke", colour).attr("stroke-width", thick)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_very_long_name_keeps_both_ends() {
        assert_eq!(shortened("display.frame"), "display.frame");
        let name = format!("group-{}.task", "x".repeat(100));
        let short = shortened(&name);
        assert_eq!(short.chars().count(), LONGEST);
        assert!(
            short.starts_with("group-x") && short.ends_with("x.task"),
            "{short}"
        );
    }

    #[test]
    fn the_axis_has_a_readable_number_of_marks() {
        for length in [1, 7, 99, 1_000, 123_456_789, 1 << 60, u64::MAX] {
            let step = step(length);
            assert!(length / step <= 16, "{length}");
            assert!(length < 10 || length / step >= 3, "{length}");
        }
    }
}
