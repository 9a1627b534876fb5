//! Stacks, and where on them the context of everybody who does not run lies.

use crate::arch::Frame;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};
use hanok_rtos_kernel::{MAX_TASKS, TaskId};

/// Bytes of a task's stack.
const STACK_SIZE: usize = 0x2000;
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
/// Whose context the CPU has.
static CURRENT: AtomicUsize = AtomicUsize::new(IDLE);

/// Gives a task its first context: `entry`, called with the task's number.
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

/// Keeps the context of whoever ran, and gives that of whoever is next.
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

/// Where the context of task `index` lies while it does not run.
pub fn context(index: usize) -> usize {
    CONTEXTS[index].load(Relaxed) as usize
}
