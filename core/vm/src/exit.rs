//! Exits, and the actions that answer them.

use core::fmt;
use hanok_decode::{Coprocessor, CoprocessorPair, General, SysReg};
use hanok_hal::GuestFault;
use hanok_trace::Cause;
use hanok_types::{GuestPage, Ipa, Width};

/// The cause of an exit, in words of no architecture.
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
    /// A load or store that stage 2 translates and that the memory there does not support (such as
    /// a misaligned one to a device's registers).
    Refused {
        /// Whether it was a store.
        write: bool,
    },
    /// An instruction fetch that stage 2 does not allow.
    Fetch {
        /// The address of the instruction.
        ipa: Ipa,
        /// Whether stage 1's walk made the access.
        walk: bool,
    },
    /// An access to a trapped system register.
    SystemRegister(SystemRegister),
    /// A trapped coprocessor instruction of AArch32 code whose condition passed.
    Coprocessor(CoprocessorAccess),
    /// An instruction that the VM does not have.
    Denied,
    /// A physical SError taken while the guest ran.
    SystemError,
    /// An exit that cannot come with the configured traps. An instruction of the guest caused it,
    /// and is undefined therefore; such exits have a counter of their own.
    Unexpected,
}

/// A load or store that stage 2 did not translate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataAbort {
    /// The address of the access.
    pub ipa: Ipa,
    /// Whether the access was a store.
    pub write: bool,
    /// Whether stage 1's walk made the access.
    pub walk: bool,
    /// The access, if the syndrome describes it.
    pub access: Option<MmioAccess>,
    /// The instruction, if the syndrome does not describe the access.
    pub instruction: Instruction,
    /// The bytes from the start of the access's page on that lie one behind the other in these addresses as they do in the
    /// guest's own: those of one page, or of two where an access may reach into the second one.
    pub reach: u64,
}

impl DataAbort {
    /// The fault that the guest gets if nothing answers.
    pub(crate) const fn unanswered(&self) -> GuestFault {
        let Self { write, walk, .. } = *self;
        GuestFault::ExternalData { write, walk }
    }
}

/// What is known of the instruction that caused an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Nothing: it could not be read, or is not needed.
    Unknown,
    /// The word. For T32, the upper half is the first halfword; the lower half is the one after it,
    /// and may be anything if the instruction has one halfword.
    Word(u32),
    /// It is in this page of the VM's memory, which is absent.
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
    /// The width of the transfer.
    pub width: Width,
    /// The register; 31 is the zero register.
    pub register: u8,
    /// Whether a load extends the sign.
    pub sign_extend: bool,
    /// Whether a load fills 64 bits of the register; else it clears the upper half.
    pub wide: bool,
}

impl MmioAccess {
    /// How the access fills the register, or what it stores of it.
    pub(crate) const fn general(&self) -> General {
        General {
            width: self.width,
            sign_extend: self.sign_extend,
            wide: self.wide,
        }
    }
}

/// A trapped MRS or MSR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemRegister {
    /// The system register.
    pub id: SysReg,
    /// The general register; 31 is the zero register.
    pub register: u8,
    /// Whether the instruction writes the system register (MSR).
    pub write: bool,
}

/// A trapped MCR, MRC, MCRR, MRRC or VMRS, by its coprocessor. The general registers in it are
/// AArch64 registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoprocessorAccess {
    /// System control: a register of 32 bits.
    Cp15(Coprocessor),
    /// System control: a register of 64 bits.
    Cp15Pair(CoprocessorPair),
    /// Debug, trace and execution environments: a register of 32 bits.
    Cp14(Coprocessor),
    /// Debug, trace and execution environments: a register of 64 bits.
    Cp14Pair(CoprocessorPair),
    /// VMRS of an ID register.
    Vmrs(Coprocessor),
}

/// What the backend does next with the vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The vCPU goes on at its program counter.
    Resume,
    /// The vCPU goes on after the instruction that caused the exit.
    Next,
    /// The vCPU takes an exception at the instruction that caused the exit.
    Inject(GuestFault),
    /// The vCPU waits, and then goes on at its program counter.
    Block(Wait),
    /// The vCPU waits, and then goes on after the instruction that caused the exit.
    NextThenBlock(Wait),
    /// The vCPU goes on at its program counter, after other vCPUs had their turns.
    Yield,
    /// The vCPU's requests and its power state are checked before it goes on: it may be off.
    Reconsider,
    /// The vCPU called a function of `hanok_abi::schedule`: by the device's registers, if a call was made there
    /// ([`Vcpu::schedule`](crate::Vcpu)), else by its own. Its answer is put there, and the vCPU goes on.
    Schedule {
        /// Whether it goes on after the instruction that caused the exit, and not at its program counter.
        next: bool,
    },
    /// The vCPU has accessed a device that is shared, and there is work of it to do: a piece now, and the access is
    /// made again if there is more.
    Serve {
        /// The index of the slot.
        slot: u8,
        /// Whether the vCPU goes on after the instruction that caused the exit when all is done.
        next: bool,
    },
}

/// What a blocked vCPU waits for.
///
/// If it waits for anything but an interrupt, its exit has changed nothing, and the program counter
/// is where it was: the exit is done again after the wait. So everything that an exit may have to
/// wait for is checked before anything is answered, changed or counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// An interrupt that is pending for the vCPU. The exit is finished.
    Interrupt,
    /// This page of the VM's memory.
    Page(GuestPage),
    /// The reply of another VM to a request.
    Reply,
    /// Time: the vCPU has used its budget.
    Budget,
}

/// The reason why a VM was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// One of its images differs from the one that the image tool wrote.
    Damaged {
        /// The kind of the image, in a word.
        kind: &'static str,
    },
    /// Every vCPU turned itself off, so that nothing can ever wake the VM.
    AllOff,
    /// A vCPU does what cannot be shown to it on CPUs without virtualization extensions.
    #[cfg(any(test, feature = "software-interface"))]
    Unsupported {
        /// What that is.
        what: &'static str,
        /// Its program counter.
        pc: u32,
        /// The instruction there; zero if it could not be read.
        instruction: u32,
    },
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
            #[cfg(any(test, feature = "software-interface"))]
            Self::Unsupported {
                what,
                pc,
                instruction,
            } => write!(f, "{what}, at {pc:#x}: {instruction:#x}"),
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

/// Nothing answers at the address of an access. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoAnswer;

/// The outcome of an attempt to handle something on a fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Attempt {
    /// It was handled.
    Done,
    /// Nothing has been done: the slow path must handle it.
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
