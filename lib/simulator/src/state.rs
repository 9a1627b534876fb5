//! The state of a simulation: the scene at an instant, and what each core does.

use crate::node::NodeId;
use crate::scene::Scene;
use crate::timeline::Segment;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use hanok_task_model::TaskId;

/// The state of a core.
#[derive(Debug, Default)]
pub struct Core {
    /// The task that it runs.
    pub runs: Option<TaskId>,
    /// The instant until which that holds.
    pub until: Option<u64>,
    /// The time that it is still busy with the switch.
    pub delay: u64,
    /// The CPUs of choosers on the path to the task that it runs.
    pub path: Vec<(NodeId, usize)>,
    /// The CPUs of choosers whose budgets are spent on that task, besides those of the path.
    pub payers: Vec<(NodeId, usize)>,
    /// The path to the task that it ran last.
    pub last: Vec<(NodeId, usize)>,
    /// The number of choosers at the start of that path that the current switch left unchanged.
    pub shared: usize,
    /// The index of its last segment in the timeline.
    pub recorded: Option<usize>,
}

impl Core {
    /// Whether this CPU of a chooser is on the core's path.
    pub fn asks(&self, at: (NodeId, usize)) -> bool {
        self.path.contains(&at) || self.payers.contains(&at)
    }
}

/// The state of a simulation at an instant.
pub struct State {
    pub now: u64,
    pub scene: Scene,
    pub cores: Vec<Core>,
    /// The CPUs of components all of whose members wait for some instant, and the earliest of
    /// these.
    pub parked: BTreeSet<(u64, NodeId, usize)>,
    pub segments: Vec<Segment>,
    /// The cost of a switch from one component to another.
    pub cost: u64,
    /// As in the options.
    pub best_effort: bool,
}
