//! Tasks and their jobs.

use crate::node::NodeId;
use crate::timeline::Job;
use crate::{Execution, Jitter, Options};
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;
use hanok_task_model::{Model, Task, TaskId};

/// A job that was released and is not complete.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// Its index among all jobs that were released.
    pub record: usize,
    pub deadline: u64,
    pub remaining: u64,
}

struct State {
    period: u64,
    execution: u64,
    deadline: u64,
    jitter: u64,
    priority: u64,
    /// The node and member number by which the task is chosen; `None` if it is not simulated.
    home: Option<(NodeId, usize)>,
    arrival: u64,
    release: u64,
    number: u64,
    pending: VecDeque<Pending>,
}

/// All tasks of a model.
pub struct Tasks {
    states: Vec<State>,
    releases: BinaryHeap<Reverse<(u64, usize)>>,
    jitter: Jitter,
    execution: Execution,
    random: u64,
    pub jobs: Vec<Job>,
}

impl Tasks {
    pub fn new(model: &Model, options: &Options) -> Self {
        let seed = match (options.jitter, options.execution) {
            (Jitter::Random(seed), _) | (_, Execution::Random(seed)) => seed,
            _ => 0,
        };
        let mut tasks = Self {
            states: model.tasks.iter().map(State::new).collect(),
            releases: BinaryHeap::new(),
            jitter: options.jitter,
            execution: options.execution,
            // The generator needs a number that is not zero.
            random: seed | 1 << 63,
            jobs: Vec::new(),
        };
        for index in 0..tasks.states.len() {
            tasks.delay(index);
        }
        tasks
    }

    /// The values by which a task may be ordered: period, deadline and priority.
    pub fn order(&self, task: TaskId) -> (u64, u64, u64) {
        let state = self.states.get(task.0 as usize);
        state.map_or((0, 0, 0), |s| (s.period, s.deadline, s.priority))
    }

    /// Notes that `node` chooses `task`, whose jobs arrive from now on.
    pub fn set_home(&mut self, task: TaskId, node: NodeId, member: usize) {
        if let Some(state) = self.states.get_mut(task.0 as usize) {
            state.home = Some((node, member));
            self.releases
                .push(Reverse((state.release, task.0 as usize)));
        }
    }

    pub fn home(&self, task: TaskId) -> Option<(NodeId, usize)> {
        self.states.get(task.0 as usize)?.home
    }

    /// The time of the next release.
    pub fn next_release(&self) -> Option<u64> {
        self.releases.peek().map(|Reverse((at, _))| *at)
    }

    /// Releases one job that is due. Returns its task, and its deadline if no other job of the task
    /// is pending.
    pub fn release(&mut self, now: u64) -> Option<(TaskId, Option<u64>)> {
        let Reverse((_, index)) = *self.releases.peek().filter(|Reverse((at, _))| *at <= now)?;
        self.releases.pop();
        let remaining = self.execution_of(index);
        let state = self.states.get_mut(index)?;
        let task = TaskId(index as u32);
        let deadline = state.arrival.saturating_add(state.deadline);
        let pending = Pending {
            record: self.jobs.len(),
            deadline,
            remaining,
        };
        self.jobs.push(Job {
            task,
            number: state.number,
            arrival: state.arrival,
            release: state.release,
            deadline,
            finish: None,
        });
        let first = state.pending.is_empty();
        state.pending.push_back(pending);
        self.follow(index);
        Some((task, first.then_some(deadline)))
    }

    /// Prepares the job after the one that was released.
    fn follow(&mut self, index: usize) {
        let Some(state) = self.states.get_mut(index) else {
            return;
        };
        state.number += 1;
        let Some(arrival) = state.arrival.checked_add(state.period) else {
            return;
        };
        state.arrival = arrival;
        self.delay(index);
        if let Some(state) = self.states.get(index) {
            self.releases.push(Reverse((state.release, index)));
        }
    }

    /// Chooses how long the next job is held back after its arrival.
    fn delay(&mut self, index: usize) {
        let Some((most, number)) = self.states.get(index).map(|s| (s.jitter, s.number)) else {
            return;
        };
        let late = match self.jitter {
            Jitter::None => 0,
            Jitter::First if number == 0 => most,
            Jitter::First => 0,
            Jitter::Random(_) => self.random_to(most),
        };
        if let Some(state) = self.states.get_mut(index) {
            // Jobs of one task do not overtake one another.
            state.release = state.arrival.saturating_add(late).max(state.release);
        }
    }

    fn execution_of(&mut self, index: usize) -> u64 {
        let most = self.states.get(index).map_or(1, |state| state.execution);
        match self.execution {
            Execution::Worst => most,
            Execution::Random(_) => self.random_to(most.saturating_sub(1)).saturating_add(1),
        }
    }

    /// A random number from 0 to `most`, by xorshift (Marsaglia 2003).
    fn random_to(&mut self, most: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        match most.checked_add(1) {
            Some(number) => self.random % number,
            None => self.random,
        }
    }

    /// The first pending job of `task`.
    pub fn current(&mut self, task: TaskId) -> Option<&mut Pending> {
        self.states.get_mut(task.0 as usize)?.pending.front_mut()
    }

    /// Completes the first pending job of `task` at `now`. Returns the deadline of the next one, if
    /// one is pending.
    pub fn complete(&mut self, task: TaskId, now: u64) -> Option<u64> {
        let state = self.states.get_mut(task.0 as usize)?;
        let done = state.pending.pop_front()?;
        if let Some(job) = self.jobs.get_mut(done.record) {
            job.finish = Some(now);
        }
        state.pending.front().map(|next| next.deadline)
    }
}

impl State {
    fn new(task: &Task) -> Self {
        Self {
            period: task.period.get(),
            execution: task.execution.get(),
            deadline: task.deadline.get(),
            jitter: task.jitter.get(),
            priority: task.priority.map_or(u64::MAX, |priority| priority.0.into()),
            home: None,
            arrival: task.offset.get(),
            release: 0,
            number: 0,
            pending: VecDeque::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::What;
    use hanok_task_model::Nanos;

    /// The numbers are those of the published generator with the shifts 13, 7 and 17, which from 1
    /// on begins with these.
    #[test]
    fn random_numbers_are_the_published_ones() {
        let options = Options::new(What::System, 1);
        let mut tasks = Tasks::new(&Model::new(Nanos::new(1), Vec::new()), &options);
        tasks.random = 1;
        let published = [
            1_082_269_761,
            1_152_992_998_833_853_505,
            11_177_516_664_432_764_457,
        ];
        for number in published {
            assert_eq!(tasks.random_to(u64::MAX), number);
        }
        tasks.random = 1;
        for number in published {
            assert_eq!(tasks.random_to(9), number % 10);
        }
        assert_eq!(tasks.random_to(0), 0);
    }
}
