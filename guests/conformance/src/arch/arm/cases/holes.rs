//! Unmapped addresses, accessed by the less simple forms of loads and stores and by cache
//! maintenance.

use crate::arch::{access, fp};
use crate::case::{Case, Failure, Outcome, case};
use crate::cases::holes::expect_abort;
use crate::machine::Machine;
use crate::mmu::{self, Kind};
use crate::probe::{class, status};
use hanok_types::platform;

pub const CASES: &[Case] = &[
    case("hole-writeback", 1, writeback),
    case("hole-wide", 1, wide),
    case("hole-multiple", 1, multiple),
    case("hole-over-the-end", 1, over_the_end),
    case("hole-cache", 1, cache),
];

/// An abort leaves the base of a pre- or post-indexed access and the target register unchanged.
fn writeback(_: &Machine) -> Outcome {
    let address = mmu::map(0, 0x0b00_0100, Kind::Device);
    let (mut base, mut value) = (address as u32, 7_u32);
    // SAFETY: nothing is there.
    let post = unsafe {
        probe!("ldr {value}, [{at}], #8"; value = inout(reg) value, at = inout(reg) base)
    };
    expect_abort(post, false, address, address)?;
    check_eq!(
        (u64::from(base), value),
        (address, 7),
        "post-indexed load: base and value"
    );
    // SAFETY: nothing is there.
    let pre =
        unsafe { probe!("strh {zero}, [{at}, #-2]!"; zero = in(reg) 0, at = inout(reg) base) };
    expect_abort(pre, true, address - 2, address)?;
    check_eq!(u64::from(base), address, "pre-indexed store: base");
    Ok(())
}

/// Pairs, exclusive and SIMD accesses abort as plain accesses do.
fn wide(_: &Machine) -> Outcome {
    let at = mmu::map(0, 0x0b00_0100, Kind::Device);
    // SAFETY: nothing is there, in each of these.
    unsafe {
        expect_abort(access::load(at, 8).map(drop), false, at, 1)?;
        expect_abort(access::store(at, 8, 0), true, at, 2)?;
        let at_32 = at as u32;
        let result = probe!("ldrex {a}, [{at}]"; a = out(reg) _, at = in(reg) at_32);
        expect_abort(result, false, at, 3)?;
        fp::enable(true);
        // VLDR D0, [R0] and VSTR S0, [R0].
        let load = probe!(".inst 0xed900b00"; in("r0") at_32);
        let store = probe!(".inst 0xed800a00"; in("r0") at_32);
        fp::enable(false);
        expect_abort(load, false, at, 4)?;
        expect_abort(store, true, at, 5)
    }
}

/// LDM and STM: the base stays, written back or not (DDI 0406C, B1.9.8: the base restored abort
/// model).
fn multiple(_: &Machine) -> Outcome {
    let at = mmu::map(0, 0x0b00_0100, Kind::Device);
    let mut base = at as u32;
    // SAFETY: nothing is there.
    unsafe {
        let load = probe!("ldm {at}!, {{r0, r1}}"; at = inout(reg) base, out("r0") _, out("r1") _);
        expect_abort(load, false, at, 1)?;
        check_eq!(u64::from(base), at, "base after LDM");
        let store = probe!("stm {at}!, {{r0, r1}}"; at = inout(reg) base, in("r0") 0, in("r1") 0);
        expect_abort(store, true, at, 2)?;
        check_eq!(u64::from(base), at, "base after STM");
    }
    Ok(())
}

/// A pair whose first half is in a device and whose second half is behind the device.
fn over_the_end(_: &Machine) -> Outcome {
    let end = platform::UART.get() + platform::PRIMECELL_SIZE;
    // SAFETY: an identification register, and nothing.
    let Err(fault) = (unsafe { access::load(end - 4, 8) }) else {
        return Err(Failure::wrong(format_args!("no abort")));
    };
    // A pair whose address is not a multiple of its size may be misaligned for a device.
    check_eq!(fault.class(), class::DATA, "class");
    check!(
        matches!(fault.status(), status::EXTERNAL | status::ALIGNMENT),
        "{fault:?}"
    );
    check!(
        fault.far == end - 4 || fault.far == end,
        "DFAR {:#x}",
        fault.far
    );
    Ok(())
}

/// Maintenance by address and prefetches of an unmapped address complete without an exception.
fn cache(_: &Machine) -> Outcome {
    for physical in [0x0b00_0000, platform::UART.get(), platform::GIC_DIST.get()] {
        let address = mmu::map(0, physical, Kind::Device) as u32;
        // SAFETY: there is nothing that a cache could hold. DCCIMVAC, DCCMVAC, DCCMVAU, ICIMVAU,
        // BPIMVA.
        let result = unsafe {
            probe!("mcr p15, 0, {at}, c7, c14, 1", "mcr p15, 0, {at}, c7, c10, 1",
                "mcr p15, 0, {at}, c7, c11, 1", "mcr p15, 0, {at}, c7, c5, 1",
                "mcr p15, 0, {at}, c7, c5, 7", "pld [{at}]", "dsb", "isb"; at = in(reg) address)
        };
        check!(result.is_ok(), "{physical:#x}: {result:?}");
    }
    Ok(())
}
