//! Loads and stores of core registers (DDI 0406C A5.2.8, A5.2.10, A5.3, A5.5).

use super::PIPELINE;
use crate::effects::Effects;
use crate::instruction::{Relative, Use};
use crate::parts::{Memory, Parts, address_table};
use hanok_decode::aarch32::words::{BlockWord, ExclusiveWord, TransferWord};
use hanok_decode::aarch32::{Register, Registers, Shift, ShiftKind};

const fn moves_base(word: TransferWord) -> bool {
    !word.before() || word.write_back()
}

/// The place at a constant distance from the PC.
pub(super) fn place(word: TransferWord, distance: u16) -> Relative {
    let distance = i32::from(distance);
    let offset = PIPELINE + if word.add() { distance } else { -distance };
    Relative {
        offset,
        aligned: false,
    }
}

fn memory(word: TransferWord, load: bool, registers: Registers, by_register: bool) -> Memory {
    let index = if by_register {
        word.rm().set()
    } else {
        Registers::NONE
    };
    Memory {
        load,
        registers,
        base: word.rn(),
        index,
        write_back: moves_base(word),
    }
}

/// Whether the base is neither a PC that is written back, nor a register that is also loaded or
/// stored.
fn base_is_free(access: &Memory) -> bool {
    let pc = access.base == Register::PC;
    !access.write_back || !pc && !access.registers.contains(access.base)
}

const fn used(load: bool, bytes: u8) -> Use {
    if load {
        Use::Load(bytes)
    } else {
        Use::Store(bytes)
    }
}

/// LDR, STR, LDRB, STRB.
pub(super) fn single(word: u32) -> Parts {
    let word = TransferWord::from_bits(word);
    let access = memory(word, word.load(), word.rt().set(), word.by_register());
    let byte_of_pc = word.byte() && word.rt() == Register::PC;
    let index = !word.by_register() || word.rm() != Register::PC;
    let parts = access
        .parts()
        .provided(base_is_free(&access) && !byte_of_pc && index);
    if word.by_register() {
        return indexed(word, parts);
    }
    if word.rn() == Register::PC && !access.write_back {
        let distance = word.into_bits() as u16 & 0xfff;
        let bytes = if word.byte() { 1 } else { 4 };
        return parts.naming(used(word.load(), bytes), place(word, distance));
    }
    parts
}

fn indexed(word: TransferWord, parts: Parts) -> Parts {
    let shift = Shift::from_bits(word.kind(), word.amount());
    let carry = shift.kind == ShiftKind::Rrx;
    let effects = if carry {
        parts
            .effects
            .reading_flags(crate::effects::Flags::new().with_c(true))
    } else {
        parts.effects
    };
    let parts = Parts { effects, ..parts };
    let fourfold = shift
        == Shift {
            kind: ShiftKind::Lsl,
            amount: 2,
        };
    let table = word.load() && word.rt() == Register::PC && fourfold && word.add();
    if table && word.before() && !word.write_back() && !word.byte() {
        return parts.going(address_table(word.rn(), word.rm(), place(word, 0)));
    }
    parts
}

/// LDRH, STRH, LDRSB, LDRSH, LDRD, STRD.
pub(super) fn extra(bits: u32) -> Parts {
    let word = TransferWord::from_bits(bits);
    let constant = word.byte();
    let (load, bytes) = match (word.load(), word.kind()) {
        (false, 0b10) => (true, 8),
        (false, 0b11) => (false, 8),
        (load, 0b10) => (load, 1),
        (load, _) => (load, 2),
    };
    // P clear and W set was LDRHT and the like; for two registers that encoding is unallocated.
    if !word.before() && word.write_back() {
        return Parts::UNDEFINED;
    }
    let rt = word.rt();
    let registers = if bytes == 8 {
        rt.set().with(rt.next().set())
    } else {
        rt.set()
    };
    let access = memory(word, load, registers, !constant);
    let even = bytes != 8 || rt.number() & 1 == 0;
    let fixed = constant || bits & 0xf00 == 0 && word.rm() != Register::PC;
    let general = !registers.contains(Register::PC);
    // Loading the PC with these is no known branch.
    let parts = Parts::of(access.effects());
    let parts = parts.provided(base_is_free(&access) && even && fixed && general);
    if word.rn() == Register::PC && constant && !access.write_back {
        let distance = (bits >> 4 & 0xf0 | bits & 0xf) as u16;
        return parts.naming(used(load, bytes), place(word, distance));
    }
    parts
}

/// "Synchronization primitives" (A5.2.10).
pub(super) fn synchronize(word: u32) -> Parts {
    let word = ExclusiveWord::from_bits(word);
    let (to, base, value) = (word.rd(), word.rn().set(), word.value());
    let double = word.size() == 0b01;
    let pair = |first: Register| first.set().with(first.next().set());
    let pairs = if word.load() { to } else { value };
    let even = !double || !word.exclusive() || pairs.number() & 1 == 0;
    let fixed = even && (!word.load() || value == Register::PC);
    let parts = match (word.exclusive(), word.load(), word.one()) {
        // SWP, SWPB.
        (false, false, fixed) if word.size() & 1 == 0 => {
            Parts::compute(to, base.with(value.set())).provided(fixed == 0)
        }
        (true, true, 0b1111) if double => Parts::of(Effects::NONE.reading(base).setting(pair(to))),
        (true, true, 0b1111) => Parts::compute(to, base),
        (true, false, 0b1111) if double => Parts::compute(to, base.with(pair(value))),
        (true, false, 0b1111) => Parts::compute(to, base.with(value.set())),
        // Acquire and release belong to ARMv8.
        (true, ..) => return Parts::UNPREDICTABLE,
        _ => return Parts::UNDEFINED,
    };
    let general = !parts
        .effects
        .reads
        .with(parts.effects.writes)
        .contains(Register::PC);
    parts.provided(fixed && general)
}

/// LDM and STM without a caret.
pub(super) fn block(word: u32) -> Parts {
    let word = BlockWord::from_bits(word);
    let registers = Registers::from_bits(word.list());
    let access = Memory {
        load: word.load(),
        registers,
        base: word.rn(),
        index: Registers::NONE,
        write_back: word.write_back(),
    };
    let twice = word.load() && word.write_back() && registers.contains(word.rn());
    let some = !registers.is_empty() && word.rn() != Register::PC;
    access.parts().provided(some && !twice)
}
