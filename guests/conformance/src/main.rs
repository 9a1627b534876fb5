//! The conformance payload: a guest that looks at its machine from EL1 and says what it
//! finds different from what the architecture and the virtual platform promise.
//!
//! It boots by the Linux arm64 boot protocol, on `qemu-system-aarch64 -M
//! virt,gic-version=3,its=off -kernel` (or `gic-version=2`) as well as in a VM, so that QEMU is the oracle: a
//! case that fails there is itself wrong. It prints `ok NAME`, `skip NAME: why` or `FAIL
//! NAME: detail` a case, then `conformance: N passed, N failed`, and powers off.
//!
//! Boot arguments: `conformance.run=all` or names separated by commas (a name ending in
//! `*` stands for all that begin so), `conformance.run=reset-loop` to mark memory and reset
//! for ever, `conformance.run=off-all` to turn every CPU off, `conformance.run=sweep` to look at
//! every address, `conformance.run=hold` to hold a pattern in memory until a key comes (and to
//! spoil it, with `conformance.spoil=yes`), or one of the hostile things of [`hostile`];
//! `conformance.host=hanok` for the cases where Hanok promises more than QEMU.

#![no_std]
#![no_main]

#[macro_use]
mod console;
#[macro_use]
mod case;
#[macro_use]
mod probe;
#[macro_use]
mod sysreg;

mod boot;
mod cases;
mod code;
mod cpu;
mod fp;
mod gic;
mod hostile;
mod machine;
mod mmio;
mod mmu;
mod psci;
mod smp;
mod sweep;
mod timer;
mod tree;
mod vectors;

use machine::{Machine, Selection};

/// The primary CPU's Rust entry, with the MMU on; `tree` is where the device tree lies.
extern "C" fn primary(tree: u64) -> ! {
    cpu::install(0);
    // SAFETY: the boot protocol passes the tree's address, in RAM that is mapped.
    let arguments = unsafe { tree::Arguments::from_tree(tree) };
    match arguments {
        Ok(arguments) => {
            gic::install(arguments.gic);
            cases::canary::first_look(arguments.cpus);
            gic::init_distributor();
            gic::init_cpu(0);
            run(&arguments);
        }
        Err(why) => {
            println!("FAIL boot: {why}");
            println!("conformance: 0 passed, 1 failed");
        }
    }
    psci::system_off()
}

fn run(arguments: &tree::Arguments) {
    let machine = Machine::new(arguments);
    println!(
        "conformance: {} vCPUs, {}, {} MiB at {:#x}, loaded at {:#x}",
        machine.cpus,
        gic::name(),
        machine.ram_size >> 20,
        machine.ram,
        boot::load_address()
    );
    match arguments.selection() {
        Selection::ResetLoop => cases::canary::reset_loop(&machine),
        Selection::Sweep => sweep::run(&machine),
        Selection::Hold => {
            let spoil = arguments.value("conformance.spoil=") == Some("yes");
            sweep::hold(&machine, spoil);
        }
        Selection::Hostile(hostile) => hostile.run(&machine),
        Selection::OffAll => smp::off_all(machine.cpus),
        Selection::Cases(names) => {
            let (passed, failed) = cases::run(&machine, names);
            println!("conformance: {passed} passed, {failed} failed");
        }
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    println!("FAIL panic: {info}");
    println!("conformance: 0 passed, 1 failed");
    psci::system_off()
}
