//! The kernel. Each entry charges the time that passed to the task that ran, does its work,
//! releases the jobs that are due, and chooses the task that runs next.

use crate::queue::{MAX_QUEUES, Queue};
use crate::semaphore::{MAX_SEMAPHORES, Semaphore};
use crate::task::{Charge, Judgement, Release};
use crate::{
    Event, EventKind, MAX_TASKS, Policy, Spec, State, Task, TaskId, TaskSet, Ticks, Trace, Urgency,
};
use heapless::Vec;

/// The error that a table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The error that a task's request is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// No task runs.
    NobodyRuns,
    /// There is no such semaphore or queue.
    Unknown,
    /// The task holds the semaphore already.
    Held,
    /// The task does not hold the semaphore.
    NotHeld,
    /// The semaphore's holder waits, maybe through others, for the task.
    Deadlock,
}

/// The kernel. The times that its functions are given must not decrease.
pub struct Kernel<'a> {
    pub(crate) policy: Policy,
    pub(crate) tasks: Vec<Task, MAX_TASKS>,
    pub(crate) semaphores: Vec<Semaphore, MAX_SEMAPHORES>,
    pub(crate) queues: Vec<Queue, MAX_QUEUES>,
    /// The tasks in [`State::Ready`].
    ready: TaskSet,
    running: Option<TaskId>,
    /// The time up to which the running task was charged.
    since: Ticks,
    /// The time at which some task next needs the kernel; nothing is due before.
    wanted: Ticks,
    /// The tasks that an event concerned since the last [`Kernel::take_touched`].
    touched: TaskSet,
    trace: Trace<'a>,
}

impl<'a> Kernel<'a> {
    /// A kernel without tasks, before time 0.
    pub const fn new(policy: Policy, trace: Trace<'a>) -> Self {
        Self {
            policy,
            tasks: Vec::new(),
            semaphores: Vec::new(),
            queues: Vec::new(),
            ready: TaskSet::EMPTY,
            running: None,
            since: 0,
            wanted: 0,
            touched: TaskSet::EMPTY,
            trace,
        }
    }

    /// Adds a task, before the first event.
    pub fn add_task(&mut self, spec: Spec) -> Result<TaskId, Full> {
        let id = TaskId::new(self.tasks.len() as u8);
        self.tasks.push(Task::new(spec)).map_err(|_| Full)?;
        self.rank();
        Ok(id)
    }

    /// Ranks the tasks as the policy says; of equal ones, by place in the table.
    fn rank(&mut self) {
        let policy = self.policy;
        for index in 0..self.tasks.len() {
            let key = |(index, task): (usize, &Task)| (task.spec.precedence(policy), index);
            let own = key((index, &self.tasks[index]));
            let before = self.tasks.iter().enumerate().map(key);
            self.tasks[index].rank = before.filter(|other| *other < own).count() as u64;
        }
    }

    /// The task that is to have the CPU; `None` if no task is ready.
    pub fn running(&self) -> Option<TaskId> {
        self.running
    }

    /// A task.
    pub fn task(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(id.index())
    }

    /// All tasks, in the order in which they were added.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The events so far.
    pub fn events(&self) -> &[Event] {
        self.trace.events()
    }

    /// The time from which the running job would have run had it never been preempted: while it
    /// runs, the current time less this is the part of its budget that it used.
    pub fn ran_from(&self) -> Option<Ticks> {
        let task = self.task(self.running?)?;
        Some(self.since.wrapping_sub(task.consumed))
    }

    /// The tasks that an event concerned since the last call.
    pub fn take_touched(&mut self) -> TaskSet {
        core::mem::take(&mut self.touched)
    }

    /// The time at which the kernel has to be called next; [`Ticks::MAX`] if nothing will happen by
    /// itself.
    pub fn next_event(&self) -> Ticks {
        let running = self.running.and_then(|id| self.task(id));
        let overrun = running
            .and_then(Task::left)
            .map(|left| self.since.saturating_add(left).saturating_add(1));
        self.wanted.min(overrun.unwrap_or(Ticks::MAX))
    }

    /// Handles the timer's interrupt, which may come for nothing.
    pub fn timer(&mut self, now: Ticks) {
        self.enter(now);
        self.leave(now);
    }

    /// Notes that the running task's job executes its first instruction; for [`Stats::start_max`].
    ///
    /// [`Stats::start_max`]: crate::Stats::start_max
    pub fn begin(&mut self, now: Ticks) {
        if let Some(id) = self.running {
            self.tasks[id.index()].begin(now);
        }
    }

    /// Ends the running task's job, and gives back what it holds.
    pub fn complete(&mut self, now: Ticks) -> Result<(), Misuse> {
        let id = self.running.ok_or(Misuse::NobodyRuns)?;
        self.enter(now);
        self.judge(now, id);
        self.give_all(now, id);
        self.note(now, id, EventKind::Complete);
        self.tasks[id.index()].complete(now);
        self.ready.remove(id);
        self.tasks[id.index()].state = State::Waiting;
        self.begin_job(id);
        self.find_wanted();
        self.leave(now);
        Ok(())
    }

    /// Charges the time that passed.
    pub(crate) fn enter(&mut self, now: Ticks) {
        let used = now.saturating_sub(self.since);
        self.since = now;
        let Some(id) = self.running else { return };
        if self.tasks[id.index()].charge(used) == Charge::Overran {
            self.note(now, id, EventKind::Overrun);
        }
    }

    /// Brings everything up to `now`, and chooses the task that runs.
    pub(crate) fn leave(&mut self, now: Ticks) {
        if now >= self.wanted {
            self.ids().for_each(|id| self.release(now, id));
            self.ids().for_each(|id| self.judge(now, id));
            self.find_wanted();
        }
        self.dispatch(now);
    }

    fn find_wanted(&mut self) {
        let wanted = self.tasks.iter().map(Task::next_event).min();
        self.wanted = wanted.unwrap_or(Ticks::MAX);
    }

    fn release(&mut self, now: Ticks, id: TaskId) {
        while self.tasks[id.index()].release(now) == Release::Released {
            self.note(now, id, EventKind::Release);
            self.begin_job(id);
        }
    }

    fn judge(&mut self, now: Ticks, id: TaskId) {
        while self.tasks[id.index()].judge(now) == Judgement::Missed {
            self.note(now, id, EventKind::Miss);
        }
    }

    /// Makes the task ready, if it has a job to begin.
    fn begin_job(&mut self, id: TaskId) {
        let task = &mut self.tasks[id.index()];
        if task.state == State::Waiting && task.has_job() {
            task.effective = task.urgency(self.policy);
            self.make_ready(id);
        }
    }

    /// The most urgent ready task gets the CPU.
    fn dispatch(&mut self, now: Ticks) {
        let next = self.most_urgent(self.ready);
        let before = self.running;
        if let Some(old) = before.filter(|old| before != next && self.ready.contains(*old))
            && self.tasks[old.index()].started
        {
            self.note(now, old, EventKind::Preempt);
        }
        self.running = next;
        let Some(id) = next else { return };
        if !core::mem::replace(&mut self.tasks[id.index()].started, true) {
            self.note(now, id, EventKind::Start);
        } else if before != next {
            self.note(now, id, EventKind::Resume);
        }
    }

    /// The most urgent of `tasks`; of equals the one with the lowest index.
    pub(crate) fn most_urgent(&self, tasks: TaskSet) -> Option<TaskId> {
        let urgency =
            |id: &TaskId| -> (Urgency, TaskId) { (self.tasks[id.index()].effective, *id) };
        tasks.iter().min_by_key(urgency)
    }

    pub(crate) fn make_ready(&mut self, id: TaskId) {
        self.tasks[id.index()].state = State::Ready;
        self.ready.insert(id);
    }

    /// Wakes a task that got what it waited for.
    pub(crate) fn wake(&mut self, now: Ticks, id: TaskId) {
        self.make_ready(id);
        self.note(now, id, EventKind::Wake);
    }

    /// Makes the task wait.
    pub(crate) fn block(&mut self, now: Ticks, id: TaskId, blocker: crate::Blocker) {
        self.tasks[id.index()].state = State::Blocked(blocker);
        self.ready.remove(id);
        self.note(now, id, EventKind::Block);
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = TaskId> + use<> {
        (0..self.tasks.len() as u8).map(TaskId::new)
    }

    fn note(&mut self, time: Ticks, task: TaskId, kind: EventKind) {
        self.touched.insert(task);
        self.trace.push(Event { time, task, kind });
    }
}
