//! ESR_ELx: the exception class and the fields that every class has.

use bitfield_struct::{bitenum, bitfield};

/// ESR_ELx (DDI 0487 D24.2, ESR_EL2).
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct Esr {
    /// ISS: the fields that the class defines.
    #[bits(25)]
    pub iss: u32,
    /// Whether the instruction has 32 bits; else it has 16 (T32).
    pub long: bool,
    /// The exception class, EC.
    #[bits(6)]
    pub class: Class,
    /// ISS2: more fields that the class defines.
    #[bits(24)]
    pub iss2: u32,
    #[bits(8)]
    _res0: u8,
}

impl Esr {
    /// The length of the instruction in bytes, for classes whose exception is caused by an
    /// instruction.
    pub const fn instruction_length(&self) -> u64 {
        2 + 2 * self.long() as u64
    }
}

/// EC: the cause of an exception.
#[bitenum]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // the variants carry the manual's names; `Syndrome` explains them
pub enum Class {
    Unknown = 0x00,
    Wfx = 0x01,
    Cp15 = 0x03,
    Cp15Pair = 0x04,
    Cp14 = 0x05,
    Cp14Transfer = 0x06,
    FpAccess = 0x07,
    Vmrs = 0x08,
    PointerAuthentication = 0x09,
    OtherInstruction = 0x0a,
    Cp14Pair = 0x0c,
    BranchTarget = 0x0d,
    IllegalState = 0x0e,
    Svc32 = 0x11,
    Hvc32 = 0x12,
    Smc32 = 0x13,
    SystemRegister128 = 0x14,
    Svc64 = 0x15,
    Hvc64 = 0x16,
    Smc64 = 0x17,
    SystemRegister = 0x18,
    Sve = 0x19,
    Eret = 0x1a,
    TransactionStart = 0x1b,
    PointerAuthenticationFail = 0x1c,
    Sme = 0x1d,
    InstructionAbortLower = 0x20,
    InstructionAbortCurrent = 0x21,
    PcAlignment = 0x22,
    DataAbortLower = 0x24,
    DataAbortCurrent = 0x25,
    SpAlignment = 0x26,
    MemoryCopy = 0x27,
    FpException32 = 0x28,
    FpException64 = 0x2c,
    GuardedControlStack = 0x2d,
    SError = 0x2f,
    BreakpointLower = 0x30,
    BreakpointCurrent = 0x31,
    StepLower = 0x32,
    StepCurrent = 0x33,
    WatchpointLower = 0x34,
    WatchpointCurrent = 0x35,
    Bkpt32 = 0x38,
    VectorCatch32 = 0x3a,
    Brk64 = 0x3c,
    /// A value that none of the manuals read for this allocates.
    #[fallback]
    Reserved = 0x3f,
}

/// The exception level that an exception came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A lower exception level: at EL2 this is the guest, at EL1 the guest's user.
    Lower,
    /// The same exception level: at EL2 this is the hypervisor itself.
    Current,
}

/// The condition of a trapped AArch32 instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The syndrome does not tell the condition (CV = 0): the instruction must be read.
    Unknown,
    /// The condition as A32 encodes it; 0b1110 and above mean always. The flags may not satisfy it:
    /// then the instruction is to be skipped.
    Code(u8),
}

impl Condition {
    /// The condition that the five bits of CV and COND mean.
    pub(crate) const fn from_bits(bits: u8) -> Self {
        if bits & 0x10 == 0 {
            Self::Unknown
        } else {
            Self::Code(bits & 0xf)
        }
    }
}
