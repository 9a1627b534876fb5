//! A small real-time operating system as a guest, and an example of how to write one.
//!
//! It starts by the Linux boot protocol of arm64 or ARM, finds its devices in the device tree, and
//! runs the set of tasks that the command line names (`rtos.set`, see
//! [`hanok_rtos_kernel::Options`]): on `qemu-system-aarch64 -M virt -kernel`, on `qemu-system-arm
//! -M virt -kernel`, and in a VM. At the end it reports the results of each task's jobs, compares
//! the schedule with a simulation, and powers off.
//!
//! The crate `hanok-rtos-kernel` decides; it runs on a PC too. The code here acts; its modules, in
//! the order in which they are used:
//!
//! | module | |
//! |---|---|
//! | `arch` | boot, vectors and context switch, the CPU's registers |
//! | `tree` | where the devices are |
//! | `gic`, `console`, `psci` | the devices |
//! | `state` | the one kernel, and how it may be used |
//! | `exception` | every entry into the kernel, and the task that runs after it |
//! | `stacks` | contexts and stacks of the tasks |
//! | `debug` | symbols for a debugger |
//! | `calls` | the requests of tasks |
//! | `bodies`, `burn` | the code of the tasks |
//! | `report` | what is printed |

#![no_std]
#![no_main]

#[macro_use]
mod console;
#[macro_use]
mod sysreg;

mod arch;
mod bodies;
mod burn;
mod calls;
mod debug;
mod exception;
mod gic;
mod mmio;
mod psci;
mod report;
mod stacks;
mod state;
mod tree;

use arch::cpu;
use hanok_rtos_kernel::{Full, Kernel, Options, Set, Trace};

/// The time in milliseconds from the end of the preparation to the first release.
const HEAD_START_MS: u64 = 1;

/// The first Rust code that runs with the MMU on; `tree` is the device tree's address.
extern "C" fn main(tree: usize) -> ! {
    arch::install();
    // SAFETY: the boot protocol passes the tree's address, and nobody writes there.
    let machine = match unsafe { tree::Machine::read(tree) } {
        Ok(machine) => machine,
        Err(why) => panic!("{why}"),
    };
    console::install(&machine.uart);
    psci::install(machine.psci_by_smc);
    gic::install(&machine.gic);
    match Options::parse(machine.bootargs) {
        Ok(options) => run(&machine, options),
        Err(mistake) => println!("rtos: {mistake}"),
    }
    psci::system_off()
}

fn run(machine: &tree::Machine, options: Options) {
    let frequency = cpu::frequency();
    println!(
        "rtos: {} under {:?}, {} tasks, {}, counter at {frequency} Hz, loaded at {:#x}",
        options.set.name,
        options.set.policy,
        options.set.tasks.len(),
        gic::name(),
        arch::load_address(),
    );
    burn::calibrate(options.cores);
    if prepare(options.set, frequency).is_err() {
        println!("rtos: {} has too many tasks", options.set.name);
        return;
    }
    let start = cpu::now() + frequency / 1000 * HEAD_START_MS;
    state::begin(start, options);
    gic::enable(machine.timer);
    cpu::set_timer(start);
    cpu::unmask();
    idle(options.report.saturating_mul(frequency))
}

/// Makes the kernel with its tasks, and the first context of each.
fn prepare(set: &'static Set, frequency: u64) -> Result<(), Full> {
    let mut kernel = Kernel::new(set.policy, Trace::new(state::trace_storage()));
    for spec in set.specs(frequency) {
        let id = kernel.add_task(spec)?;
        stacks::prepare(id, bodies::task);
        debug::name(id, spec.name);
    }
    bodies::prepare(&mut kernel)?;
    state::install(kernel);
    Ok(())
}

/// Runs when no task does: sleeps, and prints reports.
fn idle(between_reports: u64) -> ! {
    let mut next = between_reports;
    loop {
        if between_reports > 0 && state::now() >= next {
            report::interim();
            next = next.saturating_add(between_reports);
        }
        cpu::wait();
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    cpu::mask();
    println!("rtos: FAIL {info}");
    psci::system_off()
}
