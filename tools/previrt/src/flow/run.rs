//! Whether the words at some place go on as code does.

use super::memory::Memory;
use super::{Root, decode, plausible};
use hanok_decode::aarch32::{Isa, ItState};
use hanok_instructions::Instruction;

/// The beginning of a run of instructions, and what is known there.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The first instruction.
    pub root: Root,
    /// The first instruction's place in an IT block.
    pub it: ItState,
    /// Whether the flags may have been set in front of the first instruction.
    pub flags: bool,
    /// The number of instructions to examine.
    pub ahead: usize,
}

impl Run {
    /// Whether the run ends as code does, or is long. It may have only instructions that the manual
    /// defines and somebody would write, and in A32 conditions only after an instruction that sets
    /// the flags. Addresses and numbers taken as instructions soon break one of these rules.
    /// `known` decides about places of which something is known; `wrong` tells instructions that
    /// code does not have.
    pub fn is_code(
        self,
        memory: Memory<'_>,
        known: impl Fn(u32) -> Option<bool>,
        wrong: impl Fn(u32, &Instruction) -> bool,
    ) -> bool {
        let isa = self.root.isa;
        let (mut at, mut it) = (self.root.address, self.it);
        let mut flags = self.flags || isa == Isa::T32;
        for _ in 0..self.ahead {
            if let Some(is_code) = known(at) {
                return is_code;
            }
            let Some(encoding) = memory.fetch(at, isa) else {
                return false;
            };
            let found = decode(encoding, it);
            let unset = !found.condition.is_always() && !flags;
            if unset || !plausible(&found) || wrong(at, &found) || memory.word(at) == Some(0) {
                return false;
            }
            flags |= !found.effects.flags_written.is_empty();
            if !found.falls_through() {
                return true;
            }
            it = found.it_after(it);
            at = at.wrapping_add(found.bytes());
        }
        true
    }
}
