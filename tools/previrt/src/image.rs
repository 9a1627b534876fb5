//! Sensitive instructions of a kernel's raw image: no sections, no symbol table, no mapping
//! symbols.
//!
//! What leads to an instruction makes it certain: names of functions, the unwinder's index,
//! Linux's own tables, the vectors, and the flow of the code from there. What the code loads
//! is data. What is left among the code, and looks like a sensitive instruction, is doubtful.

use crate::bytes::{half, word};
use crate::flow::marks::{Mark, Marks};
use crate::flow::memory::Memory;
use crate::flow::{Follow, Root, decode, follow};
use crate::kallsyms::{self, Kallsyms, Symbol};
use crate::linux::{self, Tables, Text, base};
use crate::patch::{is_trap, made, room};
use crate::refusal::Result;
use crate::site::{Certainty, Role, Site, must_change};
use crate::sweep::instructions;
use std::ops::Range;

use hanok_decode::aarch32::{
    Access, Definition, Encoding, Exception, Flow, Instruction, Isa, ItState, Operation,
};

/// Behind `_einittext` comes `.exit.text`, which kallsyms does not name.
const EXIT_TEXT: u32 = 0x1_0000;

/// A kernel image, read.
#[derive(Debug)]
pub struct Image {
    /// Where it is linked, and its instruction set.
    pub base: base::Base,
    /// Its symbols.
    pub kallsyms: Kallsyms,
    /// Linux's tables.
    pub tables: Tables,
    /// Where the code is.
    pub text: Text,
    /// What must change, certain and doubtful, by address.
    pub sites: Vec<Site>,
    /// How many instructions only a rewritten file has.
    pub trapped: usize,
    /// Where the vectors' stubs are, which are executed elsewhere.
    pub stubs: Option<Range<u32>>,
    /// Rooms of trampolines that a rewritten image has, as addresses.
    pub rooms: Vec<Range<u32>>,
    /// What trampolines need to know of its code.
    pub code: Code,
}

/// The code of a program, as far as a trampoline has to know it.
#[derive(Debug)]
pub struct Code {
    /// Where its first byte is in memory.
    pub base: u32,
    /// The code as it is in memory, where that is not the file itself.
    pub flat: Option<Vec<u8>>,
    /// What each halfword is.
    pub marks: Marks,
    /// Where is code that is executed elsewhere: copied there, or by its physical address.
    pub elsewhere: Vec<Range<u32>>,
    /// Linux's entry code, which stays where it is.
    pub entry: Option<Range<u32>>,
    /// Where is nothing, as addresses of whole pages.
    pub room: Option<Range<u32>>,
    /// Where the program ends, if nobody uses what is behind it.
    pub end: Option<u32>,
}

/// Reads a raw image.
pub fn scan(bytes: &[u8]) -> Result<Image> {
    let kallsyms = kallsyms::recover(bytes)?;
    let base = base::find(bytes, &kallsyms.symbols)?;
    let memory = Memory {
        bytes,
        base: base.address,
    };
    let text = text(memory, &kallsyms.symbols);
    let tables = linux::find(memory, &text, base.isa);
    let certain_roots = roots(memory, &kallsyms.symbols, &tables, base.isa);
    let mut likely = named(memory, &kallsyms.symbols, base.isa);
    likely.extend(&tables.functions);
    let mut known = Marks::new(bytes.len());
    known.data(kallsyms.range.0, kallsyms.range.1 - kallsyms.range.0);
    let rooms = room::written(memory);
    let follow = follow(memory, &certain_roots, &likely, &known);
    let mut sites = certain(memory, &follow.marks);
    sites.extend(alternatives(memory, &tables));
    sites.extend(doubtful(memory, &text, &follow.marks, base.isa));
    sites.extend(strays(memory, &text, &follow.marks, &kallsyms));
    sites.sort_by_key(|site| site.address);
    sites.dedup_by_key(|site| site.address);
    sites.retain(|site| !rooms.iter().any(|room| room.contains(&site.address)));
    let trapped = traps(memory, &follow.marks);
    let stubs = linux::vectors::stubs(memory, &kallsyms.symbols);
    let Follow { marks, .. } = follow;
    let code = Code {
        base: base.address,
        flat: None,
        end: made::end_of(memory, &kallsyms.symbols),
        elsewhere: elsewhere(memory, &kallsyms.symbols, &tables),
        entry: between(&kallsyms.symbols, "__entry_text_start", "__entry_text_end"),
        room: room::empty(memory, &kallsyms.symbols, &marks),
        marks,
    };
    Ok(Image {
        base,
        kallsyms,
        tables,
        text,
        sites,
        trapped,
        stubs,
        rooms,
        code,
    })
}

/// From one name to another.
fn between(symbols: &[Symbol], from: &str, to: &str) -> Option<Range<u32>> {
    let named = |name: &str| {
        let found = symbols.iter().find(|symbol| symbol.name == name);
        found.map(|symbol| symbol.address)
    };
    Some(named(from)?..named(to)?)
}

/// Code that is not executed where it is: the vectors' stubs, what is exchanged on a
/// uniprocessor, and what runs at its physical address with the MMU on.
fn elsewhere(memory: Memory<'_>, symbols: &[Symbol], tables: &Tables) -> Vec<Range<u32>> {
    let mut ranges = Vec::new();
    ranges.extend(between(symbols, "__idmap_text_start", "__idmap_text_end"));
    ranges.extend(linux::vectors::region(memory, symbols));
    let exchanged = tables.alternatives.iter();
    ranges.extend(exchanged.map(|other| other.place..other.place.saturating_add(4)));
    ranges
}

/// Where code may be: the start, `.text`, the vectors and `.init.text` and what follows it.
fn text(memory: Memory<'_>, symbols: &[Symbol]) -> Text {
    let named = |name: &str| {
        symbols
            .iter()
            .find(|symbol| symbol.name == name)
            .map(|symbol| symbol.address)
    };
    let mut ranges = Vec::new();
    if let (Some(from), Some(to)) = (named("_stext"), named("_etext")) {
        ranges.push((memory.base, from));
        ranges.push((from, to));
    } else if let Some(last) = symbols.iter().rev().find(|symbol| symbol.is_text()) {
        ranges.push((memory.base, last.address.saturating_add(EXIT_TEXT)));
    }
    if let (Some(from), Some(to)) = (named("_sinittext"), named("_einittext")) {
        ranges.push((from & !0xfff, to.saturating_add(EXIT_TEXT)));
    }
    Text { ranges }
}

fn roots(memory: Memory<'_>, symbols: &[Symbol], tables: &Tables, isa: Isa) -> Vec<Root> {
    // The image starts in A32 whatever it is (Documentation/arch/arm/booting.rst).
    let mut roots = vec![Root {
        address: memory.base,
        isa: Isa::A32,
    }];
    roots.extend(&tables.roots);
    roots.extend(linux::vectors::roots(memory, symbols, isa));
    roots.sort();
    roots.dedup();
    roots
}

/// Where names of code are, and what looks like it.
fn named(memory: Memory<'_>, symbols: &[Symbol], isa: Isa) -> Vec<Root> {
    let text = symbols.iter().filter(|symbol| symbol.is_text());
    let entries = text.map(|symbol| Root {
        address: symbol.address,
        isa: entered(memory, symbol.address, isa),
    });
    entries.filter(|root| begins(memory, *root)).collect()
}

/// In which instruction set a function of a kernel of `isa` is entered. A Thumb kernel has a
/// few that firmware enters in A32, which begin with `add rX, pc, #1` and `bx rX`.
fn entered(memory: Memory<'_>, address: u32, isa: Isa) -> Isa {
    let first = memory.word(address).unwrap_or(0);
    let second = memory.word(address.wrapping_add(4)).unwrap_or(0);
    let switches = first & 0xffff_0fff == 0xe28f_0001 && second & 0xffff_fff0 == 0xe12f_ff10;
    if switches { Isa::A32 } else { isa }
}

/// So many instructions of a function are looked at.
const LOOK_AHEAD: usize = 32;

/// Whether what stands at a name looks like code: tables in the text have names, too. Code has
/// only instructions that the manual defines, and conditions only after something that sets
/// the flags; addresses and numbers as words soon break one of both.
fn begins(memory: Memory<'_>, root: Root) -> bool {
    let (mut at, mut it, mut flags) = (root.address, ItState::NONE, false);
    for _ in 0..LOOK_AHEAD {
        let Some(encoding) = memory.fetch(at, root.isa) else {
            return false;
        };
        let found = decode(encoding, it);
        let conditional = root.isa == Isa::A32 && !found.condition.is_always();
        if !plausible(&found) || conditional && !flags || memory.word(at) == Some(0) {
            return false;
        }
        flags |= !found.effects.flags_written.is_empty();
        if !found.falls_through() {
            return true;
        }
        it = found.it_after(it);
        at = at.wrapping_add(found.bytes());
    }
    true
}

/// Whether a compiler or a kernel's programmer would have made it.
fn plausible(found: &Instruction) -> bool {
    let defined = match found.flow {
        // The kernel's own mark of a bug.
        Flow::Exception(Exception::Undefined) => found.encoding.bits() & !0xfff == 0xe7f0_0000,
        _ => found.definition == Definition::Defined,
    };
    let known = match found.sensitive.map(|found| found.operation) {
        Some(Operation::Coprocessor(coprocessor)) => {
            let registers = matches!(
                coprocessor.access,
                Access::Register { .. } | Access::Pair { .. }
            );
            registers && !coprocessor.second_kind && matches!(coprocessor.number, 10 | 14 | 15)
        }
        _ => true,
    };
    defined && known
}

/// What is code for certain.
fn certain(memory: Memory<'_>, marks: &Marks) -> Vec<Site> {
    marks
        .iter(0..memory.bytes.len())
        .filter_map(|(offset, mark)| {
            let Mark::Start(isa, it) = mark else {
                return None;
            };
            let encoding = memory.fetch(memory.address(offset), isa)?;
            site(memory, offset, encoding, it, Certainty::Sure, Role::Code)
        })
        .collect()
}

/// How many of the certain instructions only a rewritten file has.
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

fn site(
    memory: Memory<'_>,
    offset: usize,
    encoding: Encoding,
    it: ItState,
    certainty: Certainty,
    role: Role,
) -> Option<Site> {
    let found = must_change(encoding, it)?;
    let address = memory.address(offset);
    Some(Site {
        offset,
        address,
        section: 0,
        found,
        it,
        certainty,
        role,
    })
}

/// What Linux would copy over other code.
fn alternatives(memory: Memory<'_>, tables: &Tables) -> Vec<Site> {
    let all = tables.alternatives.iter();
    all.filter_map(|other| {
        let offset = memory.offset(other.entry)?;
        site(
            memory,
            offset,
            other.other,
            ItState::NONE,
            Certainty::Sure,
            Role::Alternative,
        )
    })
    .collect()
}

/// What looks like a sensitive instruction, as the manual defines it, and nothing leads there.
fn doubtful(memory: Memory<'_>, text: &Text, marks: &Marks, isa: Isa) -> Vec<Site> {
    let mut sites = Vec::new();
    for (from, to) in &text.ranges {
        let [from, to] = [*from, *to].map(|at| at.wrapping_sub(memory.base) as usize);
        let mut start = None;
        for (offset, mark) in marks.iter(from..to.min(memory.bytes.len())) {
            match (mark, start) {
                (Mark::Unknown, None) => start = Some(offset),
                (Mark::Unknown, Some(_)) => {}
                (_, Some(first)) => {
                    gap(memory, first, offset, isa, &mut sites);
                    start = None;
                }
                (_, None) => {}
            }
        }
    }
    sites
}

/// The doubtful words between two places that are known.
fn gap(memory: Memory<'_>, from: usize, to: usize, isa: Isa, sites: &mut Vec<Site>) {
    let from = from.next_multiple_of(isa.alignment() as usize);
    let Some(bytes) = memory.bytes.get(from..to) else {
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
            !alone && believable(memory, site)
        }));
    }
}

/// So many words before or behind a stray one have to be plausible instructions.
const COMPANY: u32 = 4;

/// Code among data, to be copied elsewhere: A32 instructions in the company of others, where
/// no code is known. It is doubtful whatever it looks like.
fn strays(memory: Memory<'_>, text: &Text, marks: &Marks, kallsyms: &Kallsyms) -> Vec<Site> {
    let names = kallsyms.range.0..kallsyms.range.1;
    (0..memory.bytes.len())
        .step_by(4)
        .filter(|offset| !names.contains(offset) && marks.get(*offset) == Mark::Unknown)
        .filter(|offset| !text.contains(memory.address(*offset)))
        .filter_map(|offset| {
            let word = word(memory.bytes, offset).filter(|word| unconditional(*word))?;
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
        .filter(|site| believable(memory, site) && in_company(memory, site.address, COMPANY))
        .collect()
}

/// Whether an A32 word has no condition: as nearly all code, and a sixteenth of all data.
const fn unconditional(word: u32) -> bool {
    word >> 28 == 0b1110 || word >> 20 == 0xf10
}

/// Whether a doubtful word is an instruction that somebody would have written.
fn believable(memory: Memory<'_>, site: &Site) -> bool {
    let found = decode(site.found.encoding, site.it);
    memory.word(site.address) != Some(0) && site.found.as_it_should_be && plausible(&found)
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
