//! What the programs of `guests/` share: from the loader's jump to Rust with the MMU on, exceptions,
//! interrupts, other CPUs, the console.
//!
//! An image on it boots by the Linux boot protocol of arm64 or ARM, wherever it is loaded: on QEMU
//! itself, in a VM of Hanok, under KVM, and as a domain of Xen. The 32-bit differences are
//! in `arch`; numbers that are addresses or registers have 64 bits everywhere. An image has the
//! function `guest_main`, a panic handler, and in `Cargo.toml` `build = "../runtime/link.rs"`. The
//! devices' addresses come from the device tree ([`tree::Machine`]), by [`install`].
//!
//! What an image has of its own takes the place of the runtime's, by a symbol (`image-*.ld`):
//! `guest_vectors` is a table of exception vectors, where those of `arch` would not do; in 32 bit
//! `guest_translation` is a function that may turn the MMU on, which gets the device tree's address,
//! and `guest_start` where another run time begins: it finds the tree by [`boot::tree`].

#![no_std]

#[macro_use]
pub mod arch;
#[macro_use]
pub mod console;

pub mod boot;
pub mod cpu;
pub mod gic;
mod long;
pub mod marker;
pub mod mmu;
pub mod page;
pub mod probe;
pub mod psci;
pub mod sleep;
pub mod smp;
pub mod timer;
pub mod tree;
pub mod xen;

pub use arch::mmio;

unsafe extern "Rust" {
    /// The image's own part, on the primary CPU with the MMU on; `tree` is the device tree's
    /// address.
    safe fn guest_main(tree: u64) -> !;
}

/// The primary CPU's Rust entry.
extern "C" fn primary() -> ! {
    cpu::install(0);
    guest_main(boot::tree())
}

/// Uses the devices of `machine`: the console speaks, the interrupt controller's places are
/// known, and how PSCI is called. The controller itself is turned on by [`gic::init_distributor`] and [`gic::init_cpu`].
pub fn install(machine: &tree::Machine) {
    console::install(machine.console);
    gic::install(machine.gic);
    psci::install(machine.psci);
}
