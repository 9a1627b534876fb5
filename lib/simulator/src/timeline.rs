//! The record of a simulation.

use alloc::vec::Vec;
use hanok_task_model::TaskId;

/// A time in which a core ran one task, or switched to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The core's index among all simulated cores.
    pub core: usize,
    /// The task.
    pub task: TaskId,
    /// Whether it is the switch to the task's component, and not the task itself.
    pub switching: bool,
    /// The start, in nanoseconds.
    pub start: u64,
    /// The end, in nanoseconds.
    pub end: u64,
}

/// One job of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The task.
    pub task: TaskId,
    /// The job's number in its task, from 0.
    pub number: u64,
    /// The time of its arrival.
    pub arrival: u64,
    /// The time of its release: it could run from then on.
    pub release: u64,
    /// The time by which it is to be complete.
    pub deadline: u64,
    /// The time at which it was complete; `None` if it was not.
    pub finish: Option<u64>,
}

impl Job {
    /// Whether it is known by `horizon` that the job missed its deadline.
    pub fn is_missed(&self, horizon: u64) -> bool {
        match self.finish {
            Some(finish) => finish > self.deadline,
            None => self.deadline <= horizon,
        }
    }
}

/// The result of one task's jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskSummary {
    /// The number of jobs that were released.
    pub jobs: u64,
    /// The number of jobs that are complete.
    pub complete: u64,
    /// The number of jobs that missed their deadline.
    pub missed: u64,
    /// The longest time from arrival to completion, of the jobs that are complete.
    pub longest: u64,
}

/// What happened up to a horizon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The end of the simulation, in nanoseconds.
    pub horizon: u64,
    /// The number of cores.
    pub cores: usize,
    /// Which task ran when, in the order of time.
    pub segments: Vec<Segment>,
    /// All jobs, in the order of their releases.
    pub jobs: Vec<Job>,
    /// The number of events that were simulated.
    pub events: u64,
}

impl Timeline {
    /// The jobs that missed their deadline, in the order of the deadlines.
    pub fn misses(&self) -> Vec<Job> {
        let missed = self.jobs.iter().filter(|job| job.is_missed(self.horizon));
        let mut missed: Vec<_> = missed.copied().collect();
        missed.sort_by_key(|job| (job.deadline, job.task));
        missed
    }

    /// The result of each task's jobs; `tasks` is the number of tasks of the model.
    pub fn summaries(&self, tasks: usize) -> Vec<TaskSummary> {
        let mut all = Vec::new();
        all.resize(tasks, TaskSummary::default());
        for job in &self.jobs {
            let Some(summary) = all.get_mut(job.task.0 as usize) else {
                continue;
            };
            summary.jobs += 1;
            summary.missed += u64::from(job.is_missed(self.horizon));
            if let Some(finish) = job.finish {
                summary.complete += 1;
                summary.longest = summary.longest.max(finish.saturating_sub(job.arrival));
            }
        }
        all
    }

    /// The time in which `core` ran something.
    pub fn busy(&self, core: usize) -> u64 {
        let here = self.segments.iter().filter(|segment| segment.core == core);
        here.map(|segment| segment.end - segment.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(task: u32, number: u64, arrival: u64, deadline: u64, finish: Option<u64>) -> Job {
        Job {
            task: TaskId(task),
            number,
            arrival,
            release: arrival,
            deadline,
            finish,
        }
    }

    /// Jobs that are complete in time, at the last instant, and late; jobs still running before the
    /// deadline and at it; and one of a task that was not asked about.
    #[test]
    fn what_became_of_jobs_is_summed_up() {
        let segment = |core, start, end| Segment {
            core,
            task: TaskId(0),
            switching: false,
            start,
            end,
        };
        let timeline = Timeline {
            horizon: 100,
            cores: 2,
            segments: Vec::from([segment(0, 0, 7), segment(1, 2, 3), segment(0, 10, 15)]),
            jobs: Vec::from([
                job(0, 0, 0, 20, Some(7)),
                job(0, 1, 20, 40, Some(40)),
                job(0, 2, 40, 60, Some(61)),
                job(1, 0, 50, 100, None),
                job(1, 1, 90, 101, None),
                job(1, 2, 30, 59, Some(60)),
                job(5, 0, 0, 10, None),
            ]),
            events: 1,
        };
        let of = |jobs, complete, missed, longest| TaskSummary {
            jobs,
            complete,
            missed,
            longest,
        };
        let wanted = [of(3, 3, 1, 21), of(3, 1, 2, 30), of(0, 0, 0, 0)];
        assert_eq!(timeline.summaries(3), wanted);
        let missed = timeline.misses();
        let missed = missed.iter().map(|job| (job.task.0, job.number));
        let by_deadline = [(5, 0), (1, 2), (0, 2), (1, 0)];
        assert!(missed.eq(by_deadline));
        assert_eq!([0, 1, 2].map(|core| timeline.busy(core)), [12, 1, 0]);
    }
}
