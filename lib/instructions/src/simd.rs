//! VFP and Advanced SIMD, as far as they use core registers, flags and places in the code (DDI
//! 0406C A7). Both instruction sets have the same lower 28 bits.

use crate::effects::{Effects, Flags};
use crate::instruction::{Relative, Use};
use crate::parts::{Memory, Parts};
use bitfield_struct::bitfield;
use hanok_decode::aarch32::{Register, Registers};

/// "Extension register load/store" (A7.6), "64-bit transfers" (A7.9).
#[bitfield(u32)]
struct ExtensionWord {
    #[bits(8)]
    words: u8,
    double: bool,
    #[bits(3)]
    __: u8,
    #[bits(4)]
    rt: Register,
    #[bits(4)]
    rn: Register,
    load: bool,
    write_back: bool,
    upper: bool,
    up: bool,
    before: bool,
    #[bits(7)]
    __: u8,
}

/// Decodes transfers between core registers and extension registers, and operations on the latter.
/// `pipeline` is the distance from the instruction to its PC. For other coprocessors only the
/// encodings are left here that are UNDEFINED for them and for these (P, U, W and D clear).
pub(super) fn extension(bits: u32, pipeline: i32) -> Parts {
    match bits >> 24 & 0xf {
        0b1110 if bits & 0x10 != 0 => transfer(TransferWord::from_bits(bits)),
        0b1110 => Parts::of(Effects::NONE),
        _ => memory(ExtensionWord::from_bits(bits), pipeline),
    }
}

fn memory(word: ExtensionWord, pipeline: i32) -> Parts {
    if !word.before() && !word.up() && !word.write_back() {
        return if word.upper() {
            pair(word)
        } else {
            Parts::UNDEFINED
        };
    }
    let access = Memory {
        load: word.load(),
        registers: Registers::NONE,
        base: word.rn(),
        index: Registers::NONE,
        write_back: word.write_back(),
    };
    let single = word.before() && !word.write_back();
    let parts = access
        .parts()
        .provided(word.rn() != Register::PC || !word.write_back());
    if word.rn() != Register::PC || !single {
        return parts;
    }
    let distance = i32::from(word.words()) * 4;
    let offset = pipeline + if word.up() { distance } else { -distance };
    let bytes = if word.double() { 8 } else { 4 };
    let used = if word.load() {
        Use::Load(bytes)
    } else {
        Use::Store(bytes)
    };
    parts.naming(
        used,
        Relative {
            offset,
            aligned: true,
        },
    )
}

/// VMOV of two core registers.
fn pair(word: ExtensionWord) -> Parts {
    let both = word.rt().set().with(word.rn().set());
    let effects = if word.load() {
        Effects::NONE.setting(both)
    } else {
        Effects::NONE.reading(both)
    };
    Parts::of(effects).provided(!both.contains(Register::PC))
}

/// "8, 16, and 32-bit transfer between ARM core and extension registers" (A7.8).
#[bitfield(u32)]
struct TransferWord {
    #[bits(8)]
    __: u8,
    eleven: bool,
    #[bits(3)]
    __: u8,
    #[bits(4)]
    rt: Register,
    #[bits(4)]
    rn: u8,
    load: bool,
    #[bits(3)]
    operation: u8,
    #[bits(8)]
    __: u8,
}

fn transfer(word: TransferWord) -> Parts {
    let status = !word.eleven() && word.operation() == 0b111;
    match (word.load(), word.rt()) {
        // VMRS APSR_nzcv, FPSCR.
        (true, Register::PC) if status && word.rn() == 1 => {
            Parts::of(Effects::NONE.setting_flags(Flags::NZCV))
        }
        (true, to) => Parts::compute(to, Registers::NONE).provided(to != Register::PC),
        (false, from) => {
            Parts::of(Effects::NONE.reading(from.set())).provided(from != Register::PC)
        }
    }
}

/// "Advanced SIMD element or structure load/store" (A7.7), with the same fields in both sets. Rm
/// says whether the base moves, and by what.
pub(super) fn structures(bits: u32) -> Parts {
    let word = ExtensionWord::from_bits(bits);
    let index = Register::from_bits(word.words());
    let by_register = index != Register::PC && index != Register::SP;
    let access = Memory {
        load: word.write_back(),
        registers: Registers::NONE,
        base: word.rn(),
        index: if by_register {
            index.set()
        } else {
            Registers::NONE
        },
        write_back: index != Register::PC,
    };
    access.parts().provided(word.rn() != Register::PC)
}
