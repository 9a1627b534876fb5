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
    /// The component that it ran last.
    pub last: Option<NodeId>,
    /// Its last stretch in the timeline.
    pub recorded: Option<usize>,
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
