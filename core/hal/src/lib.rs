//! How the core reaches the machine: traits alone, and a fake of each for tests.
//!
//! Every trait is used monomorphized, so that a fast path costs no indirect call. The
//! fakes live here, beside the traits, behind the `fake` feature: whoever changes a trait
//! changes its fake in the same file.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "fake"))]
extern crate std;

mod console;
mod gic;
mod memory;

pub use console::SerialPort;
pub use gic::ListRegisters;
pub use memory::{AccessError, GuestMemory, TableMemory, Tlb};

#[cfg(any(test, feature = "fake"))]
/// Fakes of the traits, for tests on a PC.
pub mod fake {
    pub use crate::console::FakeSerialPort;
    pub use crate::gic::FakeListRegisters;
    pub use crate::memory::{FakeGuestMemory, FakeTableMemory, FakeTlb};
}

/// The lock of the core: a spin lock, held for a bounded number of instructions. Not a fair
/// one: handing over in turn waits for a pCPU that may not be running just then (an
/// emulator's thread), and a queue of such waits let guests stand nearly still. Every VM has
/// locks of its own, so that who waits long waits for its own siblings.
///
/// The hypervisor runs with interrupts masked, so a lock cannot be taken twice by one CPU
/// through an interrupt. Lock order, from the outermost: the board's reception; one of a
/// VM's devices; then the VM's alarms, the board's console, or the VM's interrupt controller,
/// never one of these three inside another. All others (VMIDs, random numbers, a VM's stop reason) hold
/// nothing else while they are held.
pub type Mutex<T> = spin::mutex::SpinMutex<T>;
