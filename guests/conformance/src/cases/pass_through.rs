//! A device of the board that the VM has for itself: a PL061 (DDI 0190B) on QEMU's `virt`,
//! whose lowest pin is low, so that it interrupts when it is told to do so on a low level; or a PL011
//! (DDI 0183G), which interrupts while it can send.
//! Run by name alone (`conformance.run=pass-through`, and `device-lives` again and again): other
//! VMs have none.

use crate::arch::access;
use crate::case::{Case, Failure, Outcome, hanok_case};
use crate::machine::Machine;
use crate::mmio::{read32, write32};
use crate::mmu::{self, Kind};
use crate::probe::{Fault, class, status};
use crate::{gic, psci, timer};
use hanok_types::platform;

pub const CASES: &[Case] = &[
    hanok_case("pass-through", 1, pass_through),
    hanok_case("pass-through-kinds", 1, kinds),
    hanok_case("pass-through-reach", 1, reach),
    hanok_case("pass-through-refuses", 1, refuses),
];

const BASE: u64 = platform::PASS_THROUGH.get();
/// PeriphID0 to 3, and PCellID0 to 3 behind them.
const IDS: u64 = 0xfe0;
const CELL_IDS: [u32; 4] = [0x0d, 0xf0, 0x05, 0xb1];

/// What differs between the two devices.
struct Device {
    ids: [u32; 4],
    /// A register that keeps eight bits.
    plain: u64,
    /// The mask of its interrupts, and the status behind it.
    enable: u64,
    status: u64,
    /// The interrupt whose line is high as soon as it is enabled.
    line: u32,
}

const PL061: Device = Device {
    ids: [0x61, 0x10, 0x04, 0x00],
    plain: 0x404,
    enable: 0x410,
    status: 0x418,
    line: 1,
};

const PL011: Device = Device {
    ids: [0x11, 0x10, 0x14, 0x00],
    plain: 0x20,
    enable: 0x38,
    status: 0x40,
    line: 1 << 5,
};

impl Device {
    fn here() -> Self {
        if read32(BASE + IDS) == PL011.ids[0] {
            PL011
        } else {
            PL061
        }
    }

    /// Makes the line high as soon as its interrupt is enabled.
    fn set_up(&self) {
        if self.line == PL061.line {
            // Direction, both edges, event, sense: interrupts while the pin is low.
            for (register, value) in [(0x400, 0), (0x408, 0), (0x40c, 0), (0x404, self.line)] {
                write32(BASE + register, value);
            }
        } else {
            // UARTCR: on, and may send; then a byte, which is gone at once.
            write32(BASE + 0x30, 0x301);
            write32(BASE, b'.'.into());
        }
    }

    fn enable(&self, on: bool) {
        write32(BASE + self.enable, if on { self.line } else { 0 });
    }
}

/// Checks the device, then leaves its line high and its interrupt enabled and active, and resets
/// the VM: the next life must find the device's registers as they were left, and nothing of the
/// interrupt.
pub fn lives(machine: &Machine) -> ! {
    let device = Device::here();
    device.enable(false);
    match pass_through(machine) {
        Ok(()) => println!("pass-through: the device is as it should be"),
        Err(Failure::Wrong(what)) => println!("FAIL pass-through: {what}"),
    }
    let id = platform::PASS_THROUGH_IRQ.get();
    gic::enable(id);
    device.enable(true);
    if !gic::wait_signalled() || gic::acknowledge() != u64::from(id) {
        println!("FAIL pass-through: no interrupt at the end");
    }
    psci::system_reset()
}

/// Takes the interrupts of a line that stays high, as fast as they come, on the CPU that calls.
pub fn line_storm(index: usize) -> ! {
    let id = platform::PASS_THROUGH_IRQ.get();
    let device = Device::here();
    device.set_up();
    gic::set_edge(id, false);
    gic::route(id, index);
    gic::enable(id);
    device.enable(true);
    loop {
        while !gic::signalled() {}
        gic::end(gic::acknowledge());
    }
}

fn pass_through(_: &Machine) -> Outcome {
    let device = Device::here();
    let ids = device.ids.iter().chain(&CELL_IDS);
    for (offset, expected) in (IDS..).step_by(4).zip(ids) {
        check_eq!(read32(BASE + offset), *expected, "{offset:#x}");
    }
    for byte in [0u32, 0xff, 0xa5, 0] {
        write32(BASE + device.plain, byte);
        check_eq!(read32(BASE + device.plain), byte, "a register");
    }
    interrupts(&device, platform::PASS_THROUGH_IRQ.get())
}

/// A level interrupt is signalled, again while its line is high, and not once the line is low.
fn interrupts(device: &Device, id: u32) -> Outcome {
    device.set_up();
    gic::set_edge(id, false);
    gic::route(id, 0);
    gic::enable(id);
    check!(!gic::signalled(), "before it was let through");
    for round in 0..200 {
        device.enable(true);
        check!(gic::wait_signalled(), "round {round}: no interrupt");
        check_eq!(read32(BASE + device.status), device.line, "status");
        check_eq!(gic::acknowledge(), u64::from(id), "INTID");
        check!(!gic::signalled(), "while it is active");
        if round % 2 == 0 {
            gic::end(id.into());
            check!(gic::wait_signalled(), "round {round}: not again");
            check_eq!(gic::acknowledge(), u64::from(id), "INTID, again");
        }
        device.enable(false);
        gic::end(id.into());
        check!(timer::wait_until(|| !gic::signalled()), "something is left");
    }
    gic::disable(id);
    // The line falls while the interrupt is disabled, which is enabled again: it is not signalled.
    // With the line high it is.
    gic::enable(id);
    check!(!gic::signalled(), "after it was off");
    gic::disable(id);
    device.enable(true);
    check!(!gic::signalled(), "while it is off");
    gic::enable(id);
    check!(gic::wait_signalled(), "not after it was off");
    check_eq!(gic::acknowledge(), u64::from(id), "INTID, after it was off");
    device.enable(false);
    gic::end(id.into());
    gic::disable(id);
    Ok(())
}

/// The registers by addresses of other kinds than Device: each access reaches the device, none a cache, whatever
/// other address there is for it; nothing there is executed.
fn kinds(_: &Machine) -> Outcome {
    let plain = Device::here().plain;
    for (first, second) in [
        (Kind::Device, Kind::Device),
        (Kind::Device, Kind::Code),
        (Kind::Code, Kind::Device),
        (Kind::Code, Kind::Code),
    ] {
        let one = mmu::map(0, BASE, first);
        let other = mmu::map(1, BASE, second);
        for value in 0..=0xff_u64 {
            check!(store(one + plain, 4, value).is_ok(), "a store");
            for at in [other, one, BASE] {
                check_eq!(load(at + plain, 4).ok(), Some(value), "after {value:#x}");
            }
        }
        check_eq!(load(other + IDS + 0x10, 1).ok(), Some(0x0d), "a byte");
    }
    let at = mmu::map(0, BASE, Kind::Code);
    check!(load(at + plain, 4).is_ok(), "before a fetch");
    // SAFETY: nothing there can be executed.
    let result = unsafe { access::jump(at) };
    let Err(fault) = result else {
        return Err(Failure::wrong(format_args!("a fetch: no abort")));
    };
    check_eq!(
        (fault.class(), fault.status()),
        (class::FETCH, status::EXTERNAL),
        "a fetch"
    );
    check_eq!(load(at + plain, 4).ok(), Some(0xff), "after a fetch");
    Ok(())
}

/// Accesses of all sizes reach the last byte of the device's page, and nothing before or behind the page. One that
/// is not aligned to its size reaches nothing but the device.
fn reach(machine: &Machine) -> Outcome {
    for width in [1, 2, 4] {
        let at = BASE + 0x1000 - 4;
        check_eq!(load(at, width).ok(), Some(0xb1), "{width} bytes");
    }
    let around = [BASE - 0x1000, BASE - 4, BASE + 0x1000, BASE + 0x1ffc];
    for (at, width) in around
        .into_iter()
        .flat_map(|at| [1, 2, 4].map(|width| (at, width)))
    {
        let at = mmu::map(0, at, Kind::Device);
        for result in [load(at, width).map(drop), store(at, width, 0)] {
            let Err(fault) = result else {
                return Err(Failure::wrong(format_args!("{at:#x}: no abort")));
            };
            check_eq!(
                (fault.class(), fault.status()),
                (class::DATA, status::EXTERNAL),
                "{at:#x}"
            );
        }
    }
    let at = mmu::map(0, BASE, Kind::Device) + IDS;
    for offset in [1, 2, 3, 0x1d] {
        match load(at + offset, 4) {
            Err(fault) if fault.class() == class::DATA => {}
            // Memory of this kind may allow it; a trapped device never does.
            Ok(_) if !machine.traps_own_device => {}
            other => {
                return Err(Failure::wrong(format_args!(
                    "at {offset:#x}: {:?}",
                    other.ok()
                )));
            }
        }
    }
    Ok(())
}

/// For a device whose registers end within their page: an access behind them ends in an abort, and the next one in
/// the device goes on.
fn refuses(_: &Machine) -> Outcome {
    const BEHIND: u64 = 0x200;
    let at = mmu::map(0, BASE, Kind::Device);
    check!(load(at, 4).is_ok(), "no register");
    for (round, width) in (0..100).flat_map(|round| [1, 2, 4].map(|width| (round, width))) {
        let (loaded, stored) = (load(at + BEHIND, width), store(at + BEHIND, width, 0));
        for result in [loaded.map(drop), stored] {
            let Err(fault) = result else {
                return Err(Failure::wrong(format_args!("round {round}: no abort")));
            };
            check_eq!(
                (fault.class(), fault.status(), fault.far),
                (class::DATA, status::EXTERNAL, at + BEHIND),
                "round {round}"
            );
        }
        check!(load(at, 4).is_ok(), "no register in round {round}");
    }
    Ok(())
}

fn load(at: u64, width: u64) -> Result<u64, Fault> {
    // SAFETY: a load from a register without side effects, or from where nothing is.
    unsafe { access::load(at, width) }
}

fn store(at: u64, width: u64, value: u64) -> Result<(), Fault> {
    // SAFETY: a store to a register that nobody relies on, or to where nothing is.
    unsafe { access::store(at, width, value) }
}
