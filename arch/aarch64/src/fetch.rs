//! The instruction that made an exit, where the CPU does not describe it.
//!
//! Both backends compile this text; each has a `stage1::translate` of its own.

use crate::stage1::translate;
use crate::vcpu::Vcpu;
use hanok_decode::Psr;
use hanok_decode::aarch32::is_wide;
use hanok_hal::{AccessError, GuestMemory};
use hanok_types::Ipa;
use hanok_vm::Instruction;

/// The instruction at the vCPU's program counter, through its own stage 1: an A64 or A32 word, or
/// one or two halfwords of T32, the first one above. It may be another one by now than that which
/// trapped, and the core does not trust it.
pub fn instruction(vcpu: &Vcpu) -> Instruction {
    match word(vcpu) {
        Ok(word) => Instruction::Word(word),
        Err(unread) => unread,
    }
}

/// The word, or what is known without it.
fn word(vcpu: &Vcpu) -> Result<u32, Instruction> {
    let pc = vcpu.regs.pc;
    let psr = Psr::from_bits(vcpu.regs.pstate as u32);
    if !vcpu.regs.is_aarch32() || !psr.thumb() {
        return fetch(vcpu, pc).map(u32::from_le_bytes);
    }
    // Not ThumbEE, whose loads and stores are others; on Armv8 the bit is another one (DIT).
    if cfg!(target_arch = "arm") && psr.jazelle() {
        return Err(Instruction::Unknown);
    }
    let half = |at| fetch(vcpu, at).map(u16::from_le_bytes);
    let first = half(pc)?;
    // Of two halfwords the second may lie in another page.
    let second = if is_wide(first) {
        half(pc.wrapping_add(2) & u64::from(u32::MAX))?
    } else {
        0
    };
    Ok(u32::from(first) << 16 | u32::from(second))
}

/// `N` bytes of code at `at`, a multiple of as many.
fn fetch<const N: usize>(vcpu: &Vcpu, at: u64) -> Result<[u8; N], Instruction> {
    let mut bytes = [0; N];
    fill(vcpu, at, &mut bytes)?;
    Ok(bytes)
}

/// Fills `bytes` with code at `at`, a multiple of their number, in RAM or in the firmware's flash.
/// Kept out of line: a word and halfwords are fetched by one copy.
#[inline(never)]
fn fill(vcpu: &Vcpu, at: u64, bytes: &mut [u8]) -> Result<(), Instruction> {
    let ipa = translate(vcpu, at).ok_or(Instruction::Unknown)?;
    let ipa = Ipa::new(ipa.get() & !(bytes.len() as u64 - 1));
    let unit = vcpu.unit;
    let found = match (unit.ram.read(ipa, bytes), &unit.flash) {
        (Err(AccessError::NoMemory(_)), Some(flash)) => flash.read(ipa, bytes),
        (found, _) => found,
    };
    found.map_err(|error| match error {
        AccessError::Absent(page) => Instruction::Absent(page),
        AccessError::NoMemory(_) => Instruction::Unknown,
    })
}
