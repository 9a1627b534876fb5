//! Replaces what only looks like an instruction that User mode would execute silently otherwise.
//!
//! The hypervisor looks at each page before it is executed. It has doubts about every word that, as
//! an instruction of A32 or T32, would go wrong in User mode, and until it has proven what the word
//! is, the page is slow. In a kernel in A32 nearly all such words are literals (a pointer into the
//! kernel looks like LDRHT), or instructions one half of which looks like T32, alone or with the
//! half beside it. Both are replaced here, where it is certain what they are:
//!
//! - A literal: each LDR of it becomes a branch to instructions that make the same value, and the
//!   literal itself becomes an instruction that traps ([`literals`]).
//! - An instruction: it becomes a branch to where it is moved ([`instead`]).
//! - A jump table of addresses: it becomes one of branches.
//! - A pointer in a table of system calls: it points to a branch to where it pointed before.
//!
//! Certain are the same things as for trampolines: that known code is code, and that it is executed
//! where it is linked. Words that Linux itself changes stay ([`places`]).
//!
//! The hypervisor's doubts do not depend on this: it looks at the rewritten pages as at all others.

mod instead;
mod literals;
mod places;

use super::in_place::InPlaceCode;
use super::{Change, Form, Lookalikes, Options, SideFile, write};
use crate::area::{Area, PlainPages};
use crate::bytes::word;
use crate::flow::marks::Mark;
use crate::flow::memory::Memory;
use crate::image::Code;
use crate::refusal::{Refusal, Result};
use crate::scan::{Kind, Scan};
use hanok_abi::trampoline::{PAGE, branch, branch_target, enter};
use hanok_decode::aarch32::Isa;
use hanok_proof::is_part_of_doubt;
use instead::{Instead, VARIANTS};
use literals::Literals;
use places::Patched;
use std::collections::{BTreeMap, BTreeSet};

/// Replaces the lookalikes of an image if the options say so, and notes that in `side`, which has
/// the image's other changes already. `areas` are those of its trampolines. Returns the pages to
/// which instructions were moved.
pub(super) fn replace(
    scan: &Scan,
    options: &Options,
    areas: &[Area],
    side: &mut SideFile,
) -> Result<Option<PlainPages>> {
    let a32 = scan.kind == Kind::Image && scan.isa == Some(Isa::A32);
    let wanted = options.lookalikes == Lookalikes::Replace && a32;
    let (Some(code), Some(in_place), true) = (
        scan.code.as_ref(),
        InPlaceCode::of(scan, options.in_place),
        wanted,
    ) else {
        return Ok(None);
    };
    let Some(unused) = in_place.unused() else {
        return Ok(None);
    };
    // An appended area is elsewhere.
    let here = unused.start..=unused.end;
    let taken = areas.iter().map(Area::end).filter(|end| here.contains(end));
    let from = taken.max().unwrap_or(unused.start);
    let offset = from.wrapping_sub(code.base) as usize;
    let mut bytes = scan.content.clone();
    for change in &side.changes {
        write(&mut bytes, change.offset, change.encoding())?;
    }
    let memory = Memory {
        bytes: &scan.content,
        base: code.base,
    };
    let mut work = Replacing {
        scan,
        code,
        in_place,
        literals: Literals::of(memory, code, scan.places.first()),
        patched: Patched::of(memory, &scan.tables),
        bytes,
        pages: PlainPages::new(from..unused.end, offset),
        changes: BTreeMap::new(),
    };
    work.run()
        .ok_or_else(|| Refusal::damaged("a word of it is beyond its end"))?;
    let Replacing { changes, pages, .. } = work;
    // A site's branch to its trampoline may be a lookalike itself.
    side.changes
        .retain(|change| !changes.contains_key(&change.offset));
    side.changes.extend(changes.into_values());
    side.changes.sort_by_key(|change| change.offset);
    Ok(Some(pages))
}

/// The state while lookalikes are replaced.
struct Replacing<'a> {
    scan: &'a Scan,
    code: &'a Code,
    in_place: InPlaceCode<'a>,
    literals: Literals<'a>,
    patched: Patched,
    /// The image with all changes.
    bytes: Vec<u8>,
    pages: PlainPages,
    /// The changes of lookalikes, by offset.
    changes: BTreeMap<usize, Change>,
}

impl Replacing<'_> {
    /// Goes through all pages that have code.
    fn run(&mut self) -> Option<()> {
        let page = |offset: usize| (self.code.base as usize + offset) / PAGE as usize;
        let starts = self.code.marks.iter(0..self.bytes.len());
        let starts = starts.filter(|(_, mark)| matches!(mark, Mark::Start(..)));
        let pages: BTreeSet<_> = starts.map(|(offset, _)| page(offset)).collect();
        for page in pages {
            let first = (page * PAGE as usize).saturating_sub(self.code.base as usize);
            for offset in (first..first + PAGE as usize).step_by(4) {
                if offset + 4 <= self.bytes.len() && self.is_doubt(offset)? {
                    self.remove(offset);
                }
            }
        }
        Some(())
    }

    /// Removes the doubt that begins in the word at `offset`, if that is possible.
    fn remove(&mut self, offset: usize) {
        // A doubt that begins in the upper half goes on in the word behind, if the page does.
        let [_, behind] = self.beside(offset);
        for offset in [Some(offset), behind.map(|_| offset + 4)]
            .into_iter()
            .flatten()
        {
            if self.is_sound(offset) == Some(false)
                && (self.moved(offset).is_some()
                    || self.try_all(|work, done| work.replace_literal(offset, done))
                    || self.try_all(|work, done| work.replace_table(offset, done))
                    || self.pointed(offset).is_some())
            {
                return;
            }
        }
    }

    fn address(&self, offset: usize) -> u32 {
        self.code.base.wrapping_add(offset as u32)
    }

    /// The words in front of and behind the one at `offset`, if they are in the same page.
    fn beside(&self, offset: usize) -> [Option<u32>; 2] {
        let in_page = self.address(offset) % PAGE;
        let before = offset.checked_sub(4).filter(|_| in_page != 0);
        let behind = Some(offset + 4).filter(|_| in_page != PAGE - 4);
        [before, behind].map(|at| word(&self.bytes, at?))
    }

    /// Whether a doubt begins in the word at `offset`.
    fn is_doubt(&self, offset: usize) -> Option<bool> {
        let [_, behind] = self.beside(offset);
        Some(is_part_of_doubt(None, word(&self.bytes, offset)?, behind))
    }

    /// Whether the word at `offset` is no part of a doubt.
    fn is_sound(&self, offset: usize) -> Option<bool> {
        word(&self.bytes, offset).map(|is| self.would_be_sound(offset, is))
    }

    fn would_be_sound(&self, offset: usize, is: u32) -> bool {
        let [before, behind] = self.beside(offset);
        !is_part_of_doubt(before, is, behind)
    }

    /// Whether the word at `offset` stays where it is, and Linux does not change it.
    fn is_fixed(&mut self, offset: usize) -> bool {
        let address = self.address(offset);
        self.in_place.stays(address, 0) && !self.patched.has(address)
    }

    /// Whether the word at `offset` is in no code of which it is known that it is executed elsewhere,
    /// and Linux does not change it. That is enough for a jump through a table of addresses: a copy
    /// of it elsewhere would jump back.
    fn is_linked_here(&self, offset: usize) -> bool {
        let address = self.address(offset);
        let mut elsewhere = self.code.elsewhere.iter();
        !elsewhere.any(|range| range.contains(&address)) && !self.patched.has(address)
    }

    /// Puts code into the pages ([`PlainPages::place`]).
    fn place<T>(
        &mut self,
        variants: u32,
        make: impl Fn(&Self, u32, u32) -> Option<(T, Vec<u32>)>,
    ) -> Option<T> {
        let mut pages = std::mem::replace(&mut self.pages, PlainPages::new(0..0, 0));
        let made = pages.place(variants, |at, variant| make(self, at, variant));
        self.pages = pages;
        made
    }

    /// Moves the instruction at `offset`; `None` if that cannot be.
    fn moved(&mut self, offset: usize) -> Option<()> {
        let (site, is) = (self.address(offset), word(&self.bytes, offset)?);
        if !self.code.is_certain_a32(site) || !self.is_fixed(offset) {
            return None;
        }
        let literal = |at: u32| {
            let offset = at.checked_sub(self.code.base)? as usize;
            self.literals
                .loads(at)
                .filter(|_| self.is_linked_here(offset))?;
            word(&self.scan.content, offset)
        };
        let instead = Instead::of(is, site, literal)?;
        if self.may_be_changed(is, site, instead) {
            return None;
        }
        let entry = self.place(VARIANTS, |work, at, variant| {
            let entry = enter(is, site, at).filter(|entry| work.would_be_sound(offset, *entry))?;
            Some((entry, instead.words(variant, site, at)?))
        });
        let form = match instead {
            Instead::Constant { .. } => Form::Constant,
            _ => Form::Moved,
        };
        self.change(offset, entry?, form)
    }

    /// Whether Linux may change the instruction, though no table says so: a branch, where the table
    /// of jump labels is not known; a call of the function tracer.
    fn may_be_changed(&self, is: u32, site: u32, instead: Instead) -> bool {
        match instead {
            Instead::Jump { .. } => {
                !self.patched.knows_jump_labels() && branch_target(is, site).is_some()
            }
            Instead::Call { target } => {
                let place = self.scan.places.first();
                let name = place.and_then(|place| place.function(target));
                name.is_none_or(|name| name.contains("mcount"))
            }
            _ => false,
        }
    }

    /// Makes all of several changes, or none, of words that were not changed before. `make` adds the
    /// offset of each to the list. Returns whether they were made.
    fn try_all(&mut self, make: impl FnOnce(&mut Self, &mut Vec<usize>) -> Option<()>) -> bool {
        let filled = self.pages.filled();
        let mut done = Vec::new();
        if make(self, &mut done).is_some() {
            return true;
        }
        for change in done
            .into_iter()
            .filter_map(|offset| self.changes.remove(&offset))
        {
            // The word was there before.
            _ = write(&mut self.bytes, change.offset, change.original());
        }
        self.pages.give_back(filled);
        false
    }

    /// Replaces the literal at `offset`, and what loads it.
    fn replace_literal(&mut self, offset: usize, done: &mut Vec<usize>) -> Option<()> {
        let data = self.code.marks.get(offset) == Mark::Data
            && self.code.marks.get(offset + 2) == Mark::Data;
        if !data || !self.is_fixed(offset) {
            return None;
        }
        for load in self.literals.loads(self.address(offset))?.to_vec() {
            let load = load.checked_sub(self.code.base)? as usize;
            if self.changes.contains_key(&load) {
                continue;
            }
            self.moved(load)?;
            done.push(load);
        }
        let mut udf = (0..0x10).map(|constant| UDF | constant);
        let udf = udf.find(|udf| self.would_be_sound(offset, *udf))?;
        self.change(offset, udf, Form::Unused)
    }

    /// Replaces the table of addresses that the word at `offset` is in by one of branches, and the
    /// jump by one into the table.
    fn replace_table(&mut self, offset: usize, done: &mut Vec<usize>) -> Option<()> {
        let (address, entries) = self.literals.table(self.address(offset))?;
        let at = |address: u32| address.checked_sub(self.code.base).map(|at| at as usize);
        let (jump, first) = (at(address)?, at(*entries.first()?)?);
        let load = word(&self.bytes, jump)?;
        if !self.code.is_certain_a32(address) || !self.is_linked_here(jump) {
            return None;
        }
        self.change(jump, into_table(load)?, Form::Table)?;
        done.push(jump);
        for (offset, entry) in (first..).step_by(4).zip(&entries) {
            let target = word(&self.bytes, offset)?;
            let data = self.code.marks.get(offset) == Mark::Data;
            if !data || !self.is_linked_here(offset) {
                return None;
            }
            self.change(offset, branch(ALWAYS, *entry, target)?, Form::Table)?;
            done.push(offset);
        }
        done.iter()
            .all(|offset| self.is_sound(*offset) == Some(true))
            .then_some(())
    }

    /// Lets the pointer at `offset`, in one of the [`SYSTEM_CALLS`], point to a branch to the
    /// function that it points to. Only the function tracer sees that: it does not know the
    /// function by this address.
    fn pointed(&mut self, offset: usize) -> Option<()> {
        let functions = self.scan.places.first()?;
        let table = functions.function(self.address(offset))?;
        let target = word(&self.bytes, offset)?;
        let function = functions.extent(target)?;
        let pointer = self.code.marks.get(offset) == Mark::Unknown
            && function.start == target
            && self.code.is_certain_a32(target);
        if !pointer || !SYSTEM_CALLS.contains(&table) || !self.is_linked_here(offset) {
            return None;
        }
        let instead = Instead::Jump { target };
        let pointer = self.place(1, |work, at, variant| {
            let at = Some(at).filter(|at| work.would_be_sound(offset, *at))?;
            Some((at, instead.words(variant, at, at)?))
        });
        self.change(offset, pointer?, Form::Pointer)
    }

    fn change(&mut self, offset: usize, is: u32, form: Form) -> Option<()> {
        let (address, was) = (self.address(offset), word(&self.scan.content, offset)?);
        let place = self.scan.places.first();
        let change = Change {
            function: place
                .and_then(|place| place.function(address))
                .map(str::to_owned),
            ..Change::of_word(offset, address, [was, is], form)
        };
        write(&mut self.bytes, offset, change.encoding()).ok()?;
        self.changes.insert(offset, change);
        Some(())
    }
}

/// Linux's tables of the functions of system calls, by name. They stand between the entry code, so
/// that each pointer in them that is a lookalike is one in the busiest page of the kernel.
const SYSTEM_CALLS: [&str; 2] = ["sys_call_table", "sys_oabi_call_table"];

const ALWAYS: u32 = 0xe000_0000;

/// `add pc, pc, index, lsl #2` for `ldr pc, [pc, index, lsl #2]`, with the same condition.
const fn into_table(load: u32) -> Option<u32> {
    if load & 0x0fff_fff0 == 0x079f_f100 && load >> 28 != 0xf {
        Some(load & 0xf000_000f | 0x008f_f100)
    } else {
        None
    }
}

/// UDF, with zero as its constant, which has sixteen bits.
const UDF: u32 = 0xe7f0_00f0;
