//! VMs and vCPUs, and the handling of exits.
//!
//! A backend turns the cause of an exit into an [`Exit`], which has words of no architecture. This
//! crate answers with an [`Action`], which the backend carries out. Everything that a guest can
//! reach by a hypercall, an access to a device or a trapped register is decided here, without
//! unsafe code, and on a PC as well as on the board.
//!
//! Invariants: a vCPU's private part ([`Vcpu`]) belongs to the pCPU that runs the vCPU, and no other pCPU
//! accesses it. Data that several pCPUs access is in [`Vm`], in atomics or behind a lock. Lock order: one
//! device, then the VM's alarms, the console, or the interrupt controller; never two devices, and never one
//! of these three inside another.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "fake"))]
extern crate std;

#[cfg(any(test, feature = "aarch32"))]
mod aarch32;
mod access;
mod alarms;
mod call;
mod channels;
mod console;
mod cpu_interface;
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
mod stolen;
mod storm;
mod system_registers;
mod timer;
mod timer_registers;
mod trng;
mod vcpus;
mod vm;

pub use call::{constant_answer, yield_answer};
pub use console::prompt;
pub use console::{
    Arrived, Buffers, Command, Input, Multiplexer, Name, Names, PortQueues, ReportPiece, Request,
    Said,
};
pub use debug::DebugControl;
pub use destination::Destination;
pub use devices::Received;
pub use exit::{
    Action, Attempt, CoprocessorAccess, DataAbort, Exit, Instruction, MmioAccess, NoAnswer,
    StopReason, SystemRegister, Wait,
};
pub use handle::Guest;
pub use hanok_devices::{Bells, Call, Members};
pub use hanok_hal::{Entry, GuestFault};
pub use hanok_trace::{Cause, Counters};
pub use id_registers::id_register;
pub use interrupts::{Relay, TimerInterrupt};
pub use lifecycle::{Ending, Lifecycle, Transition, Wish};
pub use machine::{
    Clock, CpuRegisters, DeviceRegisters, Doorbells, Home, Interrupts, Machine, SerialLines,
    StackPointer,
};
#[cfg(any(test, feature = "aarch32", feature = "aarch64"))]
pub use partial::Partial;
pub use power::{Power, StartRefused};
pub use report::{Counted, Listed, Pending, State};
pub use requests::{Checks, Interruptions, Kick, PostedSgis, Requests};
pub use smccc::function;
pub use stolen::{StolenPage, TELLS_STOLEN, nanos};
pub use storm::exception_storm;
pub use timer::{EmulatedTimer, EmulatedTimers, GuestTimer, TimerRegister};
pub use trng::NoStream;
pub use vcpus::{Granted, SharedVcpu, VcpuParts};
pub use vm::{PauseChange, Vcpu, Vm};

#[cfg(any(test, feature = "fake"))]
pub mod fake;
#[cfg(test)]
mod tests;
