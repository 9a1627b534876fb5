//! Loads and stores with two halfwords (DDI 0406C A6.3.5 to A6.3.10).

use super::PIPELINE;
use crate::effects::Effects;
use crate::instruction::{Flow, Relative, Table, TableKind, Use};
use crate::parts::{Memory, Parts, address_table};
use hanok_decode::aarch32::words::WideTransferWord;
use hanok_decode::aarch32::{Register, Registers};

/// LDM and STM; with P and U equal they are sensitive.
pub(super) fn multiple(both: u32) -> Parts {
    let word = WideTransferWord::from_bits(both);
    let registers = Registers::from_bits(both as u16);
    let access = Memory {
        load: word.load(),
        registers,
        base: word.rn(),
        index: Registers::NONE,
        write_back: word.write_back(),
    };
    let both_branch_and_link = registers.contains(Register::PC) && registers.contains(Register::LR);
    let fixed = !registers.contains(Register::SP)
        && if word.load() {
            !both_branch_and_link
        } else {
            !registers.contains(Register::PC)
        };
    let twice = word.write_back() && registers.contains(word.rn());
    let some = registers.count() > 1 && word.rn() != Register::PC;
    access.parts().provided(some && fixed && !twice)
}

/// "Load/store dual, load/store exclusive, table branch" (A6.3.6).
pub(super) fn dual(both: u32) -> Parts {
    let word = WideTransferWord::from_bits(both);
    match (word.before(), word.up(), word.write_back()) {
        (false, false, false) => exclusive(word),
        (false, true, false) if word.load() => table_or_exclusive(word),
        (false, true, false) => exclusive_part(word),
        _ => pair(word),
    }
}

/// LDREX, STREX.
fn exclusive(word: WideTransferWord) -> Parts {
    let (base, rt) = (word.rn().set(), word.rt());
    let parts = if word.load() {
        Parts::compute(rt, base).provided(word.second() == Register::PC)
    } else {
        Parts::compute(word.second(), base.with(rt.set()))
    };
    parts.provided(
        has_no_sp_or_pc(parts.effects.writes)
            && word.rn() != Register::PC
            && has_no_sp_or_pc(rt.set()),
    )
}

/// STREXB, STREXH, STREXD. Others belong to ARMv8.
fn exclusive_part(word: WideTransferWord) -> Parts {
    let (base, status) = (word.rn().set(), Register::from_bits(word.low()));
    let both = word.rt().set().with(word.second().set());
    let parts = match word.low() >> 4 {
        0b0100 | 0b0101 => {
            let fixed = word.second() == Register::PC;
            Parts::compute(status, base.with(word.rt().set())).provided(fixed)
        }
        0b0111 => Parts::compute(status, base.with(both)).provided(has_no_sp_or_pc(both)),
        0b0110 => return Parts::UNDEFINED,
        0b0000..=0b0011 => return Parts::UNDEFINED,
        _ => return Parts::UNPREDICTABLE,
    };
    let general = has_no_sp_or_pc(status.set()) && has_no_sp_or_pc(word.rt().set());
    parts.provided(general && word.rn() != Register::PC)
}

/// TBB, TBH; LDREXB, LDREXH, LDREXD.
fn table_or_exclusive(word: WideTransferWord) -> Parts {
    let (base, rt) = (word.rn().set(), word.rt());
    let pair = rt.set().with(word.second().set());
    let (parts, fixed) = match word.low() >> 4 {
        0b0000 | 0b0001 => return table(word),
        0b0100 | 0b0101 => (Parts::compute(rt, base), word.low() & 0xf == 0xf),
        0b0111 => {
            let different = rt != word.second() && word.low() & 0xf == 0xf;
            (
                Parts::of(Effects::NONE.reading(base).setting(pair)),
                different,
            )
        }
        0b0010 | 0b0011 | 0b0110 => return Parts::UNDEFINED,
        _ => return Parts::UNPREDICTABLE,
    };
    let single = word.low() >> 4 == 0b0111 || word.second() == Register::PC;
    let general = has_no_sp_or_pc(parts.effects.writes) && word.rn() != Register::PC;
    parts.provided(fixed && single && general)
}

fn table(word: WideTransferWord) -> Parts {
    let halfwords = word.low() & 0b1_0000 != 0;
    let at = Relative {
        offset: PIPELINE,
        aligned: false,
    };
    let flow = Flow::Table(Table {
        kind: if halfwords {
            TableKind::Halfwords
        } else {
            TableKind::Bytes
        },
        base: word.rn(),
        index: word.rm(),
        shift: u8::from(halfwords),
        at: (word.rn() == Register::PC).then_some(at),
    });
    let reads = word.rn().set().with(word.rm().set());
    let fixed = word.rt() == Register::PC && word.middle() == 0;
    let general = has_no_sp_or_pc(word.rm().set()) && word.rn() != Register::SP;
    Parts::of(Effects::NONE.reading(reads))
        .leaving(flow)
        .provided(fixed && general)
}

/// LDRD, STRD.
fn pair(word: WideTransferWord) -> Parts {
    let registers = word.rt().set().with(word.second().set());
    let access = Memory {
        load: word.load(),
        registers,
        base: word.rn(),
        index: Registers::NONE,
        write_back: word.write_back(),
    };
    let pc = word.rn() == Register::PC;
    let twice = access.write_back && (pc || registers.contains(word.rn()));
    let different = !word.load() || word.rt() != word.second();
    let parts = Parts::of(access.effects());
    let parts =
        parts.provided(has_no_sp_or_pc(registers) && !twice && different && (!pc || word.load()));
    if !pc || access.write_back {
        return parts;
    }
    let distance = i32::from(word.low()) * 4;
    let at = place(word.up(), distance);
    parts.naming(
        if word.load() {
            Use::Load(8)
        } else {
            Use::Store(8)
        },
        at,
    )
}

fn place(up: bool, distance: i32) -> Relative {
    let offset = PIPELINE + if up { distance } else { -distance };
    Relative {
        offset,
        aligned: true,
    }
}

/// Whether neither the stack pointer nor the PC is among `registers`.
fn has_no_sp_or_pc(registers: Registers) -> bool {
    !registers.contains(Register::SP) && !registers.contains(Register::PC)
}

/// Loads and stores of one register. Their width is where others have the write-back bit (A6.3.7 to
/// A6.3.10).
pub(super) fn single(both: u32) -> Parts {
    let word = WideTransferWord::from_bits(both);
    let size = both >> 21 & 0b11;
    let signed = word.before();
    if size == 0b11 || signed && (size == 0b10 || !word.load()) {
        return Parts::UNDEFINED;
    }
    // A load of less than a word into the PC is a preload (PLD, PLI) or does nothing.
    let hint = word.load() && word.rt() == Register::PC && size != 0b10;
    if word.rn() == Register::PC {
        return if word.load() {
            literal(word, 1 << size, hint)
        } else {
            Parts::UNDEFINED
        };
    }
    match address(word) {
        Some(found) if hint && !found.write_back => {
            let reads = word.rn().set().with(found.index);
            Parts::of(Effects::NONE.reading(reads)).provided(found.index_has_no_sp_or_pc())
        }
        Some(found) => access(word, found, size),
        None => Parts::UNDEFINED,
    }
}

/// How an address is formed.
struct Address {
    index: Registers,
    write_back: bool,
    /// The number of bits by which the index is shifted left.
    shift: u8,
}

impl Address {
    fn index_has_no_sp_or_pc(&self) -> bool {
        has_no_sp_or_pc(self.index)
    }
}

fn address(word: WideTransferWord) -> Option<Address> {
    let none = Address {
        index: Registers::NONE,
        write_back: false,
        shift: 0,
    };
    // With U set, twelve bits follow; with it clear, P, U and W stand below bit 11.
    if word.up() {
        return Some(none);
    }
    match word.middle() {
        0b0000 if word.low() >> 6 == 0 => Some(Address {
            index: word.rm().set(),
            shift: word.low() >> 4 & 0b11,
            ..none
        }),
        0b1100 => Some(none),
        0b1001 | 0b1011 | 0b1101 | 0b1111 => Some(Address {
            write_back: true,
            ..none
        }),
        _ => None,
    }
}

fn access(word: WideTransferWord, found: Address, size: u32) -> Parts {
    let rt = word.rt();
    let access = Memory {
        load: word.load(),
        registers: rt.set(),
        base: word.rn(),
        index: found.index,
        write_back: found.write_back,
    };
    let pc = rt == Register::PC && (!word.load() || size != 0b10);
    let stack = rt == Register::SP && size != 0b10;
    let twice = found.write_back && rt == word.rn();
    let parts = access
        .parts()
        .provided(!pc && !stack && !twice && found.index_has_no_sp_or_pc());
    let table = word.load() && rt == Register::PC && !found.index.is_empty() && found.shift == 2;
    if table {
        // Rn is not the PC: that would be a load of a literal.
        return parts.going(address_table(word.rn(), word.rm(), place(true, 0)));
    }
    parts
}

/// LDR and the like from the PC; U says in which direction.
fn literal(word: WideTransferWord, bytes: u8, hint: bool) -> Parts {
    let distance = (word.into_bits() & 0xfff).cast_signed();
    let at = place(word.up(), distance);
    if hint {
        // PLD and PLI; the bit that makes PLDW of a PLD with a base should be zero.
        let plain = bytes == 1 || word.before();
        let parts = Parts::of(Effects::NONE.reading(Register::PC.set()));
        return parts.naming(Use::Preload, at).provided(plain);
    }
    let access = Memory {
        load: true,
        registers: word.rt().set(),
        base: Register::PC,
        index: Registers::NONE,
        write_back: false,
    };
    let stack = word.rt() == Register::SP && bytes != 4;
    access.parts().naming(Use::Load(bytes), at).provided(!stack)
}
