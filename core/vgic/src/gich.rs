//! A GICv2's list register format (IHI 0048B, GICH_LR<n>): the fields of GICv3's, with fewer
//! bits of each. It is here, beside the format that the core speaks, to be tested on a PC.

use crate::lr::{Lr, LrState};
use bitfield_struct::bitfield;

/// The value of one GICH_LR<n>.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct GichLr {
    /// The virtual interrupt's id.
    #[bits(10)]
    pub virtual_id: u32,
    /// With `hardware` the physical interrupt's id. Otherwise an SGI's CPUID in the low three
    /// bits and EOI in the highest, both where the 64-bit format has them.
    #[bits(10)]
    pub physical_id: u16,
    #[bits(3)]
    __: u8,
    /// The five upper bits of the priority.
    #[bits(5)]
    pub priority: u8,
    /// Pending and active.
    #[bits(2)]
    pub state: LrState,
    /// Whether of group 1.
    pub group1: bool,
    /// Whether the guest's deactivation deactivates `physical_id` too.
    pub hardware: bool,
}

/// How far a virtual interrupt's priority is cut.
const PRIORITY_SHIFT: u32 = 3;
/// Ids have ten bits.
const ID: u16 = 0x3ff;

impl From<Lr> for GichLr {
    #[inline(always)]
    fn from(lr: Lr) -> Self {
        Self::new()
            .with_virtual_id(lr.virtual_id() & u32::from(ID))
            .with_physical_id(lr.physical_id() & ID)
            .with_priority(lr.priority() >> PRIORITY_SHIFT)
            .with_state(lr.state())
            .with_group1(lr.group1())
            .with_hardware(lr.hardware())
    }
}

impl From<GichLr> for Lr {
    #[inline]
    fn from(lr: GichLr) -> Self {
        Self::new()
            .with_virtual_id(lr.virtual_id())
            .with_physical_id(lr.physical_id())
            .with_priority(lr.priority() << PRIORITY_SHIFT)
            .with_state(lr.state())
            .with_group1(lr.group1())
            .with_hardware(lr.hardware())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_architecture_has_them() {
        let hardware = Lr::new()
            .with_virtual_id(27)
            .with_physical_id(30)
            .with_hardware(true)
            .with_priority(0xa8)
            .with_state(LrState::Pending);
        let gich = GichLr::from(hardware).into_bits();
        assert_eq!(gich, 1 << 31 | 1 << 28 | 0x15 << 23 | 30 << 10 | 27);
        let sgi = Lr::new()
            .with_virtual_id(1)
            .with_eoi(true)
            .with_sender(5)
            .with_group1(true)
            .with_state(LrState::PendingActive);
        let gich = GichLr::from(sgi).into_bits();
        assert_eq!(gich, 1 << 30 | 3 << 28 | 1 << 19 | 5 << 10 | 1);
    }

    #[test]
    fn what_was_written_is_read_back() {
        for state in 0..4u64 {
            for upper in [0, 0x10f8_0207, 0x30f8_03ff, 0x2008_0000] {
                let lr = state << 62 | upper << 32 | 0x3ff;
                let gich = GichLr::from(Lr::from_bits(lr)).into_bits();
                assert_eq!(Lr::from(GichLr::from_bits(gich)).into_bits(), lr);
            }
        }
    }
}
