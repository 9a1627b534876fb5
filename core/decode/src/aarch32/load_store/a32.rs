//! A32 loads and stores (DDI 0406C A5.2.8 to A5.2.10, A5.3, A5.5 to A5.7).

use super::contents::{Contents, Exclusive, Single, StateTransfer, Swap};
use super::{Access, Addressing, Displacement, extension};
use crate::aarch32::registers::{Register, Registers};
use crate::aarch32::sensitive::Shift;
use crate::aarch32::words::{BlockWord, ExclusiveWord, TransferWord};
use crate::loadstore::General;
use bitfield_struct::bitfield;
use hanok_types::Width;

/// The fields by which the groups of encodings differ.
#[bitfield(u32)]
struct Group {
    #[bits(4)]
    __: u8,
    bit4: bool,
    #[bits(2)]
    extra: u8,
    bit7: bool,
    #[bits(4)]
    coprocessor: u8,
    #[bits(8)]
    __: u8,
    bit20: bool,
    #[bits(3)]
    __: u8,
    bit24: bool,
    #[bits(3)]
    kind: u8,
    #[bits(4)]
    condition: u8,
}

pub(super) fn decode(bits: u32) -> Option<Access> {
    let group = Group::from_bits(bits);
    if group.condition() == 0b1111 {
        return unconditional(group);
    }
    match (group.kind(), group.bit4(), group.bit7()) {
        (0b000, true, true) if group.extra() != 0 => extra(bits),
        (0b000, true, true) if group.bit24() => synchronize(bits),
        (0b010, ..) | (0b011, false, _) => single(bits),
        (0b100, ..) => block(bits),
        (0b110, ..) if matches!(group.coprocessor(), 10 | 11) => extension::registers(bits),
        _ => None,
    }
}

/// Advanced SIMD structures, preloads, RFE and SRS (A5.7).
fn unconditional(group: Group) -> Option<Access> {
    let bits = group.into_bits();
    match (group.kind(), group.bit24()) {
        (0b010, false) if !group.bit20() => extension::structures(bits),
        (0b010 | 0b011, _) => preload(bits),
        (0b100, _) => state(BlockWord::from_bits(bits)),
        _ => None,
    }
}

/// The constants of the extra loads and stores.
#[bitfield(u32)]
struct ConstantWord {
    #[bits(4)]
    low: u16,
    #[bits(4)]
    middle: u16,
    #[bits(4)]
    high: u16,
    #[bits(20)]
    __: u32,
}

impl TransferWord {
    /// The constant of twelve bits, or the index register.
    fn displacement(self) -> Displacement {
        if self.by_register() {
            let shift = Shift::from_bits(self.kind(), self.amount());
            return Displacement::register(self.add(), self.rm(), shift);
        }
        let word = ConstantWord::from_bits(self.into_bits());
        Displacement::bytes(
            self.add(),
            word.high() << 8 | word.middle() << 4 | word.low(),
        )
    }

    /// The constant of eight bits, or the index register.
    fn short_displacement(self) -> Displacement {
        if !self.byte() {
            return Displacement::register(self.add(), self.rm(), Shift::NONE);
        }
        let word = ConstantWord::from_bits(self.into_bits());
        Displacement::bytes(self.add(), word.high() << 4 | word.low())
    }

    fn address(self, by: Displacement) -> Addressing {
        Addressing::indexed(self.rn(), by, self.before(), self.write_back())
    }

    /// Whether the access has the rights of User mode: P is clear and W is set.
    fn unprivileged(self) -> bool {
        !self.before() && self.write_back()
    }
}

/// LDR, STR, LDRB, STRB, and LDRT, LDRBT, STRT, STRBT.
fn single(bits: u32) -> Option<Access> {
    let word = TransferWord::from_bits(bits);
    let width = if word.byte() {
        Width::Byte
    } else {
        Width::Word
    };
    let address = word.address(word.displacement());
    let contents = Contents::Single(Single {
        register: word.rt(),
        general: general(width, false),
        unprivileged: word.unprivileged(),
    });
    Some(Access(word.load(), address, contents))
}

/// How one core register is filled.
pub(super) const fn general(width: Width, sign_extend: bool) -> General {
    General {
        width,
        sign_extend,
        wide: false,
    }
}

/// LDRH, STRH, LDRSB, LDRSH, LDRD, STRD, and the unprivileged forms (LDRHT and so on), which LDRD
/// and STRD do not have.
fn extra(bits: u32) -> Option<Access> {
    let word = TransferWord::from_bits(bits);
    let (load, data) = match (word.load(), word.kind()) {
        (false, 0b10) => (true, None),
        (false, 0b11) => (false, None),
        (load, 0b01) => (load, Some(general(Width::Half, false))),
        (load, 0b10) => (load, Some(general(Width::Byte, true))),
        (load, _) => (load, Some(general(Width::Half, true))),
    };
    let contents = match data {
        Some(general) => Contents::Single(Single {
            register: word.rt(),
            general,
            unprivileged: word.unprivileged(),
        }),
        None if word.unprivileged() || word.rt().number() & 1 != 0 => return None,
        None => Contents::Pair(word.rt(), word.rt().next()),
    };
    let address = word.address(word.short_displacement());
    Some(Access(load, address, contents))
}

/// "Synchronization primitives".
fn synchronize(bits: u32) -> Option<Access> {
    let word = ExclusiveWord::from_bits(bits);
    let address = Addressing::at(word.rn());
    let contents = match (word.exclusive(), word.size()) {
        (false, size @ (0b00 | 0b10)) if !word.load() => Contents::Swap(Swap {
            width: if size == 0 { Width::Word } else { Width::Byte },
            loaded: word.rd(),
            stored: word.value(),
        }),
        // Other values of bits 11 to 8 are the acquire and release forms of ARMv8.
        (true, size) if word.one() == 0b1111 => exclusive(word, size)?,
        _ => return None,
    };
    Some(Access(word.load(), address, contents))
}

fn exclusive(word: ExclusiveWord, size: u8) -> Option<Contents> {
    let width = match size {
        0b00 => Width::Word,
        0b01 => Width::Double,
        0b10 => Width::Byte,
        _ => Width::Half,
    };
    let register = if word.load() { word.rd() } else { word.value() };
    let pair = width == Width::Double;
    if pair && register.number() & 1 != 0 {
        return None;
    }
    Some(Contents::Exclusive(Exclusive {
        width,
        register,
        second: pair.then(|| register.next()),
        status: (!word.load()).then(|| word.rd()),
    }))
}

impl BlockWord {
    fn address(self, words: u32) -> Addressing {
        Addressing::block(
            self.rn(),
            self.up(),
            self.before(),
            words as u16,
            self.write_back(),
        )
    }
}

fn block(bits: u32) -> Option<Access> {
    let word = BlockWord::from_bits(bits);
    let (registers, load) = (Registers::from_bits(word.list()), word.load());
    if registers.is_empty() {
        return None;
    }
    let contents = if word.caret() && load && registers.contains(Register::PC) {
        Contents::State(StateTransfer::Return(registers))
    } else {
        Contents::Block {
            registers,
            user: word.caret(),
        }
    };
    Some(Access(load, word.address(registers.count()), contents))
}

/// RFE and SRS. RFE is the load without a caret, SRS the store with one.
fn state(word: BlockWord) -> Option<Access> {
    let mode = word.list() as u8 & 0x1f;
    let contents = match (word.load(), word.caret()) {
        (true, false) => StateTransfer::Rfe,
        (false, true) => StateTransfer::Srs(mode),
        _ => return None,
    };
    Some(Access(
        word.load(),
        word.address(2),
        Contents::State(contents),
    ))
}

/// PLI, PLD and PLDW. They are encoded as loads to R15, and transfer nothing.
fn preload(bits: u32) -> Option<Access> {
    let word = TransferWord::from_bits(bits);
    let known = match (word.before(), word.byte()) {
        // PLI.
        (false, true) => true,
        // PLD and PLDW; PLDW has no literal form.
        (true, read) => read || word.by_register() || word.rn() != Register::PC,
        (false, false) => false,
    };
    let one = word.load() && !word.write_back() && !(word.by_register() && word.bit4());
    (known && one).then(|| {
        let address = Addressing::offset(word.rn(), word.displacement());
        Access(true, address, Contents::Preload)
    })
}
