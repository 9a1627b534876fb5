//! Coprocessor, VFP and system register instructions, which have the same bits in A32, under a
//! condition, and in T32 (DDI 0406C A5.6, A6.3.18). Of the coprocessors only 10 and 11 (VFP and
//! Advanced SIMD), 14 and 15 are known.

use super::rows::{D, N, has_pc};
use super::{Found, Meaning, bit, field, same};
use crate::Refused;

/// What a word does whose bits 27 to 24 are 0b1100, 0b1101 or 0b1110.
pub(super) fn decode(word: u32) -> Found {
    let (number, vector) = (field(word, 8, 4), field(word, 9, 3) == 0b101);
    if !vector && number < 14 {
        return Err(Refused::Unknown);
    }
    match field(word, 24, 4) {
        0b1110 if !bit(word, 4) => same(vector),
        0b1110 => one_register(word, vector),
        _ if word & 0x0fe0_0000 == 0x0c40_0000 => pair(word, vector),
        _ if vector => vector_transfer(word),
        _ => Err(Refused::Unknown),
    }
}

/// MRC and MCR, VMOV and VMRS. As destination, the PC stands for the flags.
fn one_register(word: u32, vector: bool) -> Found {
    let to_pc = has_pc(word, D);
    let read = bit(word, 20);
    let flags = word & 0x0fff_ffff == 0x0ef1_fa10;
    match (vector, read) {
        (true, _) => same(!to_pc || flags),
        (false, true) => Ok(Meaning::Same),
        (false, false) if to_pc => Err(Refused::Unknown),
        (false, false) if changes_translation(word) => Err(Refused::ChangesTranslation),
        (false, false) => Ok(Meaning::Same),
    }
}

/// SCTLR, TTBR0, TTBR1, TTBCR, DACR, FCSEIDR and CONTEXTIDR, and HSCTLR, HCR, HTCR and VTCR (DDI
/// 0406C B3.17).
const fn changes_translation(word: u32) -> bool {
    let (crn, crm) = (field(word, 16, 4), field(word, 0, 4));
    let (opc1, opc2) = (field(word, 21, 3), field(word, 5, 3));
    field(word, 8, 4) == 15
        && match (crn, crm) {
            (1, 0) => opc2 == 0,
            (1, 1) => opc1 == 4,
            (2, 0 | 1) => true,
            (3, 0) => true,
            (13, 0) => opc1 == 0 && opc2 < 2,
            _ => false,
        }
}

/// MRRC, MCRR, and VMOV of two registers. MCRR to c2 writes TTBR0, TTBR1, HTTBR or VTTBR.
fn pair(word: u32, vector: bool) -> Found {
    let tables = !vector && field(word, 8, 4) == 15 && field(word, 0, 4) == 2;
    match (has_pc(word, D | N), bit(word, 20)) {
        (true, _) => Err(Refused::Unknown),
        (false, false) if tables => Err(Refused::ChangesTranslation),
        _ => same(!vector || word & 0xd0 == 0x10),
    }
}

/// VLDR and VSTR, VLDM and VSTM. The base may be the PC only where it is not written.
fn vector_transfer(word: u32) -> Found {
    let (before, up, write_back) = (bit(word, 24), bit(word, 23), bit(word, 21));
    let single = before && !write_back;
    if single && has_pc(word, N) {
        return Err(Refused::VectorLiteral);
    }
    same(single || before != up && !has_pc(word, N))
}
