//! EL2 stage 1 without VHE: one VA range and one privilege level.
//!
//! No mapping is both writable and executable: [`Stage1Access`] has no such value.

use crate::format::{Entry, Format, Kind, Vmsa64, frame_of, is_page};
use crate::geometry::{Geometry, Level};
use crate::registers::{INNER, OUTER};
use bitfield_struct::bitfield;
use hanok_types::{Hpa, Hva};

/// The memory type, as its index in [`crate::MAIR_EL2`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage1Memory {
    /// Normal, write-back cacheable, inner shareable.
    Normal,
    /// Device-nGnRE.
    Device,
}

/// The accesses that the hypervisor may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage1Access {
    /// Reads only.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
    /// Reads and instruction fetches.
    ReadExecute,
}

/// The attributes of a stage 1 leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage1Attributes {
    /// The memory type.
    pub memory: Stage1Memory,
    /// The allowed accesses.
    pub access: Stage1Access,
}

impl Stage1Attributes {
    /// Code.
    pub const TEXT: Self = Self::normal(Stage1Access::ReadExecute);
    /// Constants.
    pub const RODATA: Self = Self::normal(Stage1Access::ReadOnly);
    /// Data, stacks, guests' memory.
    pub const DATA: Self = Self::normal(Stage1Access::ReadWrite);
    /// Device registers.
    pub const DEVICE: Self = Self {
        memory: Stage1Memory::Device,
        access: Stage1Access::ReadWrite,
    };

    const fn normal(access: Stage1Access) -> Self {
        Self {
            memory: Stage1Memory::Normal,
            access,
        }
    }
}

/// A leaf (DDI 0487 D8.3, "Block and Page descriptor formats", D8.4 for AP).
#[bitfield(u64)]
struct Leaf {
    valid: bool,
    page: bool,
    #[bits(3)]
    attr_index: u8,
    ns: bool,
    /// AP\[1\]: RES1 in a regime with one privilege level.
    ap1: bool,
    /// AP\[2\].
    read_only: bool,
    #[bits(2)]
    shareability: u8,
    access_flag: bool,
    /// nG: RES0 in a regime with one privilege level, where every entry is global.
    not_global: bool,
    #[bits(36)]
    frame: u64,
    #[bits(5)]
    _other: u8,
    /// PXN: RES0 in a regime with one privilege level.
    pxn: bool,
    execute_never: bool,
    #[bits(9)]
    _software: u16,
}

impl Leaf {
    fn attributes(self) -> Stage1Attributes {
        let memory = match self.attr_index() {
            0 => Stage1Memory::Normal,
            _ => Stage1Memory::Device,
        };
        let access = match (self.read_only(), self.execute_never()) {
            (false, _) => Stage1Access::ReadWrite,
            (true, true) => Stage1Access::ReadOnly,
            (true, false) => Stage1Access::ReadExecute,
        };
        Stage1Attributes { memory, access }
    }
}

/// EL2 stage 1, VMSAv8-64, 4 KiB granule, HCR_EL2.E2H = 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum El2Stage1 {}

impl Format for El2Stage1 {
    type Input = Hva;
    type Attributes = Stage1Attributes;
    const OUTPUT_BITS: u32 = 48;

    fn supports(geometry: &Geometry) -> bool {
        !geometry.concatenated()
    }

    fn decode(descriptor: u64, level: &Level) -> Entry<Stage1Attributes> {
        match Vmsa64::from_bits(descriptor).kind(level) {
            Kind::Invalid => Entry::Invalid,
            Kind::Table(next) => Entry::Table(next),
            Kind::Leaf(output) => Entry::Leaf(output, Leaf::from_bits(descriptor).attributes()),
        }
    }

    fn leaf(output: Hpa, attributes: Stage1Attributes, level: &Level) -> u64 {
        let (attr_index, shareability) = match attributes.memory {
            Stage1Memory::Normal => (0, INNER),
            Stage1Memory::Device => (1, OUTER),
        };
        Leaf::new()
            .with_valid(true)
            .with_page(is_page(level))
            .with_attr_index(attr_index)
            .with_ap1(true)
            .with_read_only(attributes.access != Stage1Access::ReadWrite)
            .with_shareability(shareability)
            .with_access_flag(true)
            .with_frame(frame_of(output))
            .with_execute_never(attributes.access != Stage1Access::ReadExecute)
            .into_bits()
    }

    fn table(next: Hpa) -> u64 {
        Vmsa64::to_table(next)
    }
}
