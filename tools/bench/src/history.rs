//! Results over commits, kept in the repository.
//!
//! One small file for each commit and machine: medians alone, so that a year of commits
//! stays readable in a diff and light in a checkout. The raw values of a run are in its
//! results. Files are named by commit and machine. A second run of the same replaces the
//! first; of some figures only, on an equal machine, it replaces these figures.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::machine::{Machine, Side};
use crate::model::{LoadError, Measurement, Refused, Results, Run, SCHEMA};
use crate::stats::Summary;

/// How many digits of a commit name a file.
const SHORT: usize = 12;

/// One commit on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The version of this form: that of [`crate::Results`].
    pub schema: u32,
    /// The commit, in full.
    pub commit: String,
    /// When it was made, as in [`crate::Results`].
    #[serde(default)]
    pub date: String,
    /// Whether the tree had changes that the commit lacks.
    #[serde(default)]
    pub modified: bool,
    /// The machine.
    pub machine: Machine,
    /// Every figure's medians by side, in the figure's unit.
    pub medians: BTreeMap<String, BTreeMap<Side, f64>>,
}

impl Entry {
    /// What history keeps of `run`.
    pub fn of(results: &Results, run: &Run) -> Self {
        let mut medians: BTreeMap<String, BTreeMap<Side, f64>> = BTreeMap::new();
        for one in &run.measurements {
            if let Some(summary) = Summary::of(&one.values) {
                let sides = medians.entry(one.figure.clone()).or_default();
                sides.insert(one.side, summary.median);
            }
        }
        Self {
            schema: SCHEMA,
            commit: results.commit.clone(),
            date: results.date.clone(),
            modified: results.modified,
            machine: run.machine.clone(),
            medians,
        }
    }

    /// The commit as a reader is shown it.
    pub fn short_commit(&self) -> String {
        let mut short: String = self.commit.chars().take(SHORT).collect();
        if self.modified {
            short += "+";
        }
        short
    }

    /// The entry as a run of one repetition, to judge and compare it as any other. Figures
    /// that the catalogue no longer has are left out.
    pub fn run(&self) -> Run {
        let mut run = Run::new(self.machine.clone());
        for (figure, sides) in &self.medians {
            for (&side, &value) in sides {
                run.measurements
                    .extend(Measurement::new(figure, side, vec![value]));
            }
        }
        run
    }

    fn check(&self) -> Result<(), Refused> {
        for (figure, sides) in &self.medians {
            let bad = |value: &&f64| !value.is_finite() || **value < 0.0;
            if let Some(value) = sides.values().find(bad) {
                return Err(Refused::NotAValue(figure.clone(), value.to_string()));
            }
        }
        Ok(())
    }

    fn file_name(&self) -> String {
        let hex = self.commit.chars().filter(char::is_ascii_alphanumeric);
        let commit: String = hex.take(SHORT).collect();
        let modified = if self.modified { "-modified" } else { "" };
        format!("{commit}{modified}-{}.json", self.machine.id())
    }

    /// With what `old`, of the same commit, has and this lacks, where the machines are equal.
    fn over(mut self, old: Self) -> Self {
        if self.machine == old.machine {
            for (figure, sides) in old.medians {
                let mine = self.medians.entry(figure).or_default();
                for (side, value) in sides {
                    mine.entry(side).or_insert(value);
                }
            }
        }
        self
    }
}

/// Every kept commit, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The entries, by date, commit and machine.
    pub entries: Vec<Entry>,
}

/// Why the history cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A file cannot be read or written.
    #[error("cannot use {0}: {1}")]
    File(PathBuf, io::Error),
    /// A file is damaged.
    #[error("{0}: {1}")]
    Damaged(PathBuf, LoadError),
    /// No entry for a commit.
    #[error("the history has no {commit} on {machine}; it has {known}")]
    Unknown {
        /// What was asked for.
        commit: String,
        /// On which machine.
        machine: String,
        /// What there is on it.
        known: String,
    },
    /// Several commits begin so.
    #[error("several commits of the history begin with {0}")]
    Ambiguous(String),
}

impl History {
    /// Reads every `.json` file of `folder`; a missing folder is an empty history.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is no entry.
    pub fn load(folder: &Path) -> Result<Self, HistoryError> {
        let mut entries = Vec::new();
        if !folder.exists() {
            return Ok(Self { entries });
        }
        for file in fs::read_dir(folder).map_err(at(folder))? {
            let path = file.map_err(at(folder))?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                entries.push(read(&path)?);
            }
        }
        let mut history = Self { entries };
        history.sort();
        Ok(history)
    }

    /// Adds every run of `results`, in memory.
    pub fn add(&mut self, results: &Results) {
        for run in &results.runs {
            let mut new = Entry::of(results, run);
            let same = |old: &Entry| old.file_name() == new.file_name();
            if let Some(at) = self.entries.iter().position(same) {
                new = new.over(self.entries.swap_remove(at));
            }
            self.entries.push(new);
        }
        self.sort();
    }

    /// Writes every run of `results` to `folder`, and says which files those are.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or written, or a value that JSON cannot hold.
    pub fn append(folder: &Path, results: &Results) -> Result<Vec<PathBuf>, HistoryError> {
        fs::create_dir_all(folder).map_err(at(folder))?;
        let mut files = Vec::new();
        for run in &results.runs {
            let mut new = Entry::of(results, run);
            let path = folder.join(new.file_name());
            if path.exists() {
                new = new.over(read(&path)?);
            }
            let text = json(&new).map_err(|error| HistoryError::Damaged(path.clone(), error))?;
            fs::write(&path, text).map_err(at(&path))?;
            files.push(path);
        }
        Ok(files)
    }

    /// The entries of `machine` (see [`Machine::id`]), oldest first.
    pub fn on(&self, machine: &str) -> impl Iterator<Item = &Entry> {
        let entries = self.entries.iter();
        entries.filter(move |entry| entry.machine.id() == machine)
    }

    /// The entry of the commit that begins with `commit`, on `machine`.
    ///
    /// # Errors
    ///
    /// No such entry, or several.
    pub fn find(&self, commit: &str, machine: &str) -> Result<&Entry, HistoryError> {
        let begins = |entry: &&Entry| !commit.is_empty() && entry.commit.starts_with(commit);
        // The commit as it is goes before one with changes.
        let found = self
            .on(machine)
            .filter(begins)
            .min_by_key(|one| one.modified);
        let found = found.ok_or_else(|| self.unknown(commit, machine))?;
        let mut all = self.on(machine).filter(begins);
        if all.all(|other| other.commit == found.commit) {
            Ok(found)
        } else {
            Err(HistoryError::Ambiguous(commit.to_owned()))
        }
    }

    fn unknown(&self, commit: &str, machine: &str) -> HistoryError {
        let known: Vec<_> = self.on(machine).map(Entry::short_commit).collect();
        HistoryError::Unknown {
            commit: commit.to_owned(),
            machine: machine.to_owned(),
            known: if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            },
        }
    }

    fn sort(&mut self) {
        // By machine at last: no order is left to the file system.
        self.entries.sort_by_cached_key(|entry| {
            let machine = entry.machine.id();
            (entry.date.clone(), entry.commit.clone(), machine)
        });
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> HistoryError {
    let path = path.to_path_buf();
    move |error| HistoryError::File(path.clone(), error)
}

fn read(path: &Path) -> Result<Entry, HistoryError> {
    let text = fs::read_to_string(path).map_err(at(path))?;
    entry(&text).map_err(|error| HistoryError::Damaged(path.to_path_buf(), error))
}

fn entry(text: &str) -> Result<Entry, LoadError> {
    crate::model::check_schema(text)?;
    let entry: Entry = serde_json::from_str(text)?;
    entry.check()?;
    Ok(entry)
}

fn json(entry: &Entry) -> Result<String, LoadError> {
    entry.check()?;
    Ok(serde_json::to_string_pretty(entry)? + "\n")
}
