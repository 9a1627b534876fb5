//! The tasks' states that a debugger (or a hypervisor's trace) can read by symbol. They are brought
//! up to date at each exit from the kernel.
//!
//! `RTOS_CURRENT_TASK` is the index in `RTOS_TASKS` of the task that runs, or 0xffff_ffff;
//! `RTOS_TASK_COUNT` is the number of used entries of `RTOS_TASKS`. The layout is [`TaskEntry`]'s,
//! the same for 32 and 64 bits.

use crate::stacks;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use hanok_rtos_kernel::{Blocker, Kernel, MAX_TASKS, State, Task, TaskId};

const NAME_SIZE: usize = 16;
const NOBODY: u32 = u32::MAX;

/// A task, 64 bytes.
#[repr(C)]
pub struct TaskEntry {
    /// 0: its name, filled up with zeros.
    name: [AtomicU8; NAME_SIZE],
    /// 16: 0 waits for its next release, 1 ready, 2 runs, 3 waits for a semaphore, 4 waits
    /// to send, 5 waits to receive.
    state: AtomicU32,
    /// 20: its rank under fixed priorities, 0 the most urgent.
    priority: AtomicU32,
    /// 24: the deadline of its current or next job, in ticks of the counter from `RTOS_START`.
    deadline: AtomicU64,
    /// 32: jobs completed.
    jobs: AtomicU64,
    /// 40: deadlines missed.
    misses: AtomicU64,
    /// 48: its stack pointer, while it does not run: the saved registers are there.
    stack_pointer: AtomicU64,
    /// 56: the part of its budget that its current job had used when its state changed, in ticks.
    consumed: AtomicU64,
}

const _: () = assert!(size_of::<TaskEntry>() == 64);

impl TaskEntry {
    const fn new() -> Self {
        Self {
            name: [const { AtomicU8::new(0) }; NAME_SIZE],
            state: AtomicU32::new(0),
            priority: AtomicU32::new(0),
            deadline: AtomicU64::new(0),
            jobs: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            stack_pointer: AtomicU64::new(0),
            consumed: AtomicU64::new(0),
        }
    }

    fn update(&self, task: &Task, runs: bool, stack_pointer: usize) {
        self.state.store(state(task.state(), runs), Relaxed);
        self.priority.store(task.rank() as u32, Relaxed);
        self.deadline.store(task.due(), Relaxed);
        self.jobs.store(task.stats().jobs, Relaxed);
        self.misses.store(task.stats().misses, Relaxed);
        self.stack_pointer.store(stack_pointer as u64, Relaxed);
        self.consumed.store(task.consumed(), Relaxed);
    }
}

/// The tasks.
#[unsafe(no_mangle)]
static RTOS_TASKS: [TaskEntry; MAX_TASKS] = [const { TaskEntry::new() }; MAX_TASKS];
/// The number of tasks.
#[unsafe(no_mangle)]
static RTOS_TASK_COUNT: AtomicU32 = AtomicU32::new(0);
/// The index of the task that runs.
#[unsafe(no_mangle)]
static RTOS_CURRENT_TASK: AtomicU32 = AtomicU32::new(NOBODY);
/// The counter when the schedule began.
#[unsafe(no_mangle)]
static RTOS_START: AtomicU64 = AtomicU64::new(0);

const fn state(state: State, runs: bool) -> u32 {
    match state {
        State::Waiting => 0,
        State::Ready if runs => 2,
        State::Ready => 1,
        State::Blocked(Blocker::Semaphore(_)) => 3,
        State::Blocked(Blocker::Send(_)) => 4,
        State::Blocked(Blocker::Receive(_)) => 5,
    }
}

/// Names a task.
pub fn name(id: TaskId, name: &str) {
    for (place, byte) in RTOS_TASKS[id.index()].name.iter().zip(name.bytes()) {
        place.store(byte, Relaxed);
    }
    RTOS_TASK_COUNT.fetch_max(id.index() as u32 + 1, Relaxed);
}

/// Notes that the schedule begins at this value of the counter.
pub fn begin(start: u64) {
    RTOS_START.store(start, Relaxed);
}

/// Brings the entries of all tasks that an event concerned up to date.
pub fn publish(kernel: &mut Kernel<'_>) {
    let running = kernel.running();
    RTOS_CURRENT_TASK.store(running.map_or(NOBODY, |id| id.index() as u32), Relaxed);
    for id in kernel.take_touched().iter() {
        if let Some(task) = kernel.task(id) {
            let stack_pointer = stacks::context(id.index());
            RTOS_TASKS[id.index()].update(task, running == Some(id), stack_pointer);
        }
    }
}

/// The task that runs.
pub fn current() -> Option<TaskId> {
    let index = RTOS_CURRENT_TASK.load(Relaxed);
    (index != NOBODY).then(|| TaskId::new(index as u8))
}
