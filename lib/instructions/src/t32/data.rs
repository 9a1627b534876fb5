//! Data processing with two halfwords (DDI 0406C A6.3.1, A6.3.3, A6.3.11 to A6.3.17).

use super::PIPELINE;
use crate::effects::{Effects, Flags};
use crate::instruction::{Relative, Use};
use crate::parts::{Data, Parts, Source};
use bitfield_struct::bitfield;
use hanok_decode::aarch32::Shift;
use hanok_decode::aarch32::{Register, Registers};

#[bitfield(u32)]
struct DataWord {
    #[bits(4)]
    rm: Register,
    #[bits(4)]
    op2: u8,
    #[bits(4)]
    rd: Register,
    #[bits(3)]
    imm3: u8,
    __: bool,
    #[bits(4)]
    rn: Register,
    set_flags: bool,
    #[bits(4)]
    operation: u8,
    __: bool,
    imm1: bool,
    #[bits(5)]
    __: u8,
}

impl DataWord {
    /// The upper nibble of the second halfword: Ra or RdLo.
    fn ra(self) -> Register {
        Register::from_bits((self.into_bits() >> 12) as u8)
    }

    /// The twelve bits of a constant.
    fn constant(self) -> u16 {
        let low = self.into_bits() as u16 & 0xff;
        u16::from(self.imm1()) << 11 | u16::from(self.imm3()) << 8 | low
    }
}

/// Whether neither the stack pointer nor the PC is among `registers`.
fn has_no_sp_or_pc(registers: Registers) -> bool {
    !registers.contains(Register::SP) && !registers.contains(Register::PC)
}

/// Data processing with a shifted register.
pub(super) fn shifted(both: u32) -> Parts {
    let word = DataWord::from_bits(both);
    let amount = word.imm3() << 2 | word.op2() >> 2;
    let bracket = both & 1 << 15 == 0;
    // PKHBT and PKHTB: T is bit 4, the upper one of `type` is bit 5.
    if word.operation() == 0b0110 {
        if word.set_flags() || word.op2() & 1 != 0 {
            return Parts::UNDEFINED;
        }
        let reads = word.rn().set().with(word.rm().set());
        let has_no_sp_or_pc = has_no_sp_or_pc(reads.with(word.rd().set()));
        return Parts::compute(word.rd(), reads).provided(has_no_sp_or_pc && bracket);
    }
    let source = Source::shifted(word.rm(), Shift::from_bits(word.op2(), amount));
    let fixed = bracket && word.rm() != Register::PC;
    process(word, source).map_or(Parts::UNDEFINED, |parts| parts.provided(fixed))
}

/// Data processing with a constant of eight bits, spread or rotated (A6.3.2).
pub(super) fn constant(both: u32) -> Parts {
    let word = DataWord::from_bits(both);
    let constant = word.constant();
    // A zero that is spread over all bytes is UNPREDICTABLE.
    let spread = constant >> 10 == 0;
    let zero = spread && constant & 0x300 != 0 && constant & 0xff == 0;
    let parts = process(word, Source::constant(!spread));
    parts.map_or(Parts::UNDEFINED, |parts| parts.provided(!zero))
}

/// The operations of both of these groups. Those that only write flags have the PC as destination;
/// those without a first operand have the PC as first operand.
fn process(word: DataWord, second: Source) -> Option<Parts> {
    let (rd, rn) = (word.rd(), word.rn());
    let compares = rd == Register::PC && word.set_flags();
    let (arithmetic, carry_in, may_compare, may_move) = match word.operation() {
        0b0000 | 0b0100 => (false, false, true, false),
        0b0001 => (false, false, false, false),
        0b0010 | 0b0011 => (false, false, false, true),
        0b1000 | 0b1101 => (true, false, true, false),
        0b1010 | 0b1011 => (true, true, false, false),
        0b1110 => (true, false, false, false),
        _ => return None,
    };
    let compares = compares && may_compare;
    let moves = may_move && rn == Register::PC;
    let all = Data {
        to: (!compares).then_some(rd),
        first: (!moves).then_some(rn),
        second,
        arithmetic,
        carry_in,
        set_flags: word.set_flags(),
    };
    let general = (compares || rd != Register::PC) && (moves || rn != Register::PC);
    Some(Parts::of(all.effects()).provided(general))
}

/// Data processing with a plain constant, and bit fields (A6.3.3).
pub(super) fn plain(both: u32) -> Parts {
    let word = DataWord::from_bits(both);
    let (rd, rn) = (word.rd(), word.rn());
    let from = rn.set();
    let parts = match both >> 20 & 0x1f {
        0b00000 | 0b01010 if rn == Register::PC => return address(word),
        0b00000 | 0b01010 => return Parts::compute(rd, from).provided(rd != Register::PC),
        0b00100 => Parts::compute(rd, Registers::NONE),
        0b01100 => Parts::compute(rd, rd.set()),
        0b10000 | 0b10010 | 0b11000 | 0b11010 => Parts::compute(rd, from).perhaps_saturating(),
        0b10100 | 0b11100 => Parts::compute(rd, from),
        // BFC and BFI.
        0b10110 if rn == Register::PC => Parts::compute(rd, rd.set()),
        0b10110 => Parts::compute(rd, rd.set().with(from)),
        _ => return Parts::UNDEFINED,
    };
    // For bit fields and saturation, bits 26 and 5 should be zero; for the saturation of both
    // halves, bit 4.
    let moves = both & 1 << 24 == 0;
    let halves = both >> 20 & 0x17 == 0b10010 && both & 0x70d0 == 0x10;
    let fixed = moves || both & (1 << 26 | 1 << 5) == 0 && !halves;
    parts.provided(fixed && has_no_sp_or_pc(parts.effects.reads.with(parts.effects.writes)))
}

/// ADR.
fn address(word: DataWord) -> Parts {
    let distance = i32::from(word.constant());
    let offset = if word.operation() == 0 {
        distance
    } else {
        -distance
    };
    let parts = Parts::compute(word.rd(), Register::PC.set());
    parts
        .naming(
            Use::Address,
            Relative {
                offset: offset + PIPELINE,
                aligned: true,
            },
        )
        .provided(has_no_sp_or_pc(word.rd().set()))
}

/// Data processing and multiplication of registers (A6.3.12, A6.3.16, A6.3.17).
pub(super) fn by_register(both: u32) -> Parts {
    let word = DataWord::from_bits(both);
    match both >> 23 & 0b11 {
        0b00 | 0b01 if word.ra() != Register::PC => Parts::UNDEFINED,
        0b00 => shift_or_extend(word),
        0b01 => parallel(word),
        0b10 => multiply(word),
        _ => multiply_long(word),
    }
}

/// The four bits above Rn.
fn op1(word: DataWord) -> u8 {
    word.operation() << 1 & 0b1111 | u8::from(word.set_flags())
}

fn shift_or_extend(word: DataWord) -> Parts {
    let (rd, rn, rm) = (word.rd(), word.rn(), word.rm());
    let operands = rn.set().with(rm.set());
    if word.op2() == 0 {
        let data = Data {
            to: Some(rd),
            first: None,
            second: Source::shifted_by(rn, rm),
            arithmetic: false,
            carry_in: false,
            set_flags: word.set_flags(),
        };
        return Parts::of(data.effects()).provided(has_no_sp_or_pc(operands.with(rd.set())));
    }
    if word.op2() & 0b1000 == 0 || op1(word) > 0b0101 {
        return Parts::UNDEFINED;
    }
    let reads = if rn == Register::PC {
        rm.set()
    } else {
        operands
    };
    let fixed = word.op2() & 0b0100 == 0;
    Parts::compute(rd, reads).provided(fixed && has_no_sp_or_pc(reads.with(rd.set())))
}

/// Parallel addition and subtraction, and what stands beside it (A6.3.13 to A6.3.15).
fn parallel(word: DataWord) -> Parts {
    let (rd, rn, rm) = (word.rd(), word.rn(), word.rm());
    let operands = rn.set().with(rm.set());
    let flags = Flags::new().with_ge(true);
    let parts = match (op1(word) & 0b111, word.op2()) {
        (0b000..=0b010 | 0b100..=0b110, op2 @ 0..=7) if op2 & 0b11 != 0b11 => {
            let parts = Parts::compute(rd, operands);
            let plain = op2 & 0b11 == 0;
            let effects = parts.effects;
            Parts {
                effects: if plain {
                    effects.setting_flags(flags)
                } else {
                    effects
                },
                ..parts
            }
        }
        (0b000, 0b1000..=0b1011) => Parts::compute(rd, operands).perhaps_saturating(),
        // REV and the like, and CLZ, have their operand twice.
        (0b001, 0b1000..=0b1011) | (0b011, 0b1000) => {
            Parts::compute(rd, rm.set()).provided(rn == rm)
        }
        (0b010, 0b1000) => {
            let parts = Parts::compute(rd, operands);
            Parts {
                effects: parts.effects.reading_flags(flags),
                ..parts
            }
        }
        _ => return Parts::UNDEFINED,
    };
    parts.provided(has_no_sp_or_pc(operands.with(rd.set())))
}

fn multiply(word: DataWord) -> Parts {
    let (rd, ra) = (word.rd(), word.ra());
    let factors = word.rn().set().with(word.rm().set());
    let alone = ra == Register::PC;
    let reads = if alone {
        factors
    } else {
        factors.with(ra.set())
    };
    let parts = Parts::compute(rd, reads);
    let parts = match (op1(word) & 0b111, word.op2()) {
        (0b000, 0) | (0b101, 0 | 1) | (0b111, 0) => parts,
        // MLS and SMMLS always have something to subtract from.
        (0b000, 1) | (0b110, 0 | 1) => Parts::compute(rd, factors.with(ra.set())).provided(!alone),
        // Without an addition only SMUAD can overflow.
        (0b001, 0..=3) | (0b011 | 0b100, 0 | 1) if alone => parts,
        (0b001, 0..=3) | (0b010..=0b100, 0 | 1) => parts.perhaps_saturating(),
        _ => return Parts::UNDEFINED,
    };
    parts.provided(has_no_sp_or_pc(parts.effects.reads.with(rd.set())))
}

/// "Long multiply, long multiply accumulate, and divide".
fn multiply_long(word: DataWord) -> Parts {
    let (low, high) = (word.ra(), word.rd());
    let factors = word.rn().set().with(word.rm().set());
    let both = low.set().with(high.set());
    let added = Effects::NONE.reading(factors.with(both)).setting(both);
    let parts = match (op1(word) & 0b111, word.op2()) {
        (0b000 | 0b010, 0) => Parts::of(Effects::NONE.reading(factors).setting(both)),
        (0b001 | 0b011, 0b1111) => {
            return Parts::compute(high, factors)
                .provided(low == Register::PC && has_no_sp_or_pc(factors.with(high.set())));
        }
        (0b100, 0 | 0b1000..=0b1101) | (0b101, 0b1100 | 0b1101) | (0b110, 0 | 0b0110) => {
            Parts::of(added)
        }
        _ => return Parts::UNDEFINED,
    };
    parts.provided(low != high && has_no_sp_or_pc(factors.with(both)))
}
