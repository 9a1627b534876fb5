//! SMP alternatives and fixups of physical addresses.
//!
//! A kernel for several processors that finds itself alone exchanges some instructions
//! (CONFIG_SMP_ON_UP): `.alt.smp.init` has for each the distance to its place and the other
//! instruction. That one is executed at the place, so a branch in it goes from there.
//!
//! `.pv_table` has the distances to the instructions that add the difference between virtual
//! and physical addresses (CONFIG_ARM_PATCH_PHYS_VIRT); none of them is sensitive, and they are
//! found so that a report can name them.

use super::exceptions::note;
use super::runs::longest;
use super::{Tables, Text};
use crate::flow::Root;
use crate::flow::memory::Memory;
use crate::sweep::fetch;
use hanok_decode::aarch32::{Encoding, Isa};

/// An instruction that is exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// Where it is executed.
    pub place: u32,
    /// Where the table has the other instruction.
    pub entry: u32,
    /// The other instruction.
    pub other: Encoding,
}

pub(super) fn find(memory: Memory<'_>, text: &Text, isa: Isa, tables: &mut Tables) {
    let place = |at: u32| {
        let distance = memory.word(at)?;
        // Tables of `.init` are behind the text.
        let to = at.wrapping_add(distance);
        (distance >> 31 == 1 && to % isa.alignment() == 0 && text.contains(to)).then_some(to)
    };
    let pair = |at: u32, _: Option<u32>| place(at).is_some() && place(at.wrapping_add(4)).is_none();
    // Code in data sections is exchanged, too.
    let anywhere = |at: u32| {
        let to = at.wrapping_add(memory.word(at)?);
        (to % isa.alignment() == 0 && memory.offset(to).is_some()).then_some(to)
    };
    let apart = |at: u32| {
        let far = anywhere(at).is_some_and(|to| to.abs_diff(at) > 1 << 12);
        far && place(at.wrapping_add(4)).is_none()
    };
    if let Some(run) = longest(memory, 8, pair) {
        let run = run.extended(8, apart);
        note(tables, ".alt.smp.init", run, 8);
        for at in run.each(8) {
            alternative(memory, at, anywhere(at), isa, tables);
        }
    }
    if let Some(run) = longest(memory, 4, |at, _| place(at).is_some()) {
        note(tables, ".pv_table", run, 4);
    }
}

fn alternative(memory: Memory<'_>, at: u32, place: Option<u32>, isa: Isa, tables: &mut Tables) {
    let entry = at.wrapping_add(4);
    let offset = memory.offset(entry);
    let other = offset.and_then(|offset| fetch(memory.bytes, offset, isa));
    if let (Some(place), Some(other)) = (place, other) {
        tables.alternatives.push(Alternative {
            place,
            entry,
            other,
        });
        if let Some(to) = crate::flow::branch_target(other, place) {
            tables.roots.push(Root { address: to, isa });
        }
    }
}
