//! A device of the board that the VM has for itself: a PL061 (DDI 0190B) on QEMU's `virt`,
//! whose lowest pin is low, so that it interrupts when it is told to do so on a low level.
//! Run by name alone (`conformance.run=pass-through`, and `device-lives` again and again): other
//! VMs have none.

use crate::case::{Case, Failure, Outcome, hanok_case};
use crate::machine::Machine;
use crate::mmio::{read32, write32};
use crate::{gic, psci, timer};
use hanok_types::platform;

pub const CASES: &[Case] = &[hanok_case("pass-through", 1, pass_through)];

const GPIO: u64 = platform::PASS_THROUGH.get();
const DIRECTION: u64 = 0x400;
const SENSE: u64 = 0x404;
const BOTH_EDGES: u64 = 0x408;
const EVENT: u64 = 0x40c;
const ENABLE: u64 = 0x410;
const MASKED_STATUS: u64 = 0x418;
const PIN: u32 = 1;

/// Checks the device, then leaves its line high and its interrupt enabled and active, and resets
/// the VM: the next life must find the device's registers as they were left, and nothing of the
/// interrupt.
pub fn lives(machine: &Machine) -> ! {
    write32(GPIO + ENABLE, 0);
    match pass_through(machine) {
        Ok(()) => println!("pass-through: the device is as it should be"),
        Err(Failure::Wrong(what)) => println!("FAIL pass-through: {what}"),
    }
    let id = platform::PASS_THROUGH_IRQ.get();
    gic::enable(id);
    write32(GPIO + ENABLE, PIN);
    if !gic::wait_signalled() || gic::acknowledge() != u64::from(id) {
        println!("FAIL pass-through: no interrupt at the end");
    }
    psci::system_reset()
}

/// Takes the interrupts of a line that stays high, as fast as they come, on the CPU that calls.
pub fn line_storm(index: usize) -> ! {
    let id = platform::PASS_THROUGH_IRQ.get();
    write32(GPIO + DIRECTION, 0);
    write32(GPIO + BOTH_EDGES, 0);
    write32(GPIO + EVENT, 0);
    write32(GPIO + SENSE, PIN);
    gic::set_edge(id, false);
    gic::route(id, index);
    gic::enable(id);
    write32(GPIO + ENABLE, PIN);
    loop {
        while !gic::signalled() {}
        gic::end(gic::acknowledge());
    }
}

fn pass_through(_: &Machine) -> Outcome {
    let ids = [0x61, 0x10, 0x04, 0x00, 0x0d, 0xf0, 0x05, 0xb1];
    for (offset, expected) in (0xfe0..).step_by(4).zip(ids) {
        check_eq!(read32(GPIO + offset), expected, "{offset:#x}");
    }
    write32(GPIO + DIRECTION, 0);
    for byte in [0u32, 0xff, 0xa5, 0] {
        write32(GPIO + SENSE, byte);
        check_eq!(read32(GPIO + SENSE), byte, "GPIOIS");
    }
    interrupts(platform::PASS_THROUGH_IRQ.get())
}

/// A level interrupt is signalled, again while its line is high, and not once the line is low.
fn interrupts(id: u32) -> Outcome {
    write32(GPIO + BOTH_EDGES, 0);
    write32(GPIO + EVENT, 0);
    write32(GPIO + SENSE, PIN);
    gic::set_edge(id, false);
    gic::route(id, 0);
    gic::enable(id);
    check!(!gic::signalled(), "before it was let through");
    for round in 0..200 {
        write32(GPIO + ENABLE, PIN);
        check!(gic::wait_signalled(), "round {round}: no interrupt");
        check_eq!(read32(GPIO + MASKED_STATUS), PIN, "GPIOMIS");
        check_eq!(gic::acknowledge(), u64::from(id), "INTID");
        check!(!gic::signalled(), "while it is active");
        if round % 2 == 0 {
            gic::end(id.into());
            check!(gic::wait_signalled(), "round {round}: not again");
            check_eq!(gic::acknowledge(), u64::from(id), "INTID, again");
        }
        write32(GPIO + ENABLE, 0);
        gic::end(id.into());
        check!(timer::wait_until(|| !gic::signalled()), "something is left");
    }
    gic::disable(id);
    // The line falls while the interrupt is disabled, which is enabled again: it is not signalled.
    // With the line high it is.
    gic::enable(id);
    check!(!gic::signalled(), "after it was off");
    gic::disable(id);
    write32(GPIO + ENABLE, PIN);
    check!(!gic::signalled(), "while it is off");
    gic::enable(id);
    check!(gic::wait_signalled(), "not after it was off");
    check_eq!(gic::acknowledge(), u64::from(id), "INTID, after it was off");
    write32(GPIO + ENABLE, 0);
    gic::end(id.into());
    gic::disable(id);
    Ok(())
}
