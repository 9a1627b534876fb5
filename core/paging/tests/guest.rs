//! A guest's own stage 1 walk against one written down from the manual's tables.

use hanok_paging::GuestRegime;
use hanok_types::Ipa;
use proptest::prelude::*;
use std::cell::RefCell;

/// A granule: the bits of the input address that each level's index has, from level 0 on
/// (DDI 0487 D8.2, the tables "... granule, levels of lookup").
#[derive(Clone, Copy, Debug)]
struct Granule {
    page: u32,
    /// `(level, highest bit, lowest bit)`.
    levels: &'static [(i8, u32, u32)],
    /// TCR_EL1.TG0 and TG1.
    codes: (u64, u64),
    /// The least and greatest TnSZ, FEAT_LVA and FEAT_TTST included.
    sizes: (u64, u64),
}

const KIB4: Granule = Granule {
    page: 12,
    levels: &[(0, 47, 39), (1, 38, 30), (2, 29, 21), (3, 20, 12)],
    codes: (0b00, 0b10),
    sizes: (16, 48),
};
const KIB16: Granule = Granule {
    page: 14,
    levels: &[(0, 47, 47), (1, 46, 36), (2, 35, 25), (3, 24, 14)],
    codes: (0b10, 0b01),
    sizes: (16, 48),
};
const KIB64: Granule = Granule {
    page: 16,
    levels: &[(1, 51, 42), (2, 41, 29), (3, 28, 16)],
    codes: (0b01, 0b11),
    sizes: (12, 47),
};

/// A step of a walk: the level, where its table is, and where in it the descriptor.
#[derive(Debug)]
struct TableChange {
    level: i8,
    table: u64,
    at: u64,
}

#[derive(Clone, Copy, Debug)]
struct Walk {
    granule: Granule,
    upper: bool,
    size: u64,
    address: u64,
    /// The tables come from here, one after the other.
    seed: u64,
    /// What the registers hold beyond the table's address and the fields above.
    noise: u64,
}

impl Walk {
    /// The steps of a walk that finds a table at each level but the last.
    fn steps(&self) -> Vec<TableChange> {
        let input = 64 - self.size as u32;
        let mut seed = self.seed;
        let taking_part = |&&(_, _, low): &&(i8, u32, u32)| low < input;
        let levels = self.granule.levels.iter().filter(taking_part);
        let step = |(number, &(level, high, low)): (usize, &(i8, u32, u32))| {
            let high = high.min(input - 1);
            // A table is aligned to its size, and to 64 bytes at least (D8.2, "Translation
            // table base address"); below the root it fills a page.
            let alignment = match number {
                0 => (8u64 << (high - low + 1)).max(64),
                _ => 1 << self.granule.page,
            };
            seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            let table = seed & 0xffff_ffff_ffff & !(alignment - 1);
            let index = self.address >> low & ((1 << (high - low + 1)) - 1);
            TableChange {
                level,
                table,
                at: table + index * 8,
            }
        };
        levels.enumerate().map(step).collect()
    }

    fn regime(&self, root: u64) -> GuestRegime {
        let (code0, code1) = self.granule.codes;
        // ASID, and CnP in bit 0.
        let ttbr = root | self.noise & 0xffff_0000_0000_0001;
        let (tcr, mine) = if self.upper {
            (self.size << 16 | code1 << 30, 0x3f << 16 | 3 << 30)
        } else {
            (self.size | code0 << 14, 0x3f | 3 << 14)
        };
        GuestRegime {
            tcr: tcr | self.noise & !mine,
            ttbr0: if self.upper { self.noise } else { ttbr },
            ttbr1: if self.upper { ttbr } else { self.noise },
        }
    }
}

fn walk() -> impl Strategy<Value = Walk> {
    let granule = prop::sample::select([KIB4, KIB16, KIB64].to_vec());
    let size = granule.prop_flat_map(|granule| {
        let (least, greatest) = granule.sizes;
        (Just(granule), least..=greatest)
    });
    (size, any::<[bool; 3]>(), any::<[u64; 3]>()).prop_map(
        |((granule, size), [upper, ones, zeros], [address, seed, noise])| {
            // The ends of the range are where levels meet.
            let address = match (ones, zeros) {
                (true, false) => u64::MAX,
                (false, true) => 0,
                _ => address,
            };
            // Above the input size all bits are equal but those of the tag.
            let low = address & (u64::MAX >> size);
            let tag = noise & 0xff << 56;
            let high = !(u64::MAX >> size) & !(0xff << 56);
            Walk {
                granule,
                upper,
                size,
                address: low | tag | if upper { high } else { 0 },
                seed,
                noise,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]

    /// The walk reads the manual's descriptors, in order, and no other; and where one is out
    /// of memory it says at which level.
    #[test]
    fn reads_what_the_manual_s_walk_reads(walk in walk()) {
        let steps = walk.steps();
        let regime = walk.regime(steps[0].table);
        for (end, last) in steps.iter().enumerate() {
            let seen = RefCell::new(Vec::new());
            let read = |at: Ipa| {
                seen.borrow_mut().push(at.get());
                let number = steps.iter().take(end).position(|step| step.at == at.get())?;
                // A table descriptor; attributes of the hierarchy above and ignored bits below.
                let other = walk.noise & (0xf800_0000_0000_0000 | ((1 << walk.granule.page) - 4));
                Some(steps[number + 1].table | 0b11 | other)
            };
            let level = regime.level_out_of_memory(walk.address, read);
            let expected: Vec<u64> = steps[..=end].iter().map(|step| step.at).collect();
            prop_assert_eq!(&*seen.borrow(), &expected);
            prop_assert_eq!(level, Some(last.level));
        }
    }

    /// A block, a page or an invalid descriptor ends the walk inside memory.
    #[test]
    fn a_walk_that_ends_asks_for_nothing(walk in walk(), leaf in any::<u64>()) {
        let steps = walk.steps();
        let regime = walk.regime(steps[0].table);
        for (end, _) in steps.iter().enumerate() {
            let read = |at: Ipa| {
                let number = steps[..=end].iter().position(|step| step.at == at.get())?;
                if number == end {
                    // At the last level a page has both bits set.
                    let page = if end + 1 == steps.len() { 0b11 } else { leaf & 0b01 };
                    return Some(leaf & !0b11 | page);
                }
                Some(steps[number + 1].table | 0b11)
            };
            prop_assert_eq!(regime.level_out_of_memory(walk.address, read), None);
        }
    }
}
