//! The list as a table, for people and for docs/scheduling.md.

use crate::{By, List, Machine};

/// The rows with the heading: a cell each for the path, what bounds it, and its instructions by machine.
pub fn rows(list: &List) -> Vec<Vec<String>> {
    let heading = ["path", "bounded by"].map(str::to_owned).into_iter();
    let machines = Machine::ALL.map(|machine| machine.name().to_owned());
    let mut rows = vec![heading.chain(machines).collect::<Vec<_>>()];
    for path in &list.paths {
        let who = match path.by {
            By::Guest => "",
            By::Person => " (a person's)",
        };
        let words = [
            format!("{}: {}{who}", path.name, path.what),
            path.bounded_by.clone(),
        ];
        let counts = Machine::ALL.map(|machine| match path.most(machine) {
            0 => "-".to_owned(),
            most => most.to_string(),
        });
        rows.push(words.into_iter().chain(counts).collect());
    }
    rows
}

/// The table in Markdown, a line each.
pub fn markdown(list: &List) -> Vec<String> {
    let mut lines: Vec<_> = rows(list)
        .iter()
        .map(|row| format!("| {} |", row.join(" | ")))
        .collect();
    let columns = 2 + Machine::ALL.len();
    lines.insert(1, "|---".repeat(columns) + "|");
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document has the list's table: `hanok sched paths` prints its rows.
    #[test]
    fn the_document_has_the_table() {
        let lines = markdown(&List::own().unwrap());
        let document = include_str!("../../../docs/scheduling.md");
        let missing: Vec<_> = lines
            .iter()
            .filter(|line| !document.lines().any(|one| one == **line))
            .collect();
        assert!(missing.is_empty(), "docs/scheduling.md lacks {missing:#?}");
    }
}
