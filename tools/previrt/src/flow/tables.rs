//! Follows the entries of jump tables. The code in front of a jump tells what its table is
//! ([`super::jump`]). A table that is not understood is noted as unresolved.

use super::engine::{Origin, Pass};
use super::jump::MAX_TABLE;
use super::marks::Mark;
use super::step::entry_size;
use hanok_decode::aarch32::Isa;
use hanok_instructions::{Table, TableKind};

impl Pass<'_> {
    /// Follows a jump table, which consists of data or of branches.
    pub(super) fn table(&mut self, table: Table, at: u32, isa: Isa, origin: Origin) {
        if table.kind == TableKind::Code {
            return self.code_table(table, at, isa, origin);
        }
        let bound = self.before(isa).bound(table.index, at);
        let place = match table.at {
            Some(place) => place.from(at),
            None => match self.before(isa).value(table.base, at) {
                Some(place) => place.value,
                None => return self.understood = false,
            },
        };
        // Only a bound proves the table's length.
        let origin = bound.map_or(Origin::Guessed(at), |_| origin);
        if bound.is_none() {
            self.understood = false;
        }
        match table.kind {
            TableKind::Addresses => self.addresses(place, bound, at, (isa, origin)),
            kind => self.offsets(place, bound, entry_size(kind), (isa, origin)),
        }
    }

    /// Notes one target of a table, which is as sure as its `origin`.
    fn target(&mut self, to: u32, isa: Isa, origin: Origin) {
        match origin {
            Origin::Guessed(_) => self.guess(to, isa),
            _ => self.push(to, isa, origin),
        }
    }

    fn addresses(&mut self, table: u32, bound: Option<u32>, at: u32, how: (Isa, Origin)) {
        let (isa, origin) = how;
        for n in 0..bound.unwrap_or(MAX_TABLE) {
            let entry = table.wrapping_add(4 * n);
            let Some(to) = self.memory.word(entry) else {
                return;
            };
            // Without a bound the table ends where its words point somewhere else.
            let near = (to & !1).abs_diff(at) < 1 << 16 && self.in_text(to);
            let taken = self
                .memory
                .offset(entry)
                .map(|offset| self.marks.get(offset));
            if bound.is_none() && (!near || matches!(taken, Some(Mark::Start(..)))) {
                return;
            }
            self.data(entry, 4, origin);
            self.target(to & !1, isa, origin);
        }
    }

    /// Follows `add pc, pc, index, lsl #2`: by distances that were loaded, or into a row of
    /// branches. Other shifts go into unrolled code.
    fn code_table(&mut self, table: Table, at: u32, isa: Isa, origin: Origin) {
        let behind = table.at.map_or(at, |place| place.from(at));
        if table.shift != 2 {
            if self.before(isa).unrolled(at).is_none() {
                self.understood = false;
            }
            return self.guess(behind, isa);
        }
        let before = self.before(isa);
        if let Some(found) = before.distances(table.index, at) {
            let origin = if found.place.straight {
                origin
            } else {
                self.understood = false;
                Origin::Guessed(at)
            };
            for n in 0..found.entries {
                let entry = found.place.value.wrapping_add(found.size * n);
                let Some(distance) = self.entry(entry, found.size, found.signed) else {
                    return self.fail(at, origin);
                };
                self.data(entry, found.size, origin);
                let to = behind.wrapping_add(distance.wrapping_mul(4));
                self.target(to, isa, origin);
            }
            return;
        }
        let Some(bound) = before.bound(table.index, at) else {
            return self.understood = false;
        };
        let entries = (0..bound).map(|n| behind.wrapping_add(4 * n));
        let branches = |entry: &u32| {
            let word = self.memory.word(*entry);
            word.is_some_and(|word| word >> 24 == 0xea)
        };
        if entries.clone().all(|entry| branches(&entry)) {
            entries.for_each(|entry| self.push(entry, isa, origin));
        } else {
            self.understood = false;
        }
    }

    /// Reads an entry of one or two bytes.
    fn entry(&self, at: u32, size: u32, signed: bool) -> Option<u32> {
        let byte = |at: u32| {
            let offset = self.memory.offset(at)?;
            self.memory.bytes.get(offset).copied()
        };
        let low = byte(at)?;
        Some(match (size, signed) {
            (1, false) => u32::from(low),
            (1, true) => low.cast_signed() as u32,
            (_, false) => u16::from_le_bytes([low, byte(at.wrapping_add(1))?]).into(),
            (_, true) => i16::from_le_bytes([low, byte(at.wrapping_add(1))?]) as u32,
        })
    }

    fn offsets(&mut self, table: u32, bound: Option<u32>, size: u32, how: (Isa, Origin)) {
        let (isa, origin) = how;
        let mut nearest = u32::MAX;
        for n in 0..bound.unwrap_or(MAX_TABLE) {
            let entry = table.wrapping_add(size * n);
            let Some(distance) = self.entry(entry, size, false) else {
                return;
            };
            // Without a bound the table ends where the nearest target begins.
            if bound.is_none() && entry >= nearest {
                return;
            }
            let to = table.wrapping_add(2 * distance);
            nearest = nearest.min(to);
            self.data(entry, size, origin);
            self.target(to, isa, origin);
        }
    }
}
