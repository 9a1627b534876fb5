//! Loads and stores (DDI 0406C A5.2.8, A5.3, A5.5).

use crate::Refused;
use crate::aarch32::rows::{M, N, has_pc};
use crate::aarch32::{Found, LR, Meaning, PC, bit, field, same, with};
use hanok_decode::aarch32::Encoding;

/// What these instructions have in common.
struct Transfer {
    word: u32,
    load: bool,
    /// Rt, and the last register that is transferred.
    registers: (u32, u32),
    /// Whether the offset is a register.
    by_register: bool,
}

/// LDR, STR, LDRB, STRB.
pub(super) fn single(word: u32, pc: u32) -> Found {
    let (rt, load, byte) = (field(word, 12, 4), bit(word, 20), bit(word, 22));
    let by_register = bit(word, 25);
    let unprivileged = !bit(word, 24) && bit(word, 21);
    if rt == PC && !load && !byte {
        return Err(Refused::NeedsRegister);
    }
    if rt == PC && (byte || unprivileged) {
        return Err(Refused::Unknown);
    }
    let registers = (rt, rt);
    let transfer = Transfer {
        word,
        load,
        registers,
        by_register,
    };
    transfer.decode(pc)
}

/// LDRH, LDRSB, LDRSH, STRH, LDRD, STRD.
pub(super) fn extra(word: u32, pc: u32) -> Found {
    let rt = field(word, 12, 4);
    let pair = !bit(word, 20) && bit(word, 6);
    let by_register = !bit(word, 22);
    let load = bit(word, 20) || pair && !bit(word, 5);
    let unprivileged = !bit(word, 24) && bit(word, 21);
    if rt == PC || pair && (rt & 1 == 1 || rt == LR || unprivileged) {
        return Err(Refused::Unknown);
    }
    let registers = (rt, rt + u32::from(pair));
    if by_register && field(word, 8, 4) != 0 {
        return Err(Refused::Unknown);
    }
    let transfer = Transfer {
        word,
        load,
        registers,
        by_register,
    };
    transfer.decode(pc)
}

impl Transfer {
    /// If the base is the PC, the loaded register takes its place; the index must be another one.
    fn decode(&self, pc: u32) -> Found {
        let word = self.word;
        let (first, last) = self.registers;
        let writes_base = !bit(word, 24) || bit(word, 21);
        if self.by_register && has_pc(word, M) {
            return Err(Refused::Unknown);
        }
        if !has_pc(word, N) {
            return Ok(Meaning::Same);
        }
        if writes_base {
            return Err(Refused::Unknown);
        }
        let index = field(word, 0, 4);
        let overlaps = self.by_register && (index == first || index == last);
        if !self.load || overlaps {
            return Err(Refused::NeedsRegister);
        }
        with(first, pc, Encoding::A32(word & !(0xf << 16) | first << 16))
    }
}

/// LDM and STM, also those of User mode's registers and those that return from exceptions. A store
/// of the PC stores the site's address.
pub(super) fn block(word: u32) -> Found {
    if has_pc(word, N) || word & 0xffff == 0 {
        return Err(Refused::Unknown);
    }
    if !bit(word, 20) && bit(word, 15) {
        return Err(Refused::NeedsRegister);
    }
    let user = bit(word, 22) && !(bit(word, 20) && bit(word, 15));
    same(!(user && bit(word, 21)))
}

/// PLD, PLDW and PLI: with a constant, or with a register.
pub(super) const fn is_preload(word: u32) -> bool {
    let constant = matches!(word & 0xff70_f000, 0xf450_f000 | 0xf510_f000 | 0xf550_f000);
    let register = matches!(word & 0xff70_f010, 0xf650_f000 | 0xf710_f000 | 0xf750_f000);
    constant || register
}

/// A preload of a place relative to the PC is left out: it is a hint.
pub(super) fn preload(word: u32) -> Found {
    if bit(word, 25) && has_pc(word, M) {
        return Err(Refused::Unknown);
    }
    let for_write = word & 0x0140_0000 == 0x0100_0000;
    match (has_pc(word, N), for_write) {
        (true, true) => Err(Refused::Unknown), // PLDW
        (true, false) => Ok(Meaning::Nothing),
        (false, _) => Ok(Meaning::Same),
    }
}
