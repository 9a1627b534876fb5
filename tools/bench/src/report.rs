//! The page that shows results.
//!
//! It is one file that needs no other: no script, no font, no address. The same results give the
//! same page to the byte, so that pages can be compared and kept. Every drawing has its values in a
//! table beside it.

mod counted;
mod details;
mod machine;
mod tables;

use crate::figure::Figure;
use crate::figures::figures_on;
use crate::format;
use crate::history::{Entry, History};
use crate::model::{Results, Run};
use crate::plot::lines;
use crate::verdict::{Tally, judge_all};
use hanok_draw::markup::{Element, el, tell};

/// The page's only style sheet.
const SHEET: &str = include_str!("report/style.css");

/// How many commits a line can show.
const COMMITS: usize = 100;

/// The page of `results`, with Hanok's figures over the commits of `history`.
pub fn html(results: &Results, history: &History) -> String {
    let title = format!("Hanok bench, {}", short(&results.commit));
    let head = el("head")
        .child(el("meta").attr("charset", "utf-8"))
        .child(
            el("meta")
                .attr("name", "viewport")
                .attr("content", "width=device-width, initial-scale=1"),
        )
        .child(
            el("meta")
                .attr("name", "color-scheme")
                .attr("content", "light dark"),
        )
        .child(tell("title", title))
        .child(el("style").style(SHEET));
    let main = el("main")
        .children(results.runs.iter().map(machine::section))
        .children(over_commits(results, history))
        .child(details::rules());
    let body = el("body").child(header(results)).child(main);
    el("html")
        .attr("lang", "en")
        .child(head)
        .child(body)
        .document()
}

fn short(commit: &str) -> String {
    commit.chars().take(12).collect()
}

fn header(results: &Results) -> Element {
    let mut what = el("p")
        .class("commit")
        .text("Commit ")
        .child(tell("code", short(&results.commit)));
    if !results.date.is_empty() {
        let day: String = results.date.chars().take_while(|c| *c != 'T').collect();
        what = what.text(format!(" of {day}"));
    }
    if results.modified {
        what = what.child(tell("strong", ", with changes that are not committed"));
    }
    el("header")
        .child(tell("h1", "Hanok beside native, Xen and KVM"))
        .child(what)
        .child(
            el("div")
                .class("tiles")
                .children(results.runs.iter().map(tile)),
        )
        .child(contents(results))
}

/// One machine's verdict in brief.
fn tile(run: &Run) -> Element {
    let tally = Tally::of(&judge_all(run));
    let limits = tally.limits();
    let mut counts = el("p").class("counts");
    counts = counts
        .child(
            tell("span", format!("{} short", tally.short)).class(match tally.short {
                0 => "none",
                _ => "short",
            }),
        )
        .text(" · ")
        .child(tell("span", format!("{} not measured", tally.not_measured)).class("none"));
    el("a")
        .class("tile")
        .attr("href", format!("#{}", run.machine.id()))
        .child(tell("p", run.machine.title()).class("where"))
        .child(
            el("p")
                .class("big")
                .child(tell("strong", tally.reached.to_string()))
                .text(format!(" of {limits} limits reached")),
        )
        .child(meter(&tally))
        .child(counts)
}

/// Reached, short and unknown as one bar.
fn meter(tally: &Tally) -> Element {
    let part = |count: usize, class: &'static str| {
        el("span")
            .class(class)
            .attr("style", format!("flex-grow:{count}"))
    };
    let label = format!(
        "{} reached, {} short, {} not measured",
        tally.reached, tally.short, tally.not_measured
    );
    el("div")
        .class("meter")
        .attr("role", "img")
        .attr("aria-label", label)
        .child(part(tally.reached, "reached"))
        .child(part(tally.short, "short"))
        .child(part(tally.not_measured, "none"))
}

fn contents(results: &Results) -> Element {
    let link = |to: String, text: String| {
        let link = tell("a", text).attr("href", format!("#{to}"));
        el("li").child(link)
    };
    let machines = results.runs.iter();
    let machines = machines.map(|run| link(run.machine.id(), run.machine.title()));
    let list = el("ul")
        .children(machines)
        .child(link("history".into(), "Over commits".into()))
        .child(link("rules".into(), "How it was measured".into()));
    el("nav").attr("aria-label", "Contents").child(list)
}

/// Hanok's figures over commits, on each machine of `results`.
fn over_commits(results: &Results, history: &History) -> Vec<Element> {
    let mut with_these = history.clone();
    with_these.add(results);
    let mut section = el("section")
        .attr("id", "history")
        .child(tell("h2", "Over commits"))
        .child(tell(
            "p",
            format!(
                "Hanok's figures, at most the newest {COMMITS} commits, the oldest on the left; \
                 down is better. The dashed line is to be reached. A commit marked + had changes \
                 that are not committed."
            ),
        ));
    for run in &results.runs {
        let all: Vec<_> = with_these.on(&run.machine.id()).collect();
        let (_, entries) = all.split_at(all.len().saturating_sub(COMMITS));
        let figures = figures_on(run.machine.extensions).iter();
        let cards = figures.filter_map(|figure| card(figure, entries));
        section = section
            .child(tell("h3", run.machine.title()))
            .child(el("div").class("courses").children(cards));
    }
    vec![section]
}

fn card(figure: &Figure, entries: &[&Entry]) -> Option<Element> {
    let drawing = lines::draw(figure, entries)?;
    let now = lines::latest(figure, entries)?;
    Some(
        el("div")
            .class("course-card")
            .child(
                el("p")
                    .class("course-title")
                    .child(tell("span", figure.title))
                    .child(tell("strong", format::bare_quantity(figure, now))),
            )
            .child(drawing),
    )
}
