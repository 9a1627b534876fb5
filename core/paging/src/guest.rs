//! Follows a guest's own stage 1 walk to answer one question: at which level did it leave the
//! guest's memory?
//!
//! The syndrome of such a walk tells the level of stage 2, but the guest must be told that of stage
//! 1 (DDI 0487, "ESR_ELx", DFSC 0b0101xx). The guest may change its tables meanwhile. Then the
//! answer is one that its tables gave at some moment, and the guest cannot expect more.

use hanok_types::Ipa;

/// The registers that control a guest's stage 1 translation.
#[derive(Clone, Copy, Debug)]
pub struct GuestRegime {
    /// TCR_EL1.
    pub tcr: u64,
    /// TTBR0_EL1.
    pub ttbr0: u64,
    /// TTBR1_EL1.
    pub ttbr1: u64,
}

/// The bits of an address in a descriptor, up to bit 47.
const OUTPUT: u64 = 0xffff_ffff_f000;
/// The bits of an address in a TTBR, up to bit 47. A root with few descriptors is smaller than a
/// page and aligned to its size, but to at least 64 bytes (DDI 0487, "TTBR0_EL1", BADDR).
const ROOT: u64 = 0xffff_ffff_ffc0;

impl GuestRegime {
    /// The level, 0 to 3, of the descriptor for `address` that `read` could not read. `read`
    /// answers a 64-bit word of guest memory. `None` if the walk ends in any other way.
    pub fn level_out_of_memory(
        &self,
        address: u64,
        read: impl Fn(Ipa) -> Option<u64>,
    ) -> Option<i8> {
        let upper = address >> 55 & 1 != 0;
        let (size, granule, root) = if upper {
            // T1SZ; TG1: 1 is 16 KiB, 2 is 4 KiB, 3 is 64 KiB.
            (
                self.tcr >> 16 & 0x3f,
                [12, 14, 12, 16][(self.tcr >> 30 & 3) as usize],
                self.ttbr1,
            )
        } else {
            // T0SZ; TG0: 0 is 4 KiB, 1 is 64 KiB, 2 is 16 KiB.
            (
                self.tcr & 0x3f,
                [12, 16, 14, 12][(self.tcr >> 14 & 3) as usize],
                self.ttbr0,
            )
        };
        let bits: u32 = granule - 3;
        let input = 64_u32
            .checked_sub(size as u32)
            .filter(|input| *input > granule)?;
        let levels = (input - granule).div_ceil(bits).min(4);
        // The first level may use fewer bits than the others.
        let width_at = |shift| bits.min(input - shift);
        let root_width = width_at(granule + (levels - 1) * bits);
        let mut table = root & ROOT & !((8 << root_width) - 1);
        for level in 4 - levels..4 {
            let shift = granule + (3 - level) * bits;
            let width = width_at(shift);
            let index = address >> shift & ((1 << width) - 1);
            let Some(descriptor) = read(Ipa::new(table + index * 8)) else {
                return Some(level as i8);
            };
            if descriptor & 3 != 3 {
                return None;
            }
            table = descriptor & OUTPUT & !((1 << granule) - 1);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of tables at 0x1000, 0x2000 and so on, each of which points to the next by entry 0.
    fn chain(end: u64) -> impl Fn(Ipa) -> Option<u64> {
        move |at| (at.get() < end).then_some(((at.get() & !0xfff) + 0x1000) | 3)
    }

    fn regime(tcr: u64) -> GuestRegime {
        GuestRegime {
            tcr,
            ttbr0: 0x1000,
            ttbr1: 0x1000,
        }
    }

    #[test]
    fn the_level_is_that_of_the_missing_table() {
        // 48 bits (T0SZ 16): levels 0 to 3; 39 bits: levels 1 to 3.
        for (tcr, end, level) in [
            (16, 0x1000, Some(0)),
            (16, 0x3000, Some(2)),
            (16, 0x4000, Some(3)),
            (25, 0x1000, Some(1)),
            (25, 0x3000, Some(3)),
        ] {
            assert_eq!(
                regime(tcr).level_out_of_memory(0, chain(end)),
                level,
                "{tcr} {end:#x}"
            );
        }
        assert_eq!(regime(16).level_out_of_memory(0, chain(0x5000)), None);
    }

    #[test]
    fn a_small_root_need_not_begin_a_page() {
        // 64 KiB granule, 48 bits: 64 descriptors at level 1, 512 bytes.
        let regime = GuestRegime {
            ttbr0: 0x8000_1201,
            ..regime(16 | 1 << 14)
        };
        let address = 3 << 42;
        let root = |at: Ipa| (at.get() == 0x8000_1218).then_some(0x9000_0003);
        assert_eq!(regime.level_out_of_memory(address, root), Some(2));
        // 4 KiB granule, 31 bits: two descriptors, but aligned to 64 bytes.
        let regime = GuestRegime {
            ttbr0: 0x8000_1240,
            ..self::regime(33)
        };
        let root = |at: Ipa| (at.get() == 0x8000_1248).then_some(0x9000_0003);
        assert_eq!(regime.level_out_of_memory(1 << 30, root), Some(2));
    }

    /// The level at which a walk begins, by the manual's tables of input sizes (DDI 0487, D8.2,
    /// "Translation granules"); `None` for sizes that are in none of these tables.
    fn first_level(granule: u32, input: u64) -> Option<i8> {
        let begin: [(u64, u64); 4] = match granule {
            12 => [(40, 48), (31, 39), (22, 30), (16, 21)],
            14 => [(48, 48), (37, 47), (26, 36), (16, 25)],
            _ => [(99, 99), (43, 48), (30, 42), (17, 29)],
        };
        let at = begin
            .iter()
            .position(|&(least, most)| (least..=most).contains(&input));
        at.map(|level| level as i8)
    }

    #[test]
    fn any_register_values_have_an_answer() {
        for bits in 0..=u16::MAX {
            let tcr = u64::from(bits & 0xff) | u64::from(bits >> 8) << 14 | u64::from(bits) << 16;
            let address = u64::MAX << (bits & 63);
            let regime = regime(tcr);
            // Every table exists: the walk ends with a page, and nothing is missing.
            let whole = regime.level_out_of_memory(address, chain(u64::MAX - 0x2000));
            assert_eq!(whole, None, "{tcr:#x}");
            // No table exists: the walk ends where it begins.
            let none = regime.level_out_of_memory(address, |_| None);
            assert!(none.is_none_or(|level| (0..4).contains(&level)), "{tcr:#x}");
            let (size, granule) = match address >> 55 & 1 {
                0 => (tcr & 0x3f, [12, 16, 14, 12][(tcr >> 14 & 3) as usize]),
                _ => (tcr >> 16 & 0x3f, [12, 14, 12, 16][(tcr >> 30 & 3) as usize]),
            };
            if let Some(level) = first_level(granule, 64 - size) {
                assert_eq!(none, Some(level), "{tcr:#x}");
            }
        }
    }
}
