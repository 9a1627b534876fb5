//! The tasks of a system and what its VMs are promised, as a model that the analysis and the
//! simulator read.
//!
//! What stands in the description becomes components: a VM with one vCPU is one; a VM with
//! several is one on several CPUs, where its tasks are spread by EDF, unless its tasks name
//! their vCPUs, in which case each vCPU is a component of its own (`linux.0`). The rules are
//! the model's own; here each of its faults gets the line it is about.

mod build;
pub(crate) mod carts;
pub(crate) mod draft;
mod words;

use crate::description;
use crate::diagnostic::{Diagnostic, Mark, Report, read};
use crate::table;
use hanok_task_model::{ComponentId, Model, TaskId};
use std::path::{Path, PathBuf};

pub(crate) use build::build;

/// A checked schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The file it came from.
    pub path: PathBuf,
    /// The model.
    pub model: Model,
    pub(crate) marks: Marks,
}

/// Where the model's parts stand in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) pools: Vec<Mark>,
    pub(crate) components: Vec<Mark>,
    pub(crate) tasks: Vec<Mark>,
}

impl Schedule {
    /// The line of the file on which the component `id` begins.
    pub fn line_of(&self, id: ComponentId) -> Option<usize> {
        let mark = self.marks.components.get(id.0 as usize);
        mark.map(|mark| mark.line)
    }

    /// The line of the file on which the task `id` begins.
    pub fn line_of_task(&self, id: TaskId) -> Option<usize> {
        self.marks.tasks.get(id.0 as usize).map(|mark| mark.line)
    }
}

/// Reads the schedule of the description in `path`, whose board is looked for in `boards_dir`,
/// or all that is wrong with it. A description without VMs will do where it has groups with
/// tasks. One without a board has as many cores as its `cores` says, or as its pools name. A
/// file whose name ends in `.xml` is read as the tool CARTS has it (`carts.rs`).
pub fn load_schedule(path: &Path, boards_dir: &Path) -> Result<Schedule, Vec<Diagnostic>> {
    let text = read(path).map_err(|diagnostic| vec![diagnostic])?;
    match path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("xml"))
    {
        true => carts::parse(path, &text),
        false => parse_schedule(path, &text, boards_dir),
    }
}

/// As [`load_schedule`], of a `text` that `path` is said to hold.
pub fn parse_schedule(
    path: &Path,
    text: &str,
    boards_dir: &Path,
) -> Result<Schedule, Vec<Diagnostic>> {
    let mut report = Report::new(path, text);
    let schedule = table::document(text, &mut report, |reader, report| {
        match reader.has("board") {
            true => {
                let asked = description::Asked::Schedule;
                description::system(reader, report, boards_dir, asked)?.1
            }
            false => description::without_board(reader, report),
        }
    });
    description::sort(&mut report, path);
    match schedule {
        Some(schedule) if report.found.is_empty() => Ok(schedule),
        _ => Err(report.found),
    }
}
