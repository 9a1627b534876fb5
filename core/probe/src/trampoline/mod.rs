//! Slots that record an event without an exit.
//!
//! A trampoline saves the few registers that it uses on the guest's stack, takes a place in the
//! [`Ring`], writes the record, restores the registers, and has the effect of the displaced
//! instruction. If there is no place it only counts the event as lost. It is short and has no
//! call; each of its loops ends when a store exclusive succeeds.
//!
//! What must hold at a site:
//!
//! - The stack pointer is valid and aligned (to 16 bytes in A64: DDI 0487, SP alignment
//!   checking; to 4 bytes in AArch32), 32 bytes (24 in AArch32) below it are mapped, and nothing there is in use. That is
//!   the procedure call standards' rule, but not that of the first instructions of a vector.
//! - Data are little-endian.
//! - The CPU has the generic timer, and the counter can be read: at EL1 always, at EL0 and in User
//!   mode if the kernel allows it.
//! - What [`Argument::Word`] and [`Argument::Fixed`] name is mapped memory. A fault there is the
//!   guest's.
//!
//! The flags stay as they are. A64 and T32 need none; A32 saves and restores them.
//!
//! The counter is read without an ISB before it, so its value may be some cycles old (DDI 0487,
//! CNTVCT_EL0). An ISB would cost more than all the rest.

mod a32;
mod a64;
mod t32;

use crate::code::Code;
use crate::relocate::displace;
use crate::site::aligned;
use crate::{InstructionSet, Refused, Relocated, Ring, Site};
use hanok_types::Gva;

/// What a record has besides its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Argument {
    /// Zero.
    #[default]
    None,
    /// The value of a register: X0 to X30 and, as 31, SP; or R0 to R14.
    Register(u8),
    /// The word at the register's value plus an offset in bytes: 64 bits in A64, 32 bits in AArch32.
    /// The offset is from -256 to 255, or a multiple of 8 up to 32,760, in A64; from -4,095 to 4,095
    /// in A32; from -255 to 4,095 in T32. If the register is SP, less by the trampoline's part of the
    /// stack.
    Word {
        /// The register.
        base: u8,
        /// The offset.
        offset: i32,
    },
    /// The word at an address, such as an RTOS's pointer to its current task.
    Fixed(Gva),
}

/// A probe without an exit.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    /// The instruction that it displaces.
    pub site: Site<'a>,
    /// Where its code will stand.
    pub slot: Gva,
    /// Where it writes records.
    pub ring: Ring,
    /// The number that its records have.
    pub number: u16,
    /// What they have besides.
    pub arguments: [Argument; 2],
}

/// A slot's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trampoline {
    /// The code, which has the effect of the displaced instruction.
    pub relocated: Relocated,
    /// The address in the slot where the registers are restored, and the words begin that stand for
    /// the displaced instruction.
    pub displaced_at: Gva,
    /// How many instructions are executed if there is a place in the ring and no other writer is
    /// in between: with the branch at the site and the branch back, without the displaced
    /// instruction.
    pub executed: u32,
}

/// A trampoline, as far as it is made before the displaced instruction.
struct Begun {
    /// The offset of the branch that is taken if the ring is full. It has no target yet.
    full: usize,
    /// The offset of what restores the registers.
    restore: usize,
    /// How many of its instructions are executed.
    executed: u32,
}

/// The code of a probe.
///
/// # Errors
///
/// Those of [`relocate`](crate::relocate); [`Refused::Argument`] if an argument cannot be encoded;
/// [`Refused::Misaligned`] if an address is none of the instruction set.
pub fn trampoline(probe: &Probe<'_>) -> Result<Trampoline, Refused> {
    let set = probe.site.set;
    let mut code = Code::at(aligned(set, probe.slot)?);
    let begun = match set {
        InstructionSet::A64 => a64::begin(&mut code, probe)?,
        InstructionSet::A32 => a32::begin(&mut code, probe)?,
        InstructionSet::T32 => t32::begin(&mut code, probe)?,
    };
    let displaced_at = Gva::new(code.here());
    let displaced = displace(&mut code, &probe.site)?;
    match set {
        InstructionSet::A64 => a64::count_lost(&mut code, &begun),
        InstructionSet::A32 => a32::count_lost(&mut code, &begun),
        InstructionSet::T32 => t32::count_lost(&mut code, &begun),
    }
    Ok(Trampoline {
        relocated: Relocated::new(&probe.site, code, &displaced)?,
        displaced_at,
        executed: begun.executed + 2,
    })
}
