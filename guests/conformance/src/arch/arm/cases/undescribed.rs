//! The forms of load and store on device memory for which the CPU gives a hypervisor no syndrome
//! (HSR.ISS.ISV zero), so that the hypervisor has to decode the instruction itself: pairs, lists,
//! write-back.

use crate::arch::code::{execute, execute_thumb};
use crate::case::{Case, Failure, Outcome, case, hanok_case};
use crate::mmio::{read32, write32};
use crate::probe::{Fault, class};
use core::arch::asm;
use hanok_types::platform;

pub const CASES: &[Case] = &[
    case("undescribed-pair", 1, |_| pair(UART)),
    case("undescribed-list", 1, |_| list(UART)),
    case("undescribed-write-back", 1, |_| write_back(UART)),
    case("undescribed-thumb", 1, |_| thumb(UART)),
    case("undescribed-exclusive", 1, |_| exclusive(UART)),
];

/// The same for a PL011 of the board's that the VM has for itself, whose accesses are exits.
pub const PASS_THROUGH: &[Case] = &[
    hanok_case("pass-through-pair", 1, |_| pair(OWN)),
    hanok_case("pass-through-list", 1, |_| list(OWN)),
    hanok_case("pass-through-write-back", 1, |_| write_back(OWN)),
    hanok_case("pass-through-thumb", 1, |_| thumb(OWN)),
    hanok_case("pass-through-exclusive", 1, |_| exclusive(OWN)),
];

const UART: u32 = platform::UART.get() as u32;
const OWN: u32 = platform::PASS_THROUGH.get() as u32;
/// PCellID0 to PCellID3. Pairs are at multiples of eight: QEMU 10 refuses others on a device, which
/// the architecture aligns by words (DDI 0406C, A3.2.1).
const CELL_IDS: u32 = 0xff0;
const IDS: [u32; 4] = [0x0d, 0xf0, 0x05, 0xb1];

/// FBRD, LCR_H, CR and IFLS, which hold what is written to them, with values that they can have.
const LINE: u32 = 0x28;
const VALUES: [u32; 4] = [0x15, 0x70, 0x301, 0x12];

/// The contents of these registers, which the case restores afterwards.
fn line_after(device: u32, store: impl FnOnce()) -> [u32; 4] {
    let at = |index: u64| u64::from(device + LINE) + index * 4;
    let before = [0, 1, 2, 3].map(|index| read32(at(index)));
    store();
    let after = [0, 1, 2, 3].map(|index| read32(at(index)));
    (0..)
        .zip(before)
        .for_each(|(index, value)| write32(at(index), value));
    after
}

fn pair(device: u32) -> Outcome {
    let (low, high): (u32, u32);
    // SAFETY: a load from device registers without side effects.
    unsafe {
        asm!("ldrd r2, r3, [{at}, #8]", at = in(reg) device + CELL_IDS, out("r2") low, out("r3") high, options(nostack))
    };
    check_eq!((low, high), (IDS[2], IDS[3]), "LDRD");
    let [first, second, ..] = line_after(device, || {
        // SAFETY: a store to registers that nobody relies on.
        unsafe {
            asm!("strd r2, r3, [{at}]", at = in(reg) device + LINE, in("r2") VALUES[0], in("r3") VALUES[1], options(nostack))
        }
    });
    check_eq!((first, second), (VALUES[0], VALUES[1]), "STRD");
    Ok(())
}

fn list(device: u32) -> Outcome {
    let mut found = [0_u32; 4];
    let mut at = device + CELL_IDS;
    // SAFETY: a load from device registers without side effects.
    unsafe {
        asm!("ldm {at}!, {{r0, r1, r2, r3}}", at = inout(reg) at, out("r0") found[0],
            out("r1") found[1], out("r2") found[2], out("r3") found[3], options(nostack))
    };
    check_eq!(
        (found, at),
        (IDS, device + CELL_IDS + 16),
        "LDMIA with write-back"
    );
    // SAFETY: as above.
    unsafe {
        asm!("ldmdb {at}, {{r1, r3}}", at = in(reg) at, out("r1") found[0], out("r3") found[1], options(nostack))
    };
    check_eq!((found[0], found[1]), (IDS[2], IDS[3]), "LDMDB");
    let mut at = device + LINE - 4;
    let found = line_after(device, || {
        // SAFETY: a store to registers that nobody relies on.
        unsafe {
            asm!("stmib {at}!, {{r0, r1, r2, r3}}", at = inout(reg) at, in("r0") VALUES[0],
                in("r1") VALUES[1], in("r2") VALUES[2], in("r3") VALUES[3], options(nostack))
        }
    });
    check_eq!(
        (found, at),
        (VALUES, device + LINE + 12),
        "STMIB with write-back"
    );
    Ok(())
}

fn write_back(device: u32) -> Outcome {
    let mut at = device + CELL_IDS;
    let (first, second, third): (u32, u32, u32);
    // SAFETY: loads from device registers without side effects.
    unsafe {
        asm!("ldr {first}, [{at}], #8", "ldrb {second}, [{at}, #4]!", "ldrsh {third}, [{at}], #-12",
            at = inout(reg) at, first = out(reg) first, second = out(reg) second,
            third = out(reg) third, options(nostack))
    };
    check_eq!((first, second, third), (IDS[0], IDS[3], IDS[3]), "loads");
    check_eq!(at, device + CELL_IDS, "base after them");
    let mut at = device + LINE;
    let found = line_after(device, || {
        // SAFETY: stores to registers that nobody relies on.
        unsafe {
            asm!("str {a}, [{at}], #4", "strb {b}, [{at}], #8", "strh {c}, [{at}, #-4]!",
                at = inout(reg) at, a = in(reg) VALUES[0], b = in(reg) VALUES[1],
                c = in(reg) VALUES[2], options(nostack))
        }
    });
    check_eq!(
        (
            found[..3].iter().copied().eq(VALUES[..3].iter().copied()),
            at
        ),
        (true, device + LINE + 8),
        "stores"
    );
    Ok(())
}

fn expect(result: Result<u32, Fault>, expected: u32, what: &str) -> Outcome {
    match result {
        Ok(value) if value == expected => Ok(()),
        other => Err(Failure::wrong(format_args!("{what}: {other:x?}"))),
    }
}

/// LDM of 16 bits, LDRD and LDR with write-back of 32 bits, and one inside an IT block.
fn thumb(device: u32) -> Outcome {
    let sum = IDS[0] + IDS[1];
    let forms: [(&[u16], u32, &str); 4] = [
        // LDM R0!, {R1, R2}; ADDS R0, R1, R2.
        (&[0xc806, 0x1888], sum, "LDM"),
        // LDRD R1, R2, [R0]; ADDS R0, R1, R2.
        (&[0xe9d0, 0x1200, 0x1888], sum, "LDRD"),
        // LDR R1, [R0], #4; LDR R2, [R0]; ADDS R0, R1, R2.
        (
            &[0xf850, 0x1b04, 0x6802, 0x1888],
            sum,
            "LDR with write-back",
        ),
        // CMP R0, #0; ITT NE; LDRNE R1, [R0], #4; MOVNE R0, R1.
        (
            &[0x2800, 0xbf1c, 0xf850, 0x1b04, 0x4608],
            IDS[0],
            "in an IT block",
        ),
    ];
    for (halves, expected, what) in forms {
        // SAFETY: loads from device registers without side effects, to R0 to R2.
        let found = unsafe { execute_thumb(halves, device + CELL_IDS) };
        expect(found, expected, what)?;
    }
    Ok(())
}

/// An exclusive access, or one of VFP, succeeds or is refused by an abort (docs/differences.md).
fn exclusive(device: u32) -> Outcome {
    // LDREX R0, [R0].
    // SAFETY: a load from a device register without side effects.
    match unsafe { execute(&[0xe190_0f9f], device + CELL_IDS) } {
        Ok(value) if value == IDS[0] => Ok(()),
        Err(fault) if fault.class() == class::DATA => Ok(()),
        other => Err(Failure::wrong(format_args!("LDREX: {other:x?}"))),
    }
}
