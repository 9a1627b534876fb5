//! What is simulated, and how.

use crate::{Supply, SupplyError};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use hanok_sched::{InterfaceError, Kind, Slack};
use hanok_task_model::{ComponentId, CoreId, ModelError, ResourceInterface};

/// The interfaces of components: those that the model gives, and those that were found for it.
pub type Interfaces = BTreeMap<ComponentId, ResourceInterface>;

/// The part of a model that is simulated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum What {
    /// The whole model, on all its cores.
    #[default]
    System,
    /// One component with everything inside it, on a CPU with this supply.
    Component(ComponentId, Supply),
}

/// When jobs are released after their arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    /// At once.
    None,
    /// The first job of each task as late as its jitter allows, all others at once: this is as
    /// close together as they can come.
    #[default]
    First,
    /// At random, with this seed.
    Random(u64),
}

/// How long jobs take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// As long as the task's execution time.
    #[default]
    Worst,
    /// A random time from one tick to the execution time, with this seed.
    Random(u64),
}

/// The options of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The part of the model that is simulated.
    pub what: What,
    /// The end of the simulation, in nanoseconds.
    pub horizon: u64,
    /// Interfaces for the components to which the model gives none. They take precedence over the
    /// model's.
    pub interfaces: Interfaces,
    /// Cores for vCPUs in partitioned pools, by component and number of the vCPU. They take
    /// precedence over the model's. A vCPU that neither names goes to the first core with enough
    /// time left, the largest ones first.
    pub placement: BTreeMap<(ComponentId, u32), CoreId>,
    /// The kind of server that gives all components their interface; `None` if the model's kind is
    /// used for each.
    pub kind: Option<Kind>,
    /// What servers that may begin inside their periods pay from their budgets for the switches to them and back, in
    /// nanoseconds; `None`: as much as two of the model's switches take. A board goes by its description, whatever its
    /// switches take.
    pub prepaid: Option<u64>,
    /// What becomes of promised time that no member uses.
    pub slack: Slack,
    /// Whether others than the model's have work all the time, on cores without several lanes: they have what is left
    /// of each core before members of the root that have used their budgets up, as best effort does on a board.
    pub best_effort: bool,
    /// When jobs are released.
    pub jitter: Jitter,
    /// How long jobs take.
    pub execution: Execution,
    /// The largest number of events.
    pub events: u64,
}

impl Options {
    /// The worst case of `what`, up to `horizon`, with two million events at most.
    pub fn new(what: What, horizon: u64) -> Self {
        Self {
            what,
            horizon,
            interfaces: Interfaces::new(),
            placement: BTreeMap::new(),
            kind: None,
            prepaid: None,
            slack: Slack::Idle,
            best_effort: false,
            jitter: Jitter::default(),
            execution: Execution::default(),
            events: 2_000_000,
        }
    }
}

/// Why there is no simulation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The model is not valid.
    #[error("the model has faults")]
    Model(Vec<ModelError>),
    /// This component has no interface yet.
    #[error("component {0} has no interface yet")]
    NoInterface(String),
    /// The component does not exist.
    #[error("there is no such component")]
    NoComponent,
    /// The kind of server cannot keep this component's interface.
    #[error("component {0}: {1}")]
    Interface(String, InterfaceError),
    /// This component has more members than any queue holds.
    #[error("component {0} has more than {1} members")]
    TooMany(String, usize),
    /// This component of a partitioned pool fits on no core.
    #[error("component {0} fits on no core of its pool beside the others")]
    NoCore(String),
    /// The supply is not valid.
    #[error(transparent)]
    Supply(#[from] SupplyError),
    /// The simulation did not end within [`Options::events`].
    #[error("after {events} events it is only {reached} ns: choose a shorter time")]
    TooLong {
        /// The number of events.
        events: u64,
        /// The simulated time by then, in nanoseconds.
        reached: u64,
    },
}
