//! Where a simulation is: the scene at an instant, and what each core does.

use crate::node::NodeId;
use crate::scene::Scene;
use crate::timeline::Segment;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use hanok_task_model::TaskId;

/// What a core does.
#[derive(Debug, Default)]
pub struct Core {
    /// What it runs.
    pub runs: Option<TaskId>,
    /// Until when that holds.
    pub until: Option<u64>,
    /// How long it is still busy with the switch.
    pub delay: u64,
    /// The CPUs of choosers by which it came to what it runs.
    pub path: Vec<(NodeId, usize)>,
    /// The CPUs of choosers whose budgets are spent on that, beside those of the path.
    pub payers: Vec<(NodeId, usize)>,
    /// The path to what it ran last.
    pub last: Vec<(NodeId, usize)>,
    /// How many of that path's choosers the switch under way left as they were.
    pub shared: usize,
    /// Its last stretch in the timeline.
    pub recorded: Option<usize>,
}

impl Core {
    /// Whether it has asked this CPU of a chooser who runs.
    pub fn asks(&self, at: (NodeId, usize)) -> bool {
        self.path.contains(&at) || self.payers.contains(&at)
    }
}

/// Everything at an instant.
pub struct State {
    pub now: u64,
    pub scene: Scene,
    pub cores: Vec<Core>,
    /// CPUs of components whose choices all wait for something in time, and until when.
    pub parked: BTreeSet<(u64, NodeId, usize)>,
    pub segments: Vec<Segment>,
    /// Of a switch from one component to another.
    pub cost: u64,
}
