//! "Advanced SIMD load/store structures". They are recognised so that a guest that uses one on a
//! device is told apart from a guest that executes an unallocated word.

use crate::loadstore::Structures;
use bitfield_struct::bitfield;

#[bitfield(u32)]
struct Word {
    #[bits(5)]
    rt: u8,
    #[bits(5)]
    rn: u8,
    #[bits(2)]
    size: u8,
    #[bits(4)]
    opcode: u8,
    #[bits(5)]
    rm: u8,
    r: bool,
    load: bool,
    post_index: bool,
    single: bool,
    #[bits(5)]
    __: u8,
    q: bool,
    top: bool,
}

pub(crate) fn decode(bits: u32) -> Option<Structures> {
    let word = Word::from_bits(bits);
    if word.top() || bits >> 25 & 1 == 1 || (!word.post_index() && word.rm() != 0) {
        return None;
    }
    let (registers, lane) = if word.single() {
        single(word)?
    } else {
        (multiple(word)?, false)
    };
    Some(Structures {
        load: word.load(),
        first: word.rt(),
        registers,
        lane,
        base: word.rn(),
        write_back: word.post_index(),
    })
}

/// The number of registers. Interleaved vectors of one 64-bit lane are reserved.
fn multiple(word: Word) -> Option<u8> {
    let interleaved = matches!(word.opcode(), 0b0000 | 0b0100 | 0b1000);
    if word.r() || (interleaved && word.size() == 3 && !word.q()) {
        return None;
    }
    match word.opcode() {
        0b0000 | 0b0010 => Some(4),
        0b0100 | 0b0110 => Some(3),
        0b1000 | 0b1010 => Some(2),
        0b0111 => Some(1),
        _ => None,
    }
}

/// The number of registers, and whether one lane of each is transferred; else one element fills all
/// lanes.
fn single(word: Word) -> Option<(u8, bool)> {
    let opcode = word.opcode() >> 1;
    let s = word.opcode() & 1;
    let registers = 1 + u8::from(word.r()) + (opcode & 1) * 2;
    let exists = match opcode >> 1 {
        0 => true,
        1 => word.size() & 1 == 0,
        2 => word.size() == 0 || (word.size() == 1 && s == 0),
        _ => word.load() && s == 0,
    };
    exists.then_some((registers, opcode >> 1 != 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With bit 25 set, the word is data processing of Advanced SIMD (DDI 0487, C4.1); with bit 31
    /// set, it is unallocated.
    #[test]
    fn encodings_beside_structures_are_no_structures() {
        // ld1 {v0.16b}, [x1]; with write-back by x2; ld1 {v0.b}[0], [x1]
        for word in [0x4c40_7020, 0x4cc2_7020, 0x0d40_0020] {
            assert!(decode(word).is_some(), "{word:#x}");
            assert_eq!(decode(word | 1 << 25), None, "{word:#x}");
            assert_eq!(decode(word | 1 << 31), None, "{word:#x}");
        }
    }
}
