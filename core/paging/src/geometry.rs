//! How an input address is split into table indices.

use hanok_types::PAGE_SIZE;

/// One level of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The architecture's number of the level.
    pub number: u8,
    /// log2 of the number of bytes that one descriptor covers.
    pub shift: u8,
    /// log2 of the number of descriptors in a table.
    pub index_bits: u8,
    /// Whether a descriptor of this level can be a leaf: a block, or a page at the last level.
    pub leaf: bool,
}

impl Level {
    /// The number of bytes that one descriptor covers.
    pub const fn size(&self) -> u64 {
        1 << self.shift
    }

    /// The number of descriptors in a table.
    pub const fn entries(&self) -> usize {
        1 << self.index_bits
    }

    /// The index of the descriptor for `address`.
    pub const fn index(&self, address: u64) -> usize {
        (address >> self.shift) as usize & (self.entries() - 1)
    }

    /// The number of 4 KiB frames in a table of this level, whose descriptors have 64 bits.
    pub const fn frames(&self) -> usize {
        (self.entries() * size_of::<u64>()).div_ceil(PAGE_SIZE as usize)
    }
}

/// The shape of a table: its levels, root first, down to pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    levels: &'static [Level],
}

const PAGES: Level = level(3, 12, 9, true);
const MIB2: Level = level(2, 21, 9, true);
const GIB: Level = level(1, 30, 9, true);

const fn level(number: u8, shift: u8, index_bits: u8, leaf: bool) -> Level {
    Level {
        number,
        shift,
        index_bits,
        leaf,
    }
}

impl Geometry {
    /// 32 bits from level 1, four descriptors: Hyp mode of ARMv7 (DDI 0406C, B3.6.6, T0SZ 0).
    pub const BITS_32: Self = Self {
        levels: &[level(1, 30, 2, true), MIB2, PAGES],
    };
    /// 39 bits from level 1, one root table (DDI 0487 D8.2, 4 KiB granule).
    pub const BITS_39: Self = Self {
        levels: &[GIB, MIB2, PAGES],
    };
    /// 40 bits from level 1 with two concatenated root tables; for stage 2 only (D8.2,
    /// "Concatenated translation tables").
    pub const BITS_40: Self = Self {
        levels: &[level(1, 30, 10, true), MIB2, PAGES],
    };
    /// 48 bits from level 0, which has no blocks without FEAT_LPA2.
    pub const BITS_48: Self = Self {
        levels: &[level(0, 39, 9, false), GIB, MIB2, PAGES],
    };

    /// The levels, the root first.
    pub const fn levels(&self) -> &'static [Level] {
        self.levels
    }

    /// The level at which a walk starts.
    pub const fn root(&self) -> &'static Level {
        &self.levels[0]
    }

    /// The number of bits of an input address.
    pub const fn input_bits(&self) -> u32 {
        (self.root().shift + self.root().index_bits) as u32
    }

    /// The number of bytes that a table can translate, from address 0.
    pub const fn input_size(&self) -> u64 {
        1 << self.input_bits()
    }

    /// Whether the root consists of several concatenated tables.
    pub const fn concatenated(&self) -> bool {
        self.root().frames() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_meet_without_gap() {
        for geometry in [
            Geometry::BITS_32,
            Geometry::BITS_39,
            Geometry::BITS_40,
            Geometry::BITS_48,
        ] {
            for pair in geometry.levels().windows(2) {
                assert_eq!(pair[0].shift, pair[1].shift + pair[1].index_bits);
            }
            assert_eq!(geometry.levels().last().unwrap().size(), PAGE_SIZE);
        }
    }

    #[test]
    fn two_root_tables_for_forty_bits() {
        assert_eq!(Geometry::BITS_32.input_bits(), 32);
        assert_eq!(Geometry::BITS_32.root().frames(), 1);
        assert_eq!(Geometry::BITS_39.input_bits(), 39);
        assert_eq!(Geometry::BITS_40.input_bits(), 40);
        assert_eq!(Geometry::BITS_48.input_bits(), 48);
        assert_eq!(Geometry::BITS_40.root().frames(), 2);
        assert!(!Geometry::BITS_48.concatenated());
    }
}
