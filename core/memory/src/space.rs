//! A VM's address space: its regions, and which pages of its RAM are present.
//!
//! Regions come from the description, and are mapped by the largest blocks. A page of RAM is at its
//! *home*, the frame that its region names, unless the page has one of the space's slots: then it is absent, was
//! given back by the guest, or is in another frame. A space without slots is *fixed*: none of its pages can be
//! taken, it keeps its blocks, and asking about a page costs a comparison.
//!
//! Kept true: the table maps exactly the pages that [`AddressSpace::page`] calls present, each to its frame. After
//! [`AddressSpace::take`] no CPU reaches the frame through the VM's stage 2: the descriptor was made invalid
//! and the TLBs have forgotten it before the caller is told which frame it was.
//!
//! Rejected: states in the software bits of invalid descriptors (the walker would know two kinds of
//! nothing, and a page elsewhere would have no place for its state), and a bitmap of all pages (RAM for VMs
//! that never lose a page).

use hanok_hal::{AccessError, TableMemory, Tlb};
use hanok_paging::{
    Geometry, MapError, Split, Stage2, Stage2Access, Stage2Attributes, Stage2Execute, Stage2Memory,
    Table,
};
use hanok_types::{GuestPage, Hpa, Ipa, PAGE_SIZE, Span};
use heapless::Vec;
use thiserror::Error;

/// Regions of a VM: RAM, firmware, channels' memory, the interrupt controller's interface, registers of real devices.
pub const MAX_REGIONS: usize = 40;

/// What a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    /// Memory that the guest reads and writes.
    Ram,
    /// Memory that the guest only reads.
    Rom,
    /// Memory that the guest shares with others. Nobody executes it: another VM may change it at any moment.
    Shared {
        /// Whether the guest may write it.
        writable: bool,
        /// Whether it is cached where the guest wants that.
        cached: bool,
    },
    /// Registers of a real device.
    Device,
}

impl RegionKind {
    /// Whether the guest may write memory of this kind.
    pub const fn is_writable(self) -> bool {
        matches!(self, Self::Ram | Self::Shared { writable: true, .. })
    }

    const fn attributes(self) -> Stage2Attributes {
        match self {
            Self::Ram => Stage2Attributes::RAM,
            Self::Rom => Stage2Attributes::ROM,
            Self::Shared { writable, cached } => Stage2Attributes {
                memory: if cached {
                    Stage2Memory::Normal
                } else {
                    Stage2Memory::NormalNonCacheable
                },
                access: if writable {
                    Stage2Access::ReadWrite
                } else {
                    Stage2Access::ReadOnly
                },
                execute: Stage2Execute::Never,
            },
            Self::Device => Stage2Attributes::DEVICE,
        }
    }
}

/// A range of intermediate physical addresses that leads to memory or to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The range of the guest's addresses.
    pub span: Span<Ipa>,
    /// The first address on the board.
    pub host: Hpa,
    /// The kind of the region.
    pub kind: RegionKind,
}

impl Region {
    /// The home of the page at `at`, which is in the region.
    fn home(&self, at: Ipa) -> Hpa {
        Hpa::new(self.host.get() + (at.get() - self.span.start().get()))
    }
}

/// What is at an address of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Memory, which is at this address of the board.
    Present(Hpa),
    /// Memory whose page was taken: a vCPU that accesses it waits.
    Absent,
    /// Memory that the guest gave back.
    GivenBack,
    /// There is no memory.
    NoMemory,
}

/// The reasons for taking a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// The hypervisor takes it; the guest is not asked.
    Taken,
    /// The guest gave it back.
    GivenBack,
}

/// The state of a page that is not at its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    page: GuestPage,
    state: Elsewhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Elsewhere {
    Nowhere(Absence),
    At(Hpa),
}

/// What [`AddressSpace::take`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Taken {
    /// It split a block by one level. The caller asks again, in an exit of its own.
    Split,
    /// The page is absent now, and its frame, this one, belongs to the caller.
    Frame(Hpa),
}

/// The reasons why a page cannot be taken or given. Every address is translated as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PageError {
    /// The VM's memory is fixed.
    #[error("the VM keeps its memory")]
    Fixed,
    /// The VM has no RAM there.
    #[error("no RAM is there")]
    NoMemory,
    /// The VM's memory is made for a boot.
    #[error("the VM's memory is being made")]
    InMaking,
    /// The page is absent.
    #[error("the page was taken already")]
    IsAbsent,
    /// The page is present.
    #[error("the page is there already")]
    IsPresent,
    /// All slots are in use.
    #[error("too many pages are elsewhere")]
    TooMany,
    /// There is no frame left for a table, or the frame is not aligned to a page.
    #[error("stage 2: {0}")]
    Table(MapError<Ipa>),
}

/// The reasons why an address space cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SpaceError {
    /// There is no frame left for the table's root.
    #[error("no frame for its root")]
    NoRoot,
    /// There are more than [`MAX_REGIONS`] regions.
    #[error("too many regions")]
    TooManyRegions,
    /// A region cannot be mapped, for this reason.
    #[error("{0}")]
    Table(MapError<Ipa>),
}

/// A VM's memory.
#[derive(Debug)]
pub struct AddressSpace<T: TableMemory> {
    table: Table<Stage2, T>,
    regions: Vec<Region, MAX_REGIONS>,
    slots: &'static mut [Option<Slot>],
    /// Whether it is made for a boot, and loses no page until that is done.
    in_making: bool,
}

impl<T: TableMemory> AddressSpace<T> {
    /// The number of frames for the tables of a VM with `ram` bytes of RAM and `rom` bytes of
    /// firmware: a root of two, a table for each GiB that blocks do not cover completely, two more
    /// for each end that is not on a 2 MiB boundary, and for the platform's devices below RAM a
    /// table for their GiB and one for each 2 MiB that has pages. With slots, each 2 MiB of RAM may
    /// be split.
    pub const fn tables_for(ram: u64, rom: u64, slots: usize) -> u64 {
        const MIB2: u64 = 2 << 20;
        let fixed = 45 + 2 * ram.div_ceil(1 << 30) + rom.div_ceil(MIB2);
        match slots {
            0 => fixed,
            _ => fixed + ram.div_ceil(MIB2),
        }
    }

    /// An address space of `regions` with all pages present. As many pages can be away from their
    /// homes as there are slots.
    pub fn new(
        geometry: Geometry,
        tables: T,
        tlb: &mut impl Tlb<Ipa>,
        regions: &[Region],
        slots: &'static mut [Option<Slot>],
    ) -> Result<Self, SpaceError> {
        let mut table = Table::new(geometry, tables).ok_or(SpaceError::NoRoot)?;
        for region in regions {
            let (span, attributes) = (region.span, region.kind.attributes());
            table
                .map(tlb, span, region.host, attributes)
                .map_err(SpaceError::Table)?;
        }
        slots.fill(None);
        let regions = Vec::from_slice(regions).map_err(|_| SpaceError::TooManyRegions)?;
        Ok(Self {
            table,
            regions,
            slots,
            in_making: false,
        })
    }

    /// The address of the root of its stage 2.
    pub fn root(&self) -> Hpa {
        self.table.root()
    }

    /// Its stage 2, for a test that plants a fault in it.
    pub fn table_mut(&mut self) -> &mut Table<Stage2, T> {
        &mut self.table
    }

    /// The number of blocks of 1 GiB, of 2 MiB and of 4 KiB in its stage 2.
    pub fn blocks(&self) -> [u32; 3] {
        let mut counts = [0; 3];
        for mapping in self.table.iterate() {
            // Leaves at level 1 are 1 GiB, at level 2 2 MiB, at level 3 4 KiB.
            if let Some(count) = counts.get_mut(usize::from(mapping.level.clamp(1, 3)) - 1) {
                *count += 1;
            }
        }
        counts
    }

    /// Whether none of its pages can be taken.
    pub fn is_fixed(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether a page of it is absent now because it was taken.
    pub fn lacks_pages(&self) -> bool {
        let lacks = |slot: &Slot| matches!(slot.state, Elsewhere::Nowhere(_));
        self.slots.iter().flatten().any(lacks)
    }

    /// The VM's memory is to be made for a boot: no page of it is taken until [`Self::end_making`]. Returns
    /// `false`, and changes nothing, while pages are absent. A making that is given up ends with the next one.
    #[must_use]
    pub fn begin_making(&mut self) -> bool {
        self.in_making |= !self.lacks_pages();
        self.in_making
    }

    /// The VM's memory is made: pages may be taken again.
    pub fn end_making(&mut self) {
        self.in_making = false;
    }

    /// The region that contains `at`.
    pub fn region_of(&self, at: Ipa) -> Option<&Region> {
        self.regions.iter().find(|region| region.span.contains(at))
    }

    /// The state of the page at `at`.
    pub fn page(&self, at: Ipa) -> Page {
        let region = self.region_of(at);
        let Some(region) = region.filter(|region| region.kind != RegionKind::Device) else {
            return Page::NoMemory;
        };
        match self.slot(at).map(|slot| slot.state) {
            None => Page::Present(region.home(at)),
            Some(Elsewhere::At(frame)) => {
                Page::Present(Hpa::new(frame.get() + at.get() % PAGE_SIZE))
            }
            Some(Elsewhere::Nowhere(Absence::Taken)) => Page::Absent,
            Some(Elsewhere::Nowhere(Absence::GivenBack)) => Page::GivenBack,
        }
    }

    /// The board's address of the registers at `at`, if a real device's are mapped there.
    pub fn device(&self, at: Ipa) -> Option<Hpa> {
        let region = self.region_of(at)?;
        (region.kind == RegionKind::Device).then(|| region.home(at))
    }

    /// The board's address of `at`, for the hypervisor to read or write.
    pub fn find(&self, at: Ipa) -> Result<Hpa, AccessError> {
        match (self.page(at), GuestPage::of(at)) {
            (Page::Present(here), _) => Ok(here),
            (Page::Absent | Page::GivenBack, Some(page)) => Err(AccessError::Absent(page)),
            _ => Err(AccessError::NoMemory(at)),
        }
    }

    /// Takes a page of RAM. Its frame, with its contents, then belongs to the caller. It takes at
    /// most 5,000 instructions, since one call splits a block by only one level.
    pub fn take(
        &mut self,
        tlb: &mut impl Tlb<Ipa>,
        page: GuestPage,
        why: Absence,
    ) -> Result<Taken, PageError> {
        if self.is_fixed() {
            return Err(PageError::Fixed);
        }
        let at = page.start();
        let region = self.region_of(at).copied();
        region
            .filter(|region| region.kind == RegionKind::Ram)
            .ok_or(PageError::NoMemory)?;
        if self.in_making {
            return Err(PageError::InMaking);
        }
        let Page::Present(frame) = self.page(at) else {
            return Err(PageError::IsAbsent);
        };
        let index = self.place_for(page).ok_or(PageError::TooMany)?;
        if self.table.split_once(tlb, at).map_err(PageError::Table)? == Split::Done {
            return Ok(Taken::Split);
        }
        let span = Span::new(at, PAGE_SIZE).ok_or(PageError::NoMemory)?;
        self.table.unmap(tlb, span).map_err(PageError::Table)?;
        let state = Elsewhere::Nowhere(why);
        self.set(index, Some(Slot { page, state }));
        Ok(Taken::Frame(frame))
    }

    /// Gives an absent page a frame. The frame must already belong to the VM and hold the contents
    /// of the page.
    pub fn give(
        &mut self,
        tlb: &mut impl Tlb<Ipa>,
        page: GuestPage,
        frame: Hpa,
    ) -> Result<(), PageError> {
        let at = page.start();
        match self.page(at) {
            Page::Absent | Page::GivenBack => {}
            Page::Present(_) => return Err(PageError::IsPresent),
            Page::NoMemory => return Err(PageError::NoMemory),
        }
        let index = self.place_for(page).ok_or(PageError::TooMany)?;
        let home = self.region_of(at).map(|region| region.home(at));
        let span = Span::new(at, PAGE_SIZE).ok_or(PageError::NoMemory)?;
        self.table
            .map(tlb, span, frame, RegionKind::Ram.attributes())
            .map_err(PageError::Table)?;
        let state = Elsewhere::At(frame);
        let moved = Slot { page, state };
        self.set(index, Some(moved).filter(|_| home != Some(frame)));
        Ok(())
    }

    fn slot(&self, at: Ipa) -> Option<&Slot> {
        let page = GuestPage::of(at)?;
        self.slots.iter().flatten().find(|slot| slot.page == page)
    }

    /// The index of the page's slot, or of a free one.
    fn place_for(&self, page: GuestPage) -> Option<usize> {
        let of = |slot: &Option<Slot>| slot.is_some_and(|slot| slot.page == page);
        let own = self.slots.iter().position(of);
        own.or_else(|| self.slots.iter().position(Option::is_none))
    }

    fn set(&mut self, index: usize, slot: Option<Slot>) {
        if let Some(place) = self.slots.get_mut(index) {
            *place = slot;
        }
    }
}
