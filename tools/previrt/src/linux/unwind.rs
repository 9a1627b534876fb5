//! The unwinder's index: where each function begins, those without a name in kallsyms, too
//! (Exception Handling ABI for the Arm Architecture, 6: pairs of the distance to a function,
//! 31 bits, and either 1, or an entry with bit 31 set, or the distance to one; sorted).
//!
//! The functions of the init code are the last ones of it, because the linker puts that behind the
//! index ([`behind`]).

use super::exceptions::note;
use super::runs::{Run, longest};
use super::tables::{Tables, Text};
use crate::flow::Root;
use crate::flow::memory::Memory;
use crate::kallsyms::Symbol;
use hanok_decode::aarch32::Isa;
use std::collections::HashSet;
use std::ops::Range;

/// Bytes of an entry.
const ENTRY: u32 = 8;

/// EXIDX_CANTUNWIND: also what the linker writes behind the last function of a file.
const CANNOT_UNWIND: u32 = 1;

/// Where the vectors and their stubs are executed, and linked.
const VECTORS: u32 = 0xffff_0000;

/// So many of so many functions have a name at least; `.exit.text` has none.
const NAMED: usize = 9;
const NAMED_OF: usize = 10;

/// How a function is unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Not at all, or no function is there.
    Not,
    /// As the entry itself says.
    Inline,
    /// As the table at this address says.
    Table(u32),
}

/// Where a distance of 31 bits at `at` leads; bit 31 is not part of it.
const fn distant(at: u32, distance: u32) -> u32 {
    at.wrapping_add(((distance << 1).cast_signed() >> 1).cast_unsigned())
}

/// The function of the entry at `at`.
fn function(memory: Memory<'_>, at: u32) -> Option<u32> {
    let distance = memory.word(at).filter(|distance| distance >> 31 == 0)?;
    Some(distant(at, distance) & !1)
}

/// The other half of the entry at `at`.
fn how(memory: Memory<'_>, at: u32) -> Option<How> {
    let at = at.wrapping_add(4);
    let how = memory.word(at)?;
    match how {
        CANNOT_UNWIND => Some(How::Not),
        _ if how >> 24 == 0x80 => Some(How::Inline),
        _ if how >> 31 == 0 && (how >> 30 != 0 || how < 1 << 26 && how != 0) => {
            Some(How::Table(distant(at, how)))
        }
        _ => None,
    }
}

/// The function of the entry at `at`, if that is in `text`. Where the linker closes `.text`, the entry
/// is for what stands behind it.
fn in_text(memory: Memory<'_>, text: &Text, at: u32) -> Option<u32> {
    let closes = |to: &u32| *to == text.end && how(memory, at) == Some(How::Not);
    function(memory, at).filter(|to| text.contains(*to) || closes(to))
}

/// The index, as far as its functions are in `text`.
fn run(memory: Memory<'_>, text: &Text, symbols: &[Symbol]) -> Option<Run> {
    let function = |at: u32| in_text(memory, text, at);
    let entry = |at: u32, before: Option<u32>| {
        let grows = function(at)
            .is_some_and(|this| before.and_then(function).is_none_or(|before| before < this));
        grows && how(memory, at).is_some()
    };
    let run = longest(memory, text, ENTRY as usize, entry)?;
    // A run of something else would name no functions.
    let names: HashSet<u32> = symbols.iter().map(|symbol| symbol.address).collect();
    let mut functions: Vec<u32> = functions(memory, text, run).collect();
    let all = functions.len();
    // Of what is behind `.text` nothing may have a name.
    functions.retain(|at| text.end == 0 || *at < text.end);
    let named = functions.iter().filter(|at| names.contains(at)).count();
    let most = 2 * functions.len() > all;
    (most && named * NAMED_OF >= functions.len() * NAMED).then_some(run)
}

/// The functions of the index `run`, without those that cannot be unwound, which may be none.
fn functions(memory: Memory<'_>, text: &Text, run: Run) -> impl Iterator<Item = u32> {
    run.each(ENTRY)
        .filter(move |at| how(memory, *at) != Some(How::Not))
        .filter_map(move |at| in_text(memory, text, at))
}

pub(super) fn find(
    memory: Memory<'_>,
    text: &Text,
    symbols: &[Symbol],
    isa: Isa,
    tables: &mut Tables,
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

/// Code behind the index, as the index has it: where its first function begins, and where the last one
/// begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Behind {
    pub(super) first: u32,
    pub(super) last: u32,
}

/// What the index of an image whose `.text` is `text` says of code behind the index itself; else what is
/// wrong with it. An index of which entries are lost would hide code, so it has to be whole: it
/// goes on to where its tables begin, `.ARM.unwind_tab`, and it is closed.
pub(super) fn behind(
    memory: Memory<'_>,
    text: &Text,
    symbols: &[Symbol],
) -> Result<Behind, &'static str> {
    let lacks = "it has no index of an unwinder (CONFIG_ARM_UNWIND)";
    let run = run(memory, text, symbols).ok_or(lacks)?;
    let (mut end, mut last) = (run.end(ENTRY), run.end(ENTRY));
    let mut first = None;
    let next = |at: u32, before: u32| {
        let to = function(memory, at).filter(|to| before < *to && memory.offset(*to).is_some());
        to.filter(|_| how(memory, at).is_some())
    };
    while let Some(to) = next(end, last) {
        first.get_or_insert(to);
        (last, end) = (to, end.wrapping_add(ENTRY));
    }
    // LLD closes the index behind the last code of all, which is the stubs where they are executed.
    let stubs = function(memory, end).filter(|to| *to >= VECTORS);
    if stubs.is_some() && how(memory, end) == Some(How::Not) {
        end = end.wrapping_add(ENTRY);
    }
    let first =
        first.ok_or("its unwinder's index has no function behind `.text`, or is damaged")?;
    if is_whole(memory, text, run.address..end, first) {
        Ok(Behind { first, last })
    } else {
        Err("its unwinder's index is damaged")
    }
}

/// Whether nothing is lost of the index of these addresses, of which `first` is the first function behind it.
fn is_whole(memory: Memory<'_>, text: &Text, index: Range<u32>, first: u32) -> bool {
    let entries = || index.clone().step_by(ENTRY as usize);
    let tables = entries().filter_map(|at| match how(memory, at) {
        Some(How::Table(table)) => Some(table),
        _ => None,
    });
    let ends = tables.clone().min() == Some(index.end) && tables.max().is_some_and(|at| at < first);
    let closed = how(memory, index.end.wrapping_sub(ENTRY)) == Some(How::Not);
    // In front of it there is no more of it, behind one entry that is none.
    let more = index.start.wrapping_sub(2 * ENTRY);
    let begins = in_text(memory, text, more).is_none() || how(memory, more).is_none();
    ends && closed && begins
}
