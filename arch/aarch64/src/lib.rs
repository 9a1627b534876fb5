//! The 64-bit backend `el2`: Armv8-A with EL2, without VHE. Its guests have AArch64 or, where the
//! CPU can, AArch32 at EL1.
//!
//! It does four things: it enters and leaves a guest, gives it its view of memory, decodes an exit into the
//! core's [`hanok_vm::Exit`], and injects exceptions and interrupts. The core decides what an exit leads
//! to, and the executive ([`hanok_pcpu`]), for which this is a [`hanok_hal::Backend`], decides which vCPU
//! runs. Exits finished here, without the core: the lazy switch of FP registers, and hypercalls with a
//! constant answer, which the core gives to both ways (`fast.rs`). Everything in here runs with interrupts
//! masked.

#![no_std]

mod aarch32;
pub mod backend;
pub mod boot;
mod context;
mod debug;
mod device;
mod el1;
mod errors;
pub mod exits;
mod fast;
mod fp;
mod host_id;
mod inject;
mod inject32;
pub mod last_words;
mod registers;
mod stage1;
mod switch;
mod tracing;
pub mod traps;
pub mod vectors;

pub use context::El2Context as HostContext;
pub use hanok_arm_common::sysreg::{go_on_stack, pause};
pub use hanok_arm_common::{read, write, write_own};
pub use host_id::random;

hanok_arm_common::wiring!(Host);

/// The CPUs of the board.
pub type Host = hanok_arm_common::machine::Machine<backend::El2>;
/// A vCPU of this backend.
pub type Vcpu = hanok_pcpu::Vcpu<Host>;
