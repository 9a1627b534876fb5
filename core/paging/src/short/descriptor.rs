//! The descriptors and what their bits mean (DDI 0406C, B3.5.1).

use bitfield_struct::bitfield;
use hanok_types::Ipa;

/// Whether the CPU has the attribute privileged execute-never (DDI 0406C, B3.7.2). Without it, a
/// first-level descriptor whose bits \[1:0\] are 0b11 is a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pxn {
    /// The CPU has no such attribute.
    Absent,
    /// The CPU has it.
    Present,
}

/// A first-level descriptor that leads to a second-level table.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct PageTable {
    /// 0b01.
    #[bits(2)]
    pub kind: u8,
    /// PXN.
    pub pxn: bool,
    /// NS, which a guest without the security extensions does not have.
    pub non_secure: bool,
    __: bool,
    /// The domain of all pages of the table.
    #[bits(4)]
    pub domain: u8,
    __: bool,
    /// Bits \[31:10\] of the table's address.
    #[bits(22)]
    pub base: u32,
}

/// A first-level descriptor of 1 MiB.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Section {
    /// PXN.
    pub pxn: bool,
    /// Set.
    pub leaf: bool,
    /// C and B, bit 0 being B.
    #[bits(2)]
    pub cb: u8,
    /// XN.
    pub execute_never: bool,
    /// The domain.
    #[bits(4)]
    pub domain: u8,
    __: bool,
    /// AP\[1:0\].
    #[bits(2)]
    pub ap: u8,
    /// TEX.
    #[bits(3)]
    pub tex: u8,
    /// AP\[2\].
    pub ap2: bool,
    /// S.
    pub shareable: bool,
    /// nG.
    pub not_global: bool,
    /// Clear: the descriptor is no supersection.
    pub supersection: bool,
    /// NS.
    pub non_secure: bool,
    /// Bits \[31:20\] of the address.
    #[bits(12)]
    pub base: u16,
}

/// A first-level descriptor of 16 MiB, which is repeated 16 times. It is in domain 0.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Supersection {
    /// PXN.
    pub pxn: bool,
    /// Set.
    pub leaf: bool,
    /// C and B.
    #[bits(2)]
    pub cb: u8,
    /// XN.
    pub execute_never: bool,
    /// Bits \[39:36\] of the address.
    #[bits(4)]
    pub base_36: u8,
    __: bool,
    /// AP\[1:0\].
    #[bits(2)]
    pub ap: u8,
    /// TEX.
    #[bits(3)]
    pub tex: u8,
    /// AP\[2\].
    pub ap2: bool,
    /// S.
    pub shareable: bool,
    /// nG.
    pub not_global: bool,
    /// Set.
    pub supersection: bool,
    /// NS.
    pub non_secure: bool,
    /// Bits \[35:32\] of the address.
    #[bits(4)]
    pub base_32: u8,
    /// Bits \[31:24\] of the address.
    pub base: u8,
}

/// A second-level descriptor of 64 KiB, which is repeated 16 times.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct LargePage {
    /// 0b01.
    #[bits(2)]
    pub kind: u8,
    /// C and B.
    #[bits(2)]
    pub cb: u8,
    /// AP\[1:0\].
    #[bits(2)]
    pub ap: u8,
    #[bits(3)]
    __: u8,
    /// AP\[2\].
    pub ap2: bool,
    /// S.
    pub shareable: bool,
    /// nG.
    pub not_global: bool,
    /// TEX.
    #[bits(3)]
    pub tex: u8,
    /// XN.
    pub execute_never: bool,
    /// Bits \[31:16\] of the address.
    pub base: u16,
}

/// A second-level descriptor of 4 KiB.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct SmallPage {
    /// XN.
    pub execute_never: bool,
    /// Set.
    pub leaf: bool,
    /// C and B.
    #[bits(2)]
    pub cb: u8,
    /// AP\[1:0\].
    #[bits(2)]
    pub ap: u8,
    /// TEX.
    #[bits(3)]
    pub tex: u8,
    /// AP\[2\].
    pub ap2: bool,
    /// S.
    pub shareable: bool,
    /// nG.
    pub not_global: bool,
    /// Bits \[31:12\] of the address.
    #[bits(20)]
    pub base: u32,
}

/// A first-level descriptor, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstLevel {
    /// Nothing is translated.
    Fault,
    /// The walk goes on in a second-level table.
    Table(PageTable),
    /// 1 MiB.
    Section(Section),
    /// 16 MiB.
    Supersection(Supersection),
}

impl FirstLevel {
    /// Decodes a descriptor of a first-level table.
    pub const fn decode(raw: u32, pxn: Pxn) -> Self {
        let section = Section::from_bits(raw);
        match (raw & 0b11, pxn) {
            (0b01, _) => Self::Table(PageTable::from_bits(raw)),
            (0b10, _) | (0b11, Pxn::Present) if section.supersection() => {
                Self::Supersection(Supersection::from_bits(raw))
            }
            (0b10, _) | (0b11, Pxn::Present) => Self::Section(section),
            _ => Self::Fault,
        }
    }
}

/// A second-level descriptor, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondLevel {
    /// Nothing is translated.
    Fault,
    /// 64 KiB.
    Large(LargePage),
    /// 4 KiB.
    Small(SmallPage),
}

impl SecondLevel {
    /// Decodes a descriptor of a second-level table.
    pub const fn decode(raw: u32) -> Self {
        match raw & 0b11 {
            0b00 => Self::Fault,
            0b01 => Self::Large(LargePage::from_bits(raw)),
            _ => Self::Small(SmallPage::from_bits(raw)),
        }
    }
}

impl PageTable {
    /// The address of the second-level table.
    pub const fn address(self) -> Ipa {
        Ipa::new((self.base() as u64) << 10)
    }
}

/// What leaves of all sizes have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// TEX, C and B, five bits, bit 0 being B.
    pub texcb: u8,
    pub shareable: bool,
    /// AP\[2:0\].
    pub ap: u8,
    pub not_global: bool,
    pub execute_never: bool,
    /// False where neither the leaf nor its table has the attribute.
    pub pxn: bool,
}

impl Attributes {
    /// The section of these attributes at `base`, a multiple of 1 MiB below 4 GiB.
    pub fn section(self, base: u64, domain: u8) -> Section {
        Section::new()
            .with_pxn(self.pxn)
            .with_leaf(true)
            .with_cb(self.texcb & 0b11)
            .with_execute_never(self.execute_never)
            .with_domain(domain & 0xf)
            .with_ap(self.ap & 0b11)
            .with_tex(self.texcb >> 2 & 0b111)
            .with_ap2(self.ap & 0b100 != 0)
            .with_shareable(self.shareable)
            .with_not_global(self.not_global)
            .with_base((base >> 20) as u16 & 0xfff)
    }

    /// The small page of these attributes at `base`, a multiple of 4 KiB below 4 GiB. PXN is its
    /// table's.
    pub fn small_page(self, base: u64) -> SmallPage {
        SmallPage::new()
            .with_execute_never(self.execute_never)
            .with_leaf(true)
            .with_cb(self.texcb & 0b11)
            .with_ap(self.ap & 0b11)
            .with_tex(self.texcb >> 2 & 0b111)
            .with_ap2(self.ap & 0b100 != 0)
            .with_shareable(self.shareable)
            .with_not_global(self.not_global)
            .with_base((base >> 12) as u32 & 0xf_ffff)
    }
}

macro_rules! common {
    ($kind:ident, $pxn:expr) => {
        impl $kind {
            pub(crate) fn attributes(self) -> Attributes {
                Attributes {
                    texcb: self.tex() << 2 | self.cb(),
                    shareable: self.shareable(),
                    ap: u8::from(self.ap2()) << 2 | self.ap(),
                    not_global: self.not_global(),
                    execute_never: self.execute_never(),
                    pxn: ($pxn)(self),
                }
            }
        }
    };
}
common!(Section, |one: Self| one.pxn());
common!(Supersection, |one: Self| one.pxn());
common!(LargePage, |_| false);
common!(SmallPage, |_| false);

impl Section {
    /// The first address that the section translates to.
    pub const fn address(self) -> Ipa {
        Ipa::new((self.base() as u64) << 20)
    }
}

impl Supersection {
    /// The first address that the supersection translates to, of 40 bits.
    pub const fn address(self) -> Ipa {
        let high = (self.base_36() as u64) << 36 | (self.base_32() as u64) << 32;
        Ipa::new(high | (self.base() as u64) << 24)
    }
}

impl LargePage {
    /// The first address that the page translates to.
    pub const fn address(self) -> Ipa {
        Ipa::new((self.base() as u64) << 16)
    }
}

impl SmallPage {
    /// The first address that the page translates to.
    pub const fn address(self) -> Ipa {
        Ipa::new((self.base() as u64) << 12)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_s_section_of_kernel_text() {
        // A section at 0x4020_0000: write-back write-allocate shareable, read-write, domain 0.
        let FirstLevel::Section(section) = FirstLevel::decode(0x4021_140e, Pxn::Absent) else {
            panic!("a section");
        };
        let attributes = section.attributes();
        assert_eq!(section.address(), Ipa::new(0x4020_0000));
        assert_eq!((attributes.texcb, attributes.ap), (0b00111, 0b001));
        assert!(attributes.shareable && !attributes.execute_never && !attributes.not_global);
        assert_eq!(attributes.section(0x4020_0000, 0).into_bits(), 0x4021_140e);
    }

    #[test]
    fn bit_0_of_a_section_needs_pxn() {
        assert_eq!(FirstLevel::decode(0x3, Pxn::Absent), FirstLevel::Fault);
        let section = FirstLevel::decode(0x3, Pxn::Present);
        assert!(matches!(section, FirstLevel::Section(one) if one.pxn()));
    }

    #[test]
    fn a_supersection_has_forty_bits() {
        let raw = 0xab << 24 | 0xc << 20 | 1 << 18 | 0xd << 5 | 0b10;
        let FirstLevel::Supersection(one) = FirstLevel::decode(raw, Pxn::Absent) else {
            panic!("a supersection");
        };
        assert_eq!(one.address(), Ipa::new(0xdc_ab00_0000));
    }

    #[test]
    fn a_small_page_from_its_parts() {
        // AP 0b111, TEX 0b101, C 0, B 1, S, nG, XN.
        let SecondLevel::Small(page) = SecondLevel::decode(0x1234_5f77) else {
            panic!("a small page");
        };
        let attributes = page.attributes();
        assert_eq!((attributes.texcb, attributes.ap), (0b10101, 0b111));
        assert_eq!(attributes.small_page(0x1234_5000), page);
    }
}
