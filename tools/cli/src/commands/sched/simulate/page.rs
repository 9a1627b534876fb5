//! A page with the drawing and the tables; needs no network and no script.

use std::fmt::Write;

use super::picture::{draw, escape};
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
    let verdict = match misses.len() {
        0 => "<span class=\"good\">No deadline is missed.</span>".to_owned(),
        1 => "<span class=\"bad\">One deadline is missed.</span>".to_owned(),
        more => format!("<span class=\"bad\">{more} deadlines are missed.</span>"),
    };
    let title = escape(&shown.title);
    let (from, to) = (readable(shown.from), readable(shown.to));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n<p>{verdict} {} jobs, {} events; \
         drawn from {from} to {to}.</p>\n{}{}{}{}</body></html>\n",
        shown.timeline.jobs.len(),
        shown.timeline.events,
        draw(shown),
        tasks(shown),
        cores(shown),
        missed(shown),
    )
}

fn tasks(shown: &Shown) -> String {
    let mut table = String::from(
        "<table><tr><th>task</th><th>period</th><th>execution</th><th>deadline</th><th>jobs</th>\
         <th>missed</th><th>longest response</th></tr>\n",
    );
    let summaries = shown.timeline.summaries(shown.model.tasks.len());
    for id in &shown.rows {
        let (Some(summary), Some(task)) = (summaries.get(id.0 as usize), shown.model.task(*id))
        else {
            continue;
        };
        let class = if summary.missed > 0 {
            " class=\"bad\""
        } else {
            ""
        };
        let _ = writeln!(
            table,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td{class}>{}</td>\
             <td{class}>{}</td></tr>",
            escape(&shown.name(*id)),
            readable(task.period.get()),
            readable(task.execution.get()),
            readable(task.deadline.get()),
            summary.jobs,
            summary.missed,
            readable(summary.longest),
        );
    }
    table + "</table>\n"
}

fn cores(shown: &Shown) -> String {
    let mut table = String::from("<table><tr><th>core</th><th>busy</th><th>of</th></tr>\n");
    for (core, name) in shown.cores.iter().enumerate() {
        let busy = readable(shown.timeline.busy(core));
        let all = readable(shown.timeline.horizon);
        let name = escape(name);
        let _ = writeln!(
            table,
            "<tr><td>{name}</td><td>{busy}</td><td>{all}</td></tr>"
        );
    }
    table + "</table>\n"
}

/// How many missed jobs are listed.
const LISTED: usize = 50;

fn missed(shown: &Shown) -> String {
    let misses = shown.timeline.misses();
    if misses.is_empty() {
        return String::new();
    }
    let mut table = String::from(
        "<table><tr><th>missed</th><th>job</th><th>arrival</th><th>deadline</th>\
         <th>complete</th></tr>\n",
    );
    for job in misses.iter().take(LISTED) {
        let finish = job.finish.map(readable);
        let _ = writeln!(
            table,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&shown.name(job.task)),
            job.number,
            readable(job.arrival),
            readable(job.deadline),
            finish.unwrap_or_else(|| "not by the end".to_owned()),
        );
    }
    table + "</table>\n"
}
