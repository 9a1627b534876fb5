//! Runs sensitive instructions in User mode and compares what they do with what the decoder
//! says: the manual's word (`hanok_decode::aarch32`) against a CPU.
//!
//! It needs a board without a hypervisor: QEMU's `virt` with a Cortex-A15, on which
//! `hanok test user-mode` runs it, or `vexpress-a9`: `qemu-system-arm -M vexpress-a9 -m 1G
//! -nographic -kernel target/hanok/guests/user-mode-arm.bin`. Each
//! instruction is put into a page of its own, followed by an SVC, and entered in User mode by an
//! exception return; which exception comes first says what it did. What the decoder calls
//! different is run in System mode, too, which is privileged and has the same registers, and has
//! to come out differently there. What is UNPREDICTABLE is left out, and counted.
//!
//! Then ordinary instructions, in states of chance: whether they read and write no other registers
//! and flags than the decoder says.
//!
//! Last a program that `hanok previrt` rewrote (`build.rs`): whether each trampoline does what its
//! instruction says, also when it is interrupted, and each other form traps where it should.
//!
//! The decoder that is tested runs here as it would on a board: without an allocator.

#![no_std]
#![no_main]

#[cfg(target_arch = "arm")]
#[macro_use]
extern crate hanok_guest_runtime;

#[cfg(target_arch = "arm")]
mod arm;

/// Another target has no such User mode: the program is empty there.
#[cfg(not(target_arch = "arm"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
