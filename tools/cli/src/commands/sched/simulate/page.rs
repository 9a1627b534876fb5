//! A page with the drawing and the tables; needs no network and no script.

use hanok_draw::markup::{Element, el, tell};

use super::picture::draw;
use super::shown::Shown;
use crate::commands::sched::times::readable;

const STYLE: &str = "\
body{font:15px/1.5 'DejaVu Sans','Segoe UI',sans-serif;color:#22272e;max-width:1240px;margin:2em auto;padding:0 1em}\
h1{font-size:1.5em;margin-bottom:.2em}p{color:#59626d;margin-top:0}\
svg{width:100%;height:auto;border:1px solid #e4e7eb;border-radius:6px}\
table{border-collapse:collapse;margin:1.5em 0}th,td{padding:.35em 1em;text-align:right;border-bottom:1px solid #e4e7eb}\
th:first-child,td:first-child{text-align:left}th{font-weight:600;color:#59626d}\
.good{color:#2d7a46;font-weight:600}.bad{color:#c9252d;font-weight:600}";

/// The page.
pub fn write(shown: &Shown) -> String {
    let misses = shown.timeline.misses();
    let (class, verdict) = match misses.len() {
        0 => ("good", "No deadline is missed.".to_owned()),
        1 => ("bad", "One deadline is missed.".to_owned()),
        more => ("bad", format!("{more} deadlines are missed.")),
    };
    let (from, to) = (readable(shown.from), readable(shown.to));
    let rest = format!(
        " {} jobs, {} events; drawn from {from} to {to}.",
        shown.timeline.jobs.len(),
        shown.timeline.events,
    );
    let head = el("head")
        .child(el("meta").attr("charset", "utf-8"))
        .child(tell("title", &shown.title))
        .child(el("style").style(STYLE));
    let verdict = tell("span", verdict).class(class);
    let body = el("body")
        .child(tell("h1", &shown.title))
        .child(el("p").child(verdict).text(rest))
        .child(draw(shown))
        .child(tasks(shown))
        .child(cores(shown))
        .children(missed(shown));
    let page = el("html").attr("lang", "en").child(head).child(body);
    page.document()
}

/// A table's heading.
fn header(names: &[&str]) -> Element {
    el("tr").children(names.iter().map(|name| tell("th", *name)))
}

fn tasks(shown: &Shown) -> Element {
    let names = [
        "task",
        "period",
        "execution",
        "deadline",
        "jobs",
        "missed",
        "longest response",
    ];
    let mut table = el("table").child(header(&names));
    let summaries = shown.timeline.summaries(shown.model.tasks.len());
    for id in &shown.rows {
        let (Some(summary), Some(task)) = (summaries.get(id.0 as usize), shown.model.task(*id))
        else {
            continue;
        };
        let judged = |text: String| match summary.missed {
            0 => tell("td", text),
            _ => tell("td", text).class("bad"),
        };
        table = table.child(
            el("tr")
                .child(tell("td", shown.name(*id)))
                .child(tell("td", readable(task.period.get())))
                .child(tell("td", readable(task.execution.get())))
                .child(tell("td", readable(task.deadline.get())))
                .child(tell("td", summary.jobs.to_string()))
                .child(judged(summary.missed.to_string()))
                .child(judged(readable(summary.longest))),
        );
    }
    table
}

fn cores(shown: &Shown) -> Element {
    let rows = shown.cores.iter().enumerate().map(|(core, name)| {
        el("tr")
            .child(tell("td", name))
            .child(tell("td", readable(shown.timeline.busy(core))))
            .child(tell("td", readable(shown.timeline.horizon)))
    });
    let table = el("table").child(header(&["core", "busy", "of"]));
    table.children(rows)
}

/// The largest number of missed jobs that are listed.
const LISTED: usize = 50;

fn missed(shown: &Shown) -> Option<Element> {
    let misses = shown.timeline.misses();
    if misses.is_empty() {
        return None;
    }
    let rows = misses.iter().take(LISTED).map(|job| {
        let finish = job.finish.map(readable);
        el("tr")
            .child(tell("td", shown.name(job.task)))
            .child(tell("td", job.number.to_string()))
            .child(tell("td", readable(job.arrival)))
            .child(tell("td", readable(job.deadline)))
            .child(tell(
                "td",
                finish.unwrap_or_else(|| "not by the end".to_owned()),
            ))
    });
    let names = ["missed", "job", "arrival", "deadline", "complete"];
    Some(el("table").child(header(&names)).children(rows))
}
