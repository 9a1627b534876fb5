//! The image: from the boot loader to the first guest.
//!
//! This crate is wiring. It reads the board's device tree and the system's, puts memory,
//! interrupts and VMs in place, starts the other CPUs, and hands each CPU to its vCPU.
//! Nothing here runs again afterwards but the panic.

#![no_std]
#![no_main]

// The backend of the target, by one name.
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
mod fatal;
mod first;
mod layout;
#[cfg(not(feature = "selftest"))]
mod no_selftest;
#[cfg(feature = "selftest")]
mod selftest;
mod smp;
mod state;
mod system;

#[cfg(not(feature = "selftest"))]
use no_selftest as selftest;
