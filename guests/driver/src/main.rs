//! A driver VM: it has devices of the board for itself, and serves virtio devices of other VMs with them
//! (`hanok_abi::back_end`).
//!
//! Here is how it begins; what it does is in `service`, which runs on a PC, too. `driver.hang=N` on its command line lets it hang
//! after N looks at its devices, for tests.

#![no_std]
#![no_main]

#[macro_use]
extern crate hanok_guest_runtime;

mod tree;

use hanok_guest_runtime::tree::Machine;
use hanok_guest_runtime::{console, gic, psci};

/// Where the runtime hands over: `tree` is where the device tree lies.
// SAFETY: the one function of this name; the runtime declares it so.
#[unsafe(no_mangle)]
fn guest_main(tree: u64) -> ! {
    // SAFETY: the boot protocol passes the tree's address, and nobody writes there.
    let (machine, served) = unsafe { (Machine::read(tree), tree::read(tree)) };
    let machine = match machine {
        Ok(machine) => machine,
        Err(why) => panic!("{why}"),
    };
    hanok_guest_runtime::install(&machine);
    console::turn_on();
    gic::init_distributor();
    gic::init_cpu(0);
    match served {
        Ok(served) => {
            let hang = machine.value("driver.hang=");
            hanok_driver_service::serve(
                &served,
                machine.timer,
                hang.and_then(|after| after.parse().ok()),
            );
        }
        Err(why) => println!("driver: {why}"),
    }
    psci::system_off()
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    println!("driver: {info}");
    psci::system_off()
}
