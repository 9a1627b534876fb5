//! A32 and T32.

mod a32;
mod coprocessor;
mod emit_a32;
mod emit_t32;
mod rows;
mod t32;
pub(crate) mod words;

pub(crate) use emit_a32::emit_a32;
pub(crate) use emit_t32::emit_t32;
pub(crate) use words::{a32_branch, t32_branch};

use crate::Refused;
use hanok_decode::aarch32::Encoding;

/// The stack pointer, the link register and the PC.
pub(crate) const SP: u32 = 13;
pub(crate) const LR: u32 = 14;
pub(crate) const PC: u32 = 15;
/// The condition that always holds.
pub(crate) const ALWAYS: u32 = 14;
/// Bit 0 of a target: it is T32 code.
pub(crate) const THUMB: u32 = 1;

/// What an instruction does, as far as its address matters. All of it is under the instruction's
/// condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// It does the same anywhere.
    Same,
    /// It is a hint that is left out.
    Nothing,
    /// It is this instruction, if the register has that value.
    With {
        register: u32,
        value: u32,
        then: Encoding,
    },
    /// It puts a constant into a register, and sets no flags.
    Constant { register: u32, value: u32 },
    /// It adds a constant to a register, and sets no flags.
    Add { register: u32, value: u32 },
    /// It branches if a condition holds.
    Jump { condition: u32, target: u32 },
    /// CBZ and CBNZ: it branches unless `inverse`, whose offset is zero, branches.
    Test { inverse: u16, target: u32 },
    /// It calls.
    Call(u32),
    /// It calls the address in a register.
    CallRegister(u32),
}

/// The meaning, or a refusal.
type Found = Result<Meaning, Refused>;

const fn bit(word: u32, number: u32) -> bool {
    word >> number & 1 == 1
}

const fn field(word: u32, lowest: u32, bits: u32) -> u32 {
    word >> lowest & ((1 << bits) - 1)
}

/// [`Meaning::Same`] if the encoding is one that is defined.
const fn same(defined: bool) -> Found {
    if defined {
        Ok(Meaning::Same)
    } else {
        Err(Refused::Unknown)
    }
}

/// An instruction that reads the PC, with a register in its place that it overwrites anyway. The
/// stack pointer cannot be that: an interrupt would use it in between.
const fn with(register: u32, value: u32, then: Encoding) -> Found {
    if register == SP || register == PC {
        return Err(Refused::NeedsRegister);
    }
    Ok(Meaning::With {
        register,
        value,
        then,
    })
}

/// A call of the address in a register, which must not be the one that the return address is put
/// into.
const fn call_register(register: u32) -> Found {
    match register {
        LR => Err(Refused::NeedsRegister),
        PC => Err(Refused::Unknown),
        _ => Ok(Meaning::CallRegister(register)),
    }
}
