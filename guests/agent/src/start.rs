//! The start and the memory of a program without a C library.

extern crate alloc;

use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::ptr::NonNull;

use hanok_syscalls::memory::Mapping;
use hanok_syscalls::{exit, file};
use linked_list_allocator::Heap;

/// All the memory that the program has: 256 tasks and 64 connections need a part of it.
const MEMORY: usize = 4 << 20;

/// The memory of a program with one thread.
struct Memory(UnsafeCell<Heap>);

// SAFETY: the program has one thread, and no signal handlers.
unsafe impl Sync for Memory {}

// SAFETY: the heap hands out parts that do not overlap, of memory that stays mapped. No call of it calls another one.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: there is one thread, and no reference outlives a call.
        let heap = unsafe { &mut *self.0.get() };
        let part = heap.allocate_first_fit(layout);
        part.map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, part: *mut u8, layout: Layout) {
        if let Some(part) = NonNull::new(part) {
            // SAFETY: as above; the caller gives a part back that it has, with its layout.
            unsafe { (*self.0.get()).deallocate(part, layout) };
        }
    }
}

#[global_allocator]
static ALLOCATOR: Memory = Memory(UnsafeCell::new(Heap::empty()));

/// Called by `_start`, with the stack pointer as the kernel starts a program with: it is at argc, argv follows.
pub extern "C" fn main(stack: *const usize) -> ! {
    let Ok(memory) = Mapping::new(MEMORY) else {
        exit(3);
    };
    let length = memory.length();
    // SAFETY: the memory is new, stays mapped, and is given to the heap alone, before anything is allocated.
    unsafe { (*ALLOCATOR.0.get()).init(memory.keep().as_ptr(), length) };
    // SAFETY: `_start` passes the stack pointer as it was at the start.
    let arguments = unsafe { arguments(stack) };
    match hanok_agent::command::run(&arguments) {
        Ok(()) => exit(0),
        Err(failure) => {
            hanok_agent::linux::say(&failure.words);
            exit(failure.code)
        }
    }
}

/// The arguments without the program's name. One that is no text is empty, which is no word that is known.
///
/// # Safety
///
/// `stack` must be the stack pointer as the kernel starts a program with.
unsafe fn arguments(stack: *const usize) -> Vec<&'static str> {
    // SAFETY: argc is there, argv follows with argc pointers; each is of a string that ends in a zero and stays.
    unsafe {
        let first: *const *const c_char = stack.add(1).cast();
        let text = |at: usize| CStr::from_ptr(first.add(at).read()).to_str();
        let all = (1..stack.read()).map(|at| text(at).unwrap_or_default());
        all.collect()
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    let place = info.location().map_or("", |place| place.file());
    let _ = file::error_output().write(b"hanok-agent: a fault of its own in ");
    let _ = file::error_output().write(place.as_bytes());
    let _ = file::error_output().write(b"\n");
    exit(4)
}
