//! The code of a linked file as it is in memory, for the placing of trampolines.
//!
//! Mapping symbols say which parts of it are code. They do not say whether the code is executed
//! where it is linked. For Linux that is known in the same way as for its raw image ([`Code`]).

use crate::bytes::word;
use crate::container::elf::{ElfImage, LINUX, Section};
use crate::container::mapping::{ALTERNATIVE, Mapping};
use crate::flow::closed::Closed;
use crate::flow::marks::Marks;
use crate::image::Code;
use crate::sweep::instructions;
use std::ops::Range;

/// Code farther than this from the first is not part of the same image. Linux's vectors, for one,
/// are linked where they are executed, and no branch reaches there.
const MOST: u32 = 64 << 20;
/// The code of the file `bytes`, which was parsed as `elf`.
pub(crate) fn code(bytes: &[u8], elf: &ElfImage) -> Option<Code> {
    let executable = || elf.sections.iter().filter(|section| section.executable);
    let base = executable().map(|section| section.address).min()? & !3;
    let end = |section: &Section| {
        let end = section.address.checked_add(section.len as u32)?;
        (end - base <= MOST).then_some(end)
    };
    let near = || executable().filter(|section| end(section).is_some());
    let len = near().filter_map(end).max()?.wrapping_sub(base) as usize;
    let (mut flat, mut marks) = (vec![0; len], Marks::new(len));
    for section in near() {
        let from = section.address.wrapping_sub(base) as usize;
        let content = bytes.get(section.offset..section.offset.checked_add(section.len)?)?;
        flat.get_mut(from..from.checked_add(content.len())?)?
            .copy_from_slice(content);
        mark(&mut marks, from, section, content);
    }
    let between = |from, to| Some(elf.place(from)?..elf.place(to)?);
    let moved = elf
        .sections
        .iter()
        .filter(|section| section.is_alternatives());
    let mut elsewhere: Vec<_> = moved
        .flat_map(|section| exchanged(bytes, section))
        .collect();
    elsewhere.extend(between("__idmap_text_start", "__idmap_text_end"));
    let linux = elf.place(LINUX).is_some() && !elf.movable;
    Some(Code {
        base,
        flat: Some(flat),
        marks,
        proof: Closed::default(),
        elsewhere,
        faulting: Vec::new(),
        entry: between("__entry_text_start", "__entry_text_end"),
        unused: None,
        end: elf.place("_end").filter(|_| linux),
    })
}

/// Marks the code of a section whose first byte is at offset `from`.
fn mark(marks: &mut Marks, from: usize, section: &Section, content: &[u8]) {
    for (start, end, mapping) in section.pieces() {
        let (Mapping::Code(isa), Some(piece)) =
            (mapping, content.get(start as usize..end as usize))
        else {
            continue;
        };
        for (at, encoding, it) in instructions(piece, isa) {
            let offset = from + start as usize + at;
            marks.code(offset, encoding.bytes() as usize, isa, it);
        }
    }
}

/// The places whose instruction is exchanged on a uniprocessor. Each entry of the table has the
/// distance to one place, or before Linux 5.11 its address.
fn exchanged(bytes: &[u8], section: &Section) -> Vec<Range<u32>> {
    let entries = (0..section.len as u32).step_by(ALTERNATIVE as usize);
    let places = entries.filter_map(|entry| {
        let found = word(bytes, section.offset + entry as usize)?;
        let distant = section.address.wrapping_add(entry).wrapping_add(found);
        Some([distant, found])
    });
    let ranges = places.flatten().map(|at| at..at.saturating_add(4));
    ranges.collect()
}
