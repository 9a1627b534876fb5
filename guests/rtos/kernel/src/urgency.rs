//! The order of tasks.

use crate::Ticks;

/// How tasks are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Fixed priorities, rate monotonic: the shorter a task's period, the more urgent.
    RateMonotonic,
    /// Fixed priorities, deadline monotonic: the shorter a task's relative deadline, the more urgent.
    DeadlineMonotonic,
    /// Fixed priorities as the tasks' specifications say; 0 is the most urgent.
    Fixed,
    /// Earliest deadline first.
    EarliestDeadline,
}

/// How urgent a job is; the smallest comes first. A task inherits an urgency as a whole.
///
/// Under EDF, of two jobs with one deadline the one that was released first goes on, so that a new
/// job never preempts without need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Urgency {
    /// The task's rank under fixed priorities, the job's absolute deadline under EDF.
    pub first: Ticks,
    /// When the job was released, under EDF; otherwise 0.
    pub second: Ticks,
}
