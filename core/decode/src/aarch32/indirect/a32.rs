//! A32 (DDI 0406C, A5.2, A5.3, A5.5).

use super::{Found, Target, load};
use crate::aarch32::encoding::Encoding;
use crate::aarch32::registers::{Register, Registers};
use crate::aarch32::sensitive::{Block, DataOperation, Direction, Operand, Shift};
use crate::aarch32::words::{BlockWord, TransferWord};

/// What is always UNPREDICTABLE.
const FORBIDDEN: Found = Some((Target::Forbidden, false));

const fn bit(word: u32, number: u32) -> bool {
    word >> number & 1 != 0
}

const fn register(word: u32, lowest: u32) -> Register {
    Register::from_bits((word >> lowest) as u8)
}

/// The indirect branch that a word encodes. The unconditional space has none.
pub(super) fn decode(word: u32) -> Found {
    if word >> 28 == 0xf {
        return None;
    }
    match word >> 25 & 0b111 {
        0b000 if bit(word, 7) && bit(word, 4) => extra(TransferWord::from_bits(word)),
        0b000 | 0b001 => data(word),
        0b010 => single(TransferWord::from_bits(word)),
        0b011 if !bit(word, 4) => single(TransferWord::from_bits(word)),
        0b100 => block(BlockWord::from_bits(word)),
        _ => None,
    }
}

/// LDRH, LDRSB, LDRSH; LDRD, whose second register may be the PC (A5.2.8). The others with these
/// bits are multiplications and exclusive accesses, whose kind is zero.
fn extra(word: TransferWord) -> Found {
    let sensitive = !word.before() && word.write_back();
    let pair = !word.load() && word.kind() == 0b10;
    let to_pc = word.rt() == Register::PC || pair && word.rt() == Register::LR;
    let loads = word.kind() != 0 && (word.load() || pair);
    if loads && to_pc && !sensitive {
        FORBIDDEN
    } else {
        None
    }
}

/// Data processing, and what shares its space but is no multiplication. What sets flags is an
/// exception return.
fn data(word: u32) -> Found {
    let (immediate, by_register) = (bit(word, 25), bit(word, 4));
    let Some(operation) = DataOperation::from_bits((word >> 21) as u8) else {
        return if immediate || bit(word, 20) {
            None
        } else {
            exchange(word)
        };
    };
    if register(word, 12) != Register::PC {
        return None;
    }
    let second = if immediate {
        let rotation = word >> 8 & 0xf;
        Operand::Immediate((word & 0xff).rotate_right(rotation * 2))
    } else if by_register {
        return FORBIDDEN;
    } else {
        let shift = Shift::from_bits((word >> 5) as u8, (word >> 7) as u8);
        Operand::Register(register(word, 0), shift)
    };
    let first = register(word, 16);
    let target = Target::Data {
        operation,
        first,
        second,
    };
    let right = operation.has_first() || first.number() == 0;
    (!bit(word, 20)).then_some((target, right))
}

/// BX, BXJ, BLX (A5.2.12).
fn exchange(word: u32) -> Found {
    let to = register(word, 0);
    let fixed = word & 0x000f_ff00 == 0x000f_ff00;
    let other = fixed && to != Register::PC;
    match word >> 4 & 0xf {
        _ if word >> 21 & 0b11 != 0b01 => None,
        0b0001 => Some((Target::Exchange(to), fixed)),
        0b0010 => Some((Target::Exchange(to), other)),
        0b0011 => Some((Target::Call(to), other)),
        _ => None,
    }
}

/// LDR, LDRB. What has P clear and W set is sensitive.
fn single(word: TransferWord) -> Found {
    let sensitive = !word.before() && word.write_back();
    if !word.load() || word.rt() != Register::PC || sensitive {
        return None;
    }
    if word.byte() {
        return FORBIDDEN;
    }
    let stays = word.before() && !word.write_back();
    let base = stays || word.rn() != Register::PC;
    let index = !word.by_register() || word.rm() != Register::PC;
    load(Encoding::A32(word.into_bits()), base && index)
}

/// LDM. What has a caret is sensitive.
fn block(word: BlockWord) -> Found {
    let registers = Registers::from_bits(word.list());
    if !word.load() || word.caret() || !registers.contains(Register::PC) {
        return None;
    }
    let base = word.rn();
    let block = Block {
        load: true,
        base,
        direction: Direction {
            up: word.up(),
            before: word.before(),
        },
        write_back: word.write_back(),
        registers,
    };
    let twice = block.write_back && registers.contains(base);
    Some((Target::Block(block), base != Register::PC && !twice))
}
