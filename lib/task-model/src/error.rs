//! What is wrong with a model, and with what in it.

use crate::{ComponentId, Nanos, PoolId, TaskId};
use alloc::string::String;
use core::fmt;
use thiserror::Error;

/// What a fault is about; the name is there for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The whole model.
    Model,
    /// A pool.
    Pool(PoolId, String),
    /// A component.
    Component(ComponentId, String),
    /// A task, and the name of its component.
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

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{subject}: {fault}")]
pub struct ModelError {
    /// What it is about.
    pub subject: Subject,
    /// What is wrong.
    pub fault: Fault,
}

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// A time that must be more than zero.
    #[error("the {0} is zero")]
    Zero(&'static str),
    /// A time beyond [`Nanos::MAX`].
    #[error("the {0} is longer than 36 years")]
    TooLong(&'static str),
    /// A time of an interface that the timer cannot keep.
    #[error("the {what}, {value}, is no whole number of ticks of {tick}")]
    NotWhole {
        /// Which time.
        what: &'static str,
        /// Its value.
        value: Nanos,
        /// The tick.
        tick: Nanos,
    },
    /// One time that must not be longer than another.
    #[error("the {what}, {value}, is longer than the {limit_name}, {limit}")]
    Longer {
        /// Which time.
        what: &'static str,
        /// Its value.
        value: Nanos,
        /// What it must fit in.
        limit_name: &'static str,
        /// The value of that.
        limit: Nanos,
    },
    /// A name that is missing.
    #[error("it has no name")]
    Nameless,
    /// A name that another one of its kind has.
    #[error("another one has the same name")]
    NameTaken,
    /// More than [`crate::MAX_MEMBERS`] of a kind.
    #[error("there are more than 65536 {0}")]
    TooMany(&'static str),
    /// An id that leads nowhere.
    #[error("its {0} does not exist")]
    Missing(&'static str),
    /// A component that is inside itself.
    #[error("it is inside itself, by way of other components or at once")]
    Circle,
    /// A component whose least interface is asked for, although nothing in it needs time.
    #[error("it holds neither tasks nor components, so that its least interface is nothing")]
    Empty,
    /// A member without a priority where those decide.
    #[error("it has no priority, and fixed priorities decide here")]
    NoPriority,
    /// A pool without cores.
    #[error("it has no cores")]
    NoCores,
    /// A core that is in two pools, or twice in one.
    #[error("core {0} is in another pool, too, or twice in this one")]
    CoreTaken(u8),
    /// A core wished for that the pool has not got.
    #[error("core {0} is not in its pool")]
    NotInPool(u8),
    /// A core wished for where components have none.
    #[error("it wishes for a core, and its home hands out none")]
    NoCoreToChoose,
    /// A global pool, or a component with several CPUs, under fixed priorities.
    #[error("several CPUs together are scheduled by EDF alone")]
    GlobalNeedsEdf,
    /// More CPUs than the pool has cores.
    #[error("it has {cpus} CPUs, and its pool {cores} cores")]
    MoreCpusThanCores {
        /// The component's.
        cpus: u32,
        /// The pool's.
        cores: u32,
    },
    /// A component with several CPUs where only one can be had.
    #[error("it has several CPUs, and is inside a component, which has one to give")]
    ParallelInGroup,
    /// A component with several CPUs that holds components.
    #[error("it has several CPUs and holds components; only tasks can be spread")]
    ParallelGroup,
    /// Another deadline than the period with several CPUs.
    #[error("with several CPUs the deadline of an interface is its period")]
    ParallelWindow,
    /// Another deadline than the period where the kind of server has none.
    #[error("this kind of server has its deadline at the end of its period")]
    ServerWindow,
    /// A range of periods in which no whole tick lies.
    #[error("no whole number of ticks lies between the shortest and the longest period")]
    NoPeriod,
}
