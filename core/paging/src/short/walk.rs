//! The walk of a guest's tables (DDI 0406C, B3.5.5 and the pseudocode "TranslationTableWalkSD").

use super::access::{Access, AccessKind, Permissions};
use super::descriptor::{Attributes, FirstLevel, PageTable, SecondLevel};
use super::fault::{ShortFault, ShortFaultKind, ShortLevel};
use super::memory::{Cacheability, MemoryType, Shareability};
use super::registers::ShortRegime;
use hanok_types::Ipa;

/// How much one descriptor of a guest's maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MappingSize {
    /// 4 KiB.
    Small,
    /// 64 KiB.
    Large,
    /// 1 MiB.
    Section,
    /// 16 MiB.
    Supersection,
    /// 4 GiB: the MMU is off.
    Flat,
}

impl MappingSize {
    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Small => 1 << 12,
            Self::Large => 1 << 16,
            Self::Section => 1 << 20,
            Self::Supersection => 1 << 24,
            Self::Flat => 1 << 32,
        }
    }
}

/// Where a guest's tables lead an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestMapping {
    /// The intermediate address of the address that was asked for. It and the virtual address are
    /// equal modulo the size.
    pub output: Ipa,
    /// How much is mapped in the same way.
    pub size: MappingSize,
    /// The memory type.
    pub memory: MemoryType,
    /// Whether the translation holds for all ASIDs.
    pub global: bool,
    /// Who may do what, by AP, XN, PXN and the domain.
    pub permissions: Permissions,
    /// The domain.
    pub domain: u8,
    /// The descriptor of the page or the section, and where it is; 0 without the MMU.
    pub descriptor: u32,
    /// Where it is.
    pub descriptor_at: u32,
}

/// Why a walk gives no mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkError {
    /// The guest is to be told of this fault.
    Fault(ShortFault),
    /// A supersection leads to this address above 4 GiB, where a guest has no memory: as any
    /// access outside its memory.
    Beyond(Ipa),
}

/// A leaf of any size.
struct Leaf {
    /// The output address of the address that was asked for.
    output: Ipa,
    size: MappingSize,
    domain: u8,
    attributes: Attributes,
    /// The descriptor, and where it is.
    descriptor: (u32, u32),
}

impl Leaf {
    fn new(base: Ipa, size: MappingSize, address: u32, domain: u8, attributes: Attributes) -> Self {
        let offset = u64::from(address) & (size.bytes() - 1);
        Self {
            output: Ipa::new(base.get() | offset),
            size,
            domain,
            attributes,
            descriptor: (0, 0),
        }
    }

    /// That of a first-level descriptor that leads to no table, which is given with its place.
    #[inline(never)]
    fn of_first(
        descriptor: FirstLevel,
        (raw, at): (u32, Ipa),
        address: u32,
    ) -> Result<Self, WalkError> {
        let mut leaf = match descriptor {
            FirstLevel::Fault | FirstLevel::Table(_) => {
                let kind = ShortFaultKind::Translation;
                return Err(fault(kind, ShortLevel::First, 0));
            }
            FirstLevel::Section(section) => Self::new(
                section.address(),
                MappingSize::Section,
                address,
                section.domain(),
                section.attributes(),
            ),
            FirstLevel::Supersection(section) => Self::new(
                section.address(),
                MappingSize::Supersection,
                address,
                0,
                section.attributes(),
            ),
        };
        leaf.descriptor = (raw, at.get() as u32);
        Ok(leaf)
    }

    /// The level of the leaf's descriptor.
    fn level(&self) -> ShortLevel {
        if self.size < MappingSize::Section {
            ShortLevel::Second
        } else {
            ShortLevel::First
        }
    }

    fn fault(&self, kind: ShortFaultKind) -> WalkError {
        fault(kind, self.level(), self.domain)
    }
}

const fn fault(kind: ShortFaultKind, level: ShortLevel, domain: u8) -> WalkError {
    WalkError::Fault(ShortFault {
        kind,
        level,
        domain,
    })
}

/// What DACR says of a domain (B3.7.3).
enum Membership {
    /// No access; also for the reserved value.
    None,
    /// Accesses are checked against the permissions.
    Client,
    /// Accesses are not checked, nor is XN.
    Manager,
}

impl ShortRegime {
    /// Follows the guest's tables for `access`. `read` answers a 32-bit word of guest memory as
    /// the CPU loads it little-endian, or `None` where nothing is. Alignment is the caller's to
    /// check: its fault goes before all of these.
    pub fn walk(
        &self,
        access: &Access,
        read: impl Fn(Ipa) -> Option<u32>,
    ) -> Result<GuestMapping, WalkError> {
        if !self.control().mmu() {
            return Ok(self.flat(access));
        }
        let leaf = self.find(access.address, |at| Some(self.loaded(read(at)?)))?;
        self.judge(&leaf, access)
    }

    /// What follows for `access` from the leaf that it leads to. Kept out of line, as the walk is compiled for each
    /// way to read the guest's memory.
    #[inline(never)]
    fn judge(&self, leaf: &Leaf, access: &Access) -> Result<GuestMapping, WalkError> {
        if self.control().access_flag() && leaf.attributes.ap & 1 == 0 {
            return Err(leaf.fault(ShortFaultKind::AccessFlag));
        }
        let permissions = self.permissions(leaf)?;
        if !permissions.of(access.by).allow(access.kind) {
            return Err(leaf.fault(ShortFaultKind::Permission));
        }
        if leaf.output.get() >> 32 != 0 {
            return Err(WalkError::Beyond(leaf.output));
        }
        Ok(GuestMapping {
            output: leaf.output,
            size: leaf.size,
            memory: self.memory(&leaf.attributes),
            global: !leaf.attributes.not_global,
            permissions,
            domain: leaf.domain,
            descriptor: leaf.descriptor.0,
            descriptor_at: leaf.descriptor.1,
        })
    }

    /// Whether a descriptor is in memory as the CPU has it that loads it.
    pub(crate) fn loads_as_stored(&self) -> bool {
        !self.control().big_endian()
    }

    /// A descriptor as the CPU has it that loads it, of a word in memory.
    pub(crate) fn loaded(&self, word: u32) -> u32 {
        if self.control().big_endian() {
            word.swap_bytes()
        } else {
            word
        }
    }

    /// The sixteen first-level descriptors around the one for `address`, as a walk would load them; `None` if it
    /// would not. `read` answers the sixteen words of guest memory from an aligned address on.
    pub fn first_level_around(
        &self,
        address: u32,
        read: impl Fn(Ipa) -> Option<[u32; 16]>,
    ) -> Option<[u32; 16]> {
        let at = self.first_level(address).filter(|_| self.control().mmu())?;
        let words = read(Ipa::new(at.get() & !0x3f))?;
        Some(words.map(|word| self.loaded(word)))
    }

    /// The leaf for `address`.
    fn find(&self, address: u32, read: impl Fn(Ipa) -> Option<u32>) -> Result<Leaf, WalkError> {
        let first = |kind| fault(kind, ShortLevel::First, 0);
        let at = self.first_level(address);
        let at = at.ok_or(first(ShortFaultKind::Translation))?;
        let raw = read(at).ok_or(first(ShortFaultKind::ExternalOnWalk))?;
        let descriptor = FirstLevel::decode(raw, self.pxn);
        let FirstLevel::Table(table) = descriptor else {
            return Leaf::of_first(descriptor, (raw, at), address);
        };
        let offset = u64::from(address >> 12 & 0xff) * 4;
        let at = Ipa::new(table.address().get() | offset);
        let external = fault(
            ShortFaultKind::ExternalOnWalk,
            ShortLevel::Second,
            table.domain(),
        );
        let raw = read(at).ok_or(external)?;
        self.page(table, (raw, at), address)
    }

    /// Where the first-level descriptor for `address` is; `None` if walks by its base register are
    /// disabled (B3.5.4).
    fn first_level(&self, address: u32) -> Option<Ipa> {
        let control = self.base_control();
        let split = u32::from(control.split());
        let (base, split, disabled) = match u64::from(address) >> (32 - split) {
            0 => (self.ttbr0, split, control.disabled_0()),
            _ => (self.ttbr1, 0, control.disabled_1()),
        };
        // The table has 2^(12 - N) descriptors and is aligned to its size.
        let size = 1 << (14 - split);
        let table = u64::from(base & !(size - 1));
        let offset = (u64::from(address >> 20) * 4) & u64::from(size - 1);
        (!disabled).then_some(Ipa::new(table | offset))
    }

    /// The leaf of a second-level descriptor, which is given with its place.
    #[inline(never)]
    fn page(
        &self,
        table: PageTable,
        (raw, at): (u32, Ipa),
        address: u32,
    ) -> Result<Leaf, WalkError> {
        let domain = table.domain();
        let (base, size, attributes) = match SecondLevel::decode(raw) {
            SecondLevel::Fault => {
                let kind = ShortFaultKind::Translation;
                return Err(fault(kind, ShortLevel::Second, domain));
            }
            SecondLevel::Large(page) => (page.address(), MappingSize::Large, page.attributes()),
            SecondLevel::Small(page) => (page.address(), MappingSize::Small, page.attributes()),
        };
        let pxn = table.pxn() && self.pxn == super::Pxn::Present;
        let attributes = Attributes { pxn, ..attributes };
        let mut leaf = Leaf::new(base, size, address, domain, attributes);
        leaf.descriptor = (raw, at.get() as u32);
        Ok(leaf)
    }

    /// Who may use the leaf, by its domain first. With the access flag enabled AP\[0\] is the flag,
    /// and is set here.
    fn permissions(&self, leaf: &Leaf) -> Result<Permissions, WalkError> {
        match self.membership(leaf.domain) {
            Membership::None => Err(leaf.fault(ShortFaultKind::Domain)),
            Membership::Client => Ok(Permissions::of_client(&leaf.attributes)),
            Membership::Manager => Ok(Permissions::ALL),
        }
    }

    fn membership(&self, domain: u8) -> Membership {
        match self.dacr >> (2 * (domain & 0xf)) & 0b11 {
            0b01 => Membership::Client,
            0b11 => Membership::Manager,
            _ => Membership::None,
        }
    }

    fn memory(&self, attributes: &Attributes) -> MemoryType {
        let (texcb, shareable) = (attributes.texcb, attributes.shareable);
        if self.control().remap() {
            MemoryType::remapped(texcb, shareable, self.prrr, self.nmrr)
        } else {
            MemoryType::by_default(texcb, shareable)
        }
    }

    /// The translation without the MMU, and its memory types (B3.2.1).
    fn flat(&self, access: &Access) -> GuestMapping {
        let fetches = if self.control().instruction_cache() {
            Cacheability::WriteThrough
        } else {
            Cacheability::NonCacheable
        };
        let memory = match access.kind {
            AccessKind::Execute => MemoryType::normal(fetches, Shareability::None),
            AccessKind::Read | AccessKind::Write => MemoryType::STRONGLY_ORDERED,
        };
        GuestMapping {
            output: Ipa::new(access.address.into()),
            size: MappingSize::Flat,
            memory,
            global: true,
            permissions: Permissions::ALL,
            domain: 0,
            descriptor: 0,
            descriptor_at: 0,
        }
    }
}
