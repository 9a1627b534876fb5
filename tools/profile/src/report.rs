//! The plugin's report: JSON, one value a line, so that a run that is killed loses only what had
//! not ended.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::code::Entry;
use crate::operations::Operation;

/// The version of the format.
pub const VERSION: u32 = 5;

/// A line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// The first line.
    Start {
        /// [`VERSION`].
        version: u32,
    },
    /// A stretch that has ended.
    Stretch(Stretch),
    /// The last line.
    Finish(Finish),
}

/// What was counted between two markers, or in the whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// Its number, from 0.
    pub number: u64,
    /// Whether the hypervisor was recognized before the stretch ended.
    pub found: bool,
    /// How many of the hypervisor's translated instructions differed from the ELF file by then.
    pub differing: u64,
    /// By CPU of the board.
    pub cpus: Vec<Cpu>,
}

/// The counts of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Executed instructions of the hypervisor.
    pub hypervisor: u64,
    /// All other executed instructions: guests' and the boot loader's. The markers are not counted.
    pub others: u64,
    /// The linked address and the count of each instruction of the hypervisor that ran.
    pub counts: Vec<(u64, u64)>,
    /// The exits that ended, by reason.
    pub exits: Vec<Exit>,
    /// How often each operation was done, where they are counted.
    pub operations: Vec<(Operation, u64)>,
}

/// Exits of one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The reason.
    pub reason: Reason,
    /// Instructions from the vector to `eret`, both included, or to the next look for interrupts;
    /// and how many exits took as many.
    pub costs: Vec<(u64, u64)>,
}

/// The reason of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reason {
    /// The entry of the vector table.
    pub entry: Entry,
    /// The syndrome, where there is one (ESR_EL2); the word that a guest in User mode has executed.
    pub syndrome: Option<u64>,
    /// What the syndrome does not contain: a call's number (X0), a data abort's page (HPFAR_EL2), the
    /// PC of a guest in User mode.
    pub detail: Option<u64>,
}

/// The state at the end of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finish {
    /// Whether a stretch had begun that no marker ended.
    pub open: bool,
}

impl Cpu {
    /// The longest exit: its number of instructions and its reason; `None` if there was no exit.
    pub fn longest_exit(&self) -> Option<(u64, &Reason)> {
        let longest = self.exits.iter().filter_map(|exit| {
            let most = exit.costs.iter().map(|(cost, _)| *cost).max()?;
            Some((most, &exit.reason))
        });
        longest.max_by_key(|(most, _)| *most)
    }
}

/// A whole report.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The stretches.
    pub stretches: Vec<Stretch>,
    /// The last line; `None` if the run was cut off.
    pub finish: Option<Finish>,
}

impl Report {
    /// Parses a file's text.
    pub fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines().enumerate();
        let first = lines.next().context("the plugin wrote nothing")?.1;
        match serde_json::from_str(first).context("line 1")? {
            Line::Start { version: VERSION } => {}
            Line::Start { version } => bail!("the report has version {version}, not {VERSION}"),
            _ => bail!("line 1 is not the first one of a report"),
        }
        let mut report = Self::default();
        for (at, line) in lines {
            match serde_json::from_str(line).with_context(|| format!("line {}", at + 1))? {
                Line::Start { .. } => bail!("line {}: another start", at + 1),
                Line::Stretch(stretch) => report.stretches.push(stretch),
                Line::Finish(finish) => report.finish = Some(finish),
            }
        }
        Ok(report)
    }
}

impl Line {
    /// The line as it is written, without a newline.
    pub fn text(&self) -> String {
        // Plain data with string keys: serializing it cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_come_back() {
        let reason = Reason {
            entry: Entry::Synchronous,
            syndrome: Some(0x5a00_0000),
            detail: Some(!0),
        };
        let stretch = Stretch {
            number: 3,
            found: true,
            differing: 1,
            cpus: vec![Cpu {
                hypervisor: 7,
                others: 9,
                counts: vec![(0x7f_c000_0000, 7)],
                exits: vec![Exit {
                    reason,
                    costs: vec![(7, 1)],
                }],
                operations: vec![(Operation::Dsb, 2)],
            }],
        };
        let finish = Finish { open: true };
        let lines = [
            Line::Start { version: VERSION },
            Line::Stretch(stretch.clone()),
            Line::Finish(finish),
        ];
        let text = lines.map(|line| line.text()).join("\n");
        let report = Report::parse(&text).unwrap();
        assert_eq!(report.stretches, [stretch]);
        assert_eq!(report.finish, Some(finish));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Report::parse("").is_err());
        assert!(Report::parse("{\"start\":{\"version\":99}}").is_err());
        assert!(Report::parse("{\"finish\":{\"open\":false}}").is_err());
        let start = Line::Start { version: VERSION }.text();
        let twice = format!("{start}\n{start}");
        assert!(Report::parse(&twice).is_err());
    }
}
