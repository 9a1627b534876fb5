//! The expected schedule: independent periodic tasks on a CPU where the kernel costs nothing.
//!
//! It is written separately from the kernel and in another way, so that each can show the other's
//! faults: here time jumps from one end or release to the next, and each job has its remaining
//! time. Only the tasks' description is shared.

use crate::{Event, EventKind, MAX_TASKS, Policy, Spec, TaskId, Ticks};
use heapless::{Deque, Vec};

/// The largest number of events at one moment: each task may have a release, and a task may lose
/// the CPU or end, and another may begin.
const AT_ONCE: usize = MAX_TASKS + 3;

#[derive(Clone, Debug)]
struct Jobs {
    spec: Spec,
    released: u64,
    completed: u64,
    /// The remaining time of the current job.
    left: Ticks,
    started: bool,
}

impl Jobs {
    const fn new(spec: Spec) -> Self {
        Self {
            left: spec.execution,
            spec,
            released: 0,
            completed: 0,
            started: false,
        }
    }

    fn is_active(&self) -> bool {
        self.completed < self.released
    }

    fn next_release(&self) -> Ticks {
        self.spec.release(self.released)
    }

    fn end(&mut self) {
        self.completed += 1;
        self.left = self.spec.execution;
        self.started = false;
    }
}

/// The events of the schedule, without end. Of simultaneous ones, an end comes first, then releases
/// in the tasks' order, then the loss of the CPU and its gain.
#[derive(Clone, Debug)]
pub struct Simulation {
    policy: Policy,
    tasks: Vec<Jobs, MAX_TASKS>,
    now: Ticks,
    running: Option<usize>,
    pending: Deque<Event, AT_ONCE>,
    closest: Ticks,
}

impl Simulation {
    /// The schedule of these tasks, at most [`MAX_TASKS`] of them.
    pub fn new(policy: Policy, specs: &[Spec]) -> Self {
        Self {
            policy,
            tasks: specs
                .iter()
                .take(MAX_TASKS)
                .copied()
                .map(Jobs::new)
                .collect(),
            now: 0,
            running: None,
            pending: Deque::new(),
            closest: Ticks::MAX,
        }
    }

    /// The least time, so far, between the end of a job and a release after it, or between a
    /// release and the end that the running job would have had. As long as a real kernel is faster
    /// than this, its events come in the same order.
    pub fn closest(&self) -> Ticks {
        self.closest
    }

    /// Goes on to the next end or release.
    fn step(&mut self) {
        let release = self.tasks.iter().map(Jobs::next_release).min();
        let release = release.unwrap_or(Ticks::MAX);
        let left = self.running.map_or(Ticks::MAX, |at| self.tasks[at].left);
        let end = self.now.saturating_add(left);
        self.closest = self.closest.min(end.abs_diff(release));
        let ran = end.min(release) - self.now;
        self.now += ran;
        if let Some(at) = self.running {
            self.tasks[at].left -= ran;
        }
        if end <= release {
            self.end();
        }
        self.release();
        self.choose();
    }

    fn end(&mut self) {
        if let Some(at) = self.running.take() {
            self.tasks[at].end();
            self.tell(at, EventKind::Complete);
        }
    }

    fn release(&mut self) {
        for at in 0..self.tasks.len() {
            while self.tasks[at].next_release() <= self.now {
                self.tasks[at].released += 1;
                self.tell(at, EventKind::Release);
            }
        }
    }

    fn choose(&mut self) {
        let active = (0..self.tasks.len()).filter(|at| self.tasks[*at].is_active());
        let best = active.min_by_key(|at| self.key(*at));
        if best == self.running {
            return;
        }
        if let Some(old) = self.running {
            self.tell(old, EventKind::Preempt);
        }
        self.running = best;
        let Some(at) = best else { return };
        let resumed = core::mem::replace(&mut self.tasks[at].started, true);
        let kind = if resumed {
            EventKind::Resume
        } else {
            EventKind::Start
        };
        self.tell(at, kind);
    }

    fn key(&self, at: usize) -> (Ticks, Ticks, usize) {
        let task = &self.tasks[at];
        let release = task.spec.release(task.completed);
        match self.policy {
            Policy::RateMonotonic => (task.spec.period, 0, at),
            Policy::DeadlineMonotonic => (task.spec.deadline, 0, at),
            Policy::Fixed => (task.spec.priority, 0, at),
            Policy::EarliestDeadline => (release.saturating_add(task.spec.deadline), release, at),
        }
    }

    fn tell(&mut self, at: usize, kind: EventKind) {
        let (time, task) = (self.now, TaskId::new(at as u8));
        // There is space for all events of one moment; only a task with a period of 0 has more.
        let _ = self.pending.push_back(Event { time, task, kind });
    }
}

impl Iterator for Simulation {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if self.tasks.is_empty() {
            return None;
        }
        while self.pending.is_empty() {
            self.step();
        }
        self.pending.pop_front()
    }
}
