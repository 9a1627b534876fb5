//! Tasks, and the policies that order them.

use crate::{ComponentId, Nanos};
use alloc::string::String;

/// How a component chooses among its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The job whose absolute deadline is earliest.
    #[default]
    Edf,
    /// The member whose period is shortest.
    RateMonotonic,
    /// The member whose relative deadline is shortest.
    DeadlineMonotonic,
    /// The member whose [`Priority`] is highest.
    FixedPriority,
}

impl From<Policy> for hanok_sched::Order {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Edf => Self::EarliestDeadline,
            Policy::RateMonotonic | Policy::DeadlineMonotonic | Policy::FixedPriority => {
                Self::Priority
            }
        }
    }
}

impl Policy {
    /// The rank of a member with this promise and this priority, if it has one. Where ranks decide,
    /// the smallest is chosen first.
    pub fn rank(self, promise: &crate::ResourceInterface, priority: Option<Priority>) -> u64 {
        match self {
            Self::RateMonotonic => promise.period.get(),
            Self::DeadlineMonotonic => promise.deadline.get(),
            Self::Edf | Self::FixedPriority => {
                priority.map_or(u64::MAX, |priority| u64::from(priority.0))
            }
        }
    }

    /// Whether a member's rank never changes.
    pub fn is_fixed(self) -> bool {
        self != Self::Edf
    }
}

/// A fixed priority: 0 is the highest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub u32);

/// A task of a component: an endless row of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    /// The task's name, unique in its component.
    pub name: String,
    /// The component that it belongs to.
    pub component: ComponentId,
    /// The least time between two arrivals of jobs.
    pub period: Nanos,
    /// The longest time that a job takes on a CPU for itself.
    pub execution: Nanos,
    /// The time from a job's arrival by which it must be complete. It may be longer than the
    /// period.
    pub deadline: Nanos,
    /// The time of the first job's arrival.
    pub offset: Nanos,
    /// The longest time that an arrived job may be held back before it is released.
    pub jitter: Nanos,
    /// The task's priority. It is required under [`Policy::FixedPriority`], and ignored elsewhere.
    pub priority: Option<Priority>,
}

impl Task {
    /// A task whose deadline is its period, without offset, jitter and priority.
    pub fn new(
        name: impl Into<String>,
        component: ComponentId,
        period: Nanos,
        execution: Nanos,
    ) -> Self {
        Self {
            name: name.into(),
            component,
            period,
            execution,
            deadline: period,
            offset: Nanos::ZERO,
            jitter: Nanos::ZERO,
            priority: None,
        }
    }
}
