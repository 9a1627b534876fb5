//! A64 words that are made here (DDI 0487 C6.2).

use crate::code::Code;

/// B.
pub(crate) const fn branch(from: u64, to: u64) -> Option<u32> {
    let distance = to.wrapping_sub(from) as i64;
    if distance & 3 == 0 && distance >> 27 == distance >> 63 {
        Some(0x1400_0000 | (distance >> 2) as u32 & 0x03ff_ffff)
    } else {
        None
    }
}

/// MOVZ, MOVN and MOVK of 64 bits, without the quarter's number, the constant and Rd.
const MOVZ: u32 = 0xd280_0000;
const MOVN: u32 = 0x9280_0000;
const MOVK: u32 = 0xf280_0000;

/// Adds the fewest of MOVZ or MOVN and MOVK that put a constant into a register. The number 31 is
/// the zero register, which takes none.
pub(crate) fn constant(code: &mut Code, register: u32, value: u64) {
    if register == 31 {
        return;
    }
    let quarter = |number: u32| (value >> (16 * number)) as u32 & 0xffff;
    let many = |of: u32| (0..4).filter(|number| quarter(*number) == of).count();
    let (usual, first) = if many(0xffff) > many(0) {
        (0xffff, MOVN)
    } else {
        (0, MOVZ)
    };
    let mut operation = first;
    let others = (0..4).filter(|number| quarter(*number) != usual);
    for number in others {
        let bits = if operation == MOVN {
            quarter(number) ^ 0xffff
        } else {
            quarter(number)
        };
        code.word(operation | number << 21 | bits << 5 | register);
        operation = MOVK;
    }
    if operation == first {
        code.word(first | register);
    }
}
