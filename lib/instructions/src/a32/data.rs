//! Data processing, and what shares its encoding space (DDI 0406C A5.2).

use super::{PIPELINE, called, memory};
use crate::effects::{Effects, Flags};
use crate::instruction::{Exception, Flow, Relative, Table, TableKind, Use};
use crate::parts::{Data, Parts, Source};
use bitfield_struct::bitfield;
use hanok_decode::aarch32::Shift;
use hanok_decode::aarch32::{Register, Registers};

/// The fields of data processing. Multiplications have their registers in other places.
#[bitfield(u32)]
pub(super) struct DataWord {
    #[bits(4)]
    rm: Register,
    by_register: bool,
    #[bits(2)]
    shift: u8,
    bit7: bool,
    #[bits(4)]
    rs: Register,
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
    fn constant_shift(self) -> Shift {
        Shift::from_bits(
            self.shift(),
            self.rs().number() << 1 | u8::from(self.bit7()),
        )
    }

    /// The constant of an immediate form (A5.2.4).
    fn constant(self) -> u32 {
        let rotation = u32::from(self.rs().number()) * 2;
        (self.into_bits() & 0xff).rotate_right(rotation)
    }

    /// Whether it compares without writing flags: these encodings belong to other instructions.
    fn is_other(self) -> bool {
        self.operation() & 0b1100 == 0b1000 && !self.set_flags()
    }
}

/// Decodes the words whose bits 27 to 25 are 000.
pub(super) fn register(word: u32) -> Parts {
    let data = DataWord::from_bits(word);
    match (data.by_register(), data.bit7(), data.shift()) {
        (true, true, 0b00) if data.operation() & 0b1000 == 0 => multiply(data),
        (true, true, 0b00) => memory::synchronize(word),
        (true, true, _) => memory::extra(word),
        (_, false, _) if data.is_other() => miscellaneous(data),
        (false, true, _) if data.is_other() => multiply_halves(data),
        (false, ..) => process(data, Source::shifted(data.rm(), data.constant_shift())),
        (true, false, _) => {
            let registers = [data.rd(), data.rn(), data.rm(), data.rs()];
            let source = Source::shifted_by(data.rm(), data.rs());
            let general = registers.into_iter().all(|one| one != Register::PC);
            process(data, source).provided(general)
        }
    }
}

/// Decodes the words whose bits 27 to 25 are 001.
pub(super) fn immediate(word: u32) -> Parts {
    let data = DataWord::from_bits(word);
    match (data.operation(), data.set_flags()) {
        // MOVW, MOVT.
        (0b1000, false) => {
            Parts::compute(data.rd(), Registers::NONE).provided(data.rd() != Register::PC)
        }
        (0b1010, false) => {
            let to = data.rd();
            Parts::compute(to, to.set()).provided(to != Register::PC)
        }
        // The hints that are not sensitive: NOP, DBG, and unallocated ones. All others are MSR,
        // which is sensitive.
        (0b1001 | 0b1011, false) => Parts::of(Effects::NONE).provided(word & 0xff00 == 0xf000),
        _ => process(data, Source::constant(data.rs().number() != 0)),
    }
}

fn process(data: DataWord, second: Source) -> Parts {
    let operation = data.operation();
    let compares = operation & 0b1100 == 0b1000;
    let moves = matches!(operation, 0b1101 | 0b1111);
    let all = Data {
        to: (!compares).then(|| data.rd()),
        first: (!moves).then(|| data.rn()),
        second,
        arithmetic: matches!(operation, 0b0010..=0b0111 | 0b1010 | 0b1011),
        carry_in: matches!(operation, 0b0101..=0b0111),
        set_flags: data.set_flags(),
    };
    let unused = if compares { data.rd() } else { data.rn() };
    let fixed = !(compares || moves) || unused.number() == 0;
    let parts = Parts::of(all.effects()).provided(fixed);
    let address = address(data);
    match address {
        _ if compares => parts,
        Some(at) if data.rd() == Register::PC => parts.going(Flow::Jump {
            target: at,
            by_register: false,
        }),
        Some(at) => parts.naming(Use::Address, at),
        None if data.rd() == Register::PC => parts.going(branch(data)),
        None => parts,
    }
}

/// The address that ADD or SUB of the PC and a constant gives.
fn address(data: DataWord) -> Option<Relative> {
    let constant = data.constant().cast_signed();
    let offset = match data.operation() {
        0b0100 => constant,
        0b0010 => constant.wrapping_neg(),
        _ => return None,
    };
    let found = data.immediate() && data.rn() == Register::PC && !data.set_flags();
    found.then_some(Relative {
        offset: offset.wrapping_add(PIPELINE),
        aligned: false,
    })
}

/// Where data processing that writes the PC goes.
fn branch(data: DataWord) -> Flow {
    let shift = data.constant_shift();
    let by_constant = !data.immediate() && !data.by_register();
    match data.operation() {
        0b1101 if by_constant && shift.is_none() => Flow::Register(data.rm()),
        0b0100 if by_constant && data.rn() == Register::PC && data.shift() == 0 => {
            Flow::Table(Table {
                kind: TableKind::Code,
                base: Register::PC,
                index: data.rm(),
                shift: shift.amount,
                at: Some(Relative {
                    offset: PIPELINE,
                    aligned: false,
                }),
            })
        }
        _ => Flow::Computed,
    }
}

/// BX, BLX, BXJ, CLZ, saturating addition, BKPT (A5.2.12).
fn miscellaneous(data: DataWord) -> Parts {
    let operation = data.operation() & 0b11;
    let kind = data.shift() << 1 | u8::from(data.by_register());
    let to_pc = data.into_bits() & 0x000f_ff00 == 0x000f_ff00;
    let rm = data.rm();
    let reading = Parts::of(Effects::NONE.reading(rm.set()));
    match (kind, operation) {
        (0b001, 0b01) => reading.leaving(Flow::Register(rm)).provided(to_pc),
        (0b010, 0b01) => reading
            .leaving(Flow::Register(rm))
            .provided(to_pc && rm != Register::PC),
        (0b011, 0b01) => {
            let mut parts = called(Flow::CallRegister(rm));
            parts.effects = parts.effects.reading(rm.set());
            parts.provided(to_pc && rm != Register::PC)
        }
        (0b001, 0b11) => {
            let fixed = data.rn() == Register::PC && data.rs() == Register::PC;
            let general = data.rd() != Register::PC && rm != Register::PC;
            Parts::compute(data.rd(), rm.set()).provided(fixed && general)
        }
        (0b101, _) => {
            let general = [data.rd(), data.rn(), rm]
                .into_iter()
                .all(|one| one != Register::PC);
            let reads = rm.set().with(data.rn().set());
            let parts = Parts::compute(data.rd(), reads).perhaps_saturating();
            parts.provided(general && data.rs().number() == 0)
        }
        (0b111, 0b01) => {
            let word = data.into_bits();
            let number = (word >> 4 & 0xfff0 | word & 0xf) as u16;
            let flow = Flow::Exception(Exception::Breakpoint(number));
            Parts::of(Effects::UNKNOWN)
                .going(flow)
                .provided(word >> 28 == 0b1110)
        }
        _ => Parts::UNDEFINED,
    }
}

/// N and Z, if the instruction sets flags.
fn flags(parts: Parts, set: bool) -> Parts {
    if !set {
        return parts;
    }
    Parts {
        effects: parts.effects.setting_flags(Flags::NZ),
        ..parts
    }
}

/// "Multiply and multiply accumulate" (A5.2.5): the result is in the place of Rn, and the addend in
/// that of Rd.
fn multiply(data: DataWord) -> Parts {
    let (to, added) = (data.rn(), data.rd());
    let factors = data.rm().set().with(data.rs().set());
    let both = to.set().with(added.set());
    let long = |reads: Registers| Parts::of(Effects::NONE.reading(reads).setting(both));
    let (parts, fixed) = match (data.operation() & 0b111, data.set_flags()) {
        (0b000, _) => (Parts::compute(to, factors), added.number() == 0),
        (0b001, _) | (0b011, false) => (Parts::compute(to, factors.with(added.set())), true),
        (0b010, false) | (0b101 | 0b111, _) => (long(factors.with(both)), true),
        (0b100 | 0b110, _) => (long(factors), true),
        _ => return Parts::UNDEFINED,
    };
    let general = !factors.with(both).contains(Register::PC);
    flags(parts, data.set_flags()).provided(fixed && general)
}

/// "Halfword multiply and multiply accumulate" (A5.2.7).
fn multiply_halves(data: DataWord) -> Parts {
    let (to, added) = (data.rn(), data.rd());
    let factors = data.rm().set().with(data.rs().set());
    let both = to.set().with(added.set());
    let (parts, fixed) = match (data.operation() & 0b11, data.shift() & 1 == 1) {
        (0b00, _) | (0b01, false) => (
            Parts::compute(to, factors.with(added.set())).perhaps_saturating(),
            true,
        ),
        (0b10, _) => (
            Parts::of(Effects::NONE.reading(factors.with(both)).setting(both)),
            true,
        ),
        _ => (Parts::compute(to, factors), added.number() == 0),
    };
    let read = if fixed && added.number() == 0 {
        factors.with(to.set())
    } else {
        factors.with(both)
    };
    parts.provided(fixed && !read.contains(Register::PC))
}
