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
