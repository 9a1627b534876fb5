//! Words of an image that look like a sensitive instruction, and that no known code leads to.
//!
//! Whether they are executed is unknown. They are listed, so that a person can look at them, and
//! are never rewritten. A word is listed only if somebody would have written this instruction, if
//! it stands among more instructions, and if the words behind it go on as code does ([`goes_on`]):
//! a table of numbers soon runs into something that is no code.

use crate::bytes::word;
use crate::flow::marks::{Mark, Marks};
use crate::flow::memory::Memory;
use crate::flow::{Root, Run, decode, plausible};
use crate::kallsyms::Kallsyms;
use crate::linux::Text;
use crate::site::{Certainty, Role, Site, site};
use crate::sweep::instructions;
use hanok_decode::aarch32::{Encoding, Isa, ItState};
use hanok_instructions::Flow;
use std::ops::Range;

/// Finds the words in the text that look like a sensitive instruction, as the manual defines it,
/// and that no known code leads to.
pub fn in_text(memory: Memory<'_>, text: &Text, marks: &Marks, isa: Isa) -> Vec<Site> {
    let mut sites = Vec::new();
    for (from, to) in &text.ranges {
        let [from, to] = [*from, *to].map(|at| at.wrapping_sub(memory.base) as usize);
        let mut start = None;
        for (offset, mark) in marks.iter(from..to.min(memory.bytes.len())) {
            match (mark, start) {
                (Mark::Unknown, None) => start = Some(offset),
                (Mark::Unknown, Some(_)) => {}
                (_, Some(first)) => {
                    gap(memory, marks, first..offset, isa, &mut sites);
                    start = None;
                }
                (_, None) => {}
            }
        }
    }
    sites
}

/// Searches the words between two places of which it is known what they are.
fn gap(memory: Memory<'_>, marks: &Marks, place: Range<usize>, isa: Isa, sites: &mut Vec<Site>) {
    let from = place.start.next_multiple_of(isa.alignment() as usize);
    let Some(bytes) = memory.bytes.get(from..place.end) else {
        return;
    };
    for (at, encoding, it) in instructions(bytes, isa) {
        let offset = from + at;
        let found = site(
            memory,
            offset,
            encoding,
            it,
            Certainty::Doubtful,
            Role::Code,
        );
        sites.extend(found.filter(|site| {
            let alone = isa == Isa::A32 && !in_company(memory, site.address, 1);
            !alone && believable(memory, marks, site)
        }));
    }
}

/// The number of words before or behind a stray one that have to be plausible instructions.
const COMPANY: u32 = 4;

/// Finds code among data, which is to be copied elsewhere: A32 instructions next to other
/// instructions, where no code is known. All of it is doubtful.
pub fn in_data(memory: Memory<'_>, text: &Text, marks: &Marks, kallsyms: &Kallsyms) -> Vec<Site> {
    let names = kallsyms.range.0..kallsyms.range.1;
    (0..memory.bytes.len())
        .step_by(4)
        .filter_map(|offset| {
            let word = word(memory.bytes, offset).filter(|word| unconditional(*word))?;
            let known = names.contains(&offset) || marks.get(offset) != Mark::Unknown;
            if known || text.contains(memory.address(offset)) {
                return None;
            }
            let (doubt, role) = (Certainty::Doubtful, Role::Code);
            site(
                memory,
                offset,
                Encoding::A32(word),
                ItState::NONE,
                doubt,
                role,
            )
        })
        .filter(|site| believable(memory, marks, site) && in_company(memory, site.address, COMPANY))
        .collect()
}

/// Whether an A32 word has the condition "always". Nearly all code has, and a sixteenth of all
/// data.
const fn unconditional(word: u32) -> bool {
    word >> 28 == 0b1110 || word >> 20 == 0xf10
}

/// Whether a doubtful word is an instruction that somebody would have written, and the words behind
/// it go on as code does.
fn believable(memory: Memory<'_>, marks: &Marks, site: &Site) -> bool {
    let found = decode(site.found.encoding, site.it);
    let looks = site.found.as_it_should_be && plausible(&found);
    looks && memory.word(site.address) != Some(0) && goes_on(memory, marks, site)
}

/// The number of instructions that are examined behind a doubtful one.
const LOOK_AHEAD: usize = 64;
/// The number of instructions in front of a doubtful one that may have set the flags it depends on.
const LOOK_BACK: u32 = 8;

/// Whether the code behind a doubtful instruction goes on as code does, by the rules for guesses
/// ([`crate::flow::Follower`]): to a branch, into known code, or for long. It must not run into
/// data, zeros or an instruction that nobody would have written, or reach a condition for which
/// nothing has set the flags.
fn goes_on(memory: Memory<'_>, marks: &Marks, site: &Site) -> bool {
    let (address, isa) = (site.address, site.isa());
    let run = Run {
        root: Root { address, isa },
        it: site.it,
        flags: sets_flags(memory, address),
        ahead: LOOK_AHEAD,
    };
    let known = |at| match memory.offset(at).map(|offset| marks.get(offset)) {
        Some(Mark::Start(found, _)) => Some(found == isa),
        Some(Mark::Unknown) => None,
        _ => Some(false),
    };
    run.is_code(memory, known, |at, found| match found.flow {
        Flow::Jump { target, .. } | Flow::Call { target, .. } => {
            memory.offset(target.from(at)).is_none()
        }
        _ => false,
    })
}

/// Whether one of the A32 instructions in front of `at` sets the flags.
fn sets_flags(memory: Memory<'_>, at: u32) -> bool {
    let before = (1..=LOOK_BACK).map(|n| at.wrapping_sub(4 * n));
    let found = before.map_while(|at| {
        let found = decode(Encoding::A32(memory.word(at)?), ItState::NONE);
        plausible(&found).then_some(found)
    });
    let mut found = found.take_while(|found| found.falls_through());
    found.any(|found| !found.effects.flags_written.is_empty())
}

/// Whether `most` words before or behind the one at `address` look like A32 code.
fn in_company(memory: Memory<'_>, address: u32, most: u32) -> bool {
    code_like(memory, address.wrapping_add(4), most)
        || code_like(memory, address.wrapping_sub(4 * most), most)
}

/// Whether `count` words from `at` on are A32 instructions with no condition, or with one after
/// something that sets the flags.
fn code_like(memory: Memory<'_>, at: u32, count: u32) -> bool {
    let mut flags = false;
    (0..count).all(|n| {
        let Some(word) = memory.word(at.wrapping_add(4 * n)) else {
            return false;
        };
        let found = decode(Encoding::A32(word), ItState::NONE);
        let fits = (unconditional(word) || flags) && plausible(&found);
        flags |= !found.effects.flags_written.is_empty();
        fits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u32 = 0x8000_0000;
    const MRS: u32 = 0xe10f_0000;
    const MOV: u32 = 0xe1a0_1001;
    const RETURN: u32 = 0xe12f_ff1e;

    /// Whether the first of `words` is listed. Nothing is known of any word, except that the last
    /// is code if `code` is set.
    fn listed(words: &[u32], code: bool) -> bool {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let memory = Memory {
            bytes: &bytes,
            base: BASE,
        };
        let mut marks = Marks::new(bytes.len());
        let last = bytes.len() - 4;
        if code {
            marks.code(last, 4, Isa::A32, ItState::NONE)
        } else {
            _ = marks.data(last, 4, false)
        }
        let ranges = vec![(BASE, BASE + bytes.len() as u32)];
        let text = Text {
            ranges,
            ..Text::default()
        };
        let found = in_text(memory, &text, &marks, Isa::A32);
        found.iter().any(|site| site.address == BASE)
    }

    #[test]
    fn what_goes_on_as_code_is_listed() {
        assert!(listed(&[MRS, MOV, RETURN, MOV], false), "to a return");
        assert!(listed(&[MRS, MOV, RETURN], true), "into known code");
        // cmp r0, #0; popeq {pc}; bl to its start; return
        let conditional = [MRS, 0xe350_0000, 0x08bd_8000, 0xebff_fffb, RETURN, MOV];
        assert!(listed(&conditional, false), "a condition with its flags");
    }

    #[test]
    fn what_runs_into_something_else_is_not() {
        assert!(!listed(&[MRS, MOV, MOV], false), "into data");
        assert!(!listed(&[MRS, MOV, 0, RETURN, MOV], false), "into zeros");
        assert!(
            !listed(&[MRS, MOV, 0xffff_ffff, RETURN, MOV], false),
            "no code"
        );
        assert!(
            !listed(&[MRS, MOV, 0x01a0_1001, RETURN, MOV], false),
            "moveq"
        );
        // b 32 MB away, out of the image
        assert!(
            !listed(&[MRS, MOV, 0xea7f_ffff, RETURN, MOV], false),
            "away"
        );
    }
}
