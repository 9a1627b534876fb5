//! Finds the exception table: pairs of an instruction that may fault, and the place where the code
//! goes on then (`struct exception_table_entry` of arch/arm: two addresses, sorted by the first).
//! Nothing else leads to these fixups.
//!
//! It also finds the list of calls that the function tracer patches (`__mcount_loc`): growing
//! addresses, each of a call or of an instruction that replaced one.

use super::runs::{Run, longest};
use super::tables::{FoundTable, LinuxTables, Text};
use crate::flow::memory::Memory;
use crate::flow::{Root, call_target};
use hanok_decode::aarch32::Isa;

pub(super) fn find(memory: Memory<'_>, text: &Text, isa: Isa, tables: &mut LinuxTables) {
    let code = |at: u32| memory.word(at).filter(|to| text.contains(*to & !1));
    if let Some(run) = longest(memory, text, 4, |at, before| {
        traced(memory, code(at), before, isa)
    }) {
        note(tables, "__mcount_loc", run, 4);
        let calls = run.each(4).filter_map(code);
        tables.roots.extend(calls.map(|at| Root {
            address: at & !1,
            isa,
        }));
    }
    let entry = |at: u32, before: Option<u32>| {
        let (Some(place), Some(fixup)) = (code(at), code(at.wrapping_add(4))) else {
            return false;
        };
        let grows = before.and_then(code).is_none_or(|before| before < place);
        // The tracer's list grows, too; but its addresses are those of calls.
        let calls = |at: u32| {
            memory
                .fetch(at, isa)
                .and_then(|found| call_target(found, at))
        };
        grows && place != fixup && calls(place).is_none()
    };
    if let Some(run) = longest(memory, text, 8, entry) {
        note(tables, "__ex_table", run, 8);
        let places = run.each(8).filter_map(code);
        tables.faulting.extend(places.map(|place| place & !1));
        let fixups = run.each(8).filter_map(|at| code(at.wrapping_add(4)));
        tables.roots.extend(fixups.map(|to| Root {
            address: to & !1,
            isa,
        }));
    }
}

/// Whether an entry may be of the tracer's list: it is larger than the one before, and names a
/// call.
fn traced(memory: Memory<'_>, place: Option<u32>, before: Option<u32>, isa: Isa) -> bool {
    let Some(place) = place.map(|place| place & !1) else {
        return false;
    };
    let grows = before
        .and_then(|at| memory.word(at))
        .is_none_or(|before| before & !1 < place);
    let calls = |at: u32| {
        memory
            .fetch(at, isa)
            .is_some_and(|found| call_target(found, at).is_some())
    };
    grows && calls(place)
}

pub(super) fn note(tables: &mut LinuxTables, name: &'static str, run: Run, size: u32) {
    let len = size.saturating_mul(run.entries as u32);
    tables.found.push(FoundTable {
        name,
        address: run.address,
        len,
        entries: run.entries,
    });
}
