//! The requests of tasks. An impossible request (see [`hanok_rtos_kernel::Misuse`]) is a fault of
//! the image, and ends it.

use crate::{arch, debug, state};
use hanok_rtos_kernel::{QueueId, SemaphoreId, TaskId};

const COMPLETE: usize = 0;
const TAKE: usize = 1;
const GIVE: usize = 2;
const SEND: usize = 3;
const RECEIVE: usize = 4;

/// A request, as the kernel's side sees it.
pub enum Call {
    /// The job is done.
    Complete,
    /// Take a semaphore.
    Take(SemaphoreId),
    /// Give it back.
    Give(SemaphoreId),
    /// Send a message.
    Send(QueueId),
    /// Receive one.
    Receive(QueueId),
}

impl Call {
    /// Decodes a request from its numbers.
    pub const fn decode(number: usize, argument: usize) -> Option<Self> {
        let (semaphore, queue) = (
            SemaphoreId::new(argument as u8),
            QueueId::new(argument as u8),
        );
        Some(match number {
            COMPLETE => Self::Complete,
            TAKE => Self::Take(semaphore),
            GIVE => Self::Give(semaphore),
            SEND => Self::Send(queue),
            RECEIVE => Self::Receive(queue),
            _ => return None,
        })
    }
}

/// Ends the job; returns at the start of the next one.
pub fn complete() {
    arch::call(COMPLETE, 0, 0);
}

/// Takes the semaphore; returns when the task has it.
pub fn take(semaphore: SemaphoreId) {
    arch::call(TAKE, semaphore.index(), 0);
}

/// Gives the semaphore back.
pub fn give(semaphore: SemaphoreId) {
    arch::call(GIVE, semaphore.index(), 0);
}

/// Sends a message; returns when it is in the queue or with its receiver.
pub fn send(queue: QueueId, message: u32) {
    arch::call(SEND, queue.index(), message as usize);
}

/// Receives a message; returns when there is one.
pub fn receive(queue: QueueId) -> u32 {
    arch::call(RECEIVE, queue.index(), 0);
    let message = running().and_then(|me| state::with(|kernel| kernel.message(me)));
    message.flatten().unwrap_or_default()
}

/// The task that runs. A task that calls this gets itself.
pub fn running() -> Option<TaskId> {
    debug::current()
}
