//! The state of the software CPU interface beside its list registers, while its vCPU is not in a pCPU: in the
//! form of a GICv2's GICH registers, so that one record serves both kinds of interface.

use super::{Control, LEAST_POINTS, PRIORITY_MASK, SoftwareInterface};

/// The bits of [`Control`] that mean something.
const CONTROLS: u32 = 0x21f;

impl SoftwareInterface {
    /// The number of bits of a priority.
    pub const PRIORITY_BITS: u32 = PRIORITY_MASK.count_ones();

    /// The masks and settings, as GICH_VMCR has them of a GICv2's virtual interface (IHI 0048B, chapter 5.3).
    pub fn vmcr(&self) -> u32 {
        let [point, other] = self.points.map(u32::from);
        self.control.into_bits() | other << 18 | point << 21 | u32::from(self.mask >> 3) << 27
    }

    /// Restores the answer of [`Self::vmcr`]. What is in no field of it is as after a reset.
    pub fn set_vmcr(&mut self, value: u32) {
        // A GICv2's GICC_CTLR has its bits at the same places.
        self.control = Control::from_bits(value & CONTROLS);
        let field = |shift: u32, least: u8| ((value >> shift) as u8 & 7).max(least);
        self.points = [field(21, LEAST_POINTS[0]), field(18, LEAST_POINTS[1])];
        self.mask = (value >> 24) as u8 & PRIORITY_MASK;
    }

    /// The priorities of the active interrupts, one bit each, of a GICv2's guest.
    pub fn active_priorities(&self) -> u32 {
        self.active[0]
    }

    /// Restores the answer of [`Self::active_priorities`].
    pub fn set_active_priorities(&mut self, value: u32) {
        self.active = [value, 0];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::InterfaceRegister;
    use hanok_types::GicVersion;

    /// What is saved of one interface and restored in another is all that the guest set.
    #[test]
    fn another_interface_goes_on_with_what_was_saved() {
        use crate::interface::Group::{One, Zero};
        let written = [
            (InterfaceRegister::Control, 0x21f),
            (InterfaceRegister::PriorityMask, 0xa8),
            (InterfaceRegister::BinaryPoint(Zero), 5),
            (InterfaceRegister::BinaryPoint(One), 6),
            (InterfaceRegister::ActivePriorities(Zero), 0x8001_0000),
        ];
        let mut one = SoftwareInterface::new(GicVersion::V2);
        for (register, value) in written {
            one.set(register, value);
        }
        let mut other = SoftwareInterface::new(GicVersion::V2);
        other.set_vmcr(one.vmcr());
        other.set_active_priorities(one.active_priorities());
        assert_eq!(other.control.into_bits(), 0x21f);
        assert_eq!((other.mask, other.points), (0xa8, [5, 6]));
        assert_eq!(other.active, one.active);
    }

    /// Zero is the state after a reset, as of a vCPU that has not run.
    #[test]
    fn zero_is_a_reset() {
        let fresh = SoftwareInterface::new(GicVersion::V2);
        let mut other = SoftwareInterface::new(GicVersion::V2);
        other.set_vmcr(u32::MAX);
        other.set_vmcr(0);
        assert_eq!(other.vmcr(), fresh.vmcr());
    }
}
