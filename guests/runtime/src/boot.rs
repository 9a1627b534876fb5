//! Where the image is, and the CPUs' stacks. The code from the loader's jump to Rust is the
//! architecture's (`arch`).

use crate::cpu::{MAX_CPUS, STACK_SIZE, STACKS_OF_FIRST};
use crate::tree::Area;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many stacks there are; those of the first CPU are the first ones.
const COUNT: usize = MAX_CPUS - 1 + STACKS_OF_FIRST;

#[repr(C, align(4096))]
pub(crate) struct Stacks(UnsafeCell<[[u8; STACK_SIZE]; COUNT]>);

// SAFETY: each CPU uses its own stack, through its stack pointer alone.
unsafe impl Sync for Stacks {}

pub(crate) static STACKS: Stacks = Stacks(UnsafeCell::new([[0; STACK_SIZE]; COUNT]));

unsafe extern "C" {
    /// The entry of a CPU that PSCI CPU_ON starts; its context is its number.
    fn secondary_entry();
    static _start: u8;
    static _end: u8;
}

/// What the register of the boot protocol held that has the device tree's address. The entry code
/// writes it, in 32 bit before memory is zeroed.
#[unsafe(link_section = ".data")]
pub(crate) static HANDED: AtomicUsize = AtomicUsize::new(0);

/// The value of the register of Linux's boot protocol for the device tree's address (X0; for 32
/// bits R2): zero for an ELF file.
pub fn handed() -> u64 {
    HANDED.load(Relaxed) as u64
}

/// Where the device tree is: where we were told, or, as an ELF file or out of flash, which are told
/// nothing, where RAM starts.
pub fn tree() -> u64 {
    match handed() {
        0 => hanok_types::platform::RAM.get(),
        handed => handed,
    }
}

/// Where the image runs.
pub fn load_address() -> u64 {
    (&raw const _start).addr() as u64
}

/// The image, with the zeroed memory behind it.
pub fn image() -> Area {
    let start = load_address();
    Area {
        start,
        size: (&raw const _end).addr() as u64 - start,
    }
}

/// The address to pass to CPU_ON.
pub fn secondary_address() -> u64 {
    (secondary_entry as *const ()).addr() as u64
}
