//! A driver VM: it has devices of the board for itself, and serves virtio devices of other VMs with them
//! (`hanok_abi::back_end`).
//!
//! It is one loop on one CPU with interrupts masked: whatever interrupt comes only ends the sleep, and then each device is
//! looked at. All that it shares, with the hypervisor and with the board's devices, are atomics in static memory, so that
//! there is no unsafe code but at the entry.
//!
//! | module | |
//! |---|---|
//! | `tree` | what it serves, and with what: from the device tree |
//! | `memory` | the layout of a split queue and of slots in memory |
//! | `back_end` | a virtio device of another VM: requests and answers |
//! | `device` | a virtio device of the board's, by virtio over MMIO |
//! | `disk` | the one served with the other |

#![no_std]
#![no_main]

#[macro_use]
extern crate hanok_guest_runtime;

mod back_end;
mod device;
mod disk;
mod memory;
mod tree;

use disk::Disk;
use hanok_guest_runtime::tree::Machine;
use hanok_guest_runtime::{console, cpu, gic, psci};
use memory::DISKS;

/// Where the runtime hands over: `tree` is where the device tree lies.
// SAFETY: the one function of this name; the runtime declares it so.
#[unsafe(no_mangle)]
fn guest_main(tree: u64) -> ! {
    // SAFETY: the boot protocol passes the tree's address, and nobody writes there.
    let (machine, served) = unsafe { (Machine::read(tree), tree::Served::read(tree)) };
    let machine = match machine {
        Ok(machine) => machine,
        Err(why) => panic!("{why}"),
    };
    hanok_guest_runtime::install(&machine);
    console::turn_on();
    gic::init_distributor();
    gic::init_cpu(0);
    match served {
        Ok(served) => serve(&served),
        Err(why) => println!("driver: {why}"),
    }
    psci::system_off()
}

/// Serves what it can, for ever; returns if it is nothing.
fn serve(served: &tree::Served) {
    let mut disks: [Option<Disk>; DISKS.len()] = [const { None }; DISKS.len()];
    for (place, (wanted, memory)) in disks.iter_mut().zip(served.back_ends.iter().zip(&DISKS)) {
        match Disk::start(wanted, served, memory) {
            Ok(disk) => *place = Some(disk),
            Err(why) => println!("driver: {} of {}: {why}", wanted.kind, wanted.client),
        }
    }
    if disks.iter().all(Option::is_none) {
        println!("driver: there is nothing to serve");
        return;
    }
    loop {
        let mut idle = true;
        for disk in disks.iter_mut().flatten() {
            idle &= disk.work();
        }
        if idle {
            cpu::wait_for_interrupt();
            take_interrupts(&mut disks);
        }
    }
}

/// Acknowledges the interrupts that have come.
fn take_interrupts(disks: &mut [Option<Disk>]) {
    loop {
        let id = gic::acknowledge();
        if id >= gic::SPECIAL {
            return;
        }
        disks
            .iter_mut()
            .flatten()
            .for_each(|disk| disk.interrupted(id as u32));
        gic::end(id);
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    println!("driver: {info}");
    psci::system_off()
}
