//! The hypervisor's own tables in short descriptors: sections where the alignment allows them, and
//! pages elsewhere. Everything is for PL1 alone, in domain 0, and nothing is both writable
//! and executable, as [`Stage1Access`] has no such value. Nothing is global: a guest has tables of its
//! own for all addresses, and what a TLB holds of these must not answer there.
//!
//! The CPU's SCTLR has TRE and AFE clear and TTBCR.N is 0 while these tables are used, and DACR
//! makes PL1 a client of domain 0.

use super::Words;
use super::descriptor::{Attributes, FirstLevel, PageTable, Pxn};
use super::memory::MemoryType;
use crate::{MapError, Stage1Access, Stage1Attributes, Stage1Memory};
use hanok_hal::TableMemory;
use hanok_types::{Address, Hpa, Hva, PAGE_SIZE, Span};

/// The bytes of a section.
const SECTION: u64 = 1 << 20;
/// The bytes of a second-level table.
const TABLE: u64 = 1 << 10;
/// The frames of a first-level table.
const ROOT_FRAMES: usize = 4;
/// The first address that cannot be translated, nor translated to.
const END: u64 = 1 << 32;

/// A first-level table with its second-level tables, four to a page.
#[derive(Debug)]
pub struct OwnTable<M> {
    memory: M,
    root: Hpa,
    /// What is left of the page of second-level tables that is being used up.
    rest: Span<Hpa>,
}

impl<M: TableMemory> OwnTable<M> {
    /// An empty table, with its first level from `memory`; `None` if that has no frames left.
    pub fn new(mut memory: M) -> Option<Self> {
        let root = memory.allocate(ROOT_FRAMES)?;
        let rest = Span::default();
        Some(Self { memory, root, rest })
    }

    /// The address of the first-level table, for TTBR0.
    pub fn root(&self) -> Hpa {
        self.root
    }

    /// The memory that the tables are in.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Maps `input` to the range of the same length at `output`. Nothing of `input` may be mapped
    /// yet. On an error the addresses below the one that failed may be mapped: it is meant for a
    /// boot, which then ends.
    ///
    /// # Errors
    /// [`MapError::Misaligned`] and [`MapError::OutOfRange`] before anything is mapped,
    /// [`MapError::AlreadyMapped`] and [`MapError::OutOfTables`] on the way.
    pub fn map(
        &mut self,
        input: Span<Hva>,
        output: Hpa,
        attributes: Stage1Attributes,
    ) -> Result<(), MapError<Hva>> {
        check(input, output)?;
        let mut attributes = encode(attributes);
        attributes.shareable &= self.memory.shares();
        let mut done = 0;
        while done < input.len() {
            let at = input.start().get() + done;
            let to = output.get() + done;
            let whole = (at | to).is_multiple_of(SECTION) && input.len() - done >= SECTION;
            done += if whole {
                self.map_section(at, to, attributes)?
            } else {
                self.map_page(at, to, attributes)?
            };
        }
        Ok(())
    }

    /// The first-level descriptor for `address`, by which other first-level tables can map the
    /// same megabyte.
    pub fn descriptor(&self, address: Hva) -> u32 {
        self.memory.word(self.root, section_index(address.get()))
    }

    /// Maps the megabyte of `to`, of which nothing may be mapped yet, as the one of `from`.
    ///
    /// # Errors
    /// [`MapError::AlreadyMapped`].
    pub fn repeat(&mut self, from: Hva, to: Hva) -> Result<(), MapError<Hva>> {
        if self.descriptor(to) != 0 {
            return Err(MapError::AlreadyMapped(to));
        }
        let descriptor = self.descriptor(from);
        self.memory
            .set_word(self.root, section_index(to.get()), descriptor);
        Ok(())
    }

    /// Where `address` is translated to; `None` if it is not mapped.
    pub fn translate(&self, address: Hva) -> Option<Hpa> {
        let at = address.get();
        if at >= END {
            return None;
        }
        let (base, size) = match self.first(at) {
            FirstLevel::Section(section) => (section.address().get(), SECTION),
            FirstLevel::Table(table) => match self.memory.word(table_of(table), page_index(at)) {
                0 => return None,
                page => (u64::from(page) & !(PAGE_SIZE - 1), PAGE_SIZE),
            },
            _ => return None,
        };
        Some(Hpa::new(base | at & (size - 1)))
    }

    fn first(&self, at: u64) -> FirstLevel {
        FirstLevel::decode(self.memory.word(self.root, section_index(at)), Pxn::Absent)
    }

    fn map_section(
        &mut self,
        at: u64,
        to: u64,
        attributes: Attributes,
    ) -> Result<u64, MapError<Hva>> {
        if self.first(at) != FirstLevel::Fault {
            return Err(MapError::AlreadyMapped(Hva::new(at)));
        }
        let section = attributes.section(to, 0).into_bits();
        self.memory.set_word(self.root, section_index(at), section);
        Ok(SECTION)
    }

    fn map_page(&mut self, at: u64, to: u64, attributes: Attributes) -> Result<u64, MapError<Hva>> {
        let table = match self.first(at) {
            FirstLevel::Table(table) => table_of(table),
            FirstLevel::Fault => self.add_table(at)?,
            _ => return Err(MapError::AlreadyMapped(Hva::new(at))),
        };
        if self.memory.word(table, page_index(at)) != 0 {
            return Err(MapError::AlreadyMapped(Hva::new(at)));
        }
        let page = attributes.small_page(to).into_bits();
        self.memory.set_word(table, page_index(at), page);
        Ok(PAGE_SIZE)
    }

    fn add_table(&mut self, at: u64) -> Result<Hpa, MapError<Hva>> {
        if self.rest.is_empty() {
            let page = self.memory.allocate(1).ok_or(MapError::OutOfTables)?;
            self.rest = Span::new(page, PAGE_SIZE).ok_or(MapError::OutOfTables)?;
        }
        let table = self.rest.start();
        let next = Hpa::new(table.get() + TABLE);
        self.rest = Span::new(next, self.rest.len() - TABLE).unwrap_or_default();
        let descriptor = PageTable::new()
            .with_kind(0b01)
            .with_base((table.get() >> 10) as u32 & 0x3f_ffff);
        self.memory
            .set_word(self.root, section_index(at), descriptor.into_bits());
        Ok(table)
    }
}

fn section_index(at: u64) -> usize {
    (at >> 20) as usize & 0xfff
}

fn page_index(at: u64) -> usize {
    (at >> 12) as usize & 0xff
}

/// The table that a descriptor of the own tables leads to.
fn table_of(table: PageTable) -> Hpa {
    Hpa::new(table.address().get())
}

fn check(input: Span<Hva>, output: Hpa) -> Result<(), MapError<Hva>> {
    let places = input.start().get() | input.len() | output.get();
    if !places.is_multiple_of(PAGE_SIZE) {
        return Err(MapError::Misaligned);
    }
    let end = output.checked_add(input.len());
    if input.end().get() <= END && end.is_some_and(|end| end.get() <= END) {
        Ok(())
    } else {
        Err(MapError::OutOfRange)
    }
}

/// The bits of a leaf for PL1 alone: AP 0b001, or 0b101 if it is not writable.
fn encode(attributes: Stage1Attributes) -> Attributes {
    let memory = match attributes.memory {
        Stage1Memory::Normal => MemoryType::WRITE_BACK,
        Stage1Memory::Device => MemoryType::DEVICE,
    };
    let (texcb, shareable) = memory.to_default();
    let (ap, execute_never) = match attributes.access {
        Stage1Access::ReadWrite => (0b001, true),
        Stage1Access::ReadOnly => (0b101, true),
        Stage1Access::ReadExecute => (0b101, false),
    };
    Attributes {
        texcb,
        shareable,
        ap,
        not_global: true,
        execute_never,
        pxn: false,
    }
}
