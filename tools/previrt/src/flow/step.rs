//! What one instruction says about where the code goes on, and where data is.
//!
//! The decoder of `hanok_decode` knows most of it. This module turns it into addresses, and adds
//! two things that only this use needs: the constant that a register is compared with, which is the
//! length of a jump table, and whether the instruction makes a return address by hand.

use hanok_decode::aarch32::{Encoding, Isa, ItState, Operation, Register, Registers};
use hanok_instructions::{
    Definition, Exception, Flow, Instruction, Table, TableKind, Use, decode_a32, decode_t32,
};

/// Where the code goes on after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At the next instruction.
    Falls,
    /// At `to`, and at the next instruction if a condition fails.
    Branch {
        /// The target address.
        to: u32,
        /// Whether the branch has a condition.
        conditional: bool,
    },
    /// At the next instruction, if the function that is called returns. The target, where it is
    /// constant.
    Call(Option<(u32, Isa)>),
    /// At a target that the instruction alone does not tell, and at the next instruction if a
    /// condition fails.
    Away {
        /// Whether the branch has a condition.
        conditional: bool,
        /// What may tell the target.
        by: Jump,
    },
    /// Nowhere: the instruction is undefined.
    Stops,
}

/// How an indirect branch finds its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jump {
    /// By a value from the stack, or by an exception return: it returns to the caller.
    Back,
    /// By a calculation or from memory, of which nothing more is known.
    Unknown,
    /// By the address in this register.
    Register(Register),
    /// By a jump table.
    Table(Table),
    /// By the word at this address.
    Literal(u32),
    /// To A32 code at this address, from T32.
    Switch(u32),
    /// By a distance that is added to this address, where code is as well.
    Near(u32),
}

/// One instruction's effect on the flow of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowStep {
    /// The instruction's length in bytes.
    pub len: u32,
    /// Where the code goes on.
    pub next: Next,
    /// The data that it loads by the PC: address and number of bytes.
    pub literal: Option<(u32, u32)>,
    /// The register that gets a PC-relative address, and the address.
    pub address: Option<(Register, u32)>,
    /// The register that is compared with a constant, and the constant.
    pub compare: Option<(Register, u32)>,
    /// Whether LR gets the PC: the branch that follows is a call.
    pub links: bool,
    /// The registers that it may write.
    pub writes: Registers,
    /// Whether it may write flags.
    pub sets_flags: bool,
    /// Whether a compiler or a kernel's programmer would have written it.
    pub plausible: bool,
}

impl FlowStep {
    /// Whether the next instruction may be executed after this one.
    pub const fn may_fall(&self) -> bool {
        match self.next {
            Next::Falls | Next::Call(_) => true,
            Next::Branch { conditional, .. } | Next::Away { conditional, .. } => conditional,
            Next::Stops => false,
        }
    }

    /// Whether it calls a function, which may write the registers that a function need not
    /// preserve.
    pub const fn calls(&self) -> bool {
        matches!(self.next, Next::Call(_))
    }
}

/// The coprocessors of ARMv7-A and of what came before it: XScale's and iWMMXt (0, 1), those of I/O
/// processors (6), VFP (10, 11), XScale's performance counters and debug (14), and the system's
/// (15).
const COPROCESSORS: [u8; 7] = [0, 1, 6, 10, 11, 14, 15];

/// The coprocessors of a CPU with T32: VFP, debug, and the system's.
const COPROCESSORS_T32: [u8; 4] = [10, 11, 14, 15];

/// Whether a compiler or a kernel's programmer would have written it: an instruction that the
/// manual defines, or the kernel's mark of a bug, for no coprocessor that was never built.
pub fn plausible(found: &Instruction) -> bool {
    let defined = match found.flow {
        Flow::Exception(Exception::Undefined) => {
            marks_bug(found.encoding) || moves_vfp(found.encoding)
        }
        _ if moves_vfp(found.encoding) => true,
        _ => found.definition == Definition::Defined,
    };
    let coprocessors: &[u8] = match found.encoding.isa() {
        Isa::A32 => &COPROCESSORS,
        Isa::T32 => &COPROCESSORS_T32,
    };
    let known = match found.sensitive.map(|found| found.operation) {
        Some(Operation::Coprocessor(coprocessor)) => coprocessors.contains(&coprocessor.number),
        _ => true,
    };
    defined && known
}

/// Whether it moves to or from a register of the VFP unit. Krait and Scorpion have more such
/// registers than the manual: their counters.
const fn moves_vfp(encoding: Encoding) -> bool {
    match encoding {
        Encoding::A32(word) => word & 0x0fe0_0f10 == 0x0ee0_0a10 && word >> 28 != 0xf,
        Encoding::Wide(word) => word & 0xffe0_0f10 == 0xeee0_0a10,
        Encoding::Narrow(_) => false,
    }
}

/// Whether it is permanently undefined: Linux uses such instructions for BUG() and for its own
/// breakpoints.
const fn marks_bug(encoding: Encoding) -> bool {
    match encoding {
        Encoding::A32(word) => word & 0xfff0_00f0 == 0xe7f0_00f0,
        Encoding::Narrow(half) => half >> 8 == 0xde,
        Encoding::Wide(word) => word & 0xfff0_f000 == 0xf7f0_a000,
    }
}

/// Decodes `encoding` at the place `it` in an IT block.
pub fn decode(encoding: Encoding, it: ItState) -> Instruction {
    match encoding {
        Encoding::A32(word) => decode_a32(word),
        Encoding::Narrow(half) => decode_t32(half, 0, it),
        Encoding::Wide(both) => decode_t32((both >> 16) as u16, both as u16, it),
    }
}

/// What the instruction `encoding` at `at` says about the flow of the code.
pub fn step(encoding: Encoding, at: u32, it: ItState) -> FlowStep {
    let found = decode(encoding, it);
    let reference = found
        .reference
        .map(|reference| (reference.used, reference.at.from(at)));
    FlowStep {
        len: found.bytes(),
        next: next(&found, at),
        literal: match reference {
            Some((Use::Load(len), place)) => Some((place, u32::from(len))),
            _ => None,
        },
        address: match reference {
            Some((Use::Address, place)) => found
                .effects
                .writes
                .iter()
                .next()
                .map(|register| (register, place)),
            _ => None,
        },
        compare: compare(encoding),
        writes: found.effects.writes,
        sets_flags: !found.effects.flags_written.is_empty(),
        plausible: plausible(&found),
        links: matches!(
            encoding,
            Encoding::A32(0xe1a0_e00f) | Encoding::Narrow(0x46fe)
        ),
    }
}

fn next(found: &Instruction, at: u32) -> Next {
    let conditional = !found.condition.is_always();
    let away = |by| Next::Away { conditional, by };
    match found.flow {
        Flow::Next => Next::Falls,
        Flow::Jump {
            target,
            by_register,
        } => Next::Branch {
            to: target.from(at),
            conditional: conditional || by_register,
        },
        Flow::Call { target, isa } => Next::Call(Some((target.from(at), isa))),
        Flow::CallRegister(_) => Next::Call(None),
        // The PC is even, so that BX pc of T32 goes to the A32 code behind it.
        Flow::Register(Register::PC) if found.encoding.isa() == Isa::T32 => {
            away(Jump::Switch(at.wrapping_add(4) & !3))
        }
        Flow::Register(register) => away(Jump::Register(register)),
        Flow::Loaded => away(match found.reference {
            Some(reference) => Jump::Literal(reference.at.from(at)),
            None if found.effects.reads.contains(Register::SP) => Jump::Back,
            None => Jump::Unknown,
        }),
        Flow::Return => away(Jump::Back),
        Flow::Table(table) => away(Jump::Table(table)),
        // Into the code behind it, as in an unrolled copy loop.
        Flow::Computed if found.effects.reads.contains(Register::PC) => {
            away(Jump::Near(at.wrapping_add(2 * found.bytes())))
        }
        Flow::Computed => away(Jump::Unknown),
        Flow::Exception(Exception::Undefined) => Next::Stops,
        Flow::Exception(_) => Next::Falls,
    }
}

/// CMP of a register with a constant (DDI 0406C A8.8.37); in T32, with a constant below 256.
fn compare(encoding: Encoding) -> Option<(Register, u32)> {
    let register = |bits: u32| Register::from_bits(bits as u8);
    match encoding {
        Encoding::A32(word) if word & 0x0ff0_f000 == 0x0350_0000 => {
            let constant = (word & 0xff).rotate_right((word >> 8 & 0xf) * 2);
            Some((register(word >> 16), constant))
        }
        Encoding::Narrow(half) if half & 0xf800 == 0x2800 => {
            Some((register(u32::from(half) >> 8 & 7), u32::from(half) & 0xff))
        }
        Encoding::Wide(word) if word & 0xfff0_ff00 == 0xf1b0_0f00 => {
            Some((register(word >> 16), word & 0xff))
        }
        _ => None,
    }
}

/// The size of a table's entry in bytes.
pub const fn entry_size(kind: TableKind) -> u32 {
    match kind {
        TableKind::Bytes => 1,
        TableKind::Halfwords => 2,
        TableKind::Addresses | TableKind::Code => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_no_instructions_of_coprocessors_that_no_thumb_cpu_has() {
        // The halfwords of a word 0xc010fd11, which points to code of a kernel.
        let pointer = decode(Encoding::Wide(0xfd11_c010), ItState::NONE);
        assert!(!plausible(&pointer));
        // mrc p15, 0, r0, c1, c0, 0 and vmrs r5, fpinst
        for encoding in [0xee11_0f10, 0xeef9_5a10] {
            let found = decode(Encoding::Wide(encoding), ItState::NONE);
            assert!(plausible(&found), "{encoding:#x}");
        }
        // iWMMXt's, of A32: wstrd wr0, [r1]
        assert!(plausible(&decode(
            Encoding::A32(0xedc1_0100),
            ItState::NONE
        )));
    }
}
