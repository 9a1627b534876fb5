//! The page's section about the cores: a bar for each, and the names that do not fit in a bar.

use hanok_draw::axis::{Axis, Scale};
use hanok_draw::markup::{Element, el, tell};
use hanok_draw::shapes::{drawing, rect, text, tipped};
use hanok_task_model::CoreProof;

use super::found::{Found, mode, percent};

const WIDTH: f64 = 1100.0;
/// The approximate width of a character, and of the margin beside a name, in pixels.
const CHARACTER: f64 = 7.5;
/// The largest number of vCPUs that are listed because their names do not fit in a bar.
const NAMED: usize = 40;

/// A vCPU's part of the bar.
struct Part {
    name: String,
    from: f64,
    to: f64,
}

impl Part {
    fn has_room(&self) -> bool {
        self.to - self.from > CHARACTER * (self.name.chars().count() + 1) as f64
    }
}

/// A bar for each core.
pub fn section(found: &Found<'_>) -> Element {
    let rows: Vec<_> = found.cores().map(|core| row(found, core)).collect();
    let section = el("section").child(tell("h2", "Cores"));
    if rows.is_empty() {
        section.child(tell("p", "No core is proven to keep its promises."))
    } else {
        section.children(rows)
    }
}

fn row(found: &Found<'_>, core: &CoreProof) -> Element {
    let ids: Vec<String> = core.cores.iter().map(ToString::to_string).collect();
    let pool = found.model().pool(core.pool);
    let how = pool.map_or("", |pool| mode(pool.mode));
    let share: f64 = core.vcpus.iter().map(|vcpu| found.share(*vcpu)).sum();
    let name = format!(
        "Core{} {}: {}",
        if ids.len() > 1 { "s" } else { "" },
        ids.join(", "),
        percent(share)
    );
    let pool = format!("pool {}, {how}", found.pool(core.pool));
    let parts = parts(found, core);
    el("div")
        .class("core")
        .child(
            el("p")
                .child(tell("strong", name))
                .text(" ")
                .child(tell("span", pool).class("about")),
        )
        .child(bar(&parts))
        .children(without_room(&parts).map(|words| tell("p", words).class("about")))
}

fn parts(found: &Found<'_>, core: &CoreProof) -> Vec<Part> {
    let cores = core.cores.len().max(1) as f64;
    let across = Axis::new(Scale::Linear, (0.0, 1.0), (0.0, WIDTH));
    let mut from = 0.0;
    let part = |vcpu: &hanok_task_model::Vcpu| {
        let share = found.share(*vcpu);
        let start = from;
        from += share / cores;
        Part {
            name: format!("{} {}", found.vcpu(*vcpu), percent(share)),
            from: across.place(start),
            to: across.place(from),
        }
    };
    core.vcpus.iter().map(part).collect()
}

fn bar(parts: &[Part]) -> Element {
    let mut bar = drawing(WIDTH, 34.0, "Shares of the core")
        .child(rect((0.0, 2.0), (WIDTH, 30.0)).class("free"));
    for (index, part) in parts.iter().enumerate() {
        let class = if index % 2 == 0 { "part" } else { "part other" };
        let drawn = rect((part.from, 2.0), ((part.to - part.from).max(1.0), 30.0));
        bar = bar.child(tipped(drawn.class(class), &part.name));
        if part.has_room() {
            let name = text(part.from + 8.0, 22.0, &part.name);
            bar = bar.child(name.class("on-part"));
        }
    }
    bar
}

/// The names that are too long for their part of the bar, from left to right.
fn without_room(parts: &[Part]) -> Option<String> {
    let rest: Vec<&str> = parts
        .iter()
        .filter(|part| !part.has_room())
        .map(|part| part.name.as_str())
        .collect();
    let more = match rest.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<&str> = rest.iter().take(NAMED).copied().collect();
    let all = if rest.len() == parts.len() {
        "from the left"
    } else {
        "without room for a name, from the left"
    };
    (!rest.is_empty()).then(|| format!("{all}: {}{more}", named.join(", ")))
}
