//! The traits by which the core reaches the machine, with a fake of each for tests.
//!
//! Every trait is used monomorphized, so that a fast path costs no indirect call. The fakes are
//! beside the traits, behind the `fake` feature, so that a change of a trait and of its fake are in
//! the same crate.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "fake", feature = "interleavings"))]
extern crate std;

mod backend;
mod console;
#[cfg(any(test, feature = "fake"))]
mod fake_backend;
#[cfg(any(test, feature = "fake"))]
mod fake_context;
#[cfg(any(test, feature = "fake"))]
mod fake_line;
#[cfg(any(test, feature = "fake"))]
mod fake_machine;
#[cfg(any(test, feature = "fake"))]
mod fake_region;
mod gic;
mod memory;
pub mod sync;

pub use backend::{
    Arrival, Backend, Context, Entry, Forgotten, FpGiven, GuestFault, HostGic, HostLine, LateError,
    Quiet, ReceiveInterrupt, RefusedAccess, Start, Taken, VirtualCpuInterface, VmMemory,
};
pub use console::{LineFull, SerialPort};
pub use gic::ListRegisters;
pub use memory::{AccessError, End, GuestMemory, TableMemory, Tlb, pass_by};

pub use sync::{Mutex, MutexGuard};

#[cfg(any(test, feature = "fake"))]
/// Fakes of the traits, for tests on a PC.
pub mod fake {
    pub use crate::console::FakeSerialPort;
    pub use crate::fake_backend::{
        FakeBackend, FakeCpu, FakeCpuInterface, FakeGic, FakeLists, FakeRegisters, HYP_TIMER,
        PoweredOff, Settings, VIRTUAL_TIMER,
    };
    pub use crate::fake_context::FakeContext;
    pub use crate::fake_line::{FakeLine, Wire};
    pub use crate::fake_region::FakeRegion;
    pub use crate::gic::FakeListRegisters;
    pub use crate::memory::{FakeGuestMemory, FakeTableMemory, FakeTlb};
}
