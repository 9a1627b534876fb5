//! Finds jump labels: a place that is a NOP or a branch, as one of the kernel's switches says; the
//! branch's target; and the switch (`struct jump_entry` of arch/arm: three addresses; the lowest
//! bits of the last one are flags). Often nothing else leads to the branch's target, nor to the
//! code behind a branch.

use super::exceptions::note;
use super::runs::longest;
use super::tables::{LinuxTables, Text};
use crate::flow::Root;
use crate::flow::memory::Memory;
use hanok_decode::aarch32::{Encoding, Isa};

/// The largest distance between place and target: both are in one function.
const NEAR: u32 = 1 << 18;

pub(super) fn find(memory: Memory<'_>, text: &Text, isa: Isa, tables: &mut LinuxTables) {
    let field = |at: u32, n: u32| memory.word(at.wrapping_add(4 * n));
    let entry = |at: u32, _: Option<u32>| {
        let (Some(code), Some(target), Some(key)) = (field(at, 0), field(at, 1), field(at, 2))
        else {
            return false;
        };
        let near = text.contains(code) && text.contains(target) && code.abs_diff(target) < NEAR;
        near && !text.contains(key) && key >= memory.base && switches(memory, code, isa)
    };
    if let Some(run) = longest(memory, text, 12, entry) {
        note(tables, "__jump_table", run, 12);
        let root = |address: u32| Root {
            address: address & !1,
            isa,
        };
        let targets = run.each(12).filter_map(|at| field(at, 1)).map(root);
        tables.roots.extend(targets);
        // A place that is a branch now may become a NOP, after which the code goes on behind it.
        let behind = run
            .each(12)
            .filter_map(|at| field(at, 0)?.checked_add(4))
            .map(root);
        tables.roots.extend(behind);
    }
}

/// Whether a NOP or a branch is at `code`: the NOP of ARMv7, or the older MOV r0, r0; in T32 NOP.W;
/// or B, in T32 B.W.
fn switches(memory: Memory<'_>, code: u32, isa: Isa) -> bool {
    match memory.fetch(code, isa) {
        Some(Encoding::A32(word)) => {
            matches!(word, 0xe320_f000 | 0xe1a0_0000) || word >> 24 == 0xea
        }
        Some(Encoding::Wide(word)) => word == 0xf3af_8000 || word & 0xf800_d000 == 0xf000_9000,
        _ => false,
    }
}
