//! The stock trace-cmd, and the lines that it prints.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use hanok_artifacts::{Store, apt};
use hanok_base::process;

/// A line of the stock trace-cmd: `TASK-NUMBER [CPU] SECONDS.NANOSECONDS: EVENT: WORDS`.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) cpu: u32,
    pub(super) at: f64,
    pub(super) event: String,
    pub(super) words: String,
}

impl Line {
    fn of(line: &str) -> Result<Self> {
        let parts = || {
            let (task, rest) = line.split_once("] ")?;
            let (_, cpu) = task.rsplit_once('[')?;
            let (at, rest) = rest.split_once(": ")?;
            let (event, words) = rest.split_once(": ")?;
            let (cpu, at) = (cpu.parse().ok()?, at.trim().parse().ok()?);
            Some((cpu, at, event, words.trim()))
        };
        let (cpu, at, event, words) = parts().with_context(|| format!("not understood: {line}"))?;
        let (event, words) = (event.trim().to_owned(), words.to_owned());
        Ok(Self {
            cpu,
            at,
            event,
            words,
        })
    }

    /// The tasks of a switch.
    pub(super) fn switch(&self) -> Result<(String, String)> {
        let task = |words: &str| {
            words
                .split(':')
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        let pair = self.words.split_once(" -> ");
        let (before, after) = pair.with_context(|| format!("no switch: {self:?}"))?;
        Ok((task(before), task(after)))
    }
}

/// Debian's trace-cmd, with its own libraries.
pub(super) struct TraceCmd {
    loader: PathBuf,
    tree: PathBuf,
}

impl TraceCmd {
    pub(super) fn find() -> Result<Self> {
        let store = Store::open(true, false)?;
        let tree = store.runnable(&format!("trace-cmd:{}", apt::native()?))?;
        let files = hanok_artifacts::runnable::files_below(&tree)?;
        let is_loader = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("ld-linux")
        };
        let loader = files.iter().find(|path| is_loader(path));
        let loader = loader.context("trace-cmd has no loader beside it")?;
        Ok(Self {
            loader: tree.join(loader),
            tree,
        })
    }

    pub(super) fn report(&self, file: &Path) -> Result<Vec<Line>> {
        let mut folders: Vec<_> = hanok_artifacts::runnable::files_below(&self.tree)?
            .iter()
            .filter_map(|path| Some(self.tree.join(path.parent()?)))
            .collect();
        folders.dedup();
        let libraries = std::env::join_paths(folders)?;
        let mut command = Command::new(&self.loader);
        command.arg("--library-path").arg(libraries);
        command.arg(self.tree.join("usr/bin/trace-cmd"));
        // By the file alone, whatever plugins the PC has.
        command.args(["report", "-N", "-t", "-i"]).arg(file);
        let text = process::text(&mut command)?;
        let lines = text.lines().filter(|line| !line.starts_with("cpus="));
        lines.map(Line::of).collect()
    }
}
