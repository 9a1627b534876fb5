//! The table of verdicts.

use crate::figure::Group;
use crate::format;
use crate::machine::Side;
use crate::model::Run;
use crate::stats::Summary;
use crate::table;
use crate::verdict::{Judged, Outcome, judge_all};
use hanok_draw::markup::{Element, el, tell};

/// A verdict as a small label; its sign says the same as its colour.
pub(super) fn chip(judged: &Judged) -> Element {
    let (class, sign) = match judged.outcome {
        Outcome::Reached if judged.doubtful => ("doubtful", "? "),
        Outcome::Reached => ("reached", "✓ "),
        Outcome::Short(_) => ("short", "✗ "),
        Outcome::NotMeasured(_) | Outcome::NoLimit => ("none", ""),
    };
    let text = format!("{sign}{}", format::verdict(judged));
    tell("span", text).class(format!("chip {class}"))
}

/// Every figure of `run` with its verdict.
pub(super) fn verdicts(run: &Run) -> Element {
    let judged = judge_all(run);
    let mut table = el("table").class("verdicts").child(head());
    for (group, title) in [
        (Group::Micro, "Single mechanisms"),
        (Group::Lmbench, "lmbench"),
    ] {
        let rows = judged.iter().filter(|one| one.figure.group == group);
        let heading = tell("th", title)
            .attr("colspan", 12)
            .attr("scope", "rowgroup");
        let body = el("tbody")
            .child(el("tr").class("group").child(heading))
            .children(rows.map(|one| row(run, one)));
        table = table.child(body);
    }
    el("div")
        .child(tell("h3", "Every figure"))
        .child(tell(
            "p",
            "Medians of the repeats; behind each, where the figure is judged so, what it costs \
             beyond native: in percent, or in the figure's unit and in percent.",
        ))
        .children(
            format::other_units(judged.iter().map(|one| one.figure), &run.machine)
                .map(|line| tell("p", line)),
        )
        .child(el("div").class("wide").child(table))
}

fn head() -> Element {
    let column = |title: &str| tell("th", title).attr("scope", "col");
    let number = |title: &str| column(title).class("number");
    let wide = |title: &str| number(title).attr("colspan", 2);
    el("thead").child(
        el("tr")
            .child(column("Figure"))
            .child(number("Native"))
            .children(Side::HYPERVISORS.map(|side| wide(side.title())))
            .child(column("Repeats"))
            .child(column("Published"))
            .child(number("To reach"))
            .child(column("Verdict")),
    )
}

fn row(run: &Run, judged: &Judged) -> Element {
    let figure = judged.figure;
    let unit = tell("span", format::unit(figure)).class("unit");
    let name = tell("th", figure.title)
        .attr("scope", "row")
        .attr("title", figure.about)
        .text(" ")
        .child(unit);
    let mut row = el("tr").child(name).child(value(run, judged, Side::Native));
    for side in Side::HYPERVISORS {
        let against = table::against_native(run, figure, side);
        row = row
            .child(value(run, judged, side))
            .child(lines(&against).class("number against"));
    }
    let repeats = table::widest(run, figure).map_or_else(dash, format::spread);
    row.child(tell("td", repeats))
        .child(tell("td", table::published(figure, &run.machine)).class("published-text"))
        .child(tell("td", format::bare_limit(figure).unwrap_or_else(dash)).class("number"))
        .child(el("td").child(chip(judged)))
}

/// A cell with what is between commas on a line of its own: the table is wide as it is.
fn lines(text: &str) -> Element {
    let mut parts = text.split(", ");
    let cell = tell("td", parts.next().unwrap_or_default());
    parts.fold(cell, |cell, part| cell.child(el("br")).text(part))
}

fn value(run: &Run, judged: &Judged, side: Side) -> Element {
    let measured = run.measured(judged.figure.id, side);
    let summary = measured.and_then(|one| Summary::of(&one.values));
    match summary {
        Some(summary) => {
            let text = format::value(judged.figure, summary.median);
            tell("td", text).class("number")
        }
        None if run.failures.iter().any(|failed| failed.side == side) => {
            tell("td", "failed").class("number failed")
        }
        None => tell("td", dash()).class("number none"),
    }
}

fn dash() -> String {
    "–".to_owned()
}
