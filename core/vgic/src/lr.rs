//! The format of a list register (IHI 0069, 12.4, `ICH_LR<n>_EL2`).

use bitfield_struct::bitfield;
use hanok_types::IntId;

/// The state of the interrupt in a list register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LrState {
    /// There is none: the register is free.
    Invalid = 0,
    /// Pending.
    Pending = 1,
    /// Active.
    Active = 2,
    /// Active, and pending again.
    PendingActive = 3,
}

impl LrState {
    pub(crate) const fn new(pending: bool, active: bool) -> Self {
        Self::from_bits(pending as u8 | (active as u8) << 1)
    }

    pub(crate) const fn into_bits(self) -> u8 {
        self as u8
    }

    pub(crate) const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Invalid,
            1 => Self::Pending,
            2 => Self::Active,
            _ => Self::PendingActive,
        }
    }
}

/// The value of one list register.
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct Lr {
    /// The virtual interrupt's id.
    pub virtual_id: u32,
    /// With `hardware`, the physical interrupt's id; otherwise see [`Self::eoi`] and
    /// [`Self::sender`].
    #[bits(13)]
    pub physical_id: u16,
    #[bits(3)]
    __: u8,
    /// The priority, lower is more urgent.
    pub priority: u8,
    #[bits(4)]
    __: u8,
    /// Whether the interrupt is in group 1.
    pub group1: bool,
    /// Whether the guest's deactivation also deactivates `physical_id`.
    pub hardware: bool,
    /// The state, pending and active.
    #[bits(2)]
    pub state: LrState,
}

impl Lr {
    /// Bit 41: without `hardware`, asks for a maintenance interrupt at the deactivation.
    const EOI: u16 = 1 << 9;
    /// Bits 34:32.
    const SENDER: u16 = 7;

    /// Whether the deactivation causes a maintenance interrupt.
    pub const fn eoi(self) -> bool {
        !self.hardware() && self.physical_id() & Self::EOI != 0
    }

    /// Sets whether the deactivation causes a maintenance interrupt; clears `hardware`.
    pub const fn with_eoi(self, eoi: bool) -> Self {
        self.with_hardware(false)
            .with_physical_id(if eoi { Self::EOI } else { 0 })
    }

    /// For an SGI of a GICv2, which has no `hardware`, the vCPU that sent it: the CPUID of
    /// GICH_LR<n> (IHI 0048B), at the same bits as the physical id.
    pub const fn sender(self) -> u8 {
        (self.physical_id() & Self::SENDER) as u8
    }

    /// Sets the vCPU that sent an SGI. [`Self::with_eoi`] clears it.
    pub const fn with_sender(self, sender: u8) -> Self {
        let kept = self.physical_id() & !Self::SENDER;
        self.with_physical_id(kept | sender as u16 & Self::SENDER)
    }

    /// The virtual interrupt.
    pub const fn id(self) -> IntId {
        IntId::new(self.virtual_id())
    }

    /// Whether the register holds an interrupt.
    pub fn is_valid(self) -> bool {
        self.state() != LrState::Invalid
    }

    /// Whether its interrupt is pending.
    pub fn is_pending(self) -> bool {
        matches!(self.state(), LrState::Pending | LrState::PendingActive)
    }

    /// Whether its interrupt is active.
    pub fn is_active(self) -> bool {
        matches!(self.state(), LrState::Active | LrState::PendingActive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_architecture_has_them() {
        let lr = Lr::new()
            .with_virtual_id(27)
            .with_physical_id(30)
            .with_hardware(true)
            .with_group1(true)
            .with_priority(0xa0)
            .with_state(LrState::Pending);
        assert_eq!(lr.into_bits(), 0x70a0_001e_0000_001b);
    }

    #[test]
    fn eoi_is_bit_41_and_excludes_hardware() {
        let lr = Lr::new().with_hardware(true).with_eoi(true);
        assert_eq!(lr.into_bits(), 1 << 41);
        assert!(lr.eoi() && !lr.with_hardware(true).eoi());
    }

    #[test]
    fn the_sender_is_at_bit_32_beside_eoi() {
        let lr = Lr::new().with_eoi(true).with_sender(5);
        assert_eq!(lr.into_bits(), 1 << 41 | 5 << 32);
        assert_eq!((lr.sender(), lr.with_sender(2).sender()), (5, 2));
    }
}
