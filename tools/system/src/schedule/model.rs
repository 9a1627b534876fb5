//! A schedule as it is described: the model, and where its parts are in the file.

use crate::diagnostic::Mark;
use hanok_task_model::{ComponentId, Model, TaskId};
use std::path::PathBuf;

/// A checked schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The file that it was read from.
    pub path: PathBuf,
    /// The model.
    pub model: Model,
    pub(crate) marks: Marks,
}

/// Where the model's parts are in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) pools: Vec<Mark>,
    pub(crate) components: Vec<Mark>,
    pub(crate) tasks: Vec<Mark>,
}

impl Schedule {
    /// A schedule that no file describes.
    pub fn of_model(model: Model) -> Self {
        Self {
            path: PathBuf::new(),
            model,
            marks: Marks::default(),
        }
    }

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
