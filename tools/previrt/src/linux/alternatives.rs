//! Finds SMP alternatives and fixups of physical addresses.
//!
//! A kernel for several processors that finds itself alone exchanges some instructions
//! (CONFIG_SMP_ON_UP): `.alt.smp.init` has for each of them the distance to its place, and the
//! other instruction. The other instruction is executed at the place, so that a branch in it goes
//! from there.
//!
//! `.pv_table` has the distances to the instructions that add the difference between virtual and
//! physical addresses (CONFIG_ARM_PATCH_PHYS_VIRT). None of them is sensitive; they are found so
//! that a report can name them.

use super::exceptions::note;
use super::runs::{Run, longest};
use super::tables::{Alternative, LinuxTables, Text};
use crate::flow::memory::Memory;
use crate::flow::{Root, decode, plausible};
use crate::sweep::fetch;
use hanok_decode::aarch32::{Isa, ItState};

/// The form in which an entry names its place.
#[derive(Clone, Copy)]
enum PlaceForm {
    /// By its address, until Linux 5.10.
    Absolute,
    /// By the distance from the entry to it, since 5.11.
    Relative,
}

impl PlaceForm {
    /// The place that the word at `at` names.
    fn place(self, memory: Memory<'_>, at: u32) -> Option<u32> {
        let word = memory.word(at)?;
        Some(match self {
            Self::Absolute => word,
            Self::Relative => at.wrapping_add(word),
        })
    }
}

pub(super) fn find(memory: Memory<'_>, text: &Text, isa: Isa, tables: &mut LinuxTables) {
    let runs =
        [PlaceForm::Relative, PlaceForm::Absolute].map(|form| (run(memory, text, isa, form), form));
    let longer = runs
        .into_iter()
        .filter_map(|(run, form)| Some((run?, form)));
    if let Some((run, form)) = longer.max_by_key(|(run, _)| run.entries) {
        note(tables, ".alt.smp.init", run, 8);
        for at in run.each(8) {
            alternative(memory, at, form.place(memory, at), isa, tables);
        }
    }
    let place = |at: u32| in_text(memory, text, isa, PlaceForm::Relative, at);
    if let Some(run) = longest(memory, text, 4, |at, _| place(at)) {
        note(tables, ".pv_table", run, 4);
    }
}

/// Whether the word at `at` names a place in the text.
fn in_text(memory: Memory<'_>, text: &Text, isa: Isa, form: PlaceForm, at: u32) -> bool {
    // The tables of `.init` are behind the text.
    let behind = || memory.word(at).is_some_and(|word| word >> 31 == 1);
    let place = form.place(memory, at);
    place.is_some_and(|to| to % isa.alignment() == 0 && text.contains(to)) && behind()
}

/// Finds the table, if its entries have this form.
fn run(memory: Memory<'_>, text: &Text, isa: Isa, form: PlaceForm) -> Option<Run> {
    // The table is among the kernel's tables of `.init`, behind the text.
    let init = text.ranges.last().map_or(u32::MAX, |(from, _)| *from);
    let place = |at: u32| at > init && in_text(memory, text, isa, form, at);
    let other = |at: u32| {
        let offset = memory.offset(at.wrapping_add(4))?;
        fetch(memory.bytes, offset, isa)
    };
    let pair = |at: u32, _: Option<u32>| {
        place(at)
            && !place(at.wrapping_add(4))
            && other(at).is_some_and(|other| {
                let found = decode(other, ItState::NONE);
                found.condition.is_always() && plausible(&found)
            })
    };
    // Code in data sections is exchanged as well.
    let apart = |at: u32| {
        let to = form.place(memory, at);
        let far = to.is_some_and(|to| {
            let aligned = to % isa.alignment() == 0 && memory.offset(to).is_some();
            aligned && to.abs_diff(at) > 1 << 12
        });
        far && !place(at.wrapping_add(4))
    };
    longest(memory, text, 8, pair).map(|run| run.extended(8, apart))
}

fn alternative(
    memory: Memory<'_>,
    at: u32,
    place: Option<u32>,
    isa: Isa,
    tables: &mut LinuxTables,
) {
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
