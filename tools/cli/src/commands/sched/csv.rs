//! The answer for a spreadsheet: a row for each component and each task, times in nanoseconds.
//!
//! Comma-separated values as in RFC 4180. A component's `budget` is in the column of a task's
//! `execution`. Values that do not exist or are not proven are empty.

use super::found::{Found, policy, server};

/// The names of the columns.
const COLUMNS: [&str; 13] = [
    "kind", "name", "of", "policy", "cpus", "period", "budget", "deadline", "jitter", "response",
    "slack", "answer", "server",
];

/// All rows, each with its line end.
pub fn text(found: &Found<'_>) -> String {
    let mut text = line(&COLUMNS.map(str::to_owned));
    for (id, component) in found.model().ids() {
        let interface = found.proof(id).map(|proof| proof.interface);
        let [period, budget, deadline] = match interface {
            Some(found) => {
                [found.period, found.budget, found.deadline].map(|t| t.get().to_string())
            }
            None => Default::default(),
        };
        let answer = match (interface, found.open(id)) {
            (Some(_), _) => "proven".to_owned(),
            (None, Some(why)) => why,
            (None, None) => "refused".to_owned(),
        };
        text += &line(&[
            "component".to_owned(),
            component.name.clone(),
            found.home(component),
            policy(component.policy).to_owned(),
            component.cpus.to_string(),
            period,
            budget,
            deadline,
            String::new(),
            String::new(),
            String::new(),
            answer,
            server(component.server).to_owned(),
        ]);
    }
    for (id, task) in found.tasks() {
        let times = [task.period, task.execution, task.deadline, task.jitter];
        let [period, execution, deadline, jitter] = times.map(|time| time.get().to_string());
        let known = found.response(id);
        let nanos = |time: Option<hanok_task_model::Nanos>| {
            time.map_or_else(String::new, |time| time.get().to_string())
        };
        let answer = if known.is_some() {
            "proven"
        } else {
            "not proven"
        };
        text += &line(&[
            "task".to_owned(),
            task.name.clone(),
            found.component(task.component).to_owned(),
            String::new(),
            String::new(),
            period,
            execution,
            deadline,
            jitter,
            nanos(known.map(|(most, _)| most)),
            nanos(known.map(|(_, slack)| slack)),
            answer.to_owned(),
            String::new(),
        ]);
    }
    text
}

fn line(cells: &[String; COLUMNS.len()]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
    cells.join(",") + "\r\n"
}

/// A cell in quotes, where it contains a separator.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}
