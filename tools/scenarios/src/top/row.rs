//! Rows of the table that `hanok top --once` prints.

use anyhow::{Context, Result};

/// A row of the table of vCPUs, as it is printed.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) promised: String,
    pub(crate) used: f64,
}

impl Row {
    /// The row of a VM with one vCPU: mark, name, core, state, kind, promise, its share, what it used.
    pub(crate) fn of(screen: &str, vm: &str) -> Result<Self> {
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let mut rows = screen.lines().map(words);
        let row = rows.find(|row| row.get(1).is_some_and(|name| name == vm));
        let row = row.with_context(|| format!("no row of {vm}:\n{screen}"))?;
        let rest = row.get(5..).unwrap_or_default();
        // The promise ends where numbers with a point follow each other.
        let decimal = |word: &String| word.contains('.') && word.parse::<f64>().is_ok();
        let end = rest.iter().position(decimal).context("no numbers")?;
        let used = rest.get(end + 1).context("no share")?;
        Ok(Self {
            promised: rest[..end].join(" "),
            used: used.parse().with_context(|| format!("{row:?}"))?,
        })
    }
}
