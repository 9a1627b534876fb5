//! The stacks, and the contexts on them of all tasks that do not run.

use crate::arch::Frame;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};
use hanok_rtos_kernel::{MAX_TASKS, TaskId};

/// The size of a task's stack in bytes. The report at the end is written on the stack of whoever runs
/// then, which takes more than a task does.
const STACK_SIZE: usize = 0x4000;
/// Stands at the end of a task's stack, as long as the stack was deep enough.
const MARK: u64 = 0x6b63_6174_7320_646e;
/// Whoever runs when no task does, on the runtime's stack; in tables behind the tasks.
const IDLE: usize = MAX_TASKS;

/// A stack.
#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; STACK_SIZE]>);

// SAFETY: whoever runs on it uses it through its stack pointer alone; `prepare` writes
// before anybody does.
unsafe impl Sync for Stack {}

impl Stack {
    const fn new() -> Self {
        Self(UnsafeCell::new([0; STACK_SIZE]))
    }
}

static STACKS: [Stack; MAX_TASKS] = [const { Stack::new() }; MAX_TASKS];
static CONTEXTS: [AtomicPtr<Frame>; MAX_TASKS + 1] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_TASKS + 1];
/// The index of the task whose context the CPU has.
static CURRENT: AtomicUsize = AtomicUsize::new(IDLE);

/// Makes the first context of a task: `entry`, called with the task's number.
pub fn prepare(id: TaskId, entry: extern "C" fn(usize) -> !) {
    const DEPTH: usize = STACK_SIZE - size_of::<Frame>();
    const { assert!(DEPTH.is_multiple_of(align_of::<Frame>())) };
    let stack = STACKS[id.index()].0.get();
    // SAFETY: within the stack, which nobody uses yet, and aligned as it is.
    let frame = unsafe {
        stack.cast::<u64>().write(MARK);
        let frame = stack.cast::<u8>().add(DEPTH).cast::<Frame>();
        frame.write(Frame::new(entry, id.index()));
        frame
    };
    CONTEXTS[id.index()].store(frame, Relaxed);
}

/// Keeps the context of the task that ran, and returns that of the next one.
pub fn switch(frame: &'static mut Frame, next: Option<TaskId>) -> *mut Frame {
    let next = next.map_or(IDLE, TaskId::index);
    let before = CURRENT.swap(next, Relaxed);
    if let Some(stack) = STACKS.get(before) {
        // SAFETY: within the stack, and aligned as it is; its task does not run.
        let mark = unsafe { stack.0.get().cast::<u64>().read() };
        assert!(mark == MARK, "the stack of task {before} is too small");
    }
    CONTEXTS[before].store(frame, Relaxed);
    CONTEXTS[next].load(Relaxed)
}

/// The address of the context of task `index` while it does not run.
pub fn context(index: usize) -> usize {
    CONTEXTS[index].load(Relaxed) as usize
}
