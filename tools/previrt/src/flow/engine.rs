//! Following code from its roots.

use super::Root;
use super::marks::{Mark, Marks};
use super::memory::Memory;
use super::step::{Jump, Next, Step, entry_size, step};
use crate::sweep::advance;
use hanok_decode::aarch32::{Isa, ItState, Register, Table, TableKind};
use std::collections::VecDeque;

/// A jump table is not longer.
const MAX_TABLE: u32 = 4096;
/// A table's bound is checked at most so many instructions before it is used.
const LOOK_BACK: usize = 24;
/// How often all is done again until it stays the same.
const MAX_PASSES: usize = 6;

/// What was found.
#[derive(Debug)]
pub struct Follow {
    /// What each halfword is.
    pub marks: Marks,
    /// Places that are loaded as data and branched to.
    pub conflicts: Vec<u32>,
    /// How many passes it took.
    pub passes: usize,
}

/// Follows the code of `memory` from where it begins for certain, and from where it seems to,
/// which counts unless something loads what is there; `data` are the marks of what is known to
/// be data.
pub fn follow(memory: Memory<'_>, certain: &[Root], likely: &[Root], data: &Marks) -> Follow {
    let mut known = data.clone();
    let mut found = pass(memory, certain, likely, known.clone());
    for passes in 2..=MAX_PASSES {
        // What was known to be data decides everything else.
        let loaded = found.marks.data_alone();
        if loaded == known {
            break;
        }
        known = loaded;
        found = Follow {
            passes,
            ..pass(memory, certain, likely, known.clone())
        };
    }
    found
}

fn pass(memory: Memory<'_>, certain: &[Root], likely: &[Root], marks: Marks) -> Follow {
    let mut walk = Walk {
        memory,
        marks,
        hard: certain.to_vec(),
        soft: likely.iter().copied().collect(),
        conflicts: Vec::new(),
    };
    walk.run();
    Follow {
        marks: walk.marks,
        conflicts: walk.conflicts,
        passes: 1,
    }
}

/// One pass.
struct Walk<'a> {
    memory: Memory<'a>,
    marks: Marks,
    /// Where code is for certain.
    hard: Vec<Root>,
    /// Where code is if a call comes back.
    soft: VecDeque<Root>,
    conflicts: Vec<u32>,
}

impl Walk<'_> {
    fn run(&mut self) {
        loop {
            if let Some(root) = self.hard.pop() {
                self.line(root, true);
            } else if let Some(root) = self.soft.pop_front() {
                self.line(root, false);
            } else {
                return;
            }
        }
    }

    /// Follows one line of code to where it branches away or is known already.
    fn line(&mut self, root: Root, certain: bool) {
        let Root {
            address: mut at,
            isa,
        } = root;
        if at & (isa.alignment() - 1) != 0 {
            return;
        }
        let (mut it, mut links) = (ItState::NONE, false);
        while let Some((step, after)) = self.take(at, isa, it, certain) {
            let next = at.wrapping_add(step.len);
            let returns = std::mem::replace(&mut links, step.links);
            if !self.go(&step, at, isa, returns) {
                return;
            }
            (at, it) = (next, after);
        }
    }

    /// Marks the instruction at `at`; `None` where there is none, or it was seen already.
    fn take(&mut self, at: u32, isa: Isa, it: ItState, certain: bool) -> Option<(Step, ItState)> {
        let offset = self.memory.offset(at)?;
        match self.marks.get(offset) {
            Mark::Start(..) => return None,
            Mark::Body => {
                self.conflicts.push(at);
                return None;
            }
            Mark::Data if !certain => return None,
            Mark::Data => self.conflicts.push(at),
            Mark::Unknown => {}
        }
        let encoding = self.memory.fetch(at, isa)?;
        // Zeros are padding: no compiler makes them.
        if self.memory.word(at).is_none_or(|word| word == 0) && !certain {
            return None;
        }
        let step = step(encoding, at, it);
        self.marks.code(offset, step.len as usize, isa, it);
        if let Some((literal, len)) = step.literal {
            self.data(literal, len);
        }
        Some((step, advance(encoding, it)))
    }

    fn data(&mut self, at: u32, len: u32) {
        if let Some(offset) = self.memory.offset(at)
            && self.marks.data(offset, len as usize)
        {
            self.conflicts.push(at);
        }
    }

    fn push(&mut self, address: u32, isa: Isa) {
        let seen = |offset| matches!(self.marks.get(offset), Mark::Start(..));
        if !self.memory.offset(address).is_none_or(seen) {
            self.hard.push(Root { address, isa });
        }
    }

    /// Notes where else the code goes on; whether at the next instruction, too.
    fn go(&mut self, step: &Step, at: u32, isa: Isa, returns: bool) -> bool {
        let next = at.wrapping_add(step.len);
        match step.address {
            // A return address that code makes for itself.
            Some((Register::LR, address)) => self.push(address & !1, isa),
            // A place that is branched to all the same is code.
            Some((_, address)) => self.data(address & !1, isa.alignment()),
            None => {}
        }
        match step.next {
            Next::Falls => true,
            Next::Branch { to, conditional } => {
                self.push(to, isa);
                conditional
            }
            Next::Call(target) => {
                if let Some((address, isa)) = target {
                    self.push(address, isa);
                }
                self.soft.push_back(Root { address: next, isa });
                false
            }
            Next::Away { conditional, by } => {
                self.jump(by, at, isa);
                if returns && !conditional {
                    self.soft.push_back(Root { address: next, isa });
                }
                conditional
            }
            Next::Stops => false,
        }
    }

    fn jump(&mut self, by: Jump, at: u32, isa: Isa) {
        match by {
            Jump::Unknown => {}
            Jump::Register(register) => {
                let to = self.near(register, at, isa);
                to.into_iter().for_each(|to| self.pointed(to, isa));
            }
            Jump::Literal(literal) => {
                let to = self.memory.word(literal).unwrap_or(0);
                self.pointed(to, isa);
            }
            Jump::Near(to) => self.push(to, isa),
            Jump::Switch(to) => self.push(to, Isa::A32),
            Jump::Table(table) => self.table(table, at, isa),
        }
    }

    /// A jump table: data, or branches, and where they go.
    fn table(&mut self, table: Table, at: u32, isa: Isa) {
        let bound = self.bound(at, isa, table.index);
        let place = match table.at {
            Some(place) => Some(place.from(at)),
            None => self.near(table.base, at, isa),
        };
        let Some(place) = place else { return };
        match table.kind {
            TableKind::Addresses => self.addresses(place, bound, at, isa),
            TableKind::Code => self.branches(place, bound, isa),
            kind => self.offsets(place, bound, entry_size(kind), isa),
        }
    }

    /// Code at an address that was read from memory, where bit 0 tells the instruction set.
    fn pointed(&mut self, to: u32, isa: Isa) {
        match (to & 1, isa) {
            (1, _) => self.push(to & !1, Isa::T32),
            (_, Isa::A32) => self.push(to, Isa::A32),
            // A Thumb kernel's own tables have bit 0 set but where they are for LDR pc.
            _ => {}
        }
    }

    /// How many entries a table has whose index is checked before `at`.
    fn bound(&self, at: u32, isa: Isa, index: Register) -> Option<u32> {
        let compare = self.earlier(at, isa).find_map(|step| step.compare);
        compare
            .filter(|(register, _)| *register == index)
            .map(|(_, most)| most.saturating_add(1))
    }

    /// The address that a register got before `at`.
    fn near(&self, register: Register, at: u32, isa: Isa) -> Option<u32> {
        let written = self
            .earlier(at, isa)
            .find(|step| step.writes.contains(register))?;
        written.address.map(|(_, address)| address)
    }

    /// The instructions before `at`, the nearest first.
    fn earlier(&self, at: u32, isa: Isa) -> impl Iterator<Item = Step> {
        let end = self.memory.offset(at).unwrap_or(0);
        let start = end.saturating_sub(4 * LOOK_BACK);
        let starts = self.marks.iter(start..end).rev();
        starts.filter_map(move |(offset, mark)| {
            let address = self.memory.address(offset);
            let known = matches!(mark, Mark::Start(found, _) if found == isa);
            let known = known || isa == Isa::A32 && offset % 4 == 0 && mark != Mark::Data;
            let encoding = self.memory.fetch(address, isa).filter(|_| known)?;
            Some(step(encoding, address, ItState::NONE))
        })
    }

    fn addresses(&mut self, table: u32, bound: Option<u32>, at: u32, isa: Isa) {
        for n in 0..bound.unwrap_or(MAX_TABLE).min(MAX_TABLE) {
            let entry = table.wrapping_add(4 * n);
            let Some(to) = self.memory.word(entry) else {
                return;
            };
            // Without a bound the table ends where its words point somewhere else.
            let near = (to & !1).abs_diff(at) < 1 << 16 && self.memory.offset(to).is_some();
            let taken = self
                .memory
                .offset(entry)
                .map(|offset| self.marks.get(offset));
            if !near || bound.is_none() && matches!(taken, Some(Mark::Start(..))) {
                return;
            }
            self.data(entry, 4);
            self.push(to & !1, isa);
        }
    }

    fn branches(&mut self, table: u32, bound: Option<u32>, isa: Isa) {
        for n in 0..bound.unwrap_or(MAX_TABLE).min(MAX_TABLE) {
            let entry = table.wrapping_add(4 * n);
            self.push(entry, isa);
            let branch = self
                .memory
                .word(entry)
                .is_some_and(|word| word >> 24 == 0xea);
            if !branch && bound.is_none() {
                return;
            }
        }
    }

    fn offsets(&mut self, table: u32, bound: Option<u32>, size: u32, isa: Isa) {
        let mut nearest = u32::MAX;
        for n in 0..bound.unwrap_or(MAX_TABLE).min(MAX_TABLE) {
            let entry = table.wrapping_add(size * n);
            let half = self.memory.half(entry & !1).map(u32::from);
            let distance = half.map(|half| match size {
                1 => half >> (8 * (entry & 1)) & 0xff,
                _ => half,
            });
            let Some(distance) = distance else { return };
            // Without a bound the table ends where the nearest target begins.
            if bound.is_none() && entry >= nearest {
                return;
            }
            let to = table.wrapping_add(2 * distance);
            nearest = nearest.min(to);
            self.data(entry, size);
            self.push(to, isa);
        }
    }
}
