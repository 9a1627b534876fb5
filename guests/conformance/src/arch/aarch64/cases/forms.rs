//! Every form of load and store on device memory. The stage-2 abort of most forms carries no
//! syndrome (DDI 0487, ISS encoding for an exception from a Data Abort, ISV), so a hypervisor has
//! to decode the instruction itself; the guest must see no difference.

use crate::arch::fp;
use crate::case::{Case, Failure, Outcome, case};
use crate::gic;
use crate::machine::Machine;
use crate::mmio::{read32, write32};
use crate::probe::class;
use core::arch::asm;
use hanok_types::platform;

pub const CASES: &[Case] = &[
    case("form-load-widths", 1, load_widths),
    case("form-load-signed", 1, load_signed),
    case("form-load-indexed", 1, load_indexed),
    case("form-load-pair", 1, load_pair),
    case("form-load-ordered", 1, load_ordered),
    case("form-store-widths", 1, store_widths),
    case("form-store-indexed", 1, store_indexed),
    case("form-store-pair", 1, store_pair),
    case("form-zero-register", 1, zero_register),
    case("form-simd", 1, simd),
];

const UART: u64 = platform::UART.get();
/// PCellID3, 0xb1: a byte with its sign bit set.
const CELL_ID_3: u64 = UART + 0xffc;
/// PCellID1, 0xf0, with PCellID2, 0x05, after it.
const CELL_ID_1: u64 = UART + 0xff4;
const RTC: u64 = platform::RTC.get();
/// Priorities of SPIs that no device has: plain bytes that read back.
const PRIORITIES: u64 = gic::DIST + gic::IPRIORITYR + 224;

/// FBRD, LCR_H, CR and IFLS: 16 bytes that hold what they are given, with values that they
/// may have. Not of the interrupt controller: a GICv2 takes words alone (IHI 0048B, 4.1.4).
const LINE: u64 = UART + 0x28;
/// The first two registers as 64 bits: LCR_H with words of 8 bits and FIFOs, and a fractional
/// divisor, which has no effect here.
const LINE_LOW: u64 = 0x15 | 0x70 << 32;
/// The other two registers: the port enabled, and the middle watermark.
const LINE_HIGH: u64 = 0x301 | 0x12 << 32;

/// One load of `$address`; returns the register that was loaded.
macro_rules! load {
    ($code:literal, $address:expr) => {{
        let value: u64;
        // SAFETY: a load from a device register without side effects.
        unsafe { asm!($code, value = out(reg) value, at = in(reg) $address, options(nostack)) };
        value
    }};
}

/// One load that also changes its base; returns the value and the base.
macro_rules! load_moving {
    ($code:literal, $address:expr) => {{
        let (value, mut at): (u64, u64) = (0, $address);
        let mut loaded = value;
        // SAFETY: as for the plain load.
        unsafe { asm!($code, value = inout(reg) loaded, at = inout(reg) at, options(nostack)) };
        (loaded, at)
    }};
}

/// One store of `$value`, which may change its base; returns the base.
macro_rules! store {
    ($code:literal, $address:expr, $value:expr) => {{
        let mut at: u64 = $address;
        // SAFETY: a store to registers that no other case relies on.
        unsafe { asm!($code, value = in(reg) $value, at = inout(reg) at, options(nostack)) };
        at
    }};
}

fn load_widths(_: &Machine) -> Outcome {
    check_eq!(load!("ldrb {value:w}, [{at}]", CELL_ID_3), 0xb1, "LDRB");
    check_eq!(load!("ldrh {value:w}, [{at}]", CELL_ID_3), 0xb1, "LDRH");
    check_eq!(load!("ldr {value:w}, [{at}]", CELL_ID_3), 0xb1, "LDR W");
    check_eq!(
        load!("ldur {value:w}, [{at}, #-4]", CELL_ID_3),
        0x05,
        "LDUR"
    );
    check_eq!(
        load!("ldr {value:w}, [{at}, #8]", CELL_ID_1),
        0xb1,
        "LDR with an offset"
    );
    // Two registers of 32 bits, the lower one first.
    check_eq!(
        load!("ldr {value}, [{at}]", CELL_ID_3 - 4),
        0x05 | 0xb1 << 32,
        "LDR X"
    );
    Ok(())
}

fn load_signed(_: &Machine) -> Outcome {
    check_eq!(
        load!("ldrsb {value:w}, [{at}]", CELL_ID_3),
        0xffff_ffb1,
        "LDRSB W"
    );
    check_eq!(
        load!("ldrsb {value}, [{at}]", CELL_ID_3),
        0xffff_ffff_ffff_ffb1,
        "LDRSB X"
    );
    check_eq!(load!("ldrsh {value:w}, [{at}]", CELL_ID_3), 0xb1, "LDRSH W");
    check_eq!(load!("ldrsh {value}, [{at}]", CELL_ID_3), 0xb1, "LDRSH X");
    write32(PRIORITIES, 0x8040_c0f0);
    check_eq!(
        load!("ldrsw {value}, [{at}]", PRIORITIES),
        0xffff_ffff_8040_c0f0,
        "LDRSW"
    );
    Ok(())
}

fn load_indexed(_: &Machine) -> Outcome {
    let post = load_moving!("ldr {value:w}, [{at}], #4", CELL_ID_1);
    check_eq!(post, (0xf0, CELL_ID_1 + 4), "post-index");
    let pre = load_moving!("ldr {value:w}, [{at}, #8]!", CELL_ID_1);
    check_eq!(pre, (0xb1, CELL_ID_1 + 8), "pre-index");
    let back = load_moving!("ldrsb {value}, [{at}], #-4", CELL_ID_3);
    check_eq!(
        back,
        (0xffff_ffff_ffff_ffb1, CELL_ID_3 - 4),
        "post-index, back and signed"
    );
    let byte = load_moving!("ldrb {value:w}, [{at}, #-8]!", CELL_ID_3);
    check_eq!(byte, (0xf0, CELL_ID_3 - 8), "pre-index of a byte");
    // The offset is in a register, extended and shifted; the loaded register is the offset register
    // too.
    let mut index = u64::MAX << 32 | 2;
    // SAFETY: a load from a device register without side effects.
    unsafe {
        asm!("ldr {i:w}, [{at}, {i:w}, uxtw #2]", i = inout(reg) index, at = in(reg) CELL_ID_1)
    };
    check_eq!(index, 0xb1, "register offset");
    Ok(())
}

fn load_pair(_: &Machine) -> Outcome {
    let (low, high): (u64, u64);
    // SAFETY: as above.
    unsafe {
        asm!("ldp {low:w}, {high:w}, [{at}]", low = out(reg) low, high = out(reg) high, at = in(reg) CELL_ID_1)
    };
    check_eq!((low, high), (0xf0, 0x05), "LDP W");
    let (low, high): (u64, u64);
    let mut at = CELL_ID_1 - 4;
    // SAFETY: as above.
    unsafe {
        asm!("ldp {low}, {high}, [{at}], #16", low = out(reg) low, high = out(reg) high, at = inout(reg) at)
    };
    check_eq!(
        (low, high, at),
        (0x0d | 0xf0 << 32, 0x05 | 0xb1 << 32, CELL_ID_1 + 12),
        "LDP X, post-index"
    );
    // An alarm in 2038 or later, masked; the time is positive until then.
    let (low, high): (u64, u64);
    write32(RTC + 4, 0x8040_c0f0);
    // SAFETY: as above.
    unsafe {
        asm!("ldpsw {low}, {high}, [{at}]", low = out(reg) low, high = out(reg) high, at = in(reg) RTC)
    };
    check_eq!(high, 0xffff_ffff_8040_c0f0, "LDPSW, second");
    check!(u64::from(read32(RTC)) - low < 2, "LDPSW, first: {low:#x}");
    Ok(())
}

fn load_ordered(_: &Machine) -> Outcome {
    check_eq!(load!("ldar {value:w}, [{at}]", CELL_ID_3), 0xb1, "LDAR");
    check_eq!(load!("ldarb {value:w}, [{at}]", CELL_ID_3), 0xb1, "LDARB");
    store!("stlr {value:w}, [{at}]", PRIORITIES, 0x5060_7080_u64);
    check_eq!(read32(PRIORITIES), 0x5060_7080, "STLR");
    Ok(())
}

fn store_widths(_: &Machine) -> Outcome {
    write32(PRIORITIES, 0);
    store!("strb {value:w}, [{at}, #1]", PRIORITIES, 0xffff_ff80_u64);
    check_eq!(read32(PRIORITIES), 0x8000, "STRB");
    store!(
        "str {value:w}, [{at}]",
        PRIORITIES,
        0xffff_ffff_1020_3040_u64
    );
    check_eq!(read32(PRIORITIES), 0x1020_3040, "STR W");
    store!("sturb {value:w}, [{at}, #-1]", PRIORITIES + 4, 0x90_u64);
    check_eq!(read32(PRIORITIES), 0x9020_3040, "STURB");
    // The serial port takes any width; 64 bits are two registers.
    let before = read32(UART + 0x28);
    store!("strh {value:w}, [{at}]", UART + 0x28, 0xffff_0015_u64);
    check_eq!(read32(UART + 0x28), 0x15, "STRH");
    store!("str {value}, [{at}]", LINE, LINE_LOW + 1);
    check_eq!(load!("ldr {value}, [{at}]", LINE), LINE_LOW + 1, "STR X");
    write32(UART + 0x28, before);
    Ok(())
}

fn store_indexed(_: &Machine) -> Outcome {
    let at = store!("strb {value:w}, [{at}], #1", PRIORITIES, 0x10_u64);
    let at = store!("strb {value:w}, [{at}], #1", at, 0x20_u64);
    let at = store!("strb {value:w}, [{at}, #1]!", at, 0x30_u64);
    check_eq!(at, PRIORITIES + 3, "base");
    check_eq!(read32(PRIORITIES) & 0xff00_ffff, 0x3000_2010, "bytes");
    let at = store!(
        "str {value:w}, [{at}, #-4]!",
        PRIORITIES + 8,
        0x4050_6070_u64
    );
    check_eq!(
        (at, read32(PRIORITIES + 4)),
        (PRIORITIES + 4, 0x4050_6070),
        "pre-index, back"
    );
    Ok(())
}

fn store_pair(_: &Machine) -> Outcome {
    // Both as 64 bits aligned, and not.
    for base in [UART + 0x20, UART + 0x24] {
        let before = (read32(base), read32(base + 4));
        let mut at = base - 8;
        // SAFETY: a store to registers that nobody relies on.
        unsafe {
            asm!("stp {low:w}, {high:w}, [{at}, #8]!", low = in(reg) 0x21, high = in(reg) 0x32, at = inout(reg) at)
        };
        let after = (read32(base), read32(base + 4));
        write32(base, before.0);
        write32(base + 4, before.1);
        check_eq!((at, after), (base, (0x21, 0x32)), "STP W");
    }
    // SAFETY: as above.
    unsafe {
        asm!("stp {low}, {high}, [{at}]", low = in(reg) LINE_LOW, high = in(reg) LINE_HIGH, at = in(reg) LINE)
    };
    check_eq!(load!("ldr {value}, [{at}]", LINE), LINE_LOW, "STP X, low");
    check_eq!(
        load!("ldr {value}, [{at}]", LINE + 8),
        LINE_HIGH,
        "STP X, high"
    );
    Ok(())
}

/// Register 31 is zero as a source, and nothing as a target.
fn zero_register(_: &Machine) -> Outcome {
    write32(PRIORITIES, 0x1020_3040);
    // SAFETY: as above.
    unsafe { asm!("ldr wzr, [{at}]", "strb wzr, [{at}, #1]", at = in(reg) PRIORITIES) };
    check_eq!(read32(PRIORITIES), 0x1020_0040, "STRB WZR");
    // SAFETY: as above.
    unsafe { asm!("str wzr, [{at}], #4", at = inout(reg) PRIORITIES => _) };
    check_eq!(read32(PRIORITIES), 0, "STR WZR, post-index");
    Ok(())
}

/// A hypervisor may refuse to decode a SIMD access to a device by an external abort; it must not do
/// anything else.
fn simd(_: &Machine) -> Outcome {
    fp::enable(true);
    write32(PRIORITIES, 0x1020_3040);
    let low = 0x5060_7080;
    let mut state = fp::State::ZERO;
    state.q[0] = [low.into(), 0];
    state.load();
    // SAFETY: a store to registers that no other case relies on, or an abort.
    let stored = unsafe { probe!(".arch_extension fp", "str s0, [{at}]"; at = in(reg) PRIORITIES) };
    fp::enable(false);
    let got = read32(PRIORITIES);
    match stored {
        Ok(()) if got == low => Ok(()),
        Err(fault) if fault.class() == class::DATA && got == 0x1020_3040 => Ok(()),
        other => Err(Failure::wrong(format_args!("{other:?}, {got:#x}"))),
    }
}
