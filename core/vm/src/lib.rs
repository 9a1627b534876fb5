//! VMs and vCPUs, and what an exit leads to.
//!
//! A backend turns what made a guest stop into an architecture-neutral [`Exit`]; this crate
//! answers with an [`Action`], which the backend carries out. All that a guest can reach by
//! a hypercall, an access to a device or a trapped register is decided here, without unsafe
//! code and on a PC as well as on the board.
//!
//! What it keeps true: a vCPU's private parts ([`Vcpu`]) belong to the pCPU that runs it
//! and are never touched from another; what several pCPUs reach is in [`Vm`], atomic or
//! behind a lock. Lock order: one device, then the VM's alarms, the console, or the
//! interrupt controller; never two devices, and never one of these three inside another.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "fake"))]
extern crate std;

#[cfg(any(test, feature = "aarch32"))]
mod aarch32;
mod access;
mod alarms;
mod call;
mod console;
mod debug;
mod destination;
mod devices;
mod exit;
mod handle;
mod id_registers;
#[cfg(any(test, feature = "aarch64"))]
mod instruction;
#[cfg(any(test, feature = "aarch32"))]
mod instruction_aarch32;
mod interrupts;
mod lifecycle;
mod machine;
#[cfg(any(test, feature = "aarch32", feature = "aarch64"))]
mod partial;
mod power;
mod report;
mod requests;
mod sgi;
mod smccc;
mod storm;
mod system_registers;
mod timer;
mod trng;
mod vm;

pub use call::{constant_answer, yield_answer};
pub use console::prompt;
pub use console::{Arrived, Buffers, Command, Input, Multiplexer, Names};
pub use debug::DebugControl;
pub use destination::Destination;
pub use devices::Received;
pub use exit::{
    Action, Attempt, CoprocessorAccess, DataAbort, Exit, Instruction, MmioAccess, StopReason,
    SystemRegister, Wait,
};
pub use handle::Guest;
pub use hanok_hal::{Entry, GuestFault};
pub use hanok_trace::{Cause, Counters};
pub use id_registers::id_register;
pub use lifecycle::{Ending, Lifecycle, Wish};
pub use machine::{Clock, CpuRegisters, Home, Interrupts, Machine, SerialLines, StackPointer};
#[cfg(any(test, feature = "aarch32", feature = "aarch64"))]
pub use partial::Partial;
pub use power::{Power, StartRefused};
pub use report::{Listed, Pending, State};
pub use requests::{Checks, Interruptions, Kick, PostedSgis, Requests};
pub use smccc::function;
pub use storm::exception_storm;
pub use timer::PhysicalTimer;
pub use vm::{Vcpu, Vm};

#[cfg(any(test, feature = "fake"))]
pub mod fake;
#[cfg(test)]
mod tests;
