//! Trapped AArch32 coprocessor instructions (DDI 0487 D24.2, ESR_EL2).

use crate::class::Condition;
use bitfield_struct::bitfield;

/// MCR, MRC or VMRS: one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coprocessor {
    /// The instruction's condition.
    pub condition: Condition,
    /// Opc1.
    pub opc1: u8,
    /// Opc2.
    pub opc2: u8,
    /// CRn.
    pub crn: u8,
    /// CRm.
    pub crm: u8,
    /// The general register, as an AArch64 register number.
    pub register: u8,
    /// Whether the instruction reads the coprocessor.
    pub read: bool,
}

/// MCRR or MRRC: two registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoprocessorPair {
    /// The instruction's condition.
    pub condition: Condition,
    /// Opc1.
    pub opc1: u8,
    /// CRm.
    pub crm: u8,
    /// The general registers, the low word's first, as AArch64 register numbers.
    pub registers: [u8; 2],
    /// Whether the instruction reads the coprocessor.
    pub read: bool,
}

/// LDC or STC: a transfer between memory and DBGDTR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoprocessorTransfer {
    /// The instruction's condition.
    pub condition: Condition,
    /// The offset, in words.
    pub offset: u8,
    /// Whether the offset is added; else it is subtracted.
    pub add: bool,
    /// The base register, as an AArch64 register number.
    pub base: u8,
    /// AM: the form of addressing.
    pub mode: u8,
    /// Whether the instruction reads the coprocessor, and so stores to memory.
    pub read: bool,
}

#[bitfield(u32)]
pub(crate) struct SingleIss {
    read: bool,
    #[bits(4)]
    crm: u8,
    #[bits(5)]
    register: u8,
    #[bits(4)]
    crn: u8,
    #[bits(3)]
    opc1: u8,
    #[bits(3)]
    opc2: u8,
    #[bits(5)]
    pub condition: u8,
    #[bits(7)]
    _upper: u8,
}

impl From<SingleIss> for Coprocessor {
    fn from(iss: SingleIss) -> Self {
        Self {
            condition: Condition::from_bits(iss.condition()),
            opc1: iss.opc1(),
            opc2: iss.opc2(),
            crn: iss.crn(),
            crm: iss.crm(),
            register: iss.register(),
            read: iss.read(),
        }
    }
}

#[bitfield(u32)]
pub(crate) struct PairIss {
    read: bool,
    #[bits(4)]
    crm: u8,
    #[bits(5)]
    register: u8,
    #[bits(5)]
    register2: u8,
    __: bool,
    #[bits(4)]
    opc1: u8,
    #[bits(5)]
    condition: u8,
    #[bits(7)]
    _upper: u8,
}

impl From<PairIss> for CoprocessorPair {
    fn from(iss: PairIss) -> Self {
        Self {
            condition: Condition::from_bits(iss.condition()),
            opc1: iss.opc1(),
            crm: iss.crm(),
            registers: [iss.register(), iss.register2()],
            read: iss.read(),
        }
    }
}

#[bitfield(u32)]
pub(crate) struct TransferIss {
    read: bool,
    #[bits(3)]
    mode: u8,
    add: bool,
    #[bits(5)]
    base: u8,
    #[bits(2)]
    __: u8,
    #[bits(8)]
    offset: u8,
    #[bits(5)]
    condition: u8,
    #[bits(7)]
    _upper: u8,
}

impl From<TransferIss> for CoprocessorTransfer {
    fn from(iss: TransferIss) -> Self {
        Self {
            condition: Condition::from_bits(iss.condition()),
            offset: iss.offset(),
            add: iss.add(),
            base: iss.base(),
            mode: iss.mode(),
            read: iss.read(),
        }
    }
}
