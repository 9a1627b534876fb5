//! The registers that control a guest's translation.

use super::descriptor::Pxn;
use bitfield_struct::bitfield;

/// What of SCTLR matters for translation (DDI 0406C, B4.1.130).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub(crate) struct Control {
    /// M: the MMU is on.
    pub mmu: bool,
    #[bits(11)]
    __: u16,
    /// I: instruction caches are on.
    pub instruction_cache: bool,
    #[bits(12)]
    __: u16,
    /// EE: descriptors are big-endian.
    pub big_endian: bool,
    #[bits(2)]
    __: u8,
    /// TRE.
    pub remap: bool,
    /// AFE.
    pub access_flag: bool,
    #[bits(2)]
    __: u8,
}

/// What of TTBCR matters for short descriptors (B4.1.153).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub(crate) struct BaseControl {
    /// N.
    #[bits(3)]
    pub split: u8,
    __: bool,
    /// PD0.
    pub disabled_0: bool,
    /// PD1.
    pub disabled_1: bool,
    #[bits(26)]
    __: u32,
}

/// The registers that control a guest's translation by short descriptors. Bits that do not matter
/// may have any value. A guest that sets TTBCR.EAE has other tables: that is for the caller to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortRegime {
    /// SCTLR, of which M, AFE, TRE, EE and I are used.
    pub sctlr: u32,
    /// TTBR0.
    pub ttbr0: u32,
    /// TTBR1.
    pub ttbr1: u32,
    /// TTBCR, of which N, PD0 and PD1 are used.
    pub ttbcr: u32,
    /// DACR.
    pub dacr: u32,
    /// PRRR.
    pub prrr: u32,
    /// NMRR.
    pub nmrr: u32,
    /// Whether the guest's CPU has PXN.
    pub pxn: Pxn,
}

/// Bits of a TTBR that are no part of an address: the attributes of walks.
const TTBR_ATTRIBUTES: u32 = 0x7f;

impl ShortRegime {
    pub(crate) fn control(&self) -> Control {
        Control::from_bits(self.sctlr)
    }

    pub(crate) fn base_control(&self) -> BaseControl {
        BaseControl::from_bits(self.ttbcr)
    }

    /// The same regime with all bits cleared that do not matter for where an address leads and who
    /// may go there, so that equal regimes are equal. SCTLR.I, which matters without the MMU for
    /// the memory type of fetches, is cleared too.
    #[must_use]
    pub fn normalized(&self) -> Self {
        let control = self.control();
        if !control.mmu() {
            return Self::without_mmu(self.pxn);
        }
        let base = self.base_control();
        let remap = |register| if control.remap() { register } else { 0 };
        Self {
            sctlr: Control::new()
                .with_mmu(true)
                .with_big_endian(control.big_endian())
                .with_remap(control.remap())
                .with_access_flag(control.access_flag())
                .into_bits(),
            ttbr0: self.ttbr0 & !TTBR_ATTRIBUTES,
            ttbr1: match base.split() {
                0 => 0,
                _ => self.ttbr1 & !TTBR_ATTRIBUTES,
            },
            ttbcr: BaseControl::new()
                .with_split(base.split())
                .with_disabled_0(base.disabled_0())
                .with_disabled_1(base.disabled_1() && base.split() != 0)
                .into_bits(),
            dacr: self.dacr,
            prrr: remap(self.prrr),
            nmrr: remap(self.nmrr),
            pxn: self.pxn,
        }
    }

    /// The regime of a guest whose MMU is off, as after reset.
    pub const fn without_mmu(pxn: Pxn) -> Self {
        Self {
            sctlr: 0,
            ttbr0: 0,
            ttbr1: 0,
            ttbcr: 0,
            dacr: 0,
            prrr: 0,
            nmrr: 0,
            pxn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_have_the_manual_s_places() {
        let control = Control::from_bits(1 << 0 | 1 << 12 | 1 << 25 | 1 << 28 | 1 << 29);
        assert!(control.mmu() && control.instruction_cache() && control.big_endian());
        assert!(control.remap() && control.access_flag());
        let base = BaseControl::from_bits(0b11_0101);
        assert_eq!(base.split(), 5);
        assert!(base.disabled_0() && base.disabled_1());
    }

    #[test]
    fn what_does_not_matter_makes_no_other_regime() {
        let one = ShortRegime {
            sctlr: 1,
            ttbr0: 0x4000_4000,
            ..ShortRegime::without_mmu(Pxn::Absent)
        };
        let other = ShortRegime {
            sctlr: 0x00c5_187d,
            ttbr0: 0x4000_406a,
            ttbr1: 0x1234_4000,
            ttbcr: 0x20,
            prrr: 5,
            nmrr: 6,
            ..one
        };
        assert_eq!(one.normalized(), other.normalized());
    }
}
