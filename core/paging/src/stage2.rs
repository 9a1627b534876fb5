//! Stage 2: the translation of a VM's intermediate physical addresses to the board's.

use crate::format::{Entry, Format, Kind, Vmsa64, frame_of, is_page};
use crate::geometry::{Geometry, Level};
use crate::registers::{INNER, OUTER};
use bitfield_struct::{bitenum, bitfield};
use hanok_types::{Hpa, Ipa};

/// The memory type, as MemAttr\[3:0\] with HCR_EL2.FWB = 0 (DDI 0487 D8.6). The guest's stage 1 can
/// only make it stricter.
#[bitenum]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage2Memory {
    /// Device-nGnRE. Values that this hypervisor never writes are also decoded as this.
    #[fallback]
    Device = 0b0001,
    /// Normal, outer and inner non-cacheable.
    NormalNonCacheable = 0b0101,
    /// Normal, outer and inner write-back cacheable. This leaves the choice to the guest.
    Normal = 0b1111,
}

/// The data accesses that a guest may make, as S2AP\[1:0\] (D8.4).
#[bitenum]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage2Access {
    /// None: every access faults, and the descriptor keeps its output address.
    #[fallback]
    None = 0b00,
    /// Reads only.
    ReadOnly = 0b01,
    /// Writes only; a read faults.
    WriteOnly = 0b10,
    /// Reads and writes.
    ReadWrite = 0b11,
}

/// The exception levels that may execute, as XN\[1:0\] (D8.4). Without FEAT_XNX bit 0 is RES0: then
/// only [`Self::All`] and [`Self::Never`] may be used.
#[bitenum]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage2Execute {
    /// EL1 and EL0.
    All = 0b00,
    /// EL0 only.
    El0Only = 0b01,
    /// None.
    #[fallback]
    Never = 0b10,
    /// EL1 only.
    El1Only = 0b11,
}

/// The attributes of a stage 2 leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage2Attributes {
    /// The memory type.
    pub memory: Stage2Memory,
    /// The allowed reads and writes.
    pub access: Stage2Access,
    /// The allowed instruction fetches.
    pub execute: Stage2Execute,
}

impl Stage2Attributes {
    /// A guest's RAM.
    pub const RAM: Self = Self {
        memory: Stage2Memory::Normal,
        access: Stage2Access::ReadWrite,
        execute: Stage2Execute::All,
    };
    /// RAM that a guest may only read and execute.
    pub const ROM: Self = Self {
        access: Stage2Access::ReadOnly,
        ..Self::RAM
    };
    /// The registers of a real device that the VM has for itself.
    pub const DEVICE: Self = Self {
        memory: Stage2Memory::Device,
        access: Stage2Access::ReadWrite,
        execute: Stage2Execute::Never,
    };
}

/// A leaf (DDI 0487 D8.3, "Block and Page descriptor formats", stage 2).
#[bitfield(u64)]
struct Leaf {
    valid: bool,
    page: bool,
    #[bits(4)]
    memory: Stage2Memory,
    #[bits(2)]
    access: Stage2Access,
    #[bits(2)]
    shareability: u8,
    access_flag: bool,
    fnxs: bool,
    #[bits(36)]
    frame: u64,
    #[bits(5)]
    _other: u8,
    #[bits(2)]
    execute: Stage2Execute,
    #[bits(9)]
    _software: u16,
}

/// Stage 2 of the EL1&0 regime, VMSAv8-64, 4 KiB granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage2 {}

impl Format for Stage2 {
    type Input = Ipa;
    type Attributes = Stage2Attributes;
    const OUTPUT_BITS: u32 = 48;

    fn supports(_: &Geometry) -> bool {
        true
    }

    fn decode(descriptor: u64, level: &Level) -> Entry<Stage2Attributes> {
        match Vmsa64::from_bits(descriptor).kind(level) {
            Kind::Invalid => Entry::Invalid,
            Kind::Table(next) => Entry::Table(next),
            Kind::Leaf(output) => {
                let leaf = Leaf::from_bits(descriptor);
                let attributes = Stage2Attributes {
                    memory: leaf.memory(),
                    access: leaf.access(),
                    execute: leaf.execute(),
                };
                Entry::Leaf(output, attributes)
            }
        }
    }

    fn leaf(output: Hpa, attributes: Stage2Attributes, level: &Level) -> u64 {
        let shareability = match attributes.memory {
            Stage2Memory::Normal => INNER,
            Stage2Memory::NormalNonCacheable | Stage2Memory::Device => OUTER,
        };
        Leaf::new()
            .with_valid(true)
            .with_page(is_page(level))
            .with_memory(attributes.memory)
            .with_access(attributes.access)
            .with_shareability(shareability)
            .with_access_flag(true)
            .with_frame(frame_of(output))
            .with_execute(attributes.execute)
            .into_bits()
    }

    fn table(next: Hpa) -> u64 {
        Vmsa64::to_table(next)
    }
}
