//! T32 (DDI 0406C, A6.2.3, A6.2.5, A6.3.4 to A6.3.7).

use super::{Found, Target, load};
use crate::aarch32::encoding::Encoding;
use crate::aarch32::registers::{Register, Registers};
use crate::aarch32::sensitive::{Block, DataOperation, Direction, Operand, Shift};
use crate::aarch32::words::WideTransferWord;

/// The indirect branch of one halfword.
pub(super) fn narrow(half: u16) -> Found {
    let rm = Register::from_bits((half >> 3) as u8);
    let to_pc = half & 0x87 == 0x87;
    match half >> 8 {
        0x44 if to_pc => Some((data(DataOperation::Add, rm), rm != Register::PC)),
        0x46 if to_pc => Some((data(DataOperation::Mov, rm), true)),
        0x47 if half & 0x80 == 0 => Some((Target::Exchange(rm), half & 0b111 == 0)),
        0x47 => {
            let right = half & 0b111 == 0 && rm != Register::PC;
            Some((Target::Call(rm), right))
        }
        0xbd => {
            let list = Registers::from_bits(half & 0xff).with(Register::PC.set());
            Some((Target::Block(pop(list)), true))
        }
        _ => None,
    }
}

/// ADD and MOV: the first operand, too, is the PC.
const fn data(operation: DataOperation, rm: Register) -> Target {
    Target::Data {
        operation,
        first: Register::PC,
        second: Operand::Register(rm, Shift::NONE),
    }
}

const fn pop(registers: Registers) -> Block {
    Block {
        load: true,
        base: Register::SP,
        direction: Direction {
            up: true,
            before: false,
        },
        write_back: true,
        registers,
    }
}

/// The indirect branch of two halfwords.
pub(super) fn wide(both: u32) -> Found {
    let word = WideTransferWord::from_bits(both);
    match both >> 25 {
        0b111_0100 if both & 1 << 22 == 0 => multiple(word),
        0b111_0100 => table(word),
        0b111_1100 => single(word),
        0b111_1001 if both & 0xfff0_d000 == 0xf3c0_8000 => {
            let to = word.rn();
            let right = both & 0x2fff == 0x0f00 && usual(to);
            Some((Target::Exchange(to), right))
        }
        _ => None,
    }
}

/// Whether the register is neither the stack pointer nor the PC, which T32 allows in few places
/// (A6.1.2).
fn usual(register: Register) -> bool {
    register != Register::SP && register != Register::PC
}

/// LDM. With U and P equal it is RFE.
fn multiple(word: WideTransferWord) -> Found {
    let registers = Registers::from_bits(word.into_bits() as u16);
    let rfe = word.up() == word.before();
    if !word.load() || rfe || !registers.contains(Register::PC) {
        return None;
    }
    let block = Block {
        load: true,
        base: word.rn(),
        direction: Direction {
            up: word.up(),
            before: word.before(),
        },
        write_back: word.write_back(),
        registers,
    };
    let list = !registers.contains(Register::SP)
        && !registers.contains(Register::LR)
        && registers.count() > 1;
    let twice = block.write_back && registers.contains(block.base);
    let right = list && !twice && block.base != Register::PC;
    Some((Target::Block(block), right))
}

/// TBB and TBH.
fn table(word: WideTransferWord) -> Found {
    let fields = (word.before(), word.up(), word.write_back(), word.load());
    let kind = word.low() >> 4;
    if fields != (false, true, false, true) || kind > 1 {
        return None;
    }
    let target = Target::Table {
        base: word.rn(),
        index: word.rm(),
        halfwords: kind == 1,
    };
    let fixed = word.rt() == Register::PC && word.middle() == 0;
    Some((
        target,
        fixed && word.rn() != Register::SP && usual(word.rm()),
    ))
}

/// LDR; others that write the base back, where what else would be a preload is a load. LDRT is
/// sensitive.
fn single(word: WideTransferWord) -> Found {
    let (size, signed) = (word.into_bits() >> 21 & 0b11, word.before());
    if !word.load() || word.rt() != Register::PC || size == 3 || signed && size == 2 {
        return None;
    }
    let literal = word.rn() == Register::PC;
    let form = match (literal || word.up(), word.middle()) {
        (true, _) => Form::Offset,
        (false, 0b0000) if word.low() >> 6 == 0 => Form::Index,
        (false, 0b1100) => Form::Offset,
        (false, 0b1001 | 0b1011 | 0b1101 | 0b1111) => Form::WriteBack,
        _ => return None,
    };
    if size == 2 {
        let right = form != Form::Index || usual(word.rm());
        return load(Encoding::Wide(word.into_bits()), right);
    }
    (form == Form::WriteBack).then_some((Target::Forbidden, false))
}

/// How an address is formed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Offset,
    Index,
    WriteBack,
}
