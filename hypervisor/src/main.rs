//! The image: from the boot loader to the first guest.
//!
//! This crate connects the others. It reads the device trees of the board and of the system, sets
//! up memory, interrupts and VMs, starts the other CPUs, and lets each CPU run its vCPU. After that
//! only the panic code of this crate runs again.
//!
//! A file uses only those below it: `boot` goes from step to step; `system` places the VMs, `smp` starts
//! the CPUs, and `first` runs the boot CPU's vCPU; these share the CPUs' `records`, the checks of
//! `state` and the faults of `selftest`; below are the interrupt controller (`gic`), the `clock`, the
//! memory (`layout`, `arena`), and at the bottom `fatal`, by which each of them refuses to start.

#![no_std]
#![no_main]

// The backend of the target, with one name for both.
#[cfg(target_arch = "aarch64")]
extern crate hanok_aarch64 as hanok_arch;
#[cfg(target_arch = "arm")]
extern crate hanok_armv7 as hanok_arch;

/// The board, by its backend.
type Board = hanok_pcpu::Board<hanok_arch::Host>;
/// A VM, by its backend.
type VmUnit = hanok_pcpu::VmUnit<hanok_arch::Host>;

mod arena;
mod boot;
mod channels;
mod clock;
#[cfg(target_arch = "arm")]
mod deprivileged;
mod fatal;
mod first;
mod gic;
mod layout;
#[cfg(not(feature = "selftest"))]
mod no_selftest;
mod pools;
mod records;
#[cfg(feature = "selftest")]
mod selftest;
mod shared;
#[cfg(target_arch = "aarch64")]
mod smmu;
mod smp;
mod state;
mod system;
mod trace;

#[cfg(not(feature = "selftest"))]
use no_selftest as selftest;
