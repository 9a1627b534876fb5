//! What a test is that is no scenario, and what a test comes to.

use std::path::Path;
use std::time::Duration;

use hanok_base::exit::Code;
use hanok_base::ui;

/// What a test, or a group of them, came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many passed.
    pub passed: usize,
    /// How many failed.
    pub failed: usize,
    /// How many were left out, as too slow for every run or as not possible here.
    pub skipped: usize,
    /// What is told when something failed.
    pub details: String,
    /// How long boards had a CPU of the PC: a measure that does not depend on what else the PC does.
    pub cpu: Duration,
}

impl Tally {
    /// A single test that passed.
    pub fn pass() -> Self {
        Self {
            passed: 1,
            ..Self::default()
        }
    }

    /// A single test that failed.
    pub fn fail(details: impl Into<String>) -> Self {
        Self {
            failed: 1,
            details: details.into(),
            ..Self::default()
        }
    }

    /// A single test, which passed and says something, or failed for this reason.
    pub fn told(result: anyhow::Result<String>) -> Self {
        match result {
            Ok(details) => Self {
                details,
                ..Self::pass()
            },
            Err(error) => Self::fail(format!("{error:#}")),
        }
    }

    /// What the whole run ends with. Where nothing was tried, nothing is known.
    pub(crate) fn code(&self) -> Code {
        match (self.passed, self.failed) {
            (1.., 0) => Code::Success,
            _ => Code::TestsFailed,
        }
    }

    /// Adds what others came to; what is told of them is not.
    pub(crate) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.cpu += other.cpu;
    }

    /// The line that closes a run.
    pub(crate) fn closing(&self) -> String {
        let skipped = match self.skipped {
            0 => String::new(),
            count => format!(", {count} skipped"),
        };
        format!("{} passed, {} failed{skipped}", self.passed, self.failed)
    }
}

/// Prints one step's result as it comes.
pub fn told(name: &str, tally: &Tally, time: Duration) {
    let word = if tally.failed == 0 {
        ui::green("ok  ")
    } else {
        ui::red("FAIL")
    };
    let counts = match (tally.passed, tally.failed) {
        (1, 0) | (0, 1) => String::new(),
        (passed, 0) => format!(", {passed} passed"),
        (passed, failed) => format!(", {passed} passed, {failed} failed"),
    };
    let cpu = match tally.cpu {
        Duration::ZERO => String::new(),
        cpu => format!(", CPU {:.1} s", cpu.as_secs_f64()),
    };
    ui::line(format_args!(
        "{word} {name} ({:.1} s{cpu}{counts})",
        time.as_secs_f64()
    ));
    for line in tally.details.lines() {
        ui::line(format_args!("     {line}"));
    }
}

/// A test that is not a scenario.
pub struct TestStep {
    /// Its name.
    pub name: &'static str,
    /// Runs it in the repository.
    pub run: fn(&Path) -> Tally,
}

/// A test that is not a scenario either, of which data may have made it: one case of several.
pub struct ListedStep {
    /// Its name, and what sets this case apart: `previrt-builds [6.12, gcc 14, T32]`.
    pub name: String,
    /// Runs it in the repository.
    pub run: Box<dyn Fn(&Path) -> Tally + Send + Sync>,
}

impl From<&TestStep> for ListedStep {
    fn from(step: &TestStep) -> Self {
        Self {
            name: step.name.to_owned(),
            run: Box::new(step.run),
        }
    }
}
