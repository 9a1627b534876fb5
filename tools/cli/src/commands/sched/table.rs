//! The answer as text.

use super::found::{Found, exact, percent, policy, promise, server};
use hanok_base::ui;
use hanok_task_model::{ComponentId, PoolId};

/// Prints the tables with `latencies` among them, and what is refused.
pub fn show(found: &Found<'_>, latencies: Vec<String>) {
    for line in lines(found, latencies) {
        ui::line(format_args!("{line}"));
    }
}

/// The tables, and what is refused.
pub fn lines(found: &Found<'_>, latencies: Vec<String>) -> Vec<String> {
    let mut lines = components(found);
    lines.extend(tasks(found));
    lines.extend(cores(found));
    lines.extend(latencies);
    lines.push(String::new());
    lines.extend(verdict(found));
    lines
}

/// Rows with columns as wide as needed; the first row is the heading.
pub(super) fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let mut text = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            text += cell;
            // A list of thousands of names is wider than a format string can pad to.
            let rest = width.saturating_sub(cell.chars().count());
            text.extend(core::iter::repeat_n(' ', rest + 2));
        }
        text.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn components(found: &Found<'_>) -> Vec<String> {
    let heading = [
        "component",
        "in",
        "policy",
        "server",
        "interface",
        "share",
        "least budget",
        "members",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let members = found.model().members();
    for (id, component) in found.model().ids() {
        let inside = members.get(id.0 as usize).map_or(0, Vec::len);
        let (interface, share, least) = columns(found, id, component.cpus);
        rows.push(vec![
            component.name.clone(),
            found.home(component),
            policy(component.policy).to_owned(),
            server(component.server).to_owned(),
            interface,
            share,
            least,
            inside.to_string(),
        ]);
    }
    aligned(&rows)
}

/// The tasks, each with what is proven of it.
fn tasks(found: &Found<'_>) -> Vec<String> {
    let heading = [
        "task",
        "of",
        "period",
        "execution",
        "deadline",
        "response",
        "slack",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for (id, task) in found.tasks() {
        let (response, slack) = match found.response(id) {
            Some((most, slack)) => (most.to_string(), slack.to_string()),
            None => ("not proven".to_owned(), String::new()),
        };
        rows.push(vec![
            task.name.clone(),
            found.component(task.component).to_owned(),
            task.period.to_string(),
            task.execution.to_string(),
            task.deadline.to_string(),
            response,
            slack,
        ]);
    }
    after_a_line(&rows)
}

/// A table behind an empty line; nothing if it has only its heading.
fn after_a_line(rows: &[Vec<String>]) -> Vec<String> {
    match rows.len() {
        1 => Vec::new(),
        _ => std::iter::once(String::new())
            .chain(aligned(rows))
            .collect(),
    }
}

/// Interface, share and exact budget of a component.
fn columns(found: &Found<'_>, id: ComponentId, cpus: u32) -> (String, String, String) {
    let Some(proof) = found.proof(id) else {
        let why = match found.open(id) {
            Some(_) => "open",
            None => "refused",
        };
        return (why.to_owned(), String::new(), String::new());
    };
    let interface = &proof.interface;
    let share = interface.budget.get() as f64 / interface.period.get() as f64;
    let mut text = promise(interface);
    if cpus > 1 {
        text += &format!(" on {cpus} CPUs");
    }
    let least = proof.exact.as_ref().map(|found| exact(found.budget));
    (text, percent(share), least.unwrap_or_default())
}

fn cores(found: &Found<'_>) -> Vec<String> {
    let mut rows = vec![
        ["core", "pool", "share", "vCPUs"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for core in found.cores() {
        let ids: Vec<String> = core.cores.iter().map(ToString::to_string).collect();
        let share: f64 = core.vcpus.iter().map(|vcpu| found.share(*vcpu)).sum();
        let names: Vec<String> = core.vcpus.iter().map(|vcpu| found.vcpu(*vcpu)).collect();
        rows.push(vec![
            ids.join(", "),
            found.pool(core.pool).to_owned(),
            percent(share),
            names.join(", "),
        ]);
    }
    after_a_line(&rows)
}

/// What is refused or has no answer; or that everything is proven.
fn verdict(found: &Found<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for refuted in &found.analysis.refutations {
        let path = found.schedule.path.display();
        let place = match found.line(refuted) {
            Some(line) if line > 0 => format!("{path}:{line}"),
            _ => path.to_string(),
        };
        lines.push(format!("{place}: {}", found.sentence(refuted)));
        for change in &refuted.changes {
            lines.push(format!("  would do: {}", found.change(*change)));
        }
    }
    for (id, component) in found.model().ids() {
        if let Some(why) = found.open(id) {
            lines.push(format!("{}: no answer: {why}", component.name));
        }
    }
    for (id, pool) in (0..).map(PoolId).zip(&found.model().pools) {
        if let Some(why) = found.open_pool(id) {
            lines.push(format!("pool {}: no answer: {why}", pool.name));
        }
    }
    if found.certificate.is_some() {
        lines.push("All deadlines are kept; the certificate was checked.".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::aligned;

    /// The names of thousands of vCPUs in one cell: a format string's width ends at 65,535.
    #[test]
    fn a_cell_may_be_of_any_length() {
        let rows = [["a", "b"], [&"x".repeat(70_000), "y"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let lines = aligned(&rows);
        assert!(lines.iter().all(|line| line.len() == 70_003));
    }
}
