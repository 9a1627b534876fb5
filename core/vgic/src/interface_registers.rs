//! The names of the software CPU interface's registers, and the formats of those that have fields.

use crate::lr::Lr;
use bitfield_struct::bitfield;

/// One of the two groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Group 0.
    Zero,
    /// Group 1.
    One,
}

impl Group {
    pub(crate) const fn of(lr: Lr) -> Self {
        if lr.group1() { Self::One } else { Self::Zero }
    }
}

/// A register of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceRegister {
    /// GICC_CTLR, ICC_CTLR_EL1.
    Control,
    /// GICC_PMR, ICC_PMR_EL1.
    PriorityMask,
    /// GICC_BPR and GICC_ABPR, ICC_BPR0_EL1 and ICC_BPR1_EL1.
    BinaryPoint(Group),
    /// GICC_IAR and GICC_AIAR, ICC_IAR0_EL1 and ICC_IAR1_EL1.
    Acknowledge(Group),
    /// GICC_EOIR and GICC_AEOIR, ICC_EOIR0_EL1 and ICC_EOIR1_EL1.
    End(Group),
    /// GICC_RPR, ICC_RPR_EL1.
    RunningPriority,
    /// GICC_HPPIR and GICC_AHPPIR, ICC_HPPIR0_EL1 and ICC_HPPIR1_EL1.
    HighestPending(Group),
    /// GICC_APR0 (both groups') and GICC_NSAPR0 (zero), ICC_AP0R0_EL1 and ICC_AP1R0_EL1.
    ActivePriorities(Group),
    /// ICC_IGRPEN0_EL1 and ICC_IGRPEN1_EL1.
    GroupEnable(Group),
    /// GICC_DIR, ICC_DIR_EL1.
    Deactivate,
    /// GICC_IIDR.
    Identification,
}

impl InterfaceRegister {
    /// The register at an offset of a GICv2's frame GICC (IHI 0048B, table 4-2).
    pub const fn of_frame(offset: u64) -> Option<Self> {
        Some(match offset {
            0x00 => Self::Control,
            0x04 => Self::PriorityMask,
            0x08 => Self::BinaryPoint(Group::Zero),
            0x0c => Self::Acknowledge(Group::Zero),
            0x10 => Self::End(Group::Zero),
            0x14 => Self::RunningPriority,
            0x18 => Self::HighestPending(Group::Zero),
            0x1c => Self::BinaryPoint(Group::One),
            0x20 => Self::Acknowledge(Group::One),
            0x24 => Self::End(Group::One),
            0x28 => Self::HighestPending(Group::One),
            0xd0 => Self::ActivePriorities(Group::Zero),
            0xe0 => Self::ActivePriorities(Group::One),
            0xfc => Self::Identification,
            0x1000 => Self::Deactivate,
            _ => return None,
        })
    }
}

/// GICC_CTLR without security extensions (IHI 0048B, 4.4.1). A GICv3 has the parts of it in
/// ICC_CTLR_EL1 and ICC_IGRPEN<n>_EL1.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub(crate) struct Control {
    pub group0: bool,
    pub group1: bool,
    /// GICC_IAR also acknowledges interrupts of group 1.
    pub ack_ctl: bool,
    pub fiq: bool,
    /// Group 1 uses group 0's binary point.
    pub common_point: bool,
    #[bits(4)]
    __: u8,
    /// An end only drops the priority.
    pub eoi_mode: bool,
    #[bits(22)]
    __: u32,
}

/// ICC_CTLR_EL1 (IHI 0069H, 12.2.5).
#[bitfield(u32)]
pub(crate) struct IccControl {
    pub common_point: bool,
    pub eoi_mode: bool,
    #[bits(6)]
    __: u8,
    /// The number of bits of priority, minus one.
    #[bits(3, default = 4)]
    priority_bits: u8,
    #[bits(21)]
    __: u32,
}
