//! The results of a run, as they are kept in JSON.
//!
//! A [`Results`] is one call of `hanok bench`: a commit, and a [`Run`] for each emulated machine. A
//! measurement keeps every repetition's value and is never averaged here: the code that shows it
//! decides, and a reader can check. The JSON names its [`SCHEMA`]. Fields may be added within one
//! schema, and a reader ignores fields it does not know. A field that changes its meaning, or is
//! removed, makes a new schema, which older readers refuse.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::figure::{Figure, Unit};
use crate::machine::{Machine, Side};

/// The version of the JSON form.
pub const SCHEMA: u32 = 1;

/// What one side's repetitions of a figure gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The figure's id in [`crate::FIGURES`].
    pub figure: String,
    /// Where it was measured.
    pub side: Side,
    /// The unit of the values, always the figure's own.
    pub unit: Unit,
    /// One value for each repetition, in the order of running; at least one.
    pub values: Vec<f64>,
    /// What a reader must know of these values and no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Why a measurement is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The catalogue has no such figure.
    #[error("no figure is named {0:?}")]
    UnknownFigure(String),
    /// There is no value.
    #[error("{0}: no value")]
    Empty(String),
    /// A value that is negative, infinite or not a number.
    #[error("{0}: {1} is no measured value")]
    NotAValue(String, String),
    /// The unit is not the figure's.
    #[error("{0}: measured in another unit than the figure's")]
    WrongUnit(String),
}

impl Measurement {
    /// The values of `figure`, in the figure's unit, on `side`.
    ///
    /// # Errors
    ///
    /// An unknown figure, no value, or one that is negative or not finite.
    pub fn new(figure: &str, side: Side, values: Vec<f64>) -> Result<Self, Refused> {
        let known =
            Figure::find(figure).ok_or_else(|| Refused::UnknownFigure(figure.to_owned()))?;
        let made = Self {
            figure: figure.to_owned(),
            side,
            unit: known.unit,
            values,
            note: None,
        };
        made.check()?;
        Ok(made)
    }

    /// Checks the promises of its fields. A figure that the catalogue no longer has is allowed: old
    /// results stay readable.
    pub(crate) fn check(&self) -> Result<(), Refused> {
        if Figure::find(&self.figure).is_some_and(|figure| figure.unit != self.unit) {
            return Err(Refused::WrongUnit(self.figure.clone()));
        }
        if self.values.is_empty() {
            return Err(Refused::Empty(self.figure.clone()));
        }
        let bad = |value: &&f64| !value.is_finite() || **value < 0.0;
        match self.values.iter().find(bad) {
            Some(value) => Err(Refused::NotAValue(self.figure.clone(), value.to_string())),
            None => Ok(()),
        }
    }
}

/// A side that could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Which.
    pub side: Side,
    /// What was being done, and what went wrong.
    pub why: String,
    /// The console's last lines.
    #[serde(default)]
    pub console: Vec<String>,
}

/// What a function of the hypervisor took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCost {
    /// The function's name.
    pub name: String,
    /// Instructions executed in it, in all rounds together.
    pub instructions: u64,
}

/// Where the hypervisor's instructions of one figure went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// The figure's id.
    pub figure: String,
    /// How many times what the figure measures was done.
    pub rounds: u64,
    /// The hypervisor's instructions in all rounds together.
    pub total: u64,
    /// What each function had of these; what they lack of the total was not attributed.
    pub functions: Vec<FunctionCost>,
}

/// How often the rounds of a row did what an emulator does not show the cost of. The start and the end of the row's
/// program are not in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operations {
    /// The figure's id.
    pub figure: String,
    /// Where it was counted.
    pub side: Side,
    /// What an operation of the row is: `one`, `a megabyte`, `a thousand`.
    pub of: String,
    /// How many of these.
    pub times: f64,
    /// The hypervisor's instructions in all of them.
    pub hypervisor: u64,
    /// All other instructions.
    pub others: u64,
    /// How often each kind of instruction or event was, by its name; what never was is not in it.
    pub counts: BTreeMap<String, u64>,
}

impl Operations {
    /// The instructions of one operation, of guest and hypervisor.
    pub fn instructions(&self) -> f64 {
        (self.hypervisor + self.others) as f64 / self.times
    }

    /// How often one operation does any of these.
    pub fn each(&self, names: &[&str]) -> f64 {
        let counts = names.iter().filter_map(|name| self.counts.get(*name));
        counts.sum::<u64>() as f64 / self.times
    }
}

/// What was found on one emulated machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The machine.
    pub machine: Machine,
    /// What was measured.
    pub measurements: Vec<Measurement>,
    /// The sides that failed.
    #[serde(default)]
    pub failures: Vec<Failure>,
    /// The profiles that were taken.
    #[serde(default)]
    pub profiles: Vec<Profile>,
    /// What the rows did that an emulator does not show the cost of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<Operations>,
}

impl Run {
    /// An empty run on `machine`.
    pub fn new(machine: Machine) -> Self {
        Self {
            machine,
            measurements: Vec::new(),
            failures: Vec::new(),
            profiles: Vec::new(),
            operations: Vec::new(),
        }
    }

    /// What `figure` was on `side`.
    pub fn measured(&self, figure: &str, side: Side) -> Option<&Measurement> {
        let wanted = |one: &&Measurement| one.figure == figure && one.side == side;
        self.measurements.iter().find(wanted)
    }

    /// What was counted of `figure` on `side`.
    pub fn operations_of(&self, figure: &str, side: Side) -> Option<&Operations> {
        let wanted = |one: &&Operations| one.figure == figure && one.side == side;
        self.operations.iter().find(wanted)
    }

    /// Adds one repetition's `value` to what `figure` was on `side`.
    ///
    /// # Errors
    ///
    /// As [`Measurement::new`].
    pub fn add(&mut self, figure: &str, side: Side, value: f64) -> Result<(), Refused> {
        let new = Measurement::new(figure, side, vec![value])?;
        let same = |one: &&mut Measurement| one.figure == figure && one.side == side;
        match self.measurements.iter_mut().find(same) {
            Some(old) => old.values.push(value),
            None => self.measurements.push(new),
        }
        Ok(())
    }
}

/// What one call of `hanok bench` found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The version of this form.
    pub schema: u32,
    /// The commit that was measured, in full.
    pub commit: String,
    /// When the commit was made, `YYYY-MM-DDThh:mm:ssZ`; empty where it is unknown. It orders
    /// the history.
    #[serde(default)]
    pub date: String,
    /// Whether the tree had changes that the commit lacks.
    #[serde(default)]
    pub modified: bool,
    /// One for each machine.
    pub runs: Vec<Run>,
}

/// Why results cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Not JSON, or not of this form.
    #[error("not the results of a bench: {0}")]
    Form(#[from] serde_json::Error),
    /// Written by another version.
    #[error("results of schema {0}; this version reads schema {SCHEMA}")]
    Schema(u64),
    /// A measurement that cannot be.
    #[error(transparent)]
    Measurement(#[from] Refused),
}

impl Results {
    /// Results of `commit` without a run.
    pub fn new(commit: impl Into<String>) -> Self {
        Self {
            schema: SCHEMA,
            commit: commit.into(),
            date: String::new(),
            modified: false,
            runs: Vec::new(),
        }
    }

    /// As JSON for people and programs, ended by a newline.
    ///
    /// # Errors
    ///
    /// A measurement that [`Measurement::new`] would have refused.
    pub fn to_json(&self) -> Result<String, LoadError> {
        self.check()?;
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Reads what [`Results::to_json`] wrote.
    ///
    /// # Errors
    ///
    /// Another form or schema, or values that cannot be.
    pub fn from_json(text: &str) -> Result<Self, LoadError> {
        check_schema(text)?;
        let read: Self = serde_json::from_str(text)?;
        read.check()?;
        Ok(read)
    }

    fn check(&self) -> Result<(), Refused> {
        let mut all = self.runs.iter().flat_map(|run| &run.measurements);
        all.try_for_each(Measurement::check)
    }
}

/// Refuses what another version wrote.
pub(crate) fn check_schema(text: &str) -> Result<(), LoadError> {
    /// The one field that every schema has.
    #[derive(Deserialize)]
    struct Versioned {
        schema: u64,
    }
    let Versioned { schema } = serde_json::from_str(text)?;
    if schema == u64::from(SCHEMA) {
        Ok(())
    } else {
        Err(LoadError::Schema(schema))
    }
}
