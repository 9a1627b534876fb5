//! Sensitive A32 words (DDI 0406C A5).

use super::operation::{
    Banked, Block, DataOperation, Fields, Hint, Index, Operand, Operation, Return, ReturnFrom,
    Shift, Status, Unprivileged,
};
use super::words::Found;
use super::{Sensitive, coprocessor, unconditional};
use crate::aarch32::condition::Condition;
use crate::aarch32::encoding::Encoding;
use crate::aarch32::registers::{Register, Registers};
use crate::aarch32::words::{BlockWord, TransferWord};
use bitfield_struct::bitfield;
use hanok_types::Width;

/// The sensitive instruction that the A32 `word` encodes; `None` if it is not sensitive.
pub fn sensitive_a32(word: u32) -> Option<Sensitive> {
    let group = Group::from_bits(word);
    let found = match (group.condition(), group.kind()) {
        (0b1111, 0b000 | 0b010 | 0b011 | 0b100) => unconditional::decode(word),
        (0b1111, 0b110 | 0b111) => coprocessor(word, true),
        (0b1111, _) => None,
        (_, 0b000) => miscellaneous(word),
        (_, 0b001) => immediate(word),
        (_, 0b010 | 0b011) => unprivileged(TransferWord::from_bits(word)),
        (_, 0b100) => block(BlockWord::from_bits(word)),
        (_, 0b110 | 0b111) => coprocessor(word, false),
        _ => None,
    };
    let condition = Condition::from_bits(group.condition());
    found.map(|found| Sensitive::new(Encoding::A32(word), condition, found))
}

/// The fields by which the groups of encodings differ.
#[bitfield(u32)]
struct Group {
    #[bits(25)]
    __: u32,
    #[bits(3)]
    kind: u8,
    #[bits(4)]
    condition: u8,
}

fn coprocessor(word: u32, second_kind: bool) -> Found {
    let (found, right) = coprocessor::decode(word, second_kind)?;
    Some((Operation::Coprocessor(found), right))
}

/// Data processing, and the instructions in its encoding space (A5.2).
#[bitfield(u32)]
struct DataWord {
    #[bits(4)]
    rm: Register,
    by_register: bool,
    #[bits(2)]
    shift: u8,
    bit7: bool,
    #[bits(4)]
    rs: u8,
    #[bits(4)]
    rd: Register,
    #[bits(4)]
    rn: Register,
    set_flags: bool,
    #[bits(4)]
    operation: u8,
    immediate: bool,
    #[bits(6)]
    __: u8,
}

impl DataWord {
    /// imm5: the amount of a shift by a constant.
    fn amount(self) -> u8 {
        self.rs() << 1 | u8::from(self.bit7())
    }

    fn shift_by_constant(self) -> Shift {
        Shift::from_bits(self.shift(), self.amount())
    }

    /// The constant of an immediate form (A5.2.4).
    fn constant(self) -> u32 {
        (self.into_bits() & 0xff).rotate_right(u32::from(self.rs()) * 2)
    }
}

fn miscellaneous(word: u32) -> Found {
    let data = DataWord::from_bits(word);
    match (data.operation(), data.set_flags()) {
        (0b1000..=0b1011, false) if !data.bit7() => status(StatusWord::from_bits(word)),
        _ if data.bit7() && data.by_register() => extra(TransferWord::from_bits(word)),
        (_, true) if !data.by_register() => {
            returns(data, Operand::Register(data.rm(), data.shift_by_constant()))
        }
        _ => None,
    }
}

fn immediate(word: u32) -> Found {
    let data = DataWord::from_bits(word);
    match (data.operation(), data.set_flags()) {
        (0b1001, false) if data.rn().number() == 0 => hint(word),
        (0b1001 | 0b1011, false) => {
            let (right, fields) = (data.rd() == Register::PC, fields(data.rn().number()));
            let operand = Operand::Immediate(data.constant());
            let operation = Operation::Msr(saved(data.operation() & 0b10 != 0), fields, operand);
            Some((operation, right && fields.into_bits() != 0))
        }
        (_, true) => returns(data, Operand::Immediate(data.constant())),
        _ => None,
    }
}

/// "SUBS PC, LR and related instructions" (B9.3.20).
fn returns(data: DataWord, second: Operand) -> Found {
    if data.rd() != Register::PC {
        return None;
    }
    let operation = DataOperation::from_bits(data.operation())?;
    let from = ReturnFrom::Data {
        operation,
        first: data.rn(),
        second,
    };
    let right = operation.has_first() || data.rn().number() == 0;
    Some((Operation::Return(Return { from }), right))
}

const fn saved(saved: bool) -> Status {
    if saved {
        Status::Saved
    } else {
        Status::Current
    }
}

const fn fields(mask: u8) -> Fields {
    Fields::from_bits(mask & 0xf)
}

/// A5.2.11.
fn hint(word: u32) -> Found {
    let hint = match word as u8 {
        1 => Hint::Yield,
        2 => Hint::Wfe,
        3 => Hint::Wfi,
        4 => Hint::Sev,
        _ => return None,
    };
    Some((Operation::Hint(hint), word & 0xff00 == 0xf000))
}

/// "Miscellaneous instructions" (A5.2.12).
#[bitfield(u32)]
struct StatusWord {
    #[bits(4)]
    rn: Register,
    #[bits(3)]
    kind: u8,
    __: bool,
    high: bool,
    banked: bool,
    #[bits(2)]
    zero: u8,
    #[bits(4)]
    rd: Register,
    #[bits(4)]
    mask: u8,
    __: bool,
    write: bool,
    saved: bool,
    #[bits(5)]
    __: u8,
    #[bits(4)]
    condition: u8,
}

impl StatusWord {
    fn banked_register(self) -> Banked {
        let system_mode = u8::from(self.high()) << 4 | self.mask();
        Banked {
            saved_status: self.saved(),
            system_mode,
        }
    }
}

fn status(word: StatusWord) -> Found {
    match (word.kind(), word.saved(), word.write()) {
        (0b000, _, false) => Some(mrs(word)),
        (0b000, _, true) => Some(msr(word)),
        (0b110, true, true) => {
            let right = word.into_bits() & 0x000f_ff0f == 0x0000_000e;
            Some((
                Operation::Return(Return {
                    from: ReturnFrom::Eret,
                }),
                right,
            ))
        }
        (0b111, true, false) => {
            let (middle, low) = (word.into_bits() >> 4 & 0xfff0, word.rn().number());
            let right = word.condition() == Condition::Always.into_bits();
            Some((Operation::Hvc(middle as u16 | u16::from(low)), right))
        }
        (0b111, true, true) => {
            let right = word.into_bits() & 0x000f_ff00 == 0;
            Some((Operation::Smc(word.rn().number()), right))
        }
        _ => None,
    }
}

fn mrs(word: StatusWord) -> (Operation, bool) {
    let right = word.rn().number() == 0 && word.zero() == 0 && word.rd() != Register::PC;
    if word.banked() {
        let banked = word.banked_register();
        (
            Operation::MrsBanked(banked, word.rd()),
            right && banked.is_defined(),
        )
    } else {
        let right = right && !word.high() && word.mask() == 0xf;
        (Operation::Mrs(saved(word.saved()), word.rd()), right)
    }
}

fn msr(word: StatusWord) -> (Operation, bool) {
    let right = word.rn() != Register::PC && word.zero() == 0 && word.rd() == Register::PC;
    if word.banked() {
        let banked = word.banked_register();
        (
            Operation::MsrBanked(banked, word.rn()),
            right && banked.is_defined(),
        )
    } else {
        let from = Operand::Register(word.rn(), Shift::NONE);
        let right = right && !word.high() && word.mask() != 0;
        (
            Operation::Msr(saved(word.saved()), fields(word.mask()), from),
            right,
        )
    }
}

/// Whether the operands are none that the instructions' sections call UNPREDICTABLE. The PC may be
/// the register of a word that is stored.
fn allowed(access: &Unprivileged) -> bool {
    let word = !access.load && access.width == Width::Word;
    let index = match access.index {
        Index::Register(register, _) => register != Register::PC,
        Index::Immediate(_) => true,
    };
    let (base, register) = (access.base, access.register);
    index && base != Register::PC && base != register && (word || register != Register::PC)
}

/// LDRT, LDRBT, STRT, STRBT. PLDW has a function of its own.
fn unprivileged(word: TransferWord) -> Found {
    if word.before() || !word.write_back() || word.by_register() && word.bit4() {
        return None;
    }
    let index = word.single_index();
    let width = if word.byte() {
        Width::Byte
    } else {
        Width::Word
    };
    let access = word.access(width, false, index);
    Some((Operation::Unprivileged(access), allowed(&access)))
}

/// LDRHT, LDRSBT, LDRSHT, STRHT (A5.2.9).
fn extra(word: TransferWord) -> Found {
    if word.before() || !word.write_back() {
        return None;
    }
    let (width, sign_extend) = match (word.load(), word.kind()) {
        (_, 0b01) => (Width::Half, false),
        (true, 0b10) => (Width::Byte, true),
        (true, 0b11) => (Width::Half, true),
        _ => return None,
    };
    // Bits 11 to 8. The lowest bit of `amount` is bit 7.
    let high = word.amount() >> 1;
    let index = if word.byte() {
        Index::Immediate(u16::from(high << 4 | word.rm().number()))
    } else {
        Index::Register(word.rm(), Shift::NONE)
    };
    let access = word.access(width, sign_extend, index);
    Some((
        Operation::Unprivileged(access),
        allowed(&access) && (word.byte() || high == 0),
    ))
}

/// LDM and STM with a caret (B9.3.5, B9.3.6, B9.3.17).
fn block(word: BlockWord) -> Found {
    if !word.caret() {
        return None;
    }
    let block = Block {
        load: word.load(),
        base: word.rn(),
        direction: word.direction(),
        write_back: word.write_back(),
        registers: Registers::from_bits(word.list()),
    };
    let moved = if block.is_return() {
        !block.write_back || !block.registers.contains(block.base)
    } else {
        !block.write_back && !block.registers.is_empty()
    };
    Some((Operation::Block(block), moved && block.base != Register::PC))
}
