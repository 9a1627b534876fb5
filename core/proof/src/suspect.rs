//! Which words cannot be sensitive, by a few of their bits.
//!
//! A frame has 3,072 places, and nearly none of them is an instruction that User mode would execute
//! differently. The decoder is asked only about the suspects that are left. A suspect need not be
//! sensitive; what is no suspect never is, which tests hold against the decoder.

use hanok_decode::aarch32::Encoding;

/// Whether an instruction may be one that must be rewritten, at whatever place of an IT block.
pub(crate) const fn any(encoding: Encoding) -> bool {
    match encoding {
        Encoding::A32(word) => a32(word),
        Encoding::Narrow(half) => narrow(half),
        Encoding::Wide(both) => wide((both >> 16) as u16, both as u16),
    }
}

/// Whether it is known at once that neither the A32 word nor a T32 instruction that begins in it may be sensitive, whatever is behind it.
/// Most words of a kernel in A32 are such.
pub(crate) const fn is_none(word: u32) -> bool {
    let (low, high) = (word as u16, (word >> 16) as u16);
    // Of those with two halfwords only 0b11101_01, data processing, where A32 has branches.
    let is_short = low < FIRST_WIDE && (high < FIRST_WIDE || high >> 9 == 0b111_0101);
    is_short
        && !narrow(low)
        && !narrow(high)
        && match word >> 25 & 0b111 {
            // Miscellaneous instructions and MSR, with more.
            0b000 => !to_pc(word) && word & 0x0190_0000 != 0x0100_0000 && !is_extra(word),
            0b001 => !to_pc(word) && word & 0x0190_0000 != 0x0100_0000,
            0b010 | 0b011 => word & 0x0120_0000 != 0x0020_0000,
            0b101 => true,
            _ => false,
        }
}

/// The first halfword of an instruction of two is at least this (A6.1).
const FIRST_WIDE: u16 = 0xe800;

/// Whether an A32 word may be sensitive (DDI 0406C, A5.1).
pub(crate) const fn a32(word: u32) -> bool {
    let kind = word >> 25 & 0b111;
    // Branches, and BLX in the unconditional space.
    if kind == 0b101 {
        return false;
    }
    if word >> 28 == 0b1111 {
        return true;
    }
    match kind {
        0b000 => to_pc(word) || is_status(word) || is_extra(word),
        // MSR and hints.
        0b001 => to_pc(word) || word & 0x01b0_0000 == 0x0120_0000,
        // P clear and W set: LDRT and the like.
        0b010 | 0b011 => word & 0x0120_0000 == 0x0020_0000,
        // The caret.
        0b100 => word & 1 << 22 != 0,
        _ => coprocessor(word),
    }
}

/// Data processing that sets flags and may have the PC as destination.
const fn to_pc(word: u32) -> bool {
    word & 0x0010_f000 == 0x0010_f000
}

/// "Miscellaneous instructions" (A5.2.12).
const fn is_status(word: u32) -> bool {
    word & 0x0190_0080 == 0x0100_0000
}

/// "Extra load/store instructions, unprivileged" (A5.2.9).
const fn is_extra(word: u32) -> bool {
    word & 0x0120_0090 == 0x0020_0090
}

/// The lower 28 bits of a coprocessor instruction, which are the same in both instruction sets: all
/// but SVC and Advanced SIMD's data processing, and of coprocessors 10 and 11 only MRC and MCR.
const fn coprocessor(bits: u32) -> bool {
    let kind = bits >> 24 & 0xf;
    let extension = bits & 0x0e00 == 0x0a00;
    kind != 0b1111 && (!extension || kind == 0b1110 && bits & 0x10 != 0)
}

/// Whether a T32 instruction of one halfword may be sensitive: SETEND, CPS, WFI (A6.2.5).
pub(crate) const fn narrow(half: u16) -> bool {
    half & 0xffc0 == 0xb640 || half == 0xbf30
}

/// Whether a T32 instruction of two halfwords may be sensitive (A6.3).
pub(crate) const fn wide(first: u16, second: u16) -> bool {
    match first >> 9 {
        // RFE and SRS: U and P are the same.
        0b111_0100 => matches!(first & 0x1c0, 0 | 0x180),
        // LDRT and the like, and PLDW.
        0b111_1100 => second & 0x0f00 == 0x0e00 || second >> 12 == 0xf,
        // "Branches and miscellaneous control", without branches.
        0b111_1000..=0b111_1011 => first & 0x380 == 0x380 && second & 0xd000 == 0x8000,
        0b111_0110 | 0b111_0111 | 0b111_1110 | 0b111_1111 => {
            coprocessor((first as u32) << 16 | second as u32)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
