//! Whether what stands somewhere goes on as code does.

use super::memory::Memory;
use super::{Root, decode, plausible};
use hanok_decode::aarch32::{Isa, ItState};
use hanok_instructions::Instruction;

/// Where a run of instructions begins, and what is known there.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The first one.
    pub root: Root,
    /// The IT block that it is in.
    pub it: ItState,
    /// Whether the flags may have been set before it.
    pub flags: bool,
    /// So many instructions are looked at.
    pub ahead: usize,
}

impl Run {
    /// Whether the run ends as code does, or goes on for long: it has only instructions that the
    /// manual defines and somebody would write, and in A32 conditions only after something that
    /// sets the flags; addresses and numbers as words soon break one of both. `known` decides
    /// where it comes to a place of which something is known; `wrong` says of an instruction that
    /// code has no such.
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
