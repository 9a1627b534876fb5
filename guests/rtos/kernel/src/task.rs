//! A periodic task, and what is known about its jobs.
//!
//! Jobs are numbered from 0; job k is released at offset + k * period and due one relative
//! deadline later. A job that is late does not go away: the following ones queue up behind
//! it. So three marks say it all, each a job's release: of the next one to be released, of
//! the current one, and of the first one that is not judged (its deadline did not come, and
//! it did not end). They only ever go on by a period.

use crate::{Policy, QueueId, SemaphoreId, Ticks, Urgency};

/// What a task is to do, all times in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// For reports.
    pub name: &'static str,
    /// From one release to the next; not 0.
    pub period: Ticks,
    /// From a release to when the job is due.
    pub deadline: Ticks,
    /// The first release.
    pub offset: Ticks,
    /// The worst-case execution time of a job, the kernel's own work for it included.
    pub budget: Ticks,
    /// How long a job really runs, for the simulation and for bodies that only burn time;
    /// [`Ticks::MAX`] for ever.
    pub execution: Ticks,
}

impl Spec {
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

/// What a task does just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All its jobs are done; it waits for the next release.
    Waiting,
    /// It runs or could run.
    Ready,
    /// Its job waits for something.
    Blocked(Blocker),
}

/// What a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// A semaphore that another task holds.
    Semaphore(SemaphoreId),
    /// Room in a queue.
    Send(QueueId),
    /// A message.
    Receive(QueueId),
}

/// What a task's jobs came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Jobs that ended.
    pub jobs: u64,
    /// Jobs that were not done when they were due, ended or not.
    pub misses: u64,
    /// Jobs that used more than the budget, ended or not.
    pub overruns: u64,
    /// The longest time from when a release was due to when the kernel made it.
    pub jitter_max: Ticks,
    /// The longest time from when a release was due to the end of its job.
    pub response_max: Ticks,
}

/// A task.
#[derive(Clone, Debug)]
pub struct Task {
    pub(crate) spec: Spec,
    /// Its place among all tasks under fixed priorities, 0 first.
    pub(crate) rank: u64,
    pub(crate) state: State,
    /// The release of the next job to be released.
    next: Ticks,
    /// The release of the current job; `next` where there is none.
    current: Ticks,
    /// The release of the first job that is not judged; from `current` to `next`.
    unjudged: Ticks,
    /// Whether the current job ran before.
    pub(crate) started: bool,
    /// What the current job used of its budget.
    pub(crate) consumed: Ticks,
    overran: bool,
    /// The current job's urgency, or a more urgent one that it inherited.
    pub(crate) effective: Urgency,
    /// What it sends while it waits for room, or what it received.
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
                response_max: 0,
            },
        }
    }

    /// What it is to do.
    pub const fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What its jobs came to.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// What it does just now.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Its place among all tasks under fixed priorities, 0 the most urgent.
    pub const fn rank(&self) -> u64 {
        self.rank
    }

    /// How urgent it is just now, with what it inherited.
    pub const fn effective(&self) -> Urgency {
        self.effective
    }

    /// When its current or next job is due.
    pub const fn due(&self) -> Ticks {
        self.current.saturating_add(self.spec.deadline)
    }

    /// What its current job used of its budget.
    pub const fn consumed(&self) -> Ticks {
        self.consumed
    }

    /// The current job's own urgency.
    pub(crate) const fn urgency(&self, policy: Policy) -> Urgency {
        match policy {
            Policy::RateMonotonic => Urgency {
                first: self.rank,
                second: 0,
            },
            Policy::EarliestDeadline => Urgency {
                first: self.due(),
                second: self.current,
            },
        }
    }

    /// Whether a job was released that is not done.
    pub(crate) const fn has_job(&self) -> bool {
        self.current < self.next
    }

    /// When it next wants the kernel: its next release, or the first moment at which a job
    /// that is not done is late.
    pub(crate) const fn next_event(&self) -> Ticks {
        if self.unjudged == self.next {
            return self.next;
        }
        let late = self.unjudged.saturating_add(self.spec.deadline);
        let late = late.saturating_add(1);
        if late < self.next { late } else { self.next }
    }

    /// Releases the next job, if it is due at `now`.
    pub(crate) fn release(&mut self, now: Ticks) -> bool {
        if self.next > now {
            return false;
        }
        self.stats.jitter_max = self.stats.jitter_max.max(now - self.next);
        self.next = self.next.saturating_add(self.spec.period);
        true
    }

    /// Judges one job that is late at `now`, if there is one.
    pub(crate) fn judge(&mut self, now: Ticks) -> bool {
        let due = self.unjudged.saturating_add(self.spec.deadline);
        let late = self.unjudged < self.next && due < now;
        if late {
            self.unjudged = self.unjudged.saturating_add(self.spec.period);
            self.stats.misses += 1;
        }
        late
    }

    /// Adds `used` to what the current job used; whether it thereby overran its budget.
    pub(crate) fn charge(&mut self, used: Ticks) -> bool {
        self.consumed = self.consumed.saturating_add(used);
        if self.overran || self.consumed <= self.spec.budget {
            return false;
        }
        self.overran = true;
        self.stats.overruns += 1;
        true
    }

    /// How much longer the current job may run before it overruns, if it did not.
    pub(crate) const fn left(&self) -> Option<Ticks> {
        if self.overran {
            return None;
        }
        Some(self.spec.budget.saturating_sub(self.consumed))
    }

    /// Ends the current job, which was judged before if it is late.
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
