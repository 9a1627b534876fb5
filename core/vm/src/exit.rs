//! What a guest did, and what follows.

use core::fmt;
use hanok_decode::{Coprocessor, CoprocessorPair, SysReg};
use hanok_hal::GuestFault;
use hanok_trace::Cause;
use hanok_types::{GuestPage, Ipa, Width};

/// Why a vCPU left its guest, free of the architecture's encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// HVC: the function and its arguments are in X0 to X7.
    Hypercall,
    /// SMC.
    MonitorCall,
    /// WFI or WFE.
    Wait,
    /// A load or store that stage 2 did not translate.
    Data(DataAbort),
    /// A load or store that stage 2 translates, and that the memory there does not take (a
    /// misaligned one to a device's registers).
    Refused {
        /// Whether it was a store.
        write: bool,
    },
    /// An instruction fetch that stage 2 does not allow.
    Fetch {
        /// Where from.
        ipa: Ipa,
        /// Whether it was stage 1's walk that went there.
        walk: bool,
    },
    /// A read or write of a trapped system register.
    SystemRegister(SystemRegister),
    /// A trapped coprocessor instruction of AArch32 code, its condition passed.
    Coprocessor(CoprocessorAccess),
    /// An instruction that the VM does not have.
    Denied,
    /// A physical SError taken while the guest ran.
    SystemError,
    /// A reason that the configured traps cannot give. Whatever it was, an instruction of the
    /// guest's did it, which is undefined then; it is counted apart.
    Unexpected,
}

/// A load or store that stage 2 did not translate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataAbort {
    /// Where to.
    pub ipa: Ipa,
    /// Whether it was a store.
    pub write: bool,
    /// Whether it was stage 1's walk that went there.
    pub walk: bool,
    /// What the CPU says of the access, where it does.
    pub access: Option<MmioAccess>,
    /// The instruction, where the CPU says nothing.
    pub instruction: Instruction,
}

/// What is known of the instruction that made an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Nothing: it could not be read, or nobody needs it.
    Unknown,
    /// The word. Of T32 the first halfword is the upper half, and the lower one is what follows
    /// it, or anything where the instruction is of one halfword.
    Word(u32),
    /// It stands in this page of the VM's memory, which is not there.
    Absent(GuestPage),
}

impl From<Option<u32>> for Instruction {
    fn from(word: Option<u32>) -> Self {
        word.map_or(Self::Unknown, Self::Word)
    }
}

/// A single-register load or store, as the syndrome describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmioAccess {
    /// Bytes moved.
    pub width: Width,
    /// Register moved from or to; 31 is the zero register.
    pub register: u8,
    /// Whether a load extends the sign.
    pub sign_extend: bool,
    /// Whether a load fills 64 bits of the register (else it clears the upper half).
    pub wide: bool,
}

/// A trapped MRS or MSR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemRegister {
    /// Which register.
    pub id: SysReg,
    /// The general register moved from or to; 31 is the zero register.
    pub register: u8,
    /// Whether it was MSR.
    pub write: bool,
}

/// A trapped MCR, MRC, MCRR, MRRC or VMRS, by the coprocessor; the general registers in it are
/// AArch64's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoprocessorAccess {
    /// System control: a register of 32 bits.
    Cp15(Coprocessor),
    /// System control: a register of 64 bits.
    Cp15Pair(CoprocessorPair),
    /// Debug, trace and execution environments: a register of 32 bits.
    Cp14(Coprocessor),
    /// The same: a register of 64 bits.
    Cp14Pair(CoprocessorPair),
    /// VMRS of an ID register.
    Vmrs(Coprocessor),
}

/// What the backend does next with the vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Goes on where the program counter stands.
    Resume,
    /// Goes on after the instruction that made the exit.
    Next,
    /// Gives the guest an exception, at the instruction that made the exit.
    Inject(GuestFault),
    /// Does not go on until what it waits for has come; then where the program counter stands.
    Block(Wait),
    /// The same, and then after the instruction that made the exit.
    NextThenBlock(Wait),
    /// Goes on where the program counter stands, after others had their turn.
    Yield,
    /// Checks at its requests and its power state again before it goes on: it may be off.
    Reconsider,
}

/// What a vCPU waits for that does not go on.
///
/// Where it waits for anything but an interrupt, its exit has changed nothing, and the program
/// counter is where it was: the exit is done again once what it waited for has come. So whatever an
/// exit might have to wait for is looked at before anything is answered, changed or counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// An interrupt that is pending for it. What made the exit is done with.
    Interrupt,
    /// This page of its memory.
    Page(GuestPage),
    /// The reply of another VM, which does for it what it asked for.
    Reply,
    /// Time: it has used up what it may spend.
    Budget,
}

/// Why a VM was stopped for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// One of its images is not what the image tool wrote.
    Damaged {
        /// Which, in a word.
        kind: &'static str,
    },
    /// Every vCPU turned itself off, so that nothing can ever wake it.
    AllOff,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { kind } => write!(
                f,
                "its {kind} is damaged (its checksum is not that of the image tool): load the \
                 image again, or build it anew"
            ),
            Self::AllOff => f.write_str("every vCPU turned itself off"),
        }
    }
}

impl From<&Exit> for Cause {
    fn from(exit: &Exit) -> Self {
        match exit {
            Exit::Hypercall => Self::Hypercall,
            Exit::MonitorCall => Self::MonitorCall,
            Exit::Wait => Self::Wait,
            Exit::Data(_) | Exit::Refused { .. } => Self::Device,
            Exit::Fetch { .. } => Self::Fetch,
            Exit::SystemRegister(_) | Exit::Coprocessor(_) => Self::SystemRegister,
            Exit::Denied => Self::Denied,
            Exit::SystemError => Self::SystemError,
            Exit::Unexpected => Self::Unexpected,
        }
    }
}

/// What came of a try to handle something the short way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Attempt {
    /// It was handled.
    Done,
    /// Nothing has been done: it is to be handled the long way.
    Untouched,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_reason_says_what_is_wrong() {
        let damaged = StopReason::Damaged { kind: "kernel" }.to_string();
        assert!(damaged.starts_with("its kernel is damaged"), "{damaged}");
        assert_eq!(
            StopReason::AllOff.to_string(),
            "every vCPU turned itself off"
        );
    }
}
