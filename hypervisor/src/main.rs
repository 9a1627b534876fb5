//! The 64-bit image: from the boot loader to the first guest.
//!
//! This crate is wiring. It reads the board's device tree and the system's, puts memory,
//! interrupts and VMs in place, starts the other CPUs, and hands each CPU to its vCPU.
//! Nothing here runs again afterwards but the panic.

#![no_std]
#![no_main]

mod boot;
mod fatal;
mod first;
mod layout;
mod place;
mod selftest;
mod smp;
mod system;
