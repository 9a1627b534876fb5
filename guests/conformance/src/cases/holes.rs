//! Unmapped addresses: a synchronous external abort (DDI 0487, D1.13.4), for loads, stores, fetches
//! and table walks.

use crate::arch::access;
use crate::arch::code::UNDEFINED;
use crate::case::{Case, Failure, Outcome, case, hanok_case};
use crate::machine::Machine;
use crate::mmio::{read32, write32};
use crate::mmu::{self, Kind};
use crate::probe::{Fault, class, status};
use hanok_types::platform;

pub const CASES: &[Case] = &[
    case("hole-load", 1, load),
    case("hole-store", 1, store),
    case("hole-fetch", 1, fetch),
    case("hole-walk", 1, walk),
    case("hole-above-ram", 1, above_ram),
    case("hole-device-fetch", 1, device_fetch),
    hanok_case("hole-hanok", 1, hanok_only),
];

/// Between the devices, behind them, and far above them.
const HOLES: [u64; 7] = [
    0x0801_2000,
    0x0900_1000,
    0x0901_1000,
    0x0a00_4000,
    0x0b00_0000,
    0x3f00_0000,
    64 << 30,
];

/// Where QEMU has devices that a VM does not: a GICv2's frame of message-signalled interrupts,
/// fw_cfg, GPIO, PCIe (which answers a probe of nothing with all ones).
const NOT_HERE: [u64; 6] = [
    0x0802_0000,
    0x0902_0000,
    0x0903_0000,
    0x1000_0000,
    0x3eff_0000,
    1 << 39,
];

fn load_at(address: u64) -> Result<(), Fault> {
    // SAFETY: a load, of which nothing is used.
    unsafe { access::load(address, 4) }.map(drop)
}

fn store_at(address: u64) -> Result<(), Fault> {
    // SAFETY: a store to where no memory is.
    unsafe { access::store(address, 1, 0) }
}

/// The external abort of an access at the virtual address `far`, which leads to `hole`.
pub fn expect_abort(result: Result<(), Fault>, write: bool, far: u64, hole: u64) -> Outcome {
    let Err(fault) = result else {
        return Err(Failure::wrong(format_args!("{hole:#x}: no abort")));
    };
    check_eq!(fault.class(), class::DATA, "class at {hole:#x}");
    check_eq!(fault.status(), status::EXTERNAL, "status at {hole:#x}");
    check_eq!(fault.far, far, "FAR at {hole:#x}");
    check_eq!(fault.is_write(), write, "WnR at {hole:#x}");
    Ok(())
}

/// A load at `hole`, an unmapped address.
pub fn look(hole: u64) -> Outcome {
    let address = mmu::map(0, hole + 0x20, Kind::Device);
    expect_abort(load_at(address), false, address, hole)
}

/// Those of `holes` that this program's translation can name.
fn reachable<const N: usize>(holes: [u64; N]) -> impl Iterator<Item = u64> {
    holes
        .into_iter()
        .filter(|hole| *hole < mmu::address_limit())
}

fn load(_: &Machine) -> Outcome {
    reachable(HOLES).try_for_each(look)
}

fn store(_: &Machine) -> Outcome {
    for hole in reachable(HOLES) {
        let address = mmu::map(0, hole + 0x23, Kind::Device);
        expect_abort(store_at(address), true, address, hole)?;
    }
    Ok(())
}

fn above_ram(machine: &Machine) -> Outcome {
    look(machine.ram_end())?;
    look(machine.ram_end() + (1 << 20))
}

fn hanok_only(_: &Machine) -> Outcome {
    reachable(NOT_HERE).try_for_each(look)
}

fn fetch(_: &Machine) -> Outcome {
    for hole in reachable(HOLES) {
        let address = mmu::map(0, hole, Kind::Code);
        // SAFETY: no instruction is there.
        let result = unsafe { access::jump(address) };
        let Err(fault) = result else {
            return Err(Failure::wrong(format_args!("{hole:#x}: no abort")));
        };
        check_eq!(fault.class(), class::FETCH, "class at {hole:#x}");
        check_eq!(fault.status(), status::EXTERNAL, "status at {hole:#x}");
        check_eq!(
            (fault.far, fault.elr),
            (address, address),
            "FAR and ELR at {hole:#x}"
        );
    }
    Ok(())
}

/// The level-3 table is at an unmapped address: an external abort on the walk, level 3.
fn walk(_: &Machine) -> Outcome {
    let address = mmu::map_table_at(0x0b00_0000);
    let Err(fault) = load_at(address + 0x18) else {
        return Err(Failure::wrong(format_args!("no abort")));
    };
    check_eq!(fault.class(), class::DATA, "class");
    check_eq!(fault.status(), status::EXTERNAL_WALK + 3, "status");
    check_eq!(fault.far, address + 0x18, "FAR");
    Ok(())
}

/// A device holds no code: QEMU executes its registers (here the clock's match register, which
/// holds an undefined instruction meanwhile), a hypervisor may refuse the fetch.
fn device_fetch(_: &Machine) -> Outcome {
    const MATCH: u64 = platform::RTC.get() + 4;
    let before = read32(MATCH);
    write32(MATCH, UNDEFINED);
    let address = mmu::map(0, MATCH, Kind::Code);
    // SAFETY: it is no instruction.
    let result = unsafe { access::jump(address) };
    write32(MATCH, before);
    let Err(fault) = result else {
        return Err(Failure::wrong(format_args!("no exception")));
    };
    let refused = fault.class() == class::FETCH && fault.status() == status::EXTERNAL;
    check!(refused || fault.class() == class::UNDEFINED, "{fault:?}");
    check_eq!(fault.elr, address, "ELR");
    Ok(())
}
