//! The content of a simulation's output, whatever its form.

use hanok_simulator::Timeline;
use hanok_task_model::{ComponentId, Model, TaskId};

/// The content of a simulation's output.
pub struct Shown<'a> {
    pub(super) model: &'a Model,
    pub(super) timeline: &'a Timeline,
    /// The name of each core of the timeline.
    pub(super) cores: Vec<String>,
    /// The tasks that were simulated, by component.
    pub(super) rows: Vec<TaskId>,
    /// The part that is drawn.
    pub(super) from: u64,
    pub(super) to: u64,
    /// What was simulated, in a sentence.
    pub(super) title: String,
}

impl Shown<'_> {
    pub(super) fn name(&self, task: TaskId) -> String {
        let Some(task) = self.model.task(task) else {
            return String::new();
        };
        format!("{}.{}", self.component(task.component), task.name)
    }

    pub(super) fn component(&self, id: ComponentId) -> &str {
        let component = self.model.component(id);
        component.map_or("", |component| component.name.as_str())
    }
}
