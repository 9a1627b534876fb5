//! Entries of roots and tables: found, written and removed here alone.

use super::origin::Origin;
use super::owed::Owed;
use super::tables::{ENTRIES, Parent, frame_bit};
use super::{Shadow, first_index, frame_number, second_index};
use crate::short::{Attributes, FirstLevel, MappingSize, PageTable, Pxn, Section, Words};
use hanok_hal::TableMemory;
use hanok_types::Hpa;

/// A first-level entry of a shadow.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry {
    Empty,
    Section(Section),
    /// A second-level table, by number, and what is behind its descriptors.
    Table(usize, Origin),
}

impl Entry {
    /// What is known of the guest's descriptors behind it.
    pub fn origin(self) -> Option<Origin> {
        match self {
            Self::Empty => None,
            Self::Section(section) => Some(Origin::of_domain(section.domain())),
            Self::Table(_, origin) => Some(origin),
        }
    }
}

/// What is to be mapped where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf {
    /// The virtual address.
    pub at: u32,
    /// The first host address, aligned to the leaf's size.
    pub frame: Hpa,
    pub attributes: Attributes,
    pub origin: Origin,
    /// Whether it can be written until the doorbells are closed.
    pub doorbell: bool,
    /// The guest's first-level descriptor, if it alone says all this; else 0.
    pub source: u32,
}

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Shadow<M, ROOTS, TABLES> {
    /// The entry of a root. The window is none.
    pub(super) fn entry(&self, root: usize, index: usize) -> Entry {
        let root = &self.roots[root];
        if !root.filled.contains(index) {
            return Entry::Empty;
        }
        self.decode(self.memory.word(root.table, index))
    }

    fn decode(&self, descriptor: u32) -> Entry {
        match FirstLevel::decode(descriptor, Pxn::Absent) {
            FirstLevel::Section(section) => Entry::Section(section),
            FirstLevel::Table(table) => {
                let number = self.tables.number(Hpa::new(table.address().get()));
                Entry::Table(number, Origin::of_domain(table.domain()))
            }
            FirstLevel::Fault | FirstLevel::Supersection(_) => Entry::Empty,
        }
    }

    /// Removes an entry of a root, with its table if that is the root's own. What a TLB holds of it is the caller's.
    #[inline(never)]
    pub(super) fn remove_first(&mut self, root: usize, index: usize) {
        if !self.roots[root].filled.contains(index) {
            return;
        }
        let before = self.memory.word(self.roots[root].table, index);
        let entry = self.decode(before);
        if let Entry::Table(table, _) = entry
            && !self.is_foreign(root, entry)
        {
            self.tables.release(table);
        }
        self.set_first(root, index, 0);
        self.follow(root, index, before, 0);
    }

    /// Writes a descriptor of a root that is not the window's; 0 is none.
    #[inline(never)]
    pub(super) fn set_first(&mut self, root: usize, index: usize, descriptor: u32) {
        let state = &mut self.roots[root];
        self.memory.set_word(state.table, index, descriptor);
        if descriptor == 0 {
            state.filled.remove(index);
        } else {
            state.filled.insert(index);
        }
        let has = state.filled.has_group(index);
        self.holders.note(root, index, has);
    }

    /// Removes an entry of a table that is in use, and the table if that was its last; but not that of a common root, which has copies,
    /// and will be filled again soon. Answers whether there was one. What a TLB holds of it is the caller's.
    pub(super) fn remove_second(&mut self, table: usize, index: usize) -> bool {
        let address = self.tables.address(table);
        if self.memory.word(address, index) == 0 {
            return false;
        }
        self.memory.set_word(address, index, 0);
        let state = self.tables.get_mut(table);
        state.live = state.live.saturating_sub(1);
        if let (0, Some(parent)) = (state.live, state.parent)
            && usize::from(parent.root) >= Self::COMMON
        {
            self.remove_first(parent.root.into(), parent.index.into());
        }
        true
    }

    /// What is owed for one leaf of a root around `at` that was in use and is no more.
    pub(super) fn owed(&mut self, root: usize, at: u32) -> Owed {
        if root < Self::COMMON {
            return Owed::PageEverywhere { at };
        }
        match self.roots[root].tag {
            Some(tag) if tag.pool == self.pool => Owed::Page { at, asid: tag.asid },
            // The TLB of a CPU that the vCPU has left is not reached from here.
            _ => {
                self.roots[root].tag = None;
                self.unknow(root);
                Owed::Nothing
            }
        }
    }

    /// Maps a megabyte. What was there goes.
    #[inline(never)]
    pub(super) fn put_section(&mut self, root: usize, leaf: &Leaf) -> Owed {
        let index = first_index(leaf.at);
        let owed = match self.entry(root, index) {
            Entry::Empty => Owed::Nothing,
            Entry::Section(_) => self.owed(root, leaf.at),
            Entry::Table(..) => {
                self.remove_first(root, index);
                self.lose(root);
                Owed::Nothing
            }
        };
        let section = leaf
            .attributes
            .section(leaf.frame.get(), leaf.origin.domain());
        self.roots[root].sections |= 1 << (leaf.frame.get() >> 20 & 63);
        self.put_first(root, index, section.into_bits(), leaf.origin);
        self.set_source(root, index, leaf.source);
        owed
    }

    /// Maps a page. What was there goes.
    pub(super) fn put_page(&mut self, root: usize, leaf: &Leaf) -> Owed {
        let (table, owed) = self.table_for(root, leaf);
        owed.and(self.put_second(root, table, leaf))
    }

    /// Notes all about a leaf but its frame, where there is a table for it.
    pub(super) fn join(&mut self, root: usize, leaf: &Leaf) {
        let (_table, _nothing) = self.table_for(root, leaf);
        self.roots[root].doorbells |= leaf.doorbell;
    }

    /// Maps a page by a table of a root that notes all about the leaf but its frame.
    fn put_second(&mut self, root: usize, table: usize, leaf: &Leaf) -> Owed {
        self.roots[root].doorbells |= leaf.doorbell;
        let (address, index) = (self.tables.address(table), second_index(leaf.at));
        let page = leaf.attributes.small_page(leaf.frame.get()).into_bits();
        let before = self.memory.word(address, index);
        self.memory.set_word(address, index, page);
        let state = self.tables.get_mut(table);
        state.frames |= frame_bit(frame_number(leaf.frame));
        if before == 0 {
            state.live += 1;
            return Owed::Nothing;
        }
        // Owed even if it is the same: an access that a present entry allows has failed.
        self.owed(root, leaf.at)
    }

    /// The table for a page of a root, and what is owed for a section that was in its place.
    fn table_for(&mut self, root: usize, leaf: &Leaf) -> (usize, Owed) {
        let index = first_index(leaf.at);
        let owed = match self.entry(root, index) {
            Entry::Table(table, origin) => {
                let both = origin.and(leaf.origin);
                if both != origin {
                    self.put_table(root, index, table, both);
                }
                self.add_source(root, index, leaf.source);
                return (table, Owed::Nothing);
            }
            Entry::Empty => Owed::Nothing,
            Entry::Section(_) => {
                self.remove_first(root, index);
                self.owed(root, leaf.at)
            }
        };
        let table = self.take_table(Parent {
            root: root as u16,
            index: index as u16,
        });
        self.put_table(root, index, table, leaf.origin);
        self.set_source(root, index, leaf.source);
        (table, owed)
    }

    /// A table that was in use.
    #[cold]
    #[inline(never)]
    fn take_back(&mut self) -> usize {
        let roots = &self.roots;
        let used = |one: Parent| roots[usize::from(one.root)].used;
        if let Some(oldest) = self.tables.oldest(used) {
            self.remove_first(oldest.root.into(), oldest.index.into());
            self.lose(usize::from(oldest.root));
        }
        self.tables.take().unwrap_or(0)
    }

    /// A zeroed table, which is now its new parent's: a free one, or else the oldest.
    fn take_table(&mut self, parent: Parent) -> usize {
        let number = match self.tables.take() {
            Some(number) => number,
            None => self.take_back(),
        };
        if self.tables.get(number).live != 0 {
            self.memory
                .clear_words_unseen(self.tables.address(number), ENTRIES);
        }
        self.clock += 1;
        let table = self.tables.get_mut(number);
        (table.parent, table.live) = (Some(parent), 0);
        (table.frames, table.taken) = (0, self.clock);
        number
    }

    fn put_table(&mut self, root: usize, index: usize, table: usize, origin: Origin) {
        let base = self.tables.address(table).get() >> 10;
        let descriptor = PageTable::new()
            .with_kind(0b01)
            .with_domain(origin.domain())
            .with_base(base as u32 & 0x3f_ffff);
        self.put_first(root, index, descriptor.into_bits(), origin);
    }

    fn put_first(&mut self, root: usize, index: usize, descriptor: u32, origin: Origin) {
        let before = self.memory.word(self.roots[root].table, index);
        self.set_first(root, index, descriptor);
        self.roots[root].note_own(index);
        if origin.size == MappingSize::Supersection {
            self.supersections.insert(root);
        }
        self.follow(root, index, before, descriptor);
    }
}
