//! An unchanged packaged real-time executor as a guest: embassy-executor on aarch32-rt.
//!
//! The executor, the run time and the drivers come from the registry unchanged, and find in a VM
//! what they would find on a board. Our own code is what each board has to add: the first
//! instructions, the tree, a time driver, and the tasks. The tasks run for as long as the command
//! line says, report the results of their jobs, and power off. The program runs the same on
//! `qemu-system-arm -M virt -kernel`.
//!
//! | module | |
//! |---|---|
//! | `boot` | from the loader's jump to the run time; the MMU |
//! | `tree`, `options` | what the device tree says: the devices, the command line |
//! | `devices` | the serial port, the interrupt controller, PSCI |
//! | `clock` | the generic timer as embassy-time's driver |
//! | `urgent` | a second executor, which runs in interrupts |
//! | `tasks`, `account` | what the tasks do, and the results of their jobs |

#![no_std]
#![no_main]

#[cfg(target_arch = "arm")]
mod arm;

/// The executor's platform is 32-bit: for other targets the program is empty.
#[cfg(not(target_arch = "arm"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
