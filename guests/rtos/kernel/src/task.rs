//! A periodic task, and what is known about its jobs.
//!
//! Jobs are numbered from 0. Job k is released at offset + k * period and due one relative deadline
//! later. A late job is not dropped: the following ones queue up behind it. So three marks describe
//! the task, each of them a job's release: of the next job to be released, of the current one, and
//! of the first one that is not judged (its deadline has not come, and it has not ended). They only
//! advance by a period.

use crate::{Policy, QueueId, SemaphoreId, Ticks, Urgency};

/// What a task is to do, all times in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The name in reports.
    pub name: &'static str,
    /// From one release to the next; not 0.
    pub period: Ticks,
    /// The time from a release to the job's deadline.
    pub deadline: Ticks,
    /// The first release.
    pub offset: Ticks,
    /// The priority under [`Policy::Fixed`]; 0 is the most urgent.
    pub priority: u64,
    /// The worst-case execution time of a job, the kernel's own work for it included.
    pub budget: Ticks,
    /// How long a job really runs, for the simulation and for bodies that only burn time;
    /// [`Ticks::MAX`] for ever.
    pub execution: Ticks,
}

impl Spec {
    /// What ranks the task under fixed priorities, smallest first. EDF does not use the rank.
    pub(crate) const fn precedence(&self, policy: Policy) -> u64 {
        match policy {
            Policy::RateMonotonic | Policy::EarliestDeadline => self.period,
            Policy::DeadlineMonotonic => self.deadline,
            Policy::Fixed => self.priority,
        }
    }

    /// When job `number` is released.
    pub const fn release(&self, number: u64) -> Ticks {
        self.offset
            .saturating_add(self.period.saturating_mul(number))
    }

    /// When job `number` is due.
    pub const fn due(&self, number: u64) -> Ticks {
        self.release(number).saturating_add(self.deadline)
    }
}

/// What became of an attempt to release a job.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// A job was released.
    Released,
    /// No job is due.
    NoneDue,
}

/// What judging a task's oldest unjudged job found.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The job has missed its deadline.
    Missed,
    /// No job is late.
    NoneLate,
}

/// What became of a charge to the current job.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    /// It was counted.
    Counted,
    /// It was counted, and the job thereby overran its budget.
    Overran,
}

/// What a task does at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All its jobs are finished; it waits for the next release.
    Waiting,
    /// It runs, or could run.
    Ready,
    /// Its job waits for something.
    Blocked(Blocker),
}

/// What a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// A semaphore that another task holds.
    Semaphore(SemaphoreId),
    /// Space in a queue.
    Send(QueueId),
    /// A message.
    Receive(QueueId),
}

/// The results of a task's jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Jobs that ended.
    pub jobs: u64,
    /// Jobs that were not finished at their deadline, whether or not they ended later.
    pub misses: u64,
    /// Jobs that used more than the budget, whether or not they ended.
    pub overruns: u64,
    /// The longest time from when a release was due until the kernel made it.
    pub jitter_max: Ticks,
    /// The longest time from when a release was due to the first instruction of its job.
    pub start_max: Ticks,
    /// The longest time from when a release was due to the end of its job.
    pub response_max: Ticks,
}

/// A task.
#[derive(Clone, Debug)]
pub struct Task {
    pub(crate) spec: Spec,
    /// Its rank among all tasks under fixed priorities; 0 is the most urgent.
    pub(crate) rank: u64,
    pub(crate) state: State,
    /// The release of the next job to be released.
    next: Ticks,
    /// The release of the current job; `next` where there is none.
    current: Ticks,
    /// The release of the first job that is not judged: between `current` and `next`.
    unjudged: Ticks,
    /// Whether the current job ran before.
    pub(crate) started: bool,
    /// The part of its budget that the current job used.
    pub(crate) consumed: Ticks,
    overran: bool,
    /// The current job's urgency, or a more urgent one that it inherited.
    pub(crate) effective: Urgency,
    /// The message that it sends while it waits for space, or that it received.
    pub(crate) message: u32,
    pub(crate) stats: Stats,
}

impl Task {
    pub(crate) const fn new(spec: Spec) -> Self {
        Self {
            next: spec.offset,
            current: spec.offset,
            unjudged: spec.offset,
            spec,
            rank: 0,
            state: State::Waiting,
            started: false,
            consumed: 0,
            overran: false,
            effective: Urgency {
                first: 0,
                second: 0,
            },
            message: 0,
            stats: Stats {
                jobs: 0,
                misses: 0,
                overruns: 0,
                jitter_max: 0,
                start_max: 0,
                response_max: 0,
            },
        }
    }

    /// The task's specification.
    pub const fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The results of its jobs.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// What it does at present.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Its place among all tasks under fixed priorities, 0 the most urgent.
    pub const fn rank(&self) -> u64 {
        self.rank
    }

    /// Its present urgency, with what it inherited.
    pub const fn effective(&self) -> Urgency {
        self.effective
    }

    /// The release of its current or next job.
    pub const fn released(&self) -> Ticks {
        self.current
    }

    /// The deadline of its current or next job.
    pub const fn due(&self) -> Ticks {
        self.current.saturating_add(self.spec.deadline)
    }

    /// The part of its budget that its current job used.
    pub const fn consumed(&self) -> Ticks {
        self.consumed
    }

    /// The current job's own urgency.
    pub(crate) const fn urgency(&self, policy: Policy) -> Urgency {
        match policy {
            Policy::EarliestDeadline => Urgency {
                first: self.due(),
                second: self.current,
            },
            Policy::RateMonotonic | Policy::DeadlineMonotonic | Policy::Fixed => Urgency {
                first: self.rank,
                second: 0,
            },
        }
    }

    /// Whether a released job is not finished.
    pub(crate) const fn has_job(&self) -> bool {
        self.current < self.next
    }

    /// When it next needs the kernel: its next release, or the first moment at which an unfinished
    /// job is late.
    pub(crate) const fn next_event(&self) -> Ticks {
        if self.unjudged == self.next {
            return self.next;
        }
        let late = self.unjudged.saturating_add(self.spec.deadline);
        let late = late.saturating_add(1);
        if late < self.next { late } else { self.next }
    }

    /// Releases the next job if it is due at `now`.
    pub(crate) fn release(&mut self, now: Ticks) -> Release {
        if self.next > now {
            return Release::NoneDue;
        }
        self.stats.jitter_max = self.stats.jitter_max.max(now - self.next);
        self.next = self.next.saturating_add(self.spec.period);
        Release::Released
    }

    /// Notes that the current job executes its first instruction.
    pub(crate) fn begin(&mut self, now: Ticks) {
        let waited = now.saturating_sub(self.current);
        self.stats.start_max = self.stats.start_max.max(waited);
    }

    /// Judges one job that is late at `now`, if there is one.
    pub(crate) fn judge(&mut self, now: Ticks) -> Judgement {
        let due = self.unjudged.saturating_add(self.spec.deadline);
        if self.unjudged >= self.next || due >= now {
            return Judgement::NoneLate;
        }
        self.unjudged = self.unjudged.saturating_add(self.spec.period);
        self.stats.misses += 1;
        Judgement::Missed
    }

    /// Adds `used` to what the current job used.
    pub(crate) fn charge(&mut self, used: Ticks) -> Charge {
        self.consumed = self.consumed.saturating_add(used);
        if self.overran || self.consumed <= self.spec.budget {
            return Charge::Counted;
        }
        self.overran = true;
        self.stats.overruns += 1;
        Charge::Overran
    }

    /// How much longer the current job may run before it overruns; `None` if it has overrun.
    pub(crate) const fn left(&self) -> Option<Ticks> {
        if self.overran {
            return None;
        }
        Some(self.spec.budget.saturating_sub(self.consumed))
    }

    /// Ends the current job. If it is late, it was judged before.
    pub(crate) fn complete(&mut self, now: Ticks) {
        let response = now.saturating_sub(self.current);
        self.stats.response_max = self.stats.response_max.max(response);
        self.stats.jobs += 1;
        self.current = self.current.saturating_add(self.spec.period);
        self.unjudged = self.unjudged.max(self.current);
        self.started = false;
        self.consumed = 0;
        self.overran = false;
    }
}
