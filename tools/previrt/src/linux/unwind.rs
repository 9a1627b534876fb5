//! Finds the unwinder's index: the start of each function, also of those that kallsyms does not
//! name. (Exception Handling ABI for the Arm Architecture, 6: sorted pairs of the distance to a
//! function, of 31 bits, and either 1, or an entry with bit 31 set, or the distance to one.)
//!
//! The functions of the init code come last in it, because the linker puts that code behind the
//! index ([`behind`]).

use super::exceptions::note;
use super::runs::{Run, longest};
use super::tables::{LinuxTables, Text};
use crate::flow::Root;
use crate::flow::memory::Memory;
use crate::kallsyms::Symbol;
use hanok_decode::aarch32::Isa;
use std::collections::HashSet;
use std::ops::Range;

/// The size of an entry in bytes.
const ENTRY: u32 = 8;

/// EXIDX_CANTUNWIND. The linker also writes it behind a file's last function.
const CANNOT_UNWIND: u32 = 1;

/// The address at which the vectors and their stubs are executed and linked.
const VECTORS: u32 = 0xffff_0000;

/// The smallest share of functions that have a name: 9 of 10. Those of `.exit.text` have none.
const NAMED: usize = 9;
const NAMED_OF: usize = 10;

/// How a function is unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnwindForm {
    /// It cannot be unwound, or no function is there.
    Not,
    /// The entry itself says how.
    Inline,
    /// The table at this address says how.
    Table(u32),
}

/// The address that a distance of 31 bits at `at` leads to. Bit 31 is not part of the distance.
const fn distant(at: u32, distance: u32) -> u32 {
    at.wrapping_add(((distance << 1).cast_signed() >> 1).cast_unsigned())
}

/// The function of the entry at `at`.
fn function(memory: Memory<'_>, at: u32) -> Option<u32> {
    let distance = memory.word(at).filter(|distance| distance >> 31 == 0)?;
    Some(distant(at, distance) & !1)
}

/// How the function of the entry at `at` is unwound.
fn unwind_form(memory: Memory<'_>, at: u32) -> Option<UnwindForm> {
    let at = at.wrapping_add(4);
    let unwind_form = memory.word(at)?;
    match unwind_form {
        CANNOT_UNWIND => Some(UnwindForm::Not),
        _ if unwind_form >> 24 == 0x80 => Some(UnwindForm::Inline),
        _ if unwind_form >> 31 == 0
            && (unwind_form >> 30 != 0 || unwind_form < 1 << 26 && unwind_form != 0) =>
        {
            Some(UnwindForm::Table(distant(at, unwind_form)))
        }
        _ => None,
    }
}

/// The function of the entry at `at`, if it is in `text`. The entry by which the linker closes
/// `.text` belongs to the code behind it.
fn in_text(memory: Memory<'_>, text: &Text, at: u32) -> Option<u32> {
    let closes = |to: &u32| *to == text.end && unwind_form(memory, at) == Some(UnwindForm::Not);
    function(memory, at).filter(|to| text.contains(*to) || closes(to))
}

/// Finds the part of the index whose functions are in `text`.
fn run(memory: Memory<'_>, text: &Text, symbols: &[Symbol]) -> Option<Run> {
    let function = |at: u32| in_text(memory, text, at);
    let entry = |at: u32, before: Option<u32>| {
        let grows = function(at)
            .is_some_and(|this| before.and_then(function).is_none_or(|before| before < this));
        grows && unwind_form(memory, at).is_some()
    };
    let run = longest(memory, text, ENTRY as usize, entry)?;
    // A run that is no index would have few functions with names.
    let names: HashSet<u32> = symbols.iter().map(|symbol| symbol.address).collect();
    let mut functions: Vec<u32> = functions(memory, text, run).collect();
    let all = functions.len();
    // The functions behind `.text` need not have names.
    functions.retain(|at| text.end == 0 || *at < text.end);
    let named = functions.iter().filter(|at| names.contains(at)).count();
    let most = 2 * functions.len() > all;
    (most && named * NAMED_OF >= functions.len() * NAMED).then_some(run)
}

/// The functions of the index `run`, without entries that cannot be unwound: these may be no
/// functions.
fn functions(memory: Memory<'_>, text: &Text, run: Run) -> impl Iterator<Item = u32> {
    run.each(ENTRY)
        .filter(move |at| unwind_form(memory, *at) != Some(UnwindForm::Not))
        .filter_map(move |at| in_text(memory, text, at))
}

pub(super) fn find(
    memory: Memory<'_>,
    text: &Text,
    symbols: &[Symbol],
    isa: Isa,
    tables: &mut LinuxTables,
) {
    let Some(run) = run(memory, text, symbols) else {
        return;
    };
    note(tables, ".ARM.unwind_idx", run, ENTRY);
    let roots = functions(memory, text, run);
    tables
        .functions
        .extend(roots.map(|address| Root { address, isa }));
}

/// The code behind the index, as the index describes it: where its first function begins, and where
/// the last one begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodeBehind {
    pub(super) first: u32,
    pub(super) last: u32,
}

/// What the index of an image says of the code behind the index itself; an error says what is wrong
/// with it. An index that has lost entries would hide code, so it has to be complete: it reaches to
/// where its tables begin (`.ARM.unwind_tab`), and its last entry closes it.
pub(super) fn behind(
    memory: Memory<'_>,
    text: &Text,
    symbols: &[Symbol],
) -> Result<CodeBehind, &'static str> {
    let lacks = "it has no index of an unwinder (CONFIG_ARM_UNWIND)";
    let run = run(memory, text, symbols).ok_or(lacks)?;
    let (mut end, mut last) = (run.end(ENTRY), run.end(ENTRY));
    let mut first = None;
    let next = |at: u32, before: u32| {
        let to = function(memory, at).filter(|to| before < *to && memory.offset(*to).is_some());
        to.filter(|_| unwind_form(memory, at).is_some())
    };
    while let Some(to) = next(end, last) {
        first.get_or_insert(to);
        (last, end) = (to, end.wrapping_add(ENTRY));
    }
    // LLD closes the index behind the last code of all, which is the stubs at the address where
    // they are executed.
    let stubs = function(memory, end).filter(|to| *to >= VECTORS);
    if stubs.is_some() && unwind_form(memory, end) == Some(UnwindForm::Not) {
        end = end.wrapping_add(ENTRY);
    }
    let first =
        first.ok_or("its unwinder's index has no function behind `.text`, or is damaged")?;
    if is_whole(memory, text, run.address..end, first) {
        Ok(CodeBehind { first, last })
    } else {
        Err("its unwinder's index is damaged")
    }
}

/// Whether the index at these addresses has lost no entry. `first` is the first function behind it.
fn is_whole(memory: Memory<'_>, text: &Text, index: Range<u32>, first: u32) -> bool {
    let entries = || index.clone().step_by(ENTRY as usize);
    let tables = entries().filter_map(|at| match unwind_form(memory, at) {
        Some(UnwindForm::Table(table)) => Some(table),
        _ => None,
    });
    let ends = tables.clone().min() == Some(index.end) && tables.max().is_some_and(|at| at < first);
    let closed = unwind_form(memory, index.end.wrapping_sub(ENTRY)) == Some(UnwindForm::Not);
    // There must be no more of the index in front of it, behind one entry that is none.
    let more = index.start.wrapping_sub(2 * ENTRY);
    let begins = in_text(memory, text, more).is_none() || unwind_form(memory, more).is_none();
    ends && closed && begins
}
