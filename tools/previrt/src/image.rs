//! Finds the sensitive instructions of a kernel's raw image, which has no sections, no symbol table
//! and no mapping symbols.
//!
//! The names of functions, the unwinder's index, Linux's own tables, the vectors and pointers say
//! where code may be, and the flow of the code from there says the rest. An instruction is proven
//! where it is reached from certain code, or where every word of its function is explained
//! ([`closed`]). Other words that look like a sensitive instruction are doubtful.

use crate::area;
use crate::bytes::half;
use crate::doubtful;
use crate::flow::closed::{self, Closed};
use crate::flow::marks::{Mark, Marks};
use crate::flow::memory::Memory;
use crate::flow::{Follower, Root, Run, Start};
use crate::kallsyms::{self, Kallsyms, Symbol};
use crate::linux::end;
use crate::linux::init;
use crate::linux::tables::Init;
use crate::linux::{self, LinuxTables, Text, base, tables, vectors};
use crate::refusal::Result;
use crate::site::{Certainty, Role, Site, site};
use crate::trap::is_trap;
use std::ops::Range;

use hanok_decode::aarch32::{Isa, ItState};
use std::collections::HashSet;

/// A kernel image and what was found in it.
#[derive(Debug)]
pub struct Image {
    /// The address at which the image is linked, and its instruction set.
    pub base: base::Base,
    /// The image's symbols.
    pub kallsyms: Kallsyms,
    /// Linux's own tables.
    pub tables: LinuxTables,
    /// The ranges in which code may be.
    pub text: Text,
    /// The part of them that is init code.
    pub init: Option<Init>,
    /// The instructions that must change, certain and doubtful ones, by address.
    pub sites: Vec<Site>,
    /// The number of instructions that only a rewritten file has.
    pub trapped: usize,
    /// The addresses of the vectors' stubs, which are executed elsewhere.
    pub stubs: Option<Range<u32>>,
    /// The areas of trampolines that a rewritten image has, as addresses.
    pub areas: Vec<Range<u32>>,
    /// What the placing of trampolines needs to know of the image's code.
    pub code: Code,
}

/// A program's code, as far as the placing of trampolines needs to know it.
#[derive(Debug)]
pub struct Code {
    /// The address of the code's first byte.
    pub base: u32,
    /// The code as it is in memory, where that differs from the file.
    pub flat: Option<Vec<u8>>,
    /// What each halfword is.
    pub marks: Marks,
    /// Which functions are explained to their last word.
    pub proof: Closed,
    /// The ranges of code that is executed elsewhere: copied there, or at its physical address.
    pub elsewhere: Vec<Range<u32>>,
    /// The addresses of instructions that may fault by Linux's exception table, which are executed where they are linked.
    pub faulting: Vec<u32>,
    /// The range of Linux's entry code, which is executed where it is linked.
    pub entry: Option<Range<u32>>,
    /// The range of whole pages that hold nothing, as addresses.
    pub unused: Option<Range<u32>>,
    /// The address where the program ends, if nothing uses the memory behind it.
    pub end: Option<u32>,
}

#[cfg(test)]
impl Code {
    /// Code of which nothing else is known.
    pub(crate) fn marked(base: u32, marks: Marks) -> Self {
        Self {
            base,
            flat: None,
            marks,
            proof: Closed::default(),
            elsewhere: Vec::new(),
            faulting: Vec::new(),
            entry: None,
            unused: None,
            end: None,
        }
    }
}

impl Code {
    /// Whether an A32 instruction certainly begins at `address`.
    pub fn is_certain_a32(&self, address: u32) -> bool {
        let offset = address.wrapping_sub(self.base) as usize;
        let a32 = matches!(self.marks.get(offset), Mark::Start(Isa::A32, _));
        a32 && certainty(address, offset, &self.marks, &self.proof) == Certainty::Sure
    }
}

/// Reads a raw image.
pub fn scan(bytes: &[u8]) -> Result<Image> {
    let kallsyms = kallsyms::recover(bytes)?;
    let base = base::find(bytes, &kallsyms.symbols)?;
    let memory = Memory {
        bytes,
        base: base.address,
    };
    let mut text = text(memory, &kallsyms);
    let init = init::find(memory, &text, &kallsyms.symbols, base.isa)?;
    text.ranges.extend(init.as_ref().map(Init::range));
    let tables = linux::find(memory, &text, &kallsyms.symbols, base.isa);
    let mut known = Marks::new(bytes.len());
    _ = known.data(kallsyms.range.0, kallsyms.range.1 - kallsyms.range.0, false);
    for table in &tables.found {
        if let Some(offset) = memory.offset(table.address) {
            _ = known.data(offset, table.len as usize, false);
        }
    }
    let areas = area::written(memory);
    let mut starts = starts(memory, &kallsyms, &tables, init.as_ref(), base.isa);
    starts.areas.clone_from(&areas);
    let (marks, proof) = explain(memory, starts, &text, known, base.isa);
    let mut sites = certain(memory, &marks, &proof);
    sites.extend(alternatives(memory, &tables, &marks, &proof));
    sites.extend(doubtful::in_text(memory, &text, &marks, base.isa));
    sites.extend(doubtful::in_data(memory, &text, &marks, &kallsyms));
    sites.sort_by_key(|site| site.address);
    sites.dedup_by_key(|site| site.address);
    sites.retain(|site| !areas.iter().any(|area| area.contains(&site.address)));
    let trapped = traps(memory, &marks);
    let stubs = init
        .as_ref()
        .and_then(|init| vectors::stubs(memory, &kallsyms.symbols, init));
    let code = Code {
        base: base.address,
        flat: None,
        end: end::find(memory, &kallsyms.symbols, init.as_ref()),
        elsewhere: elsewhere(memory, &kallsyms.symbols, init.as_ref(), &tables),
        faulting: tables.faulting.clone(),
        entry: between(&kallsyms.symbols, "__entry_text_start", "__entry_text_end"),
        unused: area::unused(memory, &kallsyms.symbols, &marks),
        marks,
        proof,
    };
    Ok(Image {
        base,
        kallsyms,
        tables,
        text,
        init,
        sites,
        trapped,
        stubs,
        areas,
        code,
    })
}

/// The range from one symbol to another.
fn between(symbols: &[Symbol], from: &str, to: &str) -> Option<Range<u32>> {
    let named = |name: &str| {
        let found = symbols.iter().find(|symbol| symbol.name == name);
        found.map(|symbol| symbol.address)
    };
    Some(named(from)?..named(to)?)
}

/// The ranges of code that is not executed where it is linked: the vectors' stubs, instructions
/// that are exchanged on a uniprocessor, code that runs at its physical address with the MMU on, and
/// what Linux copies beside the vectors for programs.
fn elsewhere(
    memory: Memory<'_>,
    symbols: &[Symbol],
    init: Option<&Init>,
    tables: &LinuxTables,
) -> Vec<Range<u32>> {
    let mut ranges = Vec::new();
    ranges.extend(between(symbols, "__idmap_text_start", "__idmap_text_end"));
    ranges.extend(between(
        symbols,
        "__kuser_helper_start",
        "__kuser_helper_end",
    ));
    ranges.extend(init.and_then(|init| vectors::region(memory, symbols, init)));
    let exchanged = tables.alternatives.iter();
    ranges.extend(exchanged.map(|other| other.place..other.place.saturating_add(4)));
    ranges
}

/// The ranges in which code may be, without the init code: the start and `.text`.
fn text(memory: Memory<'_>, kallsyms: &Kallsyms) -> Text {
    let symbols = &kallsyms.symbols;
    let named = |name: &str| {
        symbols
            .iter()
            .find(|symbol| symbol.name == name)
            .map(|symbol| symbol.address)
    };
    let (mut ranges, mut end) = (Vec::new(), 0);
    if let (Some(from), Some(to)) = (named("_stext"), named("_etext")) {
        end = to;
        ranges.push((memory.base, from));
        ranges.push((from, to));
    } else if let Some(last) = symbols.iter().rev().find(|symbol| symbol.is_text()) {
        ranges.push((memory.base, last.address.saturating_add(tables::EXIT_TEXT)));
    }
    let (from, to) = kallsyms.range;
    let kallsyms = memory.address(from)..memory.address(to);
    Text {
        ranges,
        end,
        kallsyms,
    }
}

/// The number of rounds in which targets of pointers are followed.
const MAX_ROUNDS: usize = 3;

/// Finds what each halfword is, and which functions are explained.
fn explain(
    memory: Memory<'_>,
    mut starts: Start,
    text: &Text,
    known: Marks,
    isa: Isa,
) -> (Marks, Closed) {
    let entries: Vec<u32> = starts.named.iter().copied().collect();
    let mut more = std::mem::take(&mut starts.likely);
    let mut likely = HashSet::new();
    let mut follower = Follower::new(memory, &text.ranges, &starts, known);
    for round in 1.. {
        let wrong = follower.guess(&more);
        likely.extend(more);
        let known = closed::FunctionFacts {
            entries: &entries,
            wrong: &wrong,
            unresolved: &follower.unresolved(),
        };
        let proof = Closed::new(memory, follower.marks(), &text.ranges, isa, known);
        more = pointed(memory, &proof, text, isa);
        more.sort();
        more.dedup();
        more.retain(|root| !likely.contains(root));
        if round == MAX_ROUNDS || more.is_empty() {
            return (follower.into_marks(), proof);
        }
    }
    (follower.into_marks(), Closed::default())
}

/// The roots of the code, certain and probable ones.
fn starts(
    memory: Memory<'_>,
    kallsyms: &Kallsyms,
    tables: &LinuxTables,
    init: Option<&Init>,
    isa: Isa,
) -> Start {
    let symbols = &kallsyms.symbols;
    // The image starts in A32 whatever its instruction set is (Documentation/arch/arm/booting.rst).
    let mut certain = vec![Root {
        address: memory.base,
        isa: Isa::A32,
    }];
    certain.extend(init.map_or_else(Vec::new, |init| vectors::roots(memory, symbols, init, isa)));
    let mut likely = named(memory, kallsyms, isa);
    likely.extend(&tables.roots);
    // A Thumb kernel has a few functions of A32.
    match isa {
        Isa::A32 => certain.extend(&tables.functions),
        Isa::T32 => likely.extend(&tables.functions),
    }
    for roots in [&mut certain, &mut likely] {
        roots.sort();
        roots.dedup();
    }
    let text = symbols.iter().filter(|symbol| symbol.is_text());
    let mut named: HashSet<u32> = text.map(|symbol| symbol.address).collect();
    named.extend(tables.functions.iter().map(|root| root.address));
    named.extend(init.and_then(|init| init.switched));
    Start {
        certain,
        likely,
        named,
        areas: Vec::new(),
    }
}

/// The unexplained places that words outside of the text point to: functions without a name, and
/// labels of which a program made a table.
fn pointed(memory: Memory<'_>, proof: &Closed, text: &Text, isa: Isa) -> Vec<Root> {
    let thumb = u32::from(isa == Isa::T32);
    let words = memory.bytes.chunks_exact(4).filter_map(|bytes| {
        let word = u32::from_le_bytes(bytes.try_into().ok()?);
        let address = word.wrapping_sub(thumb);
        let aligned = address & (isa.alignment() - 1) == 0;
        (aligned && text.contains(address) && proof.is_gap(address)).then_some(address)
    });
    let roots = words.map(|address| Root { address, isa });
    roots.filter(|root| begins(memory, *root)).collect()
}

/// The roots at names of code, where the bytes look like code.
fn named(memory: Memory<'_>, kallsyms: &Kallsyms, isa: Isa) -> Vec<Root> {
    let text = kallsyms.symbols.iter().filter(|symbol| symbol.is_text());
    let entries = text.map(|symbol| Root {
        address: symbol.address,
        isa: entered(memory, symbol.address, isa),
    });
    let data = match isa {
        Isa::A32 => HashSet::new(),
        Isa::T32 => pointed_even(memory, kallsyms.range),
    };
    entries
        .filter(|root| !data.contains(&root.address) && begins(memory, *root))
        .collect()
}

/// The addresses that words point to, all with bit 0 clear: in a Thumb kernel such an address is
/// data. Nearly every halfword is some instruction of T32, so that tables in the text look like
/// code, too. Kallsyms' own words, at the offsets `names`, say nothing.
fn pointed_even(memory: Memory<'_>, names: (usize, usize)) -> HashSet<u32> {
    let (mut even, mut odd) = (HashSet::new(), HashSet::new());
    for (n, bytes) in memory.bytes.chunks_exact(4).enumerate() {
        let word = bytes.try_into().map_or(0, u32::from_le_bytes);
        if memory.offset(word).is_some() && !(names.0..names.1).contains(&(4 * n)) {
            let set = if word & 1 == 0 { &mut even } else { &mut odd };
            set.insert(word & !1);
        }
    }
    even.retain(|address| !odd.contains(address));
    even
}

/// The instruction set in which a function of a kernel of `isa` is entered. A Thumb kernel has a
/// few functions that firmware enters in A32, which begin with `add rX, pc, #1` and `bx rX`.
fn entered(memory: Memory<'_>, address: u32, isa: Isa) -> Isa {
    let first = memory.word(address).unwrap_or(0);
    let second = memory.word(address.wrapping_add(4)).unwrap_or(0);
    let switches = first & 0xffff_0fff == 0xe28f_0001 && second & 0xffff_fff0 == 0xe12f_ff10;
    if switches { Isa::A32 } else { isa }
}

/// The number of instructions of a function that are examined.
const LOOK_AHEAD: usize = 32;

/// Whether the bytes at a name look like code ([`Run`]): tables in the text have names, too.
fn begins(memory: Memory<'_>, root: Root) -> bool {
    let run = Run {
        root,
        it: ItState::NONE,
        flags: false,
        ahead: LOOK_AHEAD,
    };
    run.is_code(memory, |_| None, |_, _| false)
}

/// The sites in known code, proven or not.
fn certain(memory: Memory<'_>, marks: &Marks, proof: &Closed) -> Vec<Site> {
    marks
        .iter(0..memory.bytes.len())
        .filter_map(|(offset, mark)| {
            let Mark::Start(isa, it) = mark else {
                return None;
            };
            let encoding = memory.fetch(memory.address(offset), isa)?;
            let found = site(memory, offset, encoding, it, Certainty::Sure, Role::Code)?;
            Some(Site {
                certainty: certainty(memory.address(offset), offset, marks, proof),
                ..found
            })
        })
        .collect()
}

/// Whether the known code at `address`, which is at `offset` of the image, is proven: it is not,
/// where it is loaded as data as well.
fn certainty(address: u32, offset: usize, marks: &Marks, proof: &Closed) -> Certainty {
    let proven = if marks.is_soft(offset) {
        !marks.is_perhaps_loaded(offset) && proof.contains(address)
    } else {
        !marks.is_loaded(offset)
    };
    if proven {
        Certainty::Sure
    } else {
        Certainty::Doubtful
    }
}

/// The number of certain instructions that only a rewritten file has.
fn traps(memory: Memory<'_>, marks: &Marks) -> usize {
    let starts = marks.iter(0..memory.bytes.len());
    let trap = |(offset, mark): &(usize, Mark)| {
        let Mark::Start(isa, _) = mark else {
            return false;
        };
        let found = memory.fetch(memory.address(*offset), *isa);
        found.is_some_and(|found| is_trap(found, half(memory.bytes, offset + 2)))
    };
    starts.filter(trap).count()
}

/// The sensitive instructions that Linux would copy over other code. They are certain if the place
/// is proven code.
fn alternatives(
    memory: Memory<'_>,
    tables: &LinuxTables,
    marks: &Marks,
    proof: &Closed,
) -> Vec<Site> {
    let all = tables.alternatives.iter();
    all.filter_map(|other| {
        let offset = memory.offset(other.entry)?;
        let place = memory.offset(other.place)?;
        let certainty = match marks.get(place) {
            Mark::Start(..) => certainty(other.place, place, marks, proof),
            _ => Certainty::Doubtful,
        };
        let (other, it) = (other.other, ItState::NONE);
        site(memory, offset, other, it, certainty, Role::Alternative)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_to_which_only_even_words_point_is_data_of_a_thumb_kernel() {
        let base = 0x8000_0000_u32;
        let words = [
            base + 0x10,
            base + 0x11,
            base + 0x18,
            base + 0x1d,
            base + 0x20,
        ];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(0x40, 0);
        let memory = Memory {
            bytes: &bytes,
            base,
        };
        // The last word is one of kallsyms' own, and so says nothing.
        let data = pointed_even(memory, (16, 20));
        assert_eq!(data, HashSet::from([base + 0x18]));
    }
}
