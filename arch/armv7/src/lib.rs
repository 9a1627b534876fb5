//! The 32-bit backend `hyp`: ARMv7-A with the Virtualization Extensions, in Hyp mode.
//!
//! It does what `arch/aarch64` does, for the same core and the same executive, to which it is a
//! [`hanok_hal::Backend`], too. Registers carry the names of their AArch64 counterparts
//! (`hanok_arm_common::sysreg`), so that code for both is written once, in `arch/arm-common`.
//!
//! Guests run at PL1 and PL0, behind stage 2 (LPAE). Everything here runs in Hyp mode with
//! interrupts masked, in A32, without FP. Manual: DDI 0406C, part B, with chapter B1.7 "The
//! Virtualization Extensions".
//!
//! The first instructions find out whether a CPU has these extensions (`boot.rs`). On one that does not, the
//! hypervisor runs at PL1, in Supervisor mode (`boot/pl1.rs`, `supervisor.rs`).

#![no_std]

pub mod backend;
pub mod boot;
mod caught;
mod context;
pub mod deprivileged;
mod device;
mod errors;
pub mod exits;
mod fast;
mod fp;
mod host_id;
mod inject;
pub mod last_words;
mod pl1;
mod registers;
mod stage1;
mod supervisor;
mod switch;
mod tracing;
pub mod traps;
pub mod vectors;

pub use context::HypContext as HostContext;
pub use hanok_arm_common::sysreg::pause;
pub use hanok_arm_common::{encoding, maintain, read, read_encoded, write, write_own};
pub use host_id::{has_generic_timer, random};
pub use vectors::go_on_stack;

hanok_arm_common::wiring!(Host);

/// The CPUs of the board.
pub type Host = hanok_arm_common::machine::Machine<backend::Arm32>;
/// A vCPU of this backend.
pub type Vcpu = hanok_pcpu::Vcpu<Host>;
