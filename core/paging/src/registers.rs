//! The values of the registers that control translation by the tables (DDI 0487 D24.2).

use crate::geometry::Geometry;
use bitfield_struct::bitfield;
use hanok_types::Hpa;

/// Attr0: Normal, inner and outer write-back non-transient, read- and write-allocate.
const NORMAL_WRITE_BACK: u64 = 0xff;
/// Attr1: Device-nGnRE.
const DEVICE_NGNRE: u64 = 0x04;

/// MAIR_EL2: index 0 is Normal write-back memory, index 1 is Device-nGnRE, as
/// [`crate::Stage1Memory`] uses them.
pub const MAIR_EL2: u64 = NORMAL_WRITE_BACK | DEVICE_NGNRE << 8;

/// IRGN0, ORGN0: table walks are write-back, read- and write-allocate cacheable.
const WRITE_BACK: u8 = 0b01;
/// SH\[1:0\] of a leaf, and SH0 of table walks: inner shareable (D8.6).
pub(crate) const INNER: u8 = 0b11;
/// SH\[1:0\]: outer shareable. All memory that is not cacheable always is, whatever SH says.
pub(crate) const OUTER: u8 = 0b10;
/// TG0: 4 KiB granule.
const GRANULE_4K: u8 = 0b00;

/// The size of a physical address, as ID_AA64MMFR0_EL1.PARange encodes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PaRange(u8);

impl PaRange {
    /// 48 bits, the largest size for descriptors without FEAT_LPA and FEAT_LPA2.
    pub const BITS_48: Self = Self(0b0101);

    /// The size in this value of ID_AA64MMFR0_EL1, limited to 48 bits.
    pub fn from_mmfr0(id_aa64mmfr0_el1: u64) -> Self {
        Self((id_aa64mmfr0_el1 & 0xf) as u8).min(Self::BITS_48)
    }

    /// The number of bits of an address.
    pub const fn bits(self) -> u32 {
        match self.0 {
            0 => 32,
            1 => 36,
            2 => 40,
            3 => 42,
            4 => 44,
            _ => 48,
        }
    }
}

/// TCR_EL2 with HCR_EL2.E2H = 0.
#[bitfield(u64)]
struct TcrEl2 {
    #[bits(6)]
    t0sz: u8,
    #[bits(2)]
    _res0: u8,
    #[bits(2)]
    irgn0: u8,
    #[bits(2)]
    orgn0: u8,
    #[bits(2)]
    sh0: u8,
    #[bits(2)]
    tg0: u8,
    #[bits(3)]
    ps: u8,
    #[bits(4)]
    _features: u8,
    res1_23: bool,
    #[bits(7)]
    _more_features: u8,
    res1_31: bool,
    #[bits(32)]
    _upper: u32,
}

/// VTCR_EL2.
#[bitfield(u64)]
struct VtcrEl2 {
    #[bits(6)]
    t0sz: u8,
    #[bits(2)]
    sl0: u8,
    #[bits(2)]
    irgn0: u8,
    #[bits(2)]
    orgn0: u8,
    #[bits(2)]
    sh0: u8,
    #[bits(2)]
    tg0: u8,
    #[bits(3)]
    ps: u8,
    vs: bool,
    #[bits(11)]
    _features: u16,
    res1: bool,
    #[bits(32)]
    _upper: u32,
}

/// T0SZ: 64 minus the number of bits of an input address.
const fn t0sz(geometry: &Geometry) -> u8 {
    (u64::BITS - geometry.input_bits()) as u8
}

/// The value of TCR_EL2 for a table with this geometry.
pub fn tcr_el2(geometry: &Geometry, range: PaRange) -> u64 {
    TcrEl2::new()
        .with_t0sz(t0sz(geometry))
        .with_irgn0(WRITE_BACK)
        .with_orgn0(WRITE_BACK)
        .with_sh0(INNER)
        .with_tg0(GRANULE_4K)
        .with_ps(range.0)
        .with_res1_23(true)
        .with_res1_31(true)
        .into_bits()
}

/// The value of VTCR_EL2 for a table with this geometry, with VMIDs of 8 bits.
///
/// SL0 numbers levels in another order: 0 means that the walk starts at level 2, 1 at level 1, 2 at
/// level 0 (4 KiB granule). With a table wider than `range`, every access faults at level 0.
pub fn vtcr_el2(geometry: &Geometry, range: PaRange) -> u64 {
    VtcrEl2::new()
        .with_t0sz(t0sz(geometry))
        .with_sl0(2u8.saturating_sub(geometry.root().number))
        .with_irgn0(WRITE_BACK)
        .with_orgn0(WRITE_BACK)
        .with_sh0(INNER)
        .with_tg0(GRANULE_4K)
        .with_ps(range.0)
        .with_res1(true)
        .into_bits()
}

/// VTCR of ARMv7 (DDI 0406C, B4.1.161).
#[bitfield(u32)]
struct Vtcr {
    /// T0SZ: 32 minus the number of bits of an input address, signed.
    #[bits(4)]
    t0sz: u8,
    /// S: a copy of T0SZ's sign.
    sign: bool,
    __: bool,
    #[bits(2)]
    sl0: u8,
    #[bits(2)]
    irgn0: u8,
    #[bits(2)]
    orgn0: u8,
    #[bits(2)]
    sh0: u8,
    #[bits(17)]
    __: u32,
    res1: bool,
}

/// The value of VTCR for a table with this geometry, of 25 to 40 bits.
///
/// SL0 numbers levels in another order: 0 means that the walk starts at level 2, 1 at level 1.
pub fn vtcr(geometry: &Geometry) -> u64 {
    let size = (32 - geometry.input_bits() as i8) as u8;
    Vtcr::new()
        .with_t0sz(size & 0xf)
        .with_sign(size & 8 != 0)
        .with_sl0(2u8.saturating_sub(geometry.root().number) & 3)
        .with_irgn0(WRITE_BACK)
        .with_orgn0(WRITE_BACK)
        .with_sh0(INNER)
        .with_res1(true)
        .into_bits()
        .into()
}

/// The number that marks the TLB entries of one boot of a VM. It has eight bits, which every CPU
/// supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vmid(u8);

impl Vmid {
    /// The VMID with this number.
    pub const fn new(raw: u8) -> Self {
        Self(raw)
    }

    /// The VMID as a number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// The value of VTTBR_EL2: the root table, and the VMID of the boot that it belongs to.
pub const fn vttbr_el2(root: Hpa, vmid: Vmid) -> u64 {
    root.get() | (vmid.0 as u64) << 48
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_physical_addresses_is_capped() {
        assert_eq!(PaRange::from_mmfr0(0x1122).bits(), 40);
        assert_eq!(PaRange::from_mmfr0(0x1126).bits(), 48);
        // DDI 0487, ID_AA64MMFR0_EL1.PARange.
        let bits = [0, 1, 2, 3, 4, 5].map(|field| PaRange::from_mmfr0(field).bits());
        assert_eq!(bits, [32, 36, 40, 42, 44, 48]);
    }

    #[test]
    fn stage_1_control_from_its_parts() {
        // T0SZ 16, write-back inner shareable walks, PS 44 bits, RES1 bits 31 and 23.
        let value = tcr_el2(&Geometry::BITS_48, PaRange::from_mmfr0(4));
        assert_eq!(value, 0x8084_3510);
        assert_eq!(
            tcr_el2(&Geometry::BITS_39, PaRange::from_mmfr0(2)),
            0x8082_3519
        );
    }

    #[test]
    fn stage_2_control_from_its_parts() {
        let value = vtcr_el2(&Geometry::BITS_40, PaRange::from_mmfr0(2));
        assert_eq!(value, 0x8002_3558);
        assert_eq!(value >> 6 & 3, 1, "starts at level 1");
        let deep = vtcr_el2(&Geometry::BITS_48, PaRange::from_mmfr0(5));
        assert_eq!(deep >> 6 & 3, 2, "starts at level 0");
    }

    #[test]
    fn stage_2_control_of_armv7_from_its_parts() {
        // T0SZ -8 with its sign, SL0 1, write-back inner shareable walks, RES1 bit 31.
        assert_eq!(vtcr(&Geometry::BITS_40), 0x8000_3558);
        assert_eq!(vtcr(&Geometry::BITS_32), 0x8000_3540);
    }

    #[test]
    fn the_root_keeps_its_vmid() {
        assert_eq!(
            vttbr_el2(Hpa::new(0x8000_2000), Vmid::new(3)),
            0x3_0000_8000_2000
        );
    }
}
