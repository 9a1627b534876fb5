//! What happened.

use alloc::vec::Vec;
use hanok_task_model::TaskId;

/// One stretch in which a core ran one task, or went over to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The core, by its place among all of those that are simulated.
    pub core: usize,
    /// Whose.
    pub task: TaskId,
    /// The switch to its component, not yet itself.
    pub switching: bool,
    /// From here.
    pub start: u64,
    /// To here.
    pub end: u64,
}

/// One job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Whose.
    pub task: TaskId,
    /// Which of its jobs, from 0.
    pub number: u64,
    /// When it arrived.
    pub arrival: u64,
    /// When it could first run.
    pub release: u64,
    /// By when it is to be complete.
    pub deadline: u64,
    /// When it was.
    pub finish: Option<u64>,
}

impl Job {
    /// Whether it is known by `horizon` that it missed its deadline.
    pub fn is_missed(&self, horizon: u64) -> bool {
        match self.finish {
            Some(finish) => finish > self.deadline,
            None => self.deadline <= horizon,
        }
    }
}

/// What became of one task's jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskSummary {
    /// How many were released.
    pub jobs: u64,
    /// How many are complete.
    pub complete: u64,
    /// How many missed their deadline.
    pub missed: u64,
    /// The longest time from a job's arrival to its end, of those that are complete.
    pub longest: u64,
}

/// What happened up to a horizon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// Until when.
    pub horizon: u64,
    /// How many cores there are.
    pub cores: usize,
    /// Who ran when, by time.
    pub segments: Vec<Segment>,
    /// Every job, by its release.
    pub jobs: Vec<Job>,
    /// How many events it took.
    pub events: u64,
}

impl Timeline {
    /// The jobs that missed their deadline, by the deadline.
    pub fn misses(&self) -> Vec<Job> {
        let missed = self.jobs.iter().filter(|job| job.is_missed(self.horizon));
        let mut missed: Vec<_> = missed.copied().collect();
        missed.sort_by_key(|job| (job.deadline, job.task));
        missed
    }

    /// What became of each task's jobs; `tasks` is how many tasks the model has.
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

    /// For how long `core` ran something.
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

    /// Complete in time, to the last instant, and late; still at work before the deadline and at
    /// it; and of a task that nobody asked about.
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
