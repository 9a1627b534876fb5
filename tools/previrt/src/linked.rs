//! The code of a linked file as it is in memory, for trampolines.
//!
//! Mapping symbols say what of it is code. What they do not say is whether the code stays where
//! it is linked; for Linux that is known as for its raw image ([`Code`]).

use crate::bytes::word;
use crate::container::elf::{ElfImage, LINUX, Section};
use crate::container::mapping::{ALTERNATIVE, Mapping};
use crate::flow::marks::Marks;
use crate::image::Code;
use crate::sweep::instructions;
use std::ops::Range;

/// Code farther from the first is no part of the same: Linux's vectors are linked where they are
/// executed, and a branch does not reach there.
const MOST: u32 = 64 << 20;
/// The code of `elf`, whose file is `bytes`.
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
        elsewhere,
        entry: between("__entry_text_start", "__entry_text_end"),
        room: None,
        end: elf.place("_end").filter(|_| linux),
    })
}

/// Marks what is code of a section that begins at `from`.
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

/// Places whose instruction is exchanged on a uniprocessor: each entry of the table has the
/// distance to one, or before Linux 5.11 its address.
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
