//! Counts the instructions of the scheduler's decisions and its admission on the target:
//! `core/sched` as the hypervisor has it, built with the same options, with random loads.
//!
//! It runs on QEMU's board itself with `-icount shift=0`, where the performance monitors count
//! every instruction exactly. It prints `sched: FIGURE VALUE` and lines that begin with
//! `sched-info:` for people, at the end `sched: done`; or `FAIL` and the reason where something is
//! wrong.

#![no_std]
#![no_main]

#[macro_use]
extern crate hanok_guest_runtime;

mod admission;
mod asking;
mod counter;
mod decisions;

use counter::Counting;
use hanok_guest_runtime::{psci, tree::Machine};

/// The runtime jumps here; `tree` is the device tree's address.
// SAFETY: the one function of this name; the runtime declares it so.
#[unsafe(no_mangle)]
fn guest_main(tree: u64) -> ! {
    // SAFETY: the boot protocol passes the tree's address, in RAM that is mapped.
    match unsafe { Machine::read(tree) } {
        Ok(machine) => {
            hanok_guest_runtime::install(&machine);
            measure();
        }
        Err(why) => println!("FAIL sched: {why}"),
    }
    psci::system_off()
}

fn measure() {
    if counter::start() == Counting::Exact {
        decisions::measure();
        admission::measure();
        asking::measure();
    } else {
        println!("FAIL sched: this CPU counts no instructions here")
    }
    println!("sched: done");
}

/// Numbers that are the same in every run, by xorshift (Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}

/// The mean and the largest of the counted costs.
#[derive(Default)]
struct Costs {
    number: u64,
    sum: u64,
    most: u64,
}

impl Costs {
    fn add(&mut self, cost: u64) {
        self.number += 1;
        self.sum += cost;
        self.most = self.most.max(cost);
    }

    fn mean(&self) -> u64 {
        self.sum / self.number.max(1)
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    println!("FAIL sched: {info}");
    psci::system_off()
}
