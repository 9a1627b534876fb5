//! The unwinder's index: where each function begins, those without a name in kallsyms, too
//! (Exception Handling ABI for the Arm Architecture, 6: pairs of the distance to a function,
//! 31 bits, and either 1, or an entry with bit 31 set, or the distance to one; sorted).

use super::exceptions::note;
use super::runs::longest;
use super::{Tables, Text};
use crate::flow::Root;
use crate::flow::memory::Memory;
use crate::kallsyms::Symbol;
use hanok_decode::aarch32::Isa;
use std::collections::HashSet;

/// EXIDX_CANTUNWIND: also what the linker writes behind the last function of a file.
const CANNOT_UNWIND: u32 = 1;

/// So many of so many functions have a name at least; `.exit.text` has none.
const NAMED: usize = 9;
const NAMED_OF: usize = 10;

pub(super) fn find(
    memory: Memory<'_>,
    text: &Text,
    symbols: &[Symbol],
    isa: Isa,
    tables: &mut Tables,
) {
    let function = |at: u32| {
        let distance = memory.word(at).filter(|distance| distance >> 31 == 0)?;
        let to = at.wrapping_add(((distance << 1) as i32 >> 1) as u32);
        text.contains(to & !1).then_some(to & !1)
    };
    let entry = |at: u32, before: Option<u32>| {
        let grows = function(at)
            .is_some_and(|this| before.and_then(function).is_none_or(|before| before < this));
        let how = memory.word(at.wrapping_add(4)).unwrap_or(0);
        grows
            && (how == CANNOT_UNWIND
                || how >> 24 == 0x80
                || how >> 31 == 0 && how >> 30 != 0
                || how < 1 << 26 && how != 0)
    };
    let Some(run) = longest(memory, text, 8, entry) else {
        return;
    };
    let known = |at: &u32| memory.word(at.wrapping_add(4)) != Some(CANNOT_UNWIND);
    let functions: Vec<u32> = run.each(8).filter(known).filter_map(function).collect();
    // A run of something else would name no functions.
    let names: HashSet<u32> = symbols.iter().map(|symbol| symbol.address).collect();
    let named = functions.iter().filter(|at| names.contains(at)).count();
    if named * NAMED_OF < functions.len() * NAMED {
        return;
    }
    note(tables, ".ARM.unwind_idx", run, 8);
    let roots = functions.into_iter();
    tables
        .functions
        .extend(roots.map(|address| Root { address, isa }));
}
