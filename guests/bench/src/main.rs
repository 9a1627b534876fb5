//! The bench payload: a guest that measures what its hypervisor costs it, by the same code on QEMU
//! itself, in a VM of Hanok, under KVM and as a domain of Xen.
//!
//! It is meant for `-icount shift=0`, where an instruction takes one nanosecond of the counter:
//! only there are the printed instructions correct. It prints `bench: FIGURE VALUE UNIT` for each
//! figure that its machine has, lines that begin with `bench-info:` for people, at the end `bench:
//! done`, and powers off; or `FAIL` and the reason where a measurement went wrong.
//!
//! Boot arguments: [`hanok_bench_plan::Options`]. Each measured stretch is between the marker
//! instructions of [`measure`], for a tool that counts instructions from outside.

#![no_std]
#![no_main]

#[macro_use]
extern crate hanok_guest_runtime;

mod arch;
mod budget;
mod calls;
mod device;
mod interrupt;
mod ipi;
mod measure;
mod neighbour;
mod pending;
mod serial;
mod stamp;
mod switch;
mod wake;

use calls::Hypervisor;
use hanok_bench_plan::{Figure, Options, Role};
use hanok_guest_runtime::{boot, cpu, gic, psci, tree::Machine};

/// The runtime jumps here; `tree` is the address of the device tree.
// SAFETY: the one function of this name; the runtime declares it so.
#[unsafe(no_mangle)]
fn guest_main(tree: u64) -> ! {
    measure::start();
    // SAFETY: the boot protocol passes the tree's address, in RAM that is mapped.
    match unsafe { Machine::read(tree) } {
        Ok(machine) => {
            hanok_guest_runtime::install(&machine);
            gic::init_distributor();
            gic::init_cpu(0);
            run(&machine);
        }
        Err(why) => println!("FAIL bench: {why}"),
    }
    psci::system_off()
}

fn run(machine: &Machine) {
    println!(
        "bench-info: {}, {} vCPUs, counter at {} Hz, loaded at {:#x}",
        gic::name(),
        machine.cpus,
        measure::frequency(),
        boot::load_address()
    );
    match Options::parse(machine.bootargs) {
        Ok(options) => play(machine, &options),
        Err(mistake) => println!("FAIL bench: {mistake}"),
    }
    println!("bench: done");
}

fn play(machine: &Machine, options: &Options) {
    let hypervisor = Hypervisor::of(machine);
    match options.role {
        Role::Measure => {}
        Role::Yield => return switch::partner(options.repeat),
        Role::Sleep => neighbour::sleep_for_ever(machine.cpus),
        Role::Spin => neighbour::spin_for_ever(machine.cpus),
        Role::Stamp => stamp::for_ever(),
    }
    let wanted = |figure: &Figure| options.figures.contains(*figure);
    for figure in Figure::ALL.into_iter().filter(wanted) {
        match figure {
            Figure::Hypercall => hypervisor.null(options.repeat),
            Figure::SmcccVersion => calls::smccc_version(options.repeat),
            Figure::GicdRead => calls::distributor_read(options.repeat),
            Figure::TimerInterrupt => interrupt::measure(figure, options.repeat),
            Figure::Switch | Figure::SwitchBudgets => switch::measure(figure, options.repeat),
            Figure::Ipi => ipi::measure(machine.cpus.min(cpu::MAX_CPUS), options),
            Figure::Pending4 => pending::beside(figure, 4, options.repeat),
            Figure::Pending200 => pending::beside(figure, 200, options.repeat),
            Figure::Burst200 => pending::burst(figure, 200, options.repeat),
            Figure::Wake | Figure::WakeBeside => wake::measure(figure, options.repeat),
            Figure::WakeSpread => wake::spread(),
            Figure::PhysicalTimer => interrupt::physical(figure, options.repeat),
            Figure::Device => device::measure(options),
            Figure::Start => measure::started(),
            Figure::SendPolled => serial::send(figure, 1, options.repeat),
            Figure::SendBurst => serial::send(figure, serial::DEPTH, options.repeat),
            Figure::Receive => serial::receive(),
            Figure::Budget => budget::quiet(options.repeat),
            Figure::BudgetExits => budget::with_exits(options.repeat),
        }
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    println!("FAIL bench: {info}");
    psci::system_off()
}
