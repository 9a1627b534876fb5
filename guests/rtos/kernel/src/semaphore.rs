//! Binary semaphores with priority inheritance.
//!
//! The holder of a semaphore is as urgent as the most urgent task that waits for it, through any
//! chain of semaphores; under EDF that means the earlier deadline. The urgencies are computed anew
//! whenever a holder or a waiter changes, instead of being updated, so that none can be stale. A
//! wait that would close a circle is refused.

use crate::{Blocker, Kernel, Misuse, State, TaskId, TaskSet, Ticks};

/// The largest number of semaphores.
pub const MAX_SEMAPHORES: usize = 8;

/// A semaphore: its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SemaphoreId(pub(crate) u8);

impl SemaphoreId {
    /// The semaphore that was added as number `index`.
    pub const fn new(index: u8) -> Self {
        Self(index)
    }

    /// Its number.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Semaphore {
    holder: Option<TaskId>,
    waiters: TaskSet,
}

impl Kernel<'_> {
    /// Adds a semaphore, free.
    pub fn add_semaphore(&mut self) -> Result<SemaphoreId, crate::Full> {
        let id = SemaphoreId(self.semaphores.len() as u8);
        let pushed = self.semaphores.push(Semaphore::default());
        pushed.map(|()| id).map_err(|_| crate::Full)
    }

    /// The task that holds the semaphore, if one does.
    pub fn holder(&self, id: SemaphoreId) -> Option<TaskId> {
        self.semaphores.get(id.index())?.holder
    }

    /// The running task takes the semaphore, or waits until it has it.
    pub fn take(&mut self, now: Ticks, id: SemaphoreId) -> Result<(), Misuse> {
        self.enter(now);
        let task = self.running().ok_or(Misuse::NobodyRuns)?;
        match self.semaphore(id)?.holder {
            None => self.semaphores[id.index()].holder = Some(task),
            Some(holder) if holder == task => return Err(Misuse::Held),
            Some(holder) if self.waits_for(holder, task) => return Err(Misuse::Deadlock),
            Some(_) => {
                self.semaphores[id.index()].waiters.insert(task);
                self.block(now, task, Blocker::Semaphore(id));
                self.inherit();
            }
        }
        self.leave(now);
        Ok(())
    }

    /// The running task gives the semaphore back: to the most urgent task that waits.
    pub fn give(&mut self, now: Ticks, id: SemaphoreId) -> Result<(), Misuse> {
        self.enter(now);
        let task = self.running().ok_or(Misuse::NobodyRuns)?;
        if self.semaphore(id)?.holder != Some(task) {
            return Err(Misuse::NotHeld);
        }
        self.hand_on(now, id);
        self.leave(now);
        Ok(())
    }

    /// Gives back all that the task holds.
    pub(crate) fn give_all(&mut self, now: Ticks, task: TaskId) {
        for index in 0..self.semaphores.len() {
            if self.semaphores[index].holder == Some(task) {
                self.hand_on(now, SemaphoreId(index as u8));
            }
        }
    }

    fn hand_on(&mut self, now: Ticks, id: SemaphoreId) {
        let next = self.most_urgent(self.semaphores[id.index()].waiters);
        let semaphore = &mut self.semaphores[id.index()];
        semaphore.holder = next;
        if let Some(next) = next {
            semaphore.waiters.remove(next);
            self.wake(now, next);
        }
        self.inherit();
    }

    /// Computes the urgency of all tasks. Each round passes it on by at least one semaphore, and no
    /// chain is longer than the number of semaphores.
    fn inherit(&mut self) {
        for task in &mut self.tasks {
            task.effective = task.urgency(self.policy);
        }
        for _ in 0..self.semaphores.len() {
            for index in 0..self.semaphores.len() {
                let Semaphore { holder, waiters } = self.semaphores[index];
                let waiter = self.most_urgent(waiters);
                if let (Some(holder), Some(waiter)) = (holder, waiter) {
                    let inherited = self.tasks[waiter.index()].effective;
                    let holder = &mut self.tasks[holder.index()];
                    holder.effective = holder.effective.min(inherited);
                }
            }
        }
    }

    /// Whether `task` waits for `other`, directly or through other tasks.
    fn waits_for(&self, task: TaskId, other: TaskId) -> bool {
        let mut at = task;
        for _ in 0..=self.semaphores.len() {
            let State::Blocked(Blocker::Semaphore(id)) = self.tasks[at.index()].state else {
                return false;
            };
            match self.semaphores[id.index()].holder {
                Some(holder) if holder == other => return true,
                Some(holder) => at = holder,
                None => return false,
            }
        }
        true
    }

    fn semaphore(&self, id: SemaphoreId) -> Result<Semaphore, Misuse> {
        let found = self.semaphores.get(id.index());
        found.copied().ok_or(Misuse::Unknown)
    }
}
