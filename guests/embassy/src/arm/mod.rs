//! The program, on 32-bit ARM.

mod account;
mod clock;
mod devices;
mod options;
mod tasks;
mod urgent;

use aarch32_cpu::interrupt;
use aarch32_rt::{entry, exception, irq};
use devices::println;
use embassy_executor::Executor;
use hanok_guest_runtime::tree::Machine;
use hanok_guest_runtime::{arch::mmu, boot, psci::system_off};
use options::Options;
use static_cell::StaticCell;

static EXECUTOR: StaticCell<Executor> = StaticCell::new();

/// The run time jumps here, in System mode with interrupts masked.
#[entry]
fn main() -> ! {
    // SAFETY: the run time leaves the MMU off, and has zeroed memory.
    unsafe { mmu::turn_on() };
    // SAFETY: the boot protocol passes the tree's address, and nobody writes there.
    let machine = match unsafe { Machine::read(boot::tree()) } {
        Ok(machine) => machine,
        Err(why) => panic!("{why}"),
    };
    // SAFETY: the tree describes this machine; once, here.
    unsafe { devices::install(&machine) };
    match Options::parse(machine.bootargs) {
        Ok(options) => run(&machine, options),
        Err(mistake) => println!("embassy: {mistake}"),
    }
    system_off()
}

fn run(machine: &Machine, options: Options) -> ! {
    println!(
        "embassy: {} ms, urgent tasks {}, counter at {} Hz",
        options.milliseconds,
        if options.urgent {
            "in interrupts"
        } else {
            "among the others"
        },
        clock::frequency(),
    );
    println!(
        "embassy: the CPU names {:#x} as its peripherals (CBAR)",
        devices::peripherals()
    );
    tasks::calibrate();
    // SAFETY: as in `main`.
    unsafe { devices::install_gic(machine) };
    let urgent = urgent::install();
    EXECUTOR.init(Executor::new()).run(|thread| {
        if let Err(error) = tasks::spawn(options, thread, urgent) {
            panic!("a task cannot be spawned: {error:?}");
        }
        // SAFETY: no lock is held, and whoever an interrupt may meet is installed.
        unsafe { interrupt::enable() };
        urgent::poll();
    })
}

/// Handles an interrupt: the timer's is the only one. It is ended before the tasks run, because the
/// next one may come meanwhile.
#[irq]
fn interrupt_came() {
    if let Some(id) = devices::acknowledge() {
        clock::alarm();
        devices::end(id);
    }
    urgent::poll();
}

#[exception(Undefined)]
fn undefined(addr: usize) -> ! {
    panic!("an undefined instruction at {addr:#x}");
}

#[exception(PrefetchAbort)]
fn prefetch_abort(addr: usize) -> ! {
    panic!("no instruction can be fetched at {addr:#x}");
}

#[exception(DataAbort)]
fn data_abort(addr: usize) -> ! {
    panic!("a data abort at {addr:#x}");
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    interrupt::disable();
    println!("embassy: FAIL {info}");
    system_off()
}
