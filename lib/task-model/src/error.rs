//! The faults of a model.

use crate::{ComponentId, Nanos, PoolId, TaskId};
use alloc::string::String;
use core::fmt;
use thiserror::Error;

/// What a fault is about. The names are there for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The whole model.
    Model,
    /// A pool.
    Pool(PoolId, String),
    /// A component.
    Component(ComponentId, String),
    /// A task, with its name and the name of its component.
    Task(TaskId, String, String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model => f.write_str("the model"),
            Self::Pool(_, name) => write!(f, "pool {name}"),
            Self::Component(_, name) => write!(f, "component {name}"),
            Self::Task(_, name, component) => write!(f, "task {name} of {component}"),
        }
    }
}

/// One fault of a model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{subject}: {fault}")]
pub struct ModelError {
    /// What the fault is about.
    pub subject: Subject,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// A time that must be more than zero: its name.
    #[error("the {0} is zero")]
    Zero(&'static str),
    /// A time beyond [`Nanos::MAX`]: its name.
    #[error("the {0} is longer than 36 years")]
    TooLong(&'static str),
    /// A time of an interface that is no whole number of ticks.
    #[error("the {what}, {value}, is no whole number of ticks of {tick}")]
    NotWhole {
        /// The time's name.
        what: &'static str,
        /// Its value.
        value: Nanos,
        /// The tick.
        tick: Nanos,
    },
    /// A time that is longer than its limit.
    #[error("the {what}, {value}, is longer than the {limit_name}, {limit}")]
    Longer {
        /// The time's name.
        what: &'static str,
        /// Its value.
        value: Nanos,
        /// The limit's name.
        limit_name: &'static str,
        /// The limit's value.
        limit: Nanos,
    },
    /// A missing name.
    #[error("it has no name")]
    Nameless,
    /// A name that another one of its kind has.
    #[error("another one has the same name")]
    NameTaken,
    /// More than [`crate::MAX_MEMBERS`] of this kind.
    #[error("there are more than 65536 {0}")]
    TooMany(&'static str),
    /// An id of this kind that does not exist.
    #[error("its {0} does not exist")]
    Missing(&'static str),
    /// A component that is inside itself.
    #[error("it is inside itself, by way of other components or at once")]
    Circle,
    /// A component whose least interface is asked for, although nothing in it needs CPU time.
    #[error("it holds neither tasks nor components, so that its least interface is nothing")]
    Empty,
    /// A member without a priority where priorities decide.
    #[error("it has no priority, and fixed priorities decide here")]
    NoPriority,
    /// A pool without cores.
    #[error("it has no cores")]
    NoCores,
    /// A core that is in two pools, or twice in one.
    #[error("core {0} is in another pool, too, or twice in this one")]
    CoreTaken(u8),
    /// A core that a component asks for, and that is not in its pool.
    #[error("core {0} is not in its pool")]
    NotInPool(u8),
    /// A core that a component asks for where it cannot choose one.
    #[error("it wishes for a core, and its home hands out none")]
    NoCoreToChoose,
    /// A global pool, or a component with several CPUs, under fixed priorities.
    #[error("several CPUs together are scheduled by EDF alone")]
    GlobalNeedsEdf,
    /// More CPUs than the pool has cores.
    #[error("it has {cpus} CPUs, and its pool {cores} cores")]
    MoreCpusThanCores {
        /// The component's number of CPUs.
        cpus: u32,
        /// The pool's number of cores.
        cores: u32,
    },
    /// A component with several CPUs in a home that gives only one.
    #[error("it has several CPUs, and is inside a component, which has one to give")]
    ParallelInGroup,
    /// A component with several CPUs that holds components.
    #[error("it has several CPUs and holds components; only tasks can be spread")]
    ParallelGroup,
    /// A deadline other than the period, with several CPUs.
    #[error("with several CPUs the deadline of an interface is its period")]
    ParallelWindow,
    /// A deadline other than the period, for a kind of server that has none.
    #[error("this kind of server has its deadline at the end of its period")]
    ServerWindow,
    /// A range of periods that contains no whole tick.
    #[error("no whole number of ticks lies between the shortest and the longest period")]
    NoPeriod,
}
