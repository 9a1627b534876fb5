//! Media instructions (DDI 0406C A5.4).

use crate::effects::{Effects, Flags};
use crate::parts::Parts;
use bitfield_struct::bitfield;
use hanok_decode::aarch32::{Register, Registers};

#[bitfield(u32)]
struct MediaWord {
    #[bits(4)]
    rn: Register,
    #[bits(1)]
    __: u8,
    #[bits(3)]
    op2: u8,
    #[bits(4)]
    rm: Register,
    /// Rd, or the addend of a multiplication.
    #[bits(4)]
    rd: Register,
    /// The first operand, or the result of a multiplication.
    #[bits(4)]
    first: Register,
    #[bits(5)]
    op1: u8,
    #[bits(7)]
    __: u8,
}

pub(super) fn decode(word: u32) -> Parts {
    let fields = MediaWord::from_bits(word);
    match fields.op1() {
        0b00000..=0b00111 => parallel(fields),
        0b01000..=0b01111 => pack(fields),
        0b10000..=0b10111 => multiply(fields),
        0b11000 if fields.op2() == 0 => differences(fields),
        0b11010 | 0b11011 | 0b11110 | 0b11111 if fields.op2() & 0b11 == 0b10 => {
            Parts::compute(fields.rd(), fields.rn().set())
                .provided(fields.rd() != Register::PC && fields.rn() != Register::PC)
        }
        0b11100 | 0b11101 if fields.op2() & 0b11 == 0b00 => insert(fields),
        _ => Parts::UNDEFINED,
    }
}

/// Addition and subtraction of parts (A5.4.1, A5.4.2). Those that neither saturate nor halve write
/// GE.
fn parallel(word: MediaWord) -> Parts {
    let known = matches!(word.op2(), 0..=4 | 7);
    if word.op1() & 0b11 == 0 || !known {
        return Parts::UNDEFINED;
    }
    let reads = word.first().set().with(word.rn().set());
    let mut parts = Parts::compute(word.rd(), reads);
    if word.op1() & 0b11 == 0b01 {
        parts.effects = parts.effects.setting_flags(Flags::new().with_ge(true));
    }
    let fixed = word.rm() == Register::PC;
    parts.provided(fixed && !reads.with(word.rd().set()).contains(Register::PC))
}

/// Packing, saturation, extension, reversal (A5.4.3).
fn pack(word: MediaWord) -> Parts {
    let (to, from) = (word.rd(), word.rn().set());
    let with_first = from.with(word.first().set());
    let middle = word.rm() == Register::PC;
    let first = word.first() != Register::PC;
    let (parts, fixed) = match (word.op1() & 0b111, word.op2()) {
        // PKHBT, PKHTB.
        (0b000, op2) if op2 & 1 == 0 => (Parts::compute(to, with_first), first),
        // SEL.
        (0b000, 0b101) => {
            let parts = Parts::compute(to, with_first);
            let ge = Flags::new().with_ge(true);
            let effects = parts.effects.reading_flags(ge);
            (Parts { effects, ..parts }, middle && first)
        }
        // SSAT, USAT.
        (0b010 | 0b011 | 0b110 | 0b111, op2) if op2 & 1 == 0 => {
            (Parts::compute(to, from).perhaps_saturating(), true)
        }
        // SSAT16, USAT16.
        (0b010 | 0b110, 0b001) => (Parts::compute(to, from).perhaps_saturating(), middle),
        // Extension, with an addition unless the first operand is the PC.
        (0b000 | 0b010 | 0b011 | 0b100 | 0b110 | 0b111, 0b011) => {
            let reads = if first { with_first } else { from };
            (Parts::compute(to, reads), word.rm().number() & 0b11 == 0)
        }
        // REV, RBIT, REV16, REVSH.
        (0b011 | 0b111, 0b001 | 0b101) => (Parts::compute(to, from), middle && !first),
        _ => return Parts::UNDEFINED,
    };
    parts.provided(fixed && to != Register::PC && word.rn() != Register::PC)
}

/// Signed multiplication and division (A5.4.4).
fn multiply(word: MediaWord) -> Parts {
    let (to, added) = (word.first(), word.rd());
    let factors = word.rn().set().with(word.rm().set());
    let alone = added == Register::PC;
    let reads = if alone {
        factors
    } else {
        factors.with(added.set())
    };
    let parts = match (word.op1() & 0b111, word.op2() >> 1) {
        // Only SMUSD cannot overflow.
        (0b000, 0b01) if alone => Parts::compute(to, reads),
        (0b000, 0b00 | 0b01) => Parts::compute(to, reads).perhaps_saturating(),
        (0b001 | 0b011, 0b00) if word.op2() == 0 => Parts::compute(to, factors).provided(alone),
        (0b100, 0b00 | 0b01) => {
            let both = to.set().with(added.set());
            Parts::of(Effects::NONE.reading(factors.with(both)).setting(both)).provided(!alone)
        }
        (0b101, 0b00) => Parts::compute(to, reads),
        (0b101, 0b11) => Parts::compute(to, factors.with(added.set())).provided(!alone),
        _ => return Parts::UNDEFINED,
    };
    parts.provided(!factors.with(to.set()).contains(Register::PC))
}

/// USAD8, USADA8.
fn differences(word: MediaWord) -> Parts {
    let (to, added) = (word.first(), word.rd());
    let factors = word.rn().set().with(word.rm().set());
    let reads = if added == Register::PC {
        factors
    } else {
        factors.with(added.set())
    };
    let general = !factors.with(to.set()).contains(Register::PC);
    Parts::compute(to, reads).provided(general)
}

/// BFI, and BFC, which inserts zeros.
fn insert(word: MediaWord) -> Parts {
    let from = if word.rn() == Register::PC {
        Registers::NONE
    } else {
        word.rn().set()
    };
    Parts::compute(word.rd(), from.with(word.rd().set())).provided(word.rd() != Register::PC)
}
