//! What is simulated, and how.

use crate::{Supply, SupplyError};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use hanok_sched::{InterfaceError, Kind, Slack};
use hanok_task_model::{ComponentId, CoreId, Interface, ModelError};

/// Interfaces of components: those that the model gives, and those that were found for it.
pub type Interfaces = BTreeMap<ComponentId, Interface>;

/// What is simulated of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum What {
    /// All of it, on all its cores.
    #[default]
    System,
    /// One component with what is inside it, on a CPU of this supply.
    Component(ComponentId, Supply),
}

/// When jobs are released after they arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    /// At once.
    None,
    /// The first one of each task as late as its jitter allows, all others at once: as close
    /// together as they can come.
    #[default]
    First,
    /// At random, by this seed.
    Random(u64),
}

/// How long jobs take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// As long as they may.
    #[default]
    Worst,
    /// Between one tick and that, at random, by this seed.
    Random(u64),
}

/// How it is simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What is simulated.
    pub what: What,
    /// Until when, in nanoseconds.
    pub horizon: u64,
    /// Interfaces for the components to which the model gives none; they go before its own.
    pub interfaces: Interfaces,
    /// Cores for vCPUs in partitioned pools: of a component, and which of its CPUs. They go
    /// before the model's wishes; where neither says, the largest go first to the first core
    /// with room.
    pub placement: BTreeMap<(ComponentId, u32), CoreId>,
    /// What kind of server gives all components their interface; `None`: the model's, of each.
    pub kind: Option<Kind>,
    /// What becomes of promised time that nobody uses.
    pub slack: Slack,
    /// When jobs are released.
    pub jitter: Jitter,
    /// How long they take.
    pub execution: Execution,
    /// After how many events it is too much.
    pub events: u64,
}

impl Options {
    /// The worst of all that is simulated, up to `horizon`, with two million events at most.
    pub fn new(what: What, horizon: u64) -> Self {
        Self {
            what,
            horizon,
            interfaces: Interfaces::new(),
            placement: BTreeMap::new(),
            kind: None,
            slack: Slack::Idle,
            jitter: Jitter::default(),
            execution: Execution::default(),
            events: 2_000_000,
        }
    }
}

/// Why there is no simulation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The model itself is wrong.
    #[error("the model has faults")]
    Model(Vec<ModelError>),
    /// A component's interface is to be found first.
    #[error("component {0} has no interface yet")]
    NoInterface(String),
    /// There is no such component.
    #[error("there is no such component")]
    NoComponent,
    /// A component's interface cannot be kept by the kind of server.
    #[error("component {0}: {1}")]
    Interface(String, InterfaceError),
    /// Too many members for any queue.
    #[error("component {0} has more than {1} members")]
    TooMany(String, usize),
    /// Components of a partitioned pool that fit on no core.
    #[error("component {0} fits on no core of its pool beside the others")]
    NoCore(String),
    /// The supply makes no sense.
    #[error(transparent)]
    Supply(#[from] SupplyError),
    /// Not over after [`Options::events`].
    #[error("after {events} events it is only {reached} ns: choose a shorter time")]
    TooLong {
        /// How many there were.
        events: u64,
        /// The time it had become.
        reached: u64,
    },
}
