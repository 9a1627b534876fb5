//! A small real-time operating system as a guest, and an example of how to write one.
//!
//! It starts by the Linux boot protocol of arm64 or ARM, finds its devices in the device tree, and
//! runs the set of tasks that the command line names (`rtos.set`) or describes (`rtos.tasks`, see
//! [`hanok_rtos_kernel::Options`]): on `qemu-system-aarch64 -M virt -kernel`, on `qemu-system-arm
//! -M virt -kernel`, and in a VM. At the end it reports the results of each task's jobs, compares
//! the schedule with a simulation, and powers off.
//!
//! The crate `hanok-rtos-kernel` decides; it runs on a PC too. The code here acts; its modules, in
//! the order in which they are used:
//!
//! | module | |
//! |---|---|
//! | `hanok_guest_runtime` | boot, the device tree, interrupt controller, timer, console, power: what every program of `guests/` needs |
//! | `arch` | vectors, which are the context switch |
//! | `state` | the one kernel, and who may touch it |
//! | `exception` | every entry into the kernel, and who runs after it |
//! | `stacks` | contexts and stacks of the tasks |
//! | `debug` | symbols for a debugger |
//! | `calls` | the requests of tasks |
//! | `ask` | the CPU time that the tasks need, of the hypervisor |
//! | `bodies`, `burn` | the code of the tasks |
//! | `channel` | what the tasks `sensor` and `control` say to another VM, and hear from it |
//! | `picture` | what is drawn on a screen |
//! | `report` | what is printed |

#![no_std]
#![no_main]

#[macro_use]
extern crate hanok_guest_runtime;

mod arch;
mod ask;
mod bodies;
mod burn;
mod calls;
mod channel;
mod debug;
mod exception;
mod picture;
mod report;
mod stacks;
mod state;

use hanok_guest_runtime::tree::Machine;
use hanok_guest_runtime::{boot, console, cpu, gic, psci, timer};
use hanok_rtos_kernel::{Full, Kernel, Options, Set, Trace};

/// The time in milliseconds from the end of the preparation to the first release.
const HEAD_START_MS: u64 = 1;

/// Where the runtime hands over: `tree` is where the device tree lies.
// SAFETY: the one function of this name; the runtime declares it so.
#[unsafe(no_mangle)]
fn guest_main(tree: u64) -> ! {
    // SAFETY: the boot protocol passes the tree's address, and nobody writes there.
    let machine = match unsafe { Machine::read(tree) } {
        Ok(machine) => machine,
        Err(why) => panic!("{why}"),
    };
    hanok_guest_runtime::install(&machine);
    console::turn_on();
    gic::init_distributor();
    gic::init_cpu(0);
    match Options::parse(machine.bootargs) {
        Ok(options) => run(&machine, options),
        Err(mistake) => println!("rtos: {mistake}"),
    }
    psci::system_off()
}

fn run(machine: &Machine, options: Options) {
    let frequency = timer::frequency();
    println!(
        "rtos: {} under {:?}, {} tasks, {}, counter at {frequency} Hz, loaded at {:#x}",
        options.set.name,
        options.set.policy,
        options.set.entries().count(),
        gic::name(),
        boot::load_address(),
    );
    if let Some(name) = machine.value("channel=")
        && let Err(why) = channel::open(machine, name)
    {
        println!("rtos: no channel {name}: {why}");
        return;
    }
    picture::draw(machine);
    burn::calibrate(options.cores);
    if prepare(&options.set, frequency).is_err() {
        println!("rtos: {} has too many tasks", options.set.name);
        return;
    }
    if let Some(per_job) = options.ask
        && let Err(why) = ask::ask(machine, &options.set, per_job)
    {
        println!("rtos: refused {why}");
        return;
    }
    let start = timer::now() + frequency / 1000 * HEAD_START_MS;
    state::begin(start, options);
    match machine.timer {
        Some(timer) => gic::enable(timer),
        None => panic!("no timer"),
    }
    timer::fire_at(start);
    cpu::unmask();
    idle(options.report.saturating_mul(frequency))
}

/// Makes the kernel with its tasks, and the first context of each.
fn prepare(set: &Set, frequency: u64) -> Result<(), Full> {
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
        cpu::wait_for_interrupt();
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    cpu::mask();
    println!("rtos: FAIL {info}");
    psci::system_off()
}
