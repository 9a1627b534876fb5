//! What was found on one machine.

use super::{counted, details, tables};
use crate::figure::{Figure, Group};
use crate::figures::figures_on;
use crate::format;
use crate::machine::{Machine, Side};
use crate::model::Run;
use crate::plot::{bars, costs};
use crate::verdict::{Judged, Outcome, judge, judge_all};
use hanok_draw::markup::{Element, el, tell};

/// Everything of `run`.
pub(super) fn section(run: &Run) -> Element {
    el("section")
        .attr("id", run.machine.id())
        .child(tell("h2", run.machine.title()))
        .child(described(&run.machine))
        .children(run.failures.iter().map(details::failure))
        .children(short_of(run))
        .children(lmbench(run))
        .children(mechanisms(run))
        .child(tables::verdicts(run))
        .children(counted::section(run))
        .children(run.profiles.iter().map(details::profile))
        .child(details::raw(run))
}

fn described(machine: &Machine) -> Element {
    let mut parts = vec![
        format!("{} MiB", machine.memory_mib),
        format!("QEMU {}", machine.qemu),
        format!("kernel {}", machine.kernel),
        format!("lmbench {}", machine.lmbench),
    ];
    let peers = machine.peers.iter();
    parts.extend(peers.map(|(side, version)| format!("{} {version}", side.title())));
    let settings = machine
        .settings
        .iter()
        .map(|one| el("li").child(tell("code", one)));
    let section = el("div")
        .class("machine")
        .child(tell("p", parts.join(" · ")));
    if machine.settings.is_empty() {
        return section;
    }
    let details = el("details")
        .child(tell("summary", "Settings, equal on all sides"))
        .child(el("ul").children(settings));
    section.child(details)
}

/// What falls short or is in doubt, told first.
fn short_of(run: &Run) -> Option<Element> {
    let judged = judge_all(run);
    let listed = |one: &&Judged| matches!(one.outcome, Outcome::Short(_)) || one.doubtful;
    let items: Vec<_> = judged.iter().filter(listed).map(shortfall).collect();
    if items.is_empty() {
        return None;
    }
    let list = el("ul").children(items);
    let box_ = el("div").class("shortfalls");
    Some(
        box_.child(tell("h3", "Short of the limit, or in doubt"))
            .child(list),
    )
}

fn shortfall(judged: &Judged) -> Element {
    let found = judged
        .quantity
        .map(|found| format::quantity(judged.figure, found.median));
    let text = format!(
        ": {}, to reach {}: {}",
        found.unwrap_or_default(),
        format::limit(judged.figure),
        format::verdict(judged)
    );
    el("li")
        .child(tell("strong", judged.figure.title))
        .text(text)
}

fn lmbench(run: &Run) -> Vec<Element> {
    let Some(drawing) = costs::draw(run) else {
        return Vec::new();
    };
    vec![
        tell(
            "h3",
            "Linux in a VM: what lmbench's rows cost beyond native",
        ),
        tell(
            "p",
            "Each row is the time of a latency, or the time for a byte of a bandwidth, against \
             native: right is slower, left is faster than native. The axis is even near native \
             and logarithmic beyond. A line through a mark spans the repeats.",
        ),
        el("div").class("wide").child(drawing),
    ]
}

fn mechanisms(run: &Run) -> Vec<Element> {
    let figures = figures_on(run.machine.extensions)
        .iter()
        .filter(|figure| figure.group == Group::Micro);
    let cards: Vec<_> = figures.filter_map(|figure| card(figure, run)).collect();
    if cards.is_empty() {
        return Vec::new();
    }
    vec![
        tell("h3", "Single mechanisms"),
        tell(
            "p",
            "Filled: measured here. Outlined: published elsewhere (the tip says under which \
             conditions). Less is better. Where values are too far apart for bars, dots stand \
             on a logarithmic axis.",
        ),
        el("div").class("cards").children(cards),
    ]
}

fn card(figure: &'static Figure, run: &Run) -> Option<Element> {
    let drawing = bars::draw(figure, run)?;
    let judged = judge(figure, run);
    let heading = el("p")
        .class("card-title")
        .child(tell("strong", figure.title))
        .text(" ")
        .child(tell("span", terms(figure)).class("unit"))
        .text(" ")
        .child(tables::chip(&judged));
    Some(
        el("div")
            .class("card")
            .child(heading)
            .child(drawing)
            .child(tell("p", figure.about).class("about")),
    )
}

/// What the axis of a figure counts.
fn terms(figure: &Figure) -> String {
    use crate::figure::Terms;
    match figure.terms() {
        Terms::Value => format::unit(figure).to_owned(),
        Terms::BeyondNative => format!("{} beyond native", format::unit(figure)),
        Terms::Ratio => format!("% beyond {}", Side::Native.id()),
    }
}
