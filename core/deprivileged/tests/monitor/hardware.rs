//! The MMU of a CPU in User mode: it walks shadow tables, and keeps what it saw for ever.

use crate::native::Kind;
use hanok_hal::TableMemory;
use hanok_paging::shadow::{Doorbells, HardwareRoot, Owed};
use hanok_types::Hpa;
use std::collections::BTreeMap;

/// What a leaf says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    frame: u64,
    shift: u32,
    read: bool,
    write: bool,
    execute: bool,
}

#[derive(Default)]
pub struct Mmu {
    /// By ASID, and the number of the page or megabyte.
    tlb: BTreeMap<(u8, u32, u32), Entry>,
    roots: BTreeMap<u8, Hpa>,
}

fn word(memory: &impl TableMemory, table: u64, index: u64) -> u32 {
    let at = table + index * 4;
    let (frame, offset) = match table % 0x4000 {
        0 if index > 1023 => (table, at - table),
        _ => (at & !0xfff, at & 0xfff),
    };
    let pair = memory.read(Hpa::new(frame), (offset / 8) as usize);
    (pair >> (offset % 8 * 8)) as u32
}

fn walk(memory: &impl TableMemory, root: Hpa, at: u32) -> Option<Entry> {
    let first = word(memory, root.get(), u64::from(at >> 20));
    let (descriptor, shift, ap, never) = match first & 3 {
        1 => {
            let page = word(
                memory,
                u64::from(first & !0x3ff),
                u64::from(at >> 12 & 0xff),
            );
            (page, 12, page >> 4 & 3 | page >> 7 & 4, page & 1)
        }
        2 => (first, 20, first >> 10 & 3 | first >> 13 & 4, first >> 4 & 1),
        _ => return None,
    };
    (descriptor & 2 != 0).then_some(Entry {
        frame: u64::from(descriptor >> shift << shift),
        shift,
        read: ap & 3 == 3,
        write: ap == 3,
        execute: ap & 3 == 3 && never == 0,
    })
}

impl Mmu {
    /// Begins to use a root.
    pub fn enter(&mut self, root: &HardwareRoot) {
        let here = |shift: u32, number: u32, at: u32| at >> shift == number;
        match root.owed {
            Owed::Nothing => {}
            Owed::Page { at, asid } => self
                .tlb
                .retain(|(of, shift, number), _| *of != asid || !here(*shift, *number, at)),
            Owed::Pages { at, asid, count } => {
                for at in (0..u32::from(count)).map(|page| at.wrapping_add(page << 12)) {
                    self.tlb
                        .retain(|(of, shift, number), _| *of != asid || !here(*shift, *number, at));
                }
            }
            Owed::PageEverywhere { at } => self
                .tlb
                .retain(|(_, shift, number), _| !here(*shift, *number, at)),
            Owed::PagesEverywhere { first, step, count } => {
                let pages = Doorbells { first, step, count };
                let gone = |at| {
                    self.tlb
                        .retain(|(_, shift, number), _| !here(*shift, *number, at));
                };
                pages.each(gone);
            }
            Owed::Everything => {
                self.tlb.clear();
                self.roots.clear();
            }
        }
        assert_ne!(root.asid, 0);
        let before = self.roots.insert(root.asid, root.table);
        assert!(
            before.is_none_or(|table| table == root.table),
            "an ASID of two roots"
        );
    }

    /// Where an access of User mode goes on the host. What the CPU keeps is what the tables say.
    pub fn find(
        &mut self,
        memory: &impl TableMemory,
        root: &HardwareRoot,
        at: u32,
        kind: Kind,
    ) -> Option<u64> {
        let now = walk(memory, root.table, at);
        for shift in [12, 20] {
            if let Some(kept) = self.tlb.get(&(root.asid, shift, at >> shift)) {
                assert_eq!(Some(*kept), now, "{at:#x} was not invalidated");
            }
        }
        let entry = now?;
        self.tlb
            .insert((root.asid, entry.shift, at >> entry.shift), entry);
        let fine = match kind {
            Kind::Read => entry.read,
            Kind::Write => entry.write,
            Kind::Execute => entry.execute,
        };
        fine.then_some(entry.frame | u64::from(at & ((1 << entry.shift) - 1)))
    }
}
