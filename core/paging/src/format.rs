//! The meaning of a descriptor's bits.

use crate::geometry::Level;
use core::fmt::Debug;
use hanok_types::{Address, Hpa};

/// A descriptor, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<A> {
    /// The descriptor translates nothing.
    Invalid,
    /// The walk goes on in the next level's table, at this address.
    Table(Hpa),
    /// The descriptor translates to this address, with these attributes.
    Leaf(Hpa, A),
}

/// The descriptor format of one translation regime.
///
/// The invalid descriptor is 0 in every format.
pub trait Format {
    /// The kind of address that the regime translates.
    type Input: Address;
    /// What a leaf holds besides the output address.
    type Attributes: Copy + Eq + Debug;
    /// The largest number of bits of an output address.
    const OUTPUT_BITS: u32;

    /// Whether the regime allows this geometry.
    fn supports(geometry: &crate::Geometry) -> bool;
    /// Decodes a descriptor of a table at `level`.
    fn decode(descriptor: u64, level: &Level) -> Entry<Self::Attributes>;
    /// A leaf at `level`. `output` is aligned to the size that the level's descriptors cover.
    fn leaf(output: Hpa, attributes: Self::Attributes, level: &Level) -> u64;
    /// A descriptor that leads to the table at `next`.
    fn table(next: Hpa) -> u64;
}

/// log2 of the 4 KiB granule.
const GRANULE: u32 = 12;

/// The part that stage 1 and stage 2 of VMSAv8-64 share: bits \[1:0\] and the address
/// (DDI 0487 D8.3).
#[bitfield_struct::bitfield(u64)]
pub(crate) struct Vmsa64 {
    /// Whether the descriptor is valid.
    pub valid: bool,
    /// Set for a table, and at level 3 for a page; else the descriptor is a block.
    pub table_or_page: bool,
    #[bits(10)]
    pub lower_attributes: u16,
    /// Bits \[47:12\] of the next table's address or of the output address.
    #[bits(36)]
    pub frame: u64,
    #[bits(16)]
    pub upper_attributes: u16,
}

/// The kinds of descriptors, by bits \[1:0\] and the level.
pub(crate) enum Kind {
    Invalid,
    Table(Hpa),
    Leaf(Hpa),
}

impl Vmsa64 {
    /// The kind of a descriptor of a table at `level`. A level 3 descriptor without bit 1 is
    /// reserved and treated as invalid, as by the CPU's walker; so is a block at a level that has
    /// none.
    pub fn kind(self, level: &Level) -> Kind {
        let last = u32::from(level.shift) == GRANULE;
        let address = Hpa::new(self.frame() << GRANULE);
        match (self.valid(), self.table_or_page(), last) {
            (true, true, true) => Kind::Leaf(address),
            (true, true, false) => Kind::Table(address),
            (true, false, false) if level.leaf => {
                Kind::Leaf(Hpa::new(address.get() & !(level.size() - 1)))
            }
            _ => Kind::Invalid,
        }
    }

    /// A table descriptor without hierarchical restrictions.
    pub fn to_table(next: Hpa) -> u64 {
        Self::new()
            .with_valid(true)
            .with_table_or_page(true)
            .with_frame(frame_of(next))
            .into_bits()
    }
}

/// The address field for `address`. Bits above 47 are dropped; [`Format::OUTPUT_BITS`] sees to it
/// that there are none.
pub(crate) fn frame_of(address: Hpa) -> u64 {
    (address.get() >> GRANULE) & ((1 << 36) - 1)
}

/// Bit 1 of a leaf at `level`: set for a page, clear for a block.
pub(crate) fn is_page(level: &Level) -> bool {
    u32::from(level.shift) == GRANULE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;

    /// DDI 0487, D8.3.1: with the 4 KiB granule a table of level 0 has no blocks, and what looks
    /// like one in level 3 is reserved.
    #[test]
    fn there_are_blocks_at_levels_1_and_2_alone() {
        let blocks = Geometry::BITS_48.levels().iter().filter(|level| {
            let kind = Vmsa64::from_bits(0x40_0000_0001).kind(level);
            matches!(kind, Kind::Leaf(_))
        });
        assert!(blocks.map(|level| level.number).eq([1, 2]));
    }
}
