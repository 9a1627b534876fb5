//! Finds the sensitive instructions of a file with mapping symbols.
//!
//! What mapping symbols call code is code. What they call data is data, with one exception in the
//! Linux kernel: instructions that old assemblers do not know (HVC, ERET, MSR of ELR_hyp) are
//! written by `.long` between others. These are executed, because the code in front of them goes on
//! there, or branches there. A literal never is executed, because no compiler lets code run into
//! it.

use crate::bytes::half;
use crate::container::elf::{ElfImage, Section};
use crate::container::mapping::Mapping;
use crate::flow::{branch_target, falls, literal};
use crate::site::{Certainty, Role, Site, must_change};
use crate::sweep::{advance, fetch, instructions};
use crate::trap::is_trap;
use hanok_decode::aarch32::{Encoding, Isa, ItState};
use std::collections::{BTreeMap, HashSet};

/// The sites of the file `bytes`, which was parsed as `elf`, and the number of instructions that
/// only a rewritten file has. Sections without mapping symbols give nothing.
pub fn scan(bytes: &[u8], elf: &ElfImage) -> (Vec<Site>, usize) {
    let (mut sites, mut trapped) = (Vec::new(), 0);
    for (number, section) in elf.sections.iter().enumerate() {
        let end = section.offset.saturating_add(section.len);
        if let Some(content) = bytes.get(section.offset..end) {
            SectionWalk::new(number, section, content).run(&mut sites);
            trapped += traps(section, content);
        }
    }
    sites.sort_by_key(|site| site.offset);
    sites.dedup_by_key(|site| site.offset);
    (sites, trapped)
}

/// The number of a section's instructions that only a rewritten file has.
fn traps(section: &Section, content: &[u8]) -> usize {
    let code = section
        .pieces()
        .filter_map(|(from, to, mapping)| match mapping {
            Mapping::Code(isa) => Some((content.get(from as usize..to as usize)?, isa)),
            Mapping::Data => None,
        });
    code.map(|(piece, isa)| {
        let trap = |at: usize, found: Encoding| is_trap(found, half(piece, at + 2));
        instructions(piece, isa)
            .filter(|(at, found, _)| trap(*at, *found))
            .count()
    })
    .sum()
}

/// The instruction set, and the place in an IT block, in which code goes on into the next piece;
/// `None` if it does not.
type Into = Option<(Isa, ItState)>;

struct SectionWalk<'a> {
    number: usize,
    section: &'a Section,
    content: &'a [u8],
    /// The places that the section's code names.
    named: Named,
    role: Role,
}

impl<'a> SectionWalk<'a> {
    fn new(number: usize, section: &'a Section, content: &'a [u8]) -> Self {
        let role = if section.is_alternatives() {
            Role::Alternative
        } else {
            Role::Code
        };
        Self {
            number,
            section,
            content,
            named: named(section, content),
            role,
        }
    }

    fn run(&self, sites: &mut Vec<Site>) {
        let mut into: Into = None;
        for (from, to, mapping) in self.section.pieces() {
            into = match mapping {
                Mapping::Code(isa) => self.code(from, to, isa, sites),
                Mapping::Data => self.inline(from, to, into, sites),
            };
        }
    }

    fn code(&self, from: u32, to: u32, isa: Isa, sites: &mut Vec<Site>) -> Into {
        let mut into = None;
        for (at, encoding, it) in instructions(self.piece(from, to), isa) {
            let at = from + at as u32;
            self.note(at, encoding, it, sites);
            // Zeros are padding, and do not go on.
            let goes_on = encoding.bits() != 0 && falls(encoding, at, it);
            into = goes_on.then(|| (isa, advance(encoding, it)));
        }
        into
    }

    /// Examines data into which code runs or branches: it is code as long as it goes on as code.
    fn inline(&self, from: u32, to: u32, into: Into, sites: &mut Vec<Site>) -> Into {
        // In a table of alternatives the code goes from one entry to the next.
        if self.role != Role::Code {
            return None;
        }
        let mut into = self.line(from, to, into, sites);
        for (at, isa) in self.named.targets.range(from..to) {
            into = self.line(*at, to, Some((*isa, ItState::NONE)), sites);
        }
        into
    }

    fn line(&self, from: u32, to: u32, into: Into, sites: &mut Vec<Site>) -> Into {
        let (mut at, mut into) = (from, into);
        while let (Some((isa, it)), true) = (into, at < to) {
            let encoding = fetch(self.piece(from, to), (at - from) as usize, isa)?;
            if self.named.literals.contains(&at) || encoding.bits() == 0 {
                return None;
            }
            self.note(at, encoding, it, sites);
            into = falls(encoding, at, it).then(|| (isa, advance(encoding, it)));
            at += encoding.bytes();
        }
        into.filter(|_| at == to)
    }

    fn piece(&self, from: u32, to: u32) -> &'a [u8] {
        self.content.get(from as usize..to as usize).unwrap_or(&[])
    }

    fn note(&self, at: u32, encoding: Encoding, it: ItState, sites: &mut Vec<Site>) {
        sites.extend(must_change(encoding, it).map(|found| Site {
            offset: self.section.offset + at as usize,
            address: self.section.address.wrapping_add(at),
            section: self.number,
            found,
            it,
            certainty: Certainty::Sure,
            role: self.role,
        }));
    }
}

/// The places that a section's code names by the PC, as distances from the section's start.
#[derive(Default)]
struct Named {
    /// The places that it loads.
    literals: HashSet<u32>,
    /// The places that it branches to.
    targets: BTreeMap<u32, Isa>,
}

fn named(section: &Section, content: &[u8]) -> Named {
    let mut named = Named::default();
    for (from, to, mapping) in section.pieces() {
        let (Mapping::Code(isa), Some(piece)) = (mapping, content.get(from as usize..to as usize))
        else {
            continue;
        };
        for (at, encoding, _) in instructions(piece, isa) {
            let at = from + at as u32;
            named.literals.extend(literal(encoding, at));
            named
                .targets
                .extend(branch_target(encoding, at).map(|to| (to, isa)));
        }
    }
    named
}
