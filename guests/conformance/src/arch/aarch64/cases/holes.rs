//! Unmapped addresses, accessed by the less simple forms of loads and stores and by cache
//! maintenance.

use crate::arch::fp;
use crate::case::{Case, Failure, Outcome, case};
use crate::cases::holes::expect_abort;
use crate::machine::Machine;
use crate::mmu::{self, Kind};
use crate::probe::{class, status};
use hanok_types::platform;

pub const CASES: &[Case] = &[
    case("hole-writeback", 1, writeback),
    case("hole-wide", 1, wide),
    case("hole-over-the-end", 1, over_the_end),
    case("hole-cache", 1, cache),
];

/// An abort leaves the base of a pre- or post-indexed access and the target register unchanged.
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

/// Pairs, ordered, exclusive and SIMD accesses abort as plain accesses do.
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

/// A pair whose first half is in a device and whose second half is behind the device.
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

/// Maintenance by address and prefetches of an unmapped address complete without an exception.
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
