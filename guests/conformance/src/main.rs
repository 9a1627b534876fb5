//! The conformance payload: a guest that looks at its machine from EL1 or PL1 and says what it
//! finds different from what the architecture and the virtual platform promise.
//!
//! It boots by the Linux boot protocol of arm64 or ARM, on `qemu-system-aarch64 -M
//! virt,gic-version=3,its=off -kernel` (or `gic-version=2`, or `qemu-system-arm`) as well as in a
//! VM, so that QEMU is the oracle: a case that fails there is itself wrong. It prints `ok NAME`, `skip NAME: why` or `FAIL
//! NAME: detail` a case, then `conformance: N passed, N failed`, and powers off.
//!
//! Boot arguments: `conformance.run=all` or names separated by commas (a name ending in
//! `*` stands for all that begin so), `conformance.run=reset-loop` to mark memory and reset
//! for ever, `conformance.run=device-lives` for the same with a device of the board's,
//! `conformance.run=off-all` to turn every CPU off, `conformance.run=online` to start all and reach each by
//! interrupts, `conformance.run=places` to say where everything
//! was loaded, `conformance.run=ids` to say what the ID registers hold, `conformance.run=sweep` to look at
//! every address (with `sweep.stride=N`, in each Nth page below 4 GiB), `conformance.run=hold` to hold a pattern in memory until a key comes (and to
//! spoil it, with `conformance.spoil=yes`), `conformance.run=fuzz` to try everything ([`fuzz`]),
//! `conformance.run=bounds` for what makes the hypervisor work longest at a time ([`bounds`]),
//! `conformance.run=tick` for an interrupt of the timer every ten microseconds for a second,
//! `conformance.run=registers` to fill every register and see whether it stays so ([`crossing`]),
//! one of the hostile things of [`hostile`], or of the roles of [`virtio`];
//! `conformance.host=hanok` for the cases where Hanok promises more than QEMU.

#![no_std]
#![no_main]

#[macro_use]
extern crate hanok_guest_runtime;
#[macro_use]
mod case;

mod arch;
mod bounds;
mod cases;
mod crossing;
mod fuzz;
mod hostile;
mod machine;
mod online;
mod selection;
mod sweep;
mod tree;
mod virtio;

// The cases use these names too.
use hanok_guest_runtime::{
    boot, console, cpu, gic, marker, mmio, mmu, probe, psci, sleep, smp, timer,
};
use machine::Machine;
use selection::Selection;

/// Entry from the runtime: `tree` is the device tree's address.
// SAFETY: the one function of this name; the runtime declares it so.
#[unsafe(no_mangle)]
fn guest_main(tree: u64) -> ! {
    // SAFETY: the boot protocol passes the tree's address, in RAM that is mapped.
    let arguments = unsafe { tree::Arguments::read(tree) };
    match arguments {
        Ok(arguments) => {
            let found = arch::crossing::first_look();
            hanok_guest_runtime::install(&arguments);
            crossing::remember(&found);
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
    match selection::selection(arguments) {
        Selection::ResetLoop => cases::canary::reset_loop(&machine),
        Selection::DeviceLives => cases::pass_through::lives(&machine),
        Selection::Sweep => {
            let stride = arguments.value("sweep.stride=").map(str::parse);
            sweep::run(&machine, stride.and_then(Result::ok).unwrap_or(1));
        }
        Selection::Hold => {
            let spoil = arguments.value("conformance.spoil=") == Some("yes");
            sweep::hold(&machine, spoil);
        }
        Selection::Hostile(hostile) => hostile.run(machine.cpus),
        Selection::Virtio(role) => role.run(&machine, arguments),
        Selection::Fuzz => {
            let options = fuzz::Options::new(|key| arguments.value(key));
            fuzz::run(&machine, &options)
        }
        Selection::Places => places(arguments),
        Selection::Ids => ids(),
        Selection::Registers => {
            let options = crossing::Options::new(|key| arguments.value(key));
            crossing::run(&machine, options)
        }
        Selection::Bounds => bounds::run(&machine, arguments.value("bounds.part=")),
        Selection::Tick => hostile::tick(1000),
        Selection::OffAll => off_all(machine.cpus),
        Selection::Online => online::run(&machine),
        Selection::Cases(names) => {
            let (passed, failed) = cases::run(&machine, names);
            println!("conformance: {passed} passed, {failed} failed");
        }
    }
}

/// Prints which files the boot loader left at which addresses, for a person or a test to compare.
fn places(arguments: &tree::Arguments) {
    println!(
        "places: image {:#x}, handed {:#x}, tree {:#x}",
        boot::load_address(),
        boot::handed(),
        arguments.tree.start
    );
    match &arguments.initramfs {
        Some(area) => println!("places: initramfs {:#x} to {:#x}", area.start, area.end()),
        None => println!("places: no initramfs"),
    }
}

/// Prints the registers that identify features: all of their encodings, with a meaning or not.
fn ids() {
    for (crm, op2) in (1..8).flat_map(|crm| (0..8).map(move |op2| (crm, op2))) {
        match arch::cases::feature_id(crm, op2) {
            Ok(value) => println!("id: {crm} {op2} {value:#x}"),
            Err(fault) => println!("FAIL id: {crm} {op2}: {fault:?}"),
        }
    }
    println!("id: done");
}

/// Starts every other CPU only to turn itself off, and turns this one off.
fn off_all(cpus: usize) -> ! {
    for index in 1..cpus {
        if smp::start(index, |_| ()) != psci::SUCCESS {
            println!("FAIL off-all: CPU {index} did not start");
        }
    }
    println!("off-all: so long");
    psci::cpu_off()
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    println!("FAIL panic: {info}");
    println!("conformance: 0 passed, 1 failed");
    psci::system_off()
}
