//! A CPU that walks short descriptors and keeps all that it ever walked, until it is invalidated.

use hanok_hal::TableMemory;
use hanok_paging::shadow::{Doorbells, HardwareRoot, Owed, SHADOW_DACR};
use hanok_paging::short::AccessKind;
use hanok_types::Hpa;
use std::collections::BTreeMap;

/// An entry of the TLB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cached {
    /// The first address of the page on the host.
    pub frame: u64,
    user_read: bool,
    user_write: bool,
    execute: bool,
    /// TEX, C and B.
    texcb: u32,
    /// First address and size of what the entry translates.
    start: u32,
    size: u32,
}

impl Cached {
    pub fn allows(&self, kind: AccessKind) -> bool {
        match kind {
            AccessKind::Read => self.user_read,
            AccessKind::Write => self.user_write,
            AccessKind::Execute => self.user_read && self.execute,
        }
    }

    /// Whether it says Device or strongly-ordered, without TEX remap (DDI 0406C, B3.8.2).
    pub fn is_device(&self) -> bool {
        matches!(self.texcb, 0b00000 | 0b00001)
    }

    fn output(self, at: u32) -> Self {
        let frame = self.frame + u64::from(at - self.start);
        Self { frame, ..self }
    }
}

#[derive(Default)]
pub struct Cpu {
    tlb: Vec<(u8, Cached)>,
    /// Roots by ASID, to see that no ASID stands for two without an invalidation.
    roots: BTreeMap<u8, Hpa>,
}

fn word(memory: &impl TableMemory, table: u64, index: u64) -> u32 {
    let at = table + index * 4;
    // A first-level table is one of four frames.
    let (frame, offset) = match table % 0x4000 {
        0 if index > 1023 => (table, at - table),
        _ => (at & !0xfff, at & 0xfff),
    };
    let pair = memory.read(Hpa::new(frame), (offset / 8) as usize);
    (pair >> (offset % 8 * 8)) as u32
}

fn walk(memory: &impl TableMemory, root: Hpa, at: u32) -> Option<Cached> {
    let first = word(memory, root.get(), u64::from(at >> 20));
    let (descriptor, shift, ap, xn) = match first & 3 {
        1 => {
            let table = u64::from(first & !0x3ff);
            let page = word(memory, table, u64::from(at >> 12 & 0xff));
            assert_ne!(page & 3, 1, "large pages are not used");
            (page, 12, page >> 4 & 3 | page >> 7 & 4, page & 1 != 0)
        }
        2 => (
            first,
            20,
            first >> 10 & 3 | first >> 13 & 4,
            first & 0x10 != 0,
        ),
        _ => return None,
    };
    if descriptor == 0 {
        return None;
    }
    let not_global = descriptor >> if shift == 12 { 11 } else { 17 } & 1 != 0;
    assert!(not_global, "all entries of a guest belong to an ASID");
    assert_eq!(SHADOW_DACR >> (2 * (first >> 5 & 15)) & 3, 1, "a client");
    Some(Cached {
        frame: u64::from(descriptor >> shift) << shift,
        user_read: matches!(ap, 0b011 | 0b110 | 0b111),
        user_write: ap == 0b011,
        execute: !xn,
        texcb: descriptor >> if shift == 12 { 6 } else { 12 } << 2 & 0x1c | descriptor >> 2 & 3,
        start: at >> shift << shift,
        size: 1 << shift,
    })
}

impl Cpu {
    pub fn pay(&mut self, owed: Owed) {
        let here = |one: &Cached, at: u32| at.wrapping_sub(one.start) < one.size;
        match owed {
            Owed::Nothing => (),
            Owed::Page { at, asid } => self.tlb.retain(|(of, one)| *of != asid || !here(one, at)),
            Owed::Pages { at, asid, count } => {
                let pages = (0..u32::from(count)).map(|page| at.wrapping_add(page << 12));
                for at in pages {
                    self.tlb.retain(|(of, one)| *of != asid || !here(one, at));
                }
            }
            Owed::PageEverywhere { at } => self.tlb.retain(|(_, one)| !here(one, at)),
            Owed::PagesEverywhere { first, step, count } => {
                let pages = Doorbells { first, step, count };
                pages.each(|at| self.tlb.retain(|(_, one)| !here(one, at)));
            }
            Owed::Everything => {
                self.tlb.clear();
                self.roots.clear();
            }
        }
    }

    pub fn enter(&mut self, root: &HardwareRoot) {
        self.pay(root.owed);
        assert_ne!(root.asid, 0);
        let before = self.roots.insert(root.asid, root.table);
        assert!(before.is_none_or(|table| table == root.table));
    }

    /// What the CPU finds for an address; what it walks it keeps.
    pub fn find(&mut self, memory: &impl TableMemory, root: &HardwareRoot, at: u32) -> Vec<Cached> {
        if let Some(found) = walk(memory, root.table, at) {
            let entry = (root.asid, found);
            if !self.tlb.contains(&entry) {
                self.tlb.push(entry);
            }
        }
        // Two entries for one address: the CPU may use either.
        let mine = self
            .tlb
            .iter()
            .filter(|(asid, one)| *asid == root.asid && at.wrapping_sub(one.start) < one.size);
        mine.map(|(_, one)| one.output(at)).collect()
    }

    /// The raw first-level descriptor of a root.
    pub fn first(memory: &impl TableMemory, root: &HardwareRoot, at: u32) -> u32 {
        word(memory, root.table.get(), u64::from(at >> 20))
    }
}
