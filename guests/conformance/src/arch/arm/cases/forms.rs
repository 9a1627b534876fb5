//! The forms of load and store on device memory whose syndrome the CPU gives to a hypervisor (DDI
//! 0406C, B3.13.6: HSR.ISS.ISV), in A32 and in T32, with conditions that hold and that do not.

use crate::arch::code::{execute, execute_thumb};
use crate::case::{Case, Failure, Outcome, case};
use crate::gic;
use crate::machine::Machine;
use crate::mmio::{read32, write32};
use crate::probe::Fault;
use core::arch::asm;
use hanok_types::platform;

pub const CASES: &[Case] = &[
    case("form-load-widths", 1, load_widths),
    case("form-load-signed", 1, load_signed),
    case("form-load-offset", 1, load_offset),
    case("form-load-thumb", 1, load_thumb),
    case("form-store-widths", 1, store_widths),
    case("form-condition", 1, condition),
    case("form-stack-pointer", 1, stack_pointer),
];

const UART: u64 = platform::UART.get();
/// PCellID3, 0xb1: a byte with its sign bit set.
const CELL_ID_3: u64 = UART + 0xffc;
/// PCellID1, 0xf0, with PCellID2, 0x05, after it.
const CELL_ID_1: u64 = UART + 0xff4;
/// Priorities of SPIs that no device has: plain bytes that read back.
const PRIORITIES: u64 = gic::DIST + gic::IPRIORITYR + 224;

/// One load of `$address`; returns the register that was loaded.
macro_rules! load {
    ($code:literal, $address:expr) => {{
        let value: u32;
        // SAFETY: a load from a device register without side effects.
        unsafe { asm!($code, value = out(reg) value, at = in(reg) $address as u32, options(nostack)) };
        value
    }};
}

/// One store of `$value`.
macro_rules! store {
    ($code:literal, $address:expr, $value:expr) => {{
        let value: u32 = $value;
        // SAFETY: a store to registers that no other case relies on.
        unsafe { asm!($code, value = in(reg) value, at = in(reg) $address as u32, options(nostack)) };
    }};
}

fn load_widths(_: &Machine) -> Outcome {
    check_eq!(load!("ldrb {value}, [{at}]", CELL_ID_3), 0xb1, "LDRB");
    check_eq!(load!("ldrh {value}, [{at}]", CELL_ID_3), 0xb1, "LDRH");
    check_eq!(load!("ldr {value}, [{at}]", CELL_ID_3), 0xb1, "LDR");
    check_eq!(
        load!("ldr {value}, [{at}, #8]", CELL_ID_1),
        0xb1,
        "with an offset"
    );
    check_eq!(
        load!("ldr {value}, [{at}, #-4]", CELL_ID_3),
        0x05,
        "backwards"
    );
    Ok(())
}

fn load_signed(_: &Machine) -> Outcome {
    check_eq!(
        load!("ldrsb {value}, [{at}]", CELL_ID_3),
        0xffff_ffb1,
        "LDRSB"
    );
    check_eq!(load!("ldrsh {value}, [{at}]", CELL_ID_3), 0xb1, "LDRSH");
    // FBRD holds six bits, LCR_H a byte: no register of the platform surely has bit 15.
    check_eq!(
        load!("ldrsb {value}, [{at}, #4]", CELL_ID_1),
        0x05,
        "LDRSB, positive"
    );
    Ok(())
}

/// The offset is in a register, shifted; the loaded register is the offset or the base too.
fn load_offset(_: &Machine) -> Outcome {
    let (mut index, mut base) = (2_u32, CELL_ID_1 as u32);
    // SAFETY: loads from device registers without side effects.
    unsafe {
        asm!("ldr {i}, [{at}, {i}, lsl #2]", i = inout(reg) index, at = in(reg) base, options(nostack));
        asm!("ldrb {at}, [{at}, #8]", at = inout(reg) base, options(nostack));
    }
    check_eq!((index, base), (0xb1, 0xb1), "the offset, and the base");
    Ok(())
}

/// The same in T32, of 16 and of 32 bits: LDR, LDRB, LDRH, LDRSB.W, LDR.W of R0.
fn load_thumb(_: &Machine) -> Outcome {
    let forms: [(&[u16], u64, u32); 7] = [
        (&[0x6800], CELL_ID_3, 0xb1),
        (&[0x6840], CELL_ID_3 - 4, 0xb1),
        (&[0x7800], CELL_ID_3, 0xb1),
        (&[0x8800], CELL_ID_3, 0xb1),
        (&[0xf990, 0x0000], CELL_ID_3, 0xffff_ffb1),
        (&[0xf8d0, 0x0008], CELL_ID_1, 0xb1),
        (&[0xf850, 0x0c04], CELL_ID_3, 0x05),
    ];
    for (halves, address, expected) in forms {
        // SAFETY: a load from a device register without side effects, to R0.
        let found = unsafe { execute_thumb(halves, address as u32) };
        expect(found, expected, halves)?;
    }
    Ok(())
}

fn expect(result: Result<u32, Fault>, expected: u32, what: &[u16]) -> Outcome {
    match result {
        Ok(value) if value == expected => Ok(()),
        other => Err(Failure::wrong(format_args!("{what:x?}: {other:x?}"))),
    }
}

fn store_widths(_: &Machine) -> Outcome {
    store!("str {value}, [{at}]", PRIORITIES, 0x1020_3040);
    check_eq!(read32(PRIORITIES), 0x1020_3040, "STR");
    store!("strb {value}, [{at}, #3]", PRIORITIES, 0xffff_ff90);
    check_eq!(read32(PRIORITIES), 0x9020_3040, "STRB");
    // The serial port takes any width.
    let before = read32(UART + 0x28);
    store!("strh {value}, [{at}]", UART + 0x28, 0xffff_0015);
    check_eq!(read32(UART + 0x28), 0x15, "STRH");
    write32(UART + 0x28, before);
    Ok(())
}

/// An access whose condition does not hold is not made, at an address where the access would abort:
/// LDREQ and LDRNE of R0 by R0, in A32 and in an IT block.
fn condition(_: &Machine) -> Outcome {
    let at = CELL_ID_3 as u32;
    // CMP R0, #0; LDREQ R0, [R0]; LDRNE R0, [R0].
    // SAFETY: loads from device registers without side effects.
    let found = unsafe { execute(&[0xe350_0000, 0x0590_0000, 0x1590_0000], at) };
    check!(matches!(found, Ok(0xb1)), "A32: {found:x?}");
    // CMP R0, #0; ITTE NE: MOV R1, R0; LDR R0, [R1]; MOV R0, #1.
    let halves = [0x2800, 0xbf1a, 0x4601, 0x6808, 0x2001];
    for (base, expected) in [(at, 0xb1), (0, 1)] {
        // SAFETY: as above.
        let found = unsafe { execute_thumb(&halves, base) };
        expect(found, expected, &halves)?;
    }
    Ok(())
}

/// SP and LR work as other registers do: loaded from a device, and as the base of a load.
fn stack_pointer(_: &Machine) -> Outcome {
    let at = CELL_ID_3 as u32;
    let (mut by_stack, mut link): (u32, u32);
    // SAFETY: interrupts are masked while the stack pointer is elsewhere, and a load from this
    // register takes no exception of the guest's.
    unsafe {
        asm!(
            "mov {keep}, sp",
            "mov sp, {at}",
            "ldr {value}, [sp]",
            "ldr sp, [{at}]",
            "mov {loaded}, sp",
            "mov sp, {keep}",
            "ldr lr, [{at}]",
            keep = out(reg) _, at = in(reg) at, value = out(reg) by_stack, loaded = out(reg) link,
            out("lr") _, options(nostack)
        );
    }
    check_eq!((by_stack, link), (0xb1, 0xb1), "by SP, and to SP");
    // SAFETY: a load from a device register without side effects.
    unsafe {
        asm!("ldr lr, [{at}]", "mov {0}, lr", lateout(reg) link, at = in(reg) at, out("lr") _, options(nostack))
    };
    by_stack = link;
    check_eq!(by_stack, 0xb1, "to LR");
    Ok(())
}
