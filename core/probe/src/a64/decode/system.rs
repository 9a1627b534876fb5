//! System instructions (DDI 0487 C5).

use super::{Found, Meaning, bit, field, same};
use crate::Refused;
use hanok_decode::SysReg;

/// "System instructions", "System register move" and their neighbours.
pub(super) fn decode(word: u32, guarded: bool) -> Found {
    if field(word, 22, 2) != 0 {
        return Err(Refused::Unknown);
    }
    match (field(word, 19, 2), bit(word, 21)) {
        (0, false) => without_register(word, guarded),
        (0, true) => Err(Refused::Unknown),
        (1, _) | (_, true) => Ok(Meaning::Same),
        (_, false) if changes_translation(register(word)) => Err(Refused::ChangesTranslation),
        _ => Ok(Meaning::Same),
    }
}

fn register(word: u32) -> SysReg {
    SysReg::from_bits((word >> 5) as u16)
}

/// SCTLR, TTBR0, TTBR1 and TCR of any exception level, HCR_EL2, VTTBR_EL2 and VTCR_EL2.
fn changes_translation(register: SysReg) -> bool {
    let hypervisor = register.op1() == 4;
    register.op0() == 3
        && match (register.crn(), register.crm(), register.op2()) {
            (1, 0, 0) | (2, 0, 0..=2) => true,
            (1, 1, 0) | (2, 1, 0..=2) => hypervisor,
            _ => false,
        }
}

/// Hints, barriers, and MSR of a constant.
fn without_register(word: u32, guarded: bool) -> Found {
    let (op1, crm, op2) = (field(word, 16, 3), field(word, 8, 4), field(word, 5, 3));
    let none = field(word, 0, 5) == 31;
    match (op1, field(word, 12, 4)) {
        (3, 1) => same(crm == 0 && op2 <= 1), // WFET, WFIT
        (3, 2) if none => hint(crm << 3 | op2, guarded),
        (3, 3) if none => same(is_barrier(crm, op2)),
        (0, 4) if none => same(op2 <= 5),
        (1, 4) if none => same(op2 == 0),
        (3, 4) if none => same(matches!(op2, 1 | 2 | 4 | 6 | 7)),
        _ => Err(Refused::Unknown),
    }
}

/// CLREX, DSB, DMB, ISB, SB, and DSB with nXS.
const fn is_barrier(crm: u32, op2: u32) -> bool {
    match op2 {
        1 => crm & 3 == 2,
        2 | 4 | 5 | 6 => true,
        7 => crm == 0,
        _ => false,
    }
}

/// A hint by its number. PACIASP (25), PACIBSP (27) and BTI (32, 34, 36, 38) are landing pads. PACM
/// (39) makes the next PACIASP use its own address.
fn hint(number: u32, guarded: bool) -> Found {
    match number {
        25 | 27 | 32 | 34 | 36 | 38 if guarded => Err(Refused::LandingPad),
        39 => Err(Refused::Unknown),
        _ => Ok(Meaning::Same),
    }
}
