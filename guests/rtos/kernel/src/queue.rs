//! Bounded queues of messages of 32 bits.
//!
//! A message is handed over directly: where a receiver waits, the sender's message goes to it at
//! once; where a sender waits for space, the receiver that makes space moves the sender's message
//! in. So a task that is woken has what it waited for, and need not ask again.

use crate::{Blocker, Full, Kernel, Misuse, TaskId, TaskSet, Ticks};
use heapless::Deque;

/// The largest number of queues.
pub const MAX_QUEUES: usize = 4;
/// The number of messages that a queue holds.
pub const QUEUE_DEPTH: usize = 8;

/// A queue: its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueId(pub(crate) u8);

impl QueueId {
    /// The queue that was added as number `index`.
    pub const fn new(index: u8) -> Self {
        Self(index)
    }

    /// Its number.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    messages: Deque<u32, QUEUE_DEPTH>,
    senders: TaskSet,
    receivers: TaskSet,
}

impl Kernel<'_> {
    /// Adds a queue, empty.
    pub fn add_queue(&mut self) -> Result<QueueId, Full> {
        let id = QueueId(self.queues.len() as u8);
        let pushed = self.queues.push(Queue::default());
        pushed.map(|()| id).map_err(|_| Full)
    }

    /// The running task sends a message, or waits until there is room for it.
    pub fn send(&mut self, now: Ticks, id: QueueId, message: u32) -> Result<(), Misuse> {
        self.enter(now);
        let task = self.running().ok_or(Misuse::NobodyRuns)?;
        let receivers = self.queue(id)?.receivers;
        if let Some(receiver) = self.most_urgent(receivers) {
            self.queue(id)?.receivers.remove(receiver);
            self.tasks[receiver.index()].message = message;
            self.wake(now, receiver);
        } else if self.queue(id)?.messages.push_back(message).is_err() {
            self.queue(id)?.senders.insert(task);
            self.tasks[task.index()].message = message;
            self.block(now, task, Blocker::Send(id));
        }
        self.leave(now);
        Ok(())
    }

    /// The running task takes the oldest message, or waits for one. When it runs again,
    /// [`Kernel::message`] gives it.
    pub fn receive(&mut self, now: Ticks, id: QueueId) -> Result<(), Misuse> {
        self.enter(now);
        let task = self.running().ok_or(Misuse::NobodyRuns)?;
        if let Some(message) = self.queue(id)?.messages.pop_front() {
            self.tasks[task.index()].message = message;
            self.admit_sender(now, id)?;
        } else {
            self.queue(id)?.receivers.insert(task);
            self.block(now, task, Blocker::Receive(id));
        }
        self.leave(now);
        Ok(())
    }

    /// The message that this task received last.
    pub fn message(&self, task: TaskId) -> Option<u32> {
        self.task(task).map(|task| task.message)
    }

    /// Moves the most urgent waiting sender's message into the space that was made.
    fn admit_sender(&mut self, now: Ticks, id: QueueId) -> Result<(), Misuse> {
        let senders = self.queue(id)?.senders;
        let Some(sender) = self.most_urgent(senders) else {
            return Ok(());
        };
        let message = self.tasks[sender.index()].message;
        let queue = self.queue(id)?;
        if queue.messages.push_back(message).is_ok() {
            queue.senders.remove(sender);
            self.wake(now, sender);
        }
        Ok(())
    }

    fn queue(&mut self, id: QueueId) -> Result<&mut Queue, Misuse> {
        self.queues.get_mut(id.index()).ok_or(Misuse::Unknown)
    }
}
