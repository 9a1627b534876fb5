//! Addresses where nothing is: a synchronous external abort (DDI 0487, D1.13.4), for loads,
//! stores, fetches and table walks.

use crate::case::{Case, Failure, Outcome, case, hanok_case};
use crate::fp;
use crate::machine::Machine;
use crate::mmu::{self, Kind};
use crate::probe::{Fault, class, status};
use hanok_types::platform;

pub const CASES: &[Case] = &[
    case("hole-load", 1, load),
    case("hole-store", 1, store),
    case("hole-fetch", 1, fetch),
    case("hole-walk", 1, walk),
    case("hole-above-ram", 1, above_ram),
    case("hole-writeback", 1, writeback),
    case("hole-wide", 1, wide),
    case("hole-over-the-end", 1, over_the_end),
    case("hole-cache", 1, cache),
    case("hole-device-fetch", 1, device_fetch),
    hanok_case("hole-hanok", 1, hanok_only),
];

/// Between the devices, behind them, and far up.
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
    unsafe { probe!("ldr {value:w}, [{at}]"; value = out(reg) _, at = in(reg) address) }
}

fn store_at(address: u64) -> Result<(), Fault> {
    // SAFETY: a store to where no memory is.
    unsafe { probe!("strb wzr, [{at}]"; at = in(reg) address) }
}

fn expect_abort(result: Result<(), Fault>, write: bool, far: u64, hole: u64) -> Outcome {
    let Err(fault) = result else {
        return Err(Failure::wrong(format_args!("{hole:#x}: no abort")));
    };
    check_eq!(fault.class(), class::DATA, "class at {hole:#x}");
    check_eq!(fault.status(), status::EXTERNAL, "status at {hole:#x}");
    check_eq!(fault.far, far, "FAR at {hole:#x}");
    check_eq!(fault.is_write(), write, "WnR at {hole:#x}");
    Ok(())
}

fn look(hole: u64) -> Outcome {
    let address = mmu::map(0, hole + 0x20, Kind::Device);
    expect_abort(load_at(address), false, address, hole)
}

fn load(_: &Machine) -> Outcome {
    HOLES.into_iter().try_for_each(look)
}

fn store(_: &Machine) -> Outcome {
    for hole in HOLES {
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
    NOT_HERE.into_iter().try_for_each(look)
}

fn fetch(_: &Machine) -> Outcome {
    for hole in HOLES {
        let address = mmu::map(0, hole, Kind::Code);
        // SAFETY: no instruction is there.
        let result = unsafe { probe!("blr {at}"; at = in(reg) address, out("x30") _) };
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

/// The level-3 table is where nothing is: an external abort on the walk, level 3.
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

/// An abort leaves the base of a pre- or post-indexed access as it was, and the target too.
fn writeback(_: &Machine) -> Outcome {
    let address = mmu::map(0, 0x0b00_0100, Kind::Device);
    let (mut base, mut value) = (address, 7_u64);
    // SAFETY: nothing is there.
    let post = unsafe {
        probe!("ldr {value}, [{at}], #8"; value = inout(reg) value, at = inout(reg) base)
    };
    expect_abort(post, false, address, address)?;
    check_eq!(
        (base, value),
        (address, 7),
        "post-indexed load: base and value"
    );
    // SAFETY: nothing is there.
    let pre = unsafe { probe!("strh wzr, [{at}, #-2]!"; at = inout(reg) base) };
    expect_abort(pre, true, address - 2, address)?;
    check_eq!(base, address, "pre-indexed store: base");
    Ok(())
}

/// Pairs, ordered, exclusive and SIMD accesses abort as plain ones do.
fn wide(_: &Machine) -> Outcome {
    let at = mmu::map(0, 0x0b00_0100, Kind::Device);
    // SAFETY: nothing is there, in each of these.
    unsafe {
        let result =
            probe!("ldp {a}, {b}, [{at}]"; a = out(reg) _, b = out(reg) _, at = in(reg) at);
        expect_abort(result, false, at, 1)?;
        expect_abort(probe!("stp xzr, xzr, [{at}]"; at = in(reg) at), true, at, 2)?;
        expect_abort(
            probe!("ldar {a:w}, [{at}]"; a = out(reg) _, at = in(reg) at),
            false,
            at,
            3,
        )?;
        expect_abort(
            probe!("ldxr {a:w}, [{at}]"; a = out(reg) _, at = in(reg) at),
            false,
            at,
            4,
        )?;
        fp::enable(true);
        let load = probe!(".arch_extension fp", "ldr q0, [{at}]"; at = in(reg) at);
        let store = probe!(".arch_extension fp", "str d0, [{at}]"; at = in(reg) at);
        fp::enable(false);
        expect_abort(load, false, at, 5)?;
        expect_abort(store, true, at, 6)
    }
}

/// A pair of which the first half is in a device and the second behind it.
fn over_the_end(_: &Machine) -> Outcome {
    let end = platform::UART.get() + platform::PRIMECELL_SIZE;
    // SAFETY: identification registers, and nothing.
    let result = unsafe {
        probe!("ldp {a}, {b}, [{at}]"; a = out(reg) _, b = out(reg) _, at = in(reg) end - 8)
    };
    let Err(fault) = result else {
        return Err(Failure::wrong(format_args!("no abort")));
    };
    check_eq!(
        (fault.class(), fault.status()),
        (class::DATA, status::EXTERNAL),
        "abort"
    );
    check!(
        fault.far == end - 8 || fault.far == end,
        "FAR {:#x}",
        fault.far
    );
    Ok(())
}

/// Maintenance by address and prefetches reach nothing, and complete.
fn cache(_: &Machine) -> Outcome {
    for physical in [0x0b00_0000, platform::UART.get(), platform::GIC_DIST.get()] {
        let address = mmu::map(0, physical, Kind::Device);
        // SAFETY: there is nothing that a cache could hold.
        let result = unsafe {
            probe!("dc civac, {at}", "dc cvac, {at}", "dc cvau, {at}", "ic ivau, {at}",
                "prfm pldl1keep, [{at}]", "dsb sy", "isb"; at = in(reg) address)
        };
        check!(result.is_ok(), "{physical:#x}: {result:?}");
    }
    Ok(())
}

/// A device holds no code: QEMU runs its registers (here a zero, which is undefined), a
/// hypervisor may refuse the fetch.
fn device_fetch(_: &Machine) -> Outcome {
    let address = mmu::map(0, platform::UART.get() + 0x100, Kind::Code);
    // SAFETY: zero is no instruction.
    let result = unsafe { probe!("blr {at}"; at = in(reg) address, out("x30") _) };
    let Err(fault) = result else {
        return Err(Failure::wrong(format_args!("no exception")));
    };
    let refused = fault.class() == class::FETCH && fault.status() == status::EXTERNAL;
    check!(refused || fault.class() == class::UNDEFINED, "{fault:?}");
    check_eq!(fault.elr, address, "ELR");
    Ok(())
}
