//! T32 loads and stores (DDI 0406C A6.2.4 to A6.2.6, A6.3.5 to A6.3.10, A7.6, A7.7).

use super::a32::general;
use super::contents::{Contents, Exclusive, Single, StateTransfer};
use super::{Access, Addressing, Displacement, extension};
use crate::aarch32::registers::{Register, Registers};
use crate::aarch32::sensitive::Shift;
use crate::aarch32::words::WideTransferWord;
use crate::loadstore::General;
use bitfield_struct::bitfield;
use hanok_types::Width;

/// "Load/store single data item".
#[bitfield(u16)]
struct NarrowWord {
    #[bits(3)]
    rt: u8,
    #[bits(3)]
    rn: u8,
    /// The index register; a constant also takes the two bits above.
    #[bits(3)]
    rm: u8,
    #[bits(7)]
    __: u8,
}

/// The same with a constant of five bits.
#[bitfield(u16)]
struct NarrowConstant {
    #[bits(6)]
    __: u8,
    #[bits(5)]
    units: u16,
    #[bits(5)]
    __: u8,
}

/// A register and eight bits, which are an offset from the stack pointer, a literal's offset, or a
/// register list.
#[bitfield(u16)]
struct NarrowList {
    imm8: u8,
    #[bits(3)]
    register: u8,
    load: bool,
    #[bits(4)]
    __: u8,
}

impl NarrowList {
    fn register_named(self) -> Register {
        Register::from_bits(self.register())
    }

    fn list(self) -> Registers {
        Registers::from_bits(self.imm8().into())
    }

    /// The list with LR of PUSH or PC of POP.
    fn with_one_more(self, more: Register) -> Registers {
        match self.register() & 1 {
            0 => self.list(),
            _ => self.list().with(more.set()),
        }
    }
}

fn single(register: Register, general: General) -> Contents {
    Contents::Single(Single {
        register,
        general,
        unprivileged: false,
    })
}

fn one(load: bool, address: Addressing, register: Register, general: General) -> Access {
    Access(load, address, single(register, general))
}

const WORD: General = general(Width::Word, false);

/// Decodes an instruction of one halfword.
pub(super) fn narrow(half: u16) -> Option<Access> {
    let list = NarrowList::from_bits(half);
    Some(match half >> 11 {
        0b01001 => by_words(Register::PC, list, true),
        0b01010 | 0b01011 => by_register(half),
        0b01100..=0b10001 => by_constant(half),
        0b10010 | 0b10011 => by_words(Register::SP, list, list.load()),
        0b10110 if half & 0x0600 == 0x0400 => stack(false, list.with_one_more(Register::LR))?,
        0b10111 if half & 0x0600 == 0x0400 => stack(true, list.with_one_more(Register::PC))?,
        0b11000 | 0b11001 => multiple(list)?,
        _ => return None,
    })
}

/// A load or store at a number of words behind the PC or above the stack pointer.
fn by_words(base: Register, word: NarrowList, load: bool) -> Access {
    let offset = Displacement::bytes(true, u16::from(word.imm8()) * 4);
    let address = Addressing::offset(base, offset);
    one(load, address, word.register_named(), WORD)
}

fn by_register(half: u16) -> Access {
    let word = NarrowWord::from_bits(half);
    let (load, data) = match half >> 9 & 0b111 {
        0b000 => (false, WORD),
        0b001 => (false, general(Width::Half, false)),
        0b010 => (false, general(Width::Byte, false)),
        0b011 => (true, general(Width::Byte, true)),
        0b100 => (true, WORD),
        0b101 => (true, general(Width::Half, false)),
        0b110 => (true, general(Width::Byte, false)),
        _ => (true, general(Width::Half, true)),
    };
    let offset = Displacement::register(true, Register::from_bits(word.rm()), Shift::NONE);
    let address = Addressing::offset(Register::from_bits(word.rn()), offset);
    one(load, address, Register::from_bits(word.rt()), data)
}

fn by_constant(half: u16) -> Access {
    let word = NarrowWord::from_bits(half);
    let width = match half >> 12 {
        0b0110 => Width::Word,
        0b0111 => Width::Byte,
        _ => Width::Half,
    };
    let units = NarrowConstant::from_bits(half).units();
    let offset = Displacement::bytes(true, units * width.bytes() as u16);
    let address = Addressing::offset(Register::from_bits(word.rn()), offset);
    let load = NarrowList::from_bits(half).load();
    let register = Register::from_bits(word.rt());
    one(load, address, register, general(width, false))
}

/// LDM and STM; `None` if the list is empty.
fn block(load: bool, address: Addressing, registers: Registers) -> Option<Access> {
    let contents = Contents::Block {
        registers,
        user: false,
    };
    (!registers.is_empty()).then_some(Access(load, address, contents))
}

/// PUSH, POP.
fn stack(load: bool, registers: Registers) -> Option<Access> {
    let words = registers.count() as u16;
    let address = Addressing::block(Register::SP, load, !load, words, true);
    block(load, address, registers)
}

/// LDM, STM. A base that is in the list of an LDM is not written back.
fn multiple(word: NarrowList) -> Option<Access> {
    let (base, registers, load) = (word.register_named(), word.list(), word.load());
    let moves = !(load && registers.contains(base));
    let address = Addressing::block(base, true, false, registers.count() as u16, moves);
    block(load, address, registers)
}

/// Decodes an instruction of two halfwords (A6.3).
pub(super) fn wide(both: u32) -> Option<Access> {
    let word = WideTransferWord::from_bits(both);
    match word.kind() {
        0b0100 if !word.bit22() => multiple_wide(both),
        0b0100 => dual(word),
        0b1100 if word.before() && !word.load() => extension::structures(both),
        0b1100 => single_wide(word),
        0b0110 if matches!(word.middle(), 10 | 11) => extension::registers(both),
        _ => None,
    }
}

/// LDM, STM, RFE, SRS (A6.3.5).
fn multiple_wide(both: u32) -> Option<Access> {
    let word = WideTransferWord::from_bits(both);
    let registers = Registers::from_bits(both as u16);
    let (load, moves) = (word.load(), word.write_back());
    let upwards = word.up();
    if word.up() != word.before() {
        let words = registers.count() as u16;
        let address = Addressing::block(word.rn(), upwards, !upwards, words, moves);
        return block(load, address, registers);
    }
    let contents = if load {
        StateTransfer::Rfe
    } else {
        StateTransfer::Srs(word.low() & 0x1f)
    };
    let address = Addressing::block(word.rn(), upwards, !upwards, 2, moves);
    Some(Access(load, address, Contents::State(contents)))
}

/// "Load/store dual, load/store exclusive, table branch".
fn dual(word: WideTransferWord) -> Option<Access> {
    let words = u16::from(word.low()) * 4;
    match (word.before(), word.up(), word.write_back()) {
        (false, false, false) => {
            let address = Addressing::offset(word.rn(), Displacement::bytes(true, words));
            let status = (!word.load()).then(|| word.second());
            exclusive(word, address, Width::Word, status)
        }
        (false, true, false) => table_or_exclusive(word),
        (before, up, moves) => {
            let by = Displacement::bytes(up, words);
            let address = Addressing::indexed(word.rn(), by, before, moves);
            let contents = Contents::Pair(word.rt(), word.second());
            Some(Access(word.load(), address, contents))
        }
    }
}

fn exclusive(
    word: WideTransferWord,
    address: Addressing,
    width: Width,
    status: Option<Register>,
) -> Option<Access> {
    let contents = Contents::Exclusive(Exclusive {
        width,
        register: word.rt(),
        second: (width == Width::Double).then(|| word.second()),
        status,
    });
    Some(Access(word.load(), address, contents))
}

/// TBB, TBH, LDREXB, LDREXH, LDREXD and their stores. The other encodings belong to ARMv8.
fn table_or_exclusive(word: WideTransferWord) -> Option<Access> {
    let width = match word.low() >> 4 {
        0b0000 | 0b0001 if word.load() => return Some(table(word)),
        0b0100 => Width::Byte,
        0b0101 => Width::Half,
        0b0111 => Width::Double,
        _ => return None,
    };
    let status = (!word.load()).then(|| word.rm());
    exclusive(word, Addressing::at(word.rn()), width, status)
}

fn table(word: WideTransferWord) -> Access {
    let halfwords = word.low() >> 4 != 0;
    let shift = Shift::from_bits(0, halfwords.into());
    let offset = Displacement::register(true, word.rm(), shift);
    let address = Addressing::offset(word.rn(), offset);
    Access(true, address, Contents::Table { halfwords })
}

/// Loads and stores of one register (A6.3.7 to A6.3.10). Their width is where other instructions
/// have the write-back bit.
fn single_wide(word: WideTransferWord) -> Option<Access> {
    let size = u8::from(word.bit22()) << 1 | u8::from(word.write_back());
    let (load, signed) = (word.load(), word.before());
    if size == 0b11 || signed && (size == 0b10 || !load) {
        return None;
    }
    let (address, unprivileged) = address(word)?;
    // A load of less than a word into the PC is a preload (PLD, PLI) or does nothing.
    if load && word.rt() == Register::PC && size != 0b10 {
        let none = signed && size == 0b01;
        let plain = address.write_back.is_none() && !unprivileged && !none;
        return plain.then_some(Access(true, address, Contents::Preload));
    }
    let contents = Contents::Single(Single {
        register: word.rt(),
        general: general(Width::from_log2(size), signed),
        unprivileged,
    });
    Some(Access(load, address, contents))
}

/// A constant of twelve bits.
#[bitfield(u32)]
struct LongOffset {
    #[bits(12)]
    bytes: u16,
    #[bits(20)]
    __: u32,
}

/// The address, and whether the access has User mode's rights.
fn address(word: WideTransferWord) -> Option<(Addressing, bool)> {
    let base = word.rn();
    let long = Displacement::bytes(word.up(), LongOffset::from_bits(word.into_bits()).bytes());
    if base == Register::PC {
        return word.load().then(|| (Addressing::offset(base, long), false));
    }
    if word.up() {
        return Some((Addressing::offset(base, long), false));
    }
    let short = |add| Displacement::bytes(add, word.low().into());
    Some(match word.middle() {
        0b0000 if word.low() >> 6 == 0 => {
            let shift = Shift::from_bits(0, word.low() >> 4);
            let offset = Displacement::register(true, word.rm(), shift);
            (Addressing::offset(base, offset), false)
        }
        0b1100 => (Addressing::offset(base, short(false)), false),
        0b1110 => (Addressing::offset(base, short(true)), true),
        // P, U, W: the forms with W set.
        middle @ (0b1001 | 0b1011 | 0b1101 | 0b1111) => {
            let (before, add) = (middle & 0b100 != 0, middle & 0b010 != 0);
            let address = Addressing::indexed(base, short(add), before, true);
            (address, false)
        }
        _ => return None,
    })
}
