//! A task that is admitted.

use alloc::format;
use alloc::string::String;

use crate::machine::{Thread, Times};
use crate::measure::Estimator;
use crate::settings::Settings;
use crate::stretch;
use crate::time::show;
use hanok_schedule::{Interface, Task};

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client(pub u32);

/// A task that is admitted.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// Its name, for people.
    pub name: String,
    /// Its thread.
    pub thread: Thread,
    /// The CPU that it is on.
    pub cpu: usize,
    /// Its times, as they are reckoned with.
    pub task: Task,
    /// The execution time that was declared.
    pub declared: u64,
    /// What Linux gives its thread in each period.
    pub runtime: u64,
    /// The connection that it belongs to; none if it stays until its thread is gone.
    pub client: Option<Client>,
    /// The user who declared it.
    pub user: u32,
    /// What was measured, if its execution time follows that.
    pub measured: Option<Estimator>,
    /// Its CPU time when it was last looked at, and when that was.
    pub seen: Option<(u64, u64)>,
}

impl Admitted {
    /// Its line in a list.
    pub fn line(&self, id: u32) -> String {
        let Task {
            period,
            execution,
            deadline,
        } = self.task;
        let [period, execution, deadline, runtime] =
            [period, execution, deadline, self.runtime].map(show);
        format!(
            "task id={id} name={} thread={} cpu={} period={period} execution={execution} \
             deadline={deadline} runtime={runtime}\n",
            self.name, self.thread.number, self.cpu
        )
    }

    /// Takes the mean of the jobs since the last look. Part of a job counts as a whole one does: rounded down, their
    /// number makes the mean too large, not too small.
    pub fn sample(&mut self, now: u64, used: u64) {
        let Some((before, at)) = self.seen else {
            self.seen = Some((used, now));
            return;
        };
        let jobs = now.saturating_sub(at) / self.task.period.max(1);
        if jobs == 0 {
            return;
        }
        self.seen = Some((used, now));
        if let Some(measured) = &mut self.measured {
            measured.add(used.saturating_sub(before).div_ceil(jobs));
        }
    }
}

/// The runtime of a task's thread, with what Linux needs for its jobs.
pub fn runtime(task: &Task, interface: &Interface, settings: &Settings) -> u64 {
    let execution = task
        .execution
        .saturating_add(settings.per_job)
        .min(task.deadline);
    stretch::runtime(&Task { execution, ..*task }, interface)
}

/// The times that Linux schedules a task's thread by.
pub const fn times(task: &Task, runtime: u64) -> Times {
    Times {
        runtime,
        deadline: task.deadline,
        period: task.period,
    }
}
