//! What follows from an instruction for the backend.

use crate::operations::{Barrier, CacheOperation, TlbOperation, Translation};
use crate::{TimerAccess, Vector};

/// What an instruction means for whoever runs the virtual CPU. Unless something else is said, the PC
/// is behind the instruction, and the instruction is done but for what the outcome names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The instruction is done, or its condition failed.
    Done,
    /// The mode or the masks may be others: an interrupt may be deliverable, and the rights of the
    /// guest may have changed.
    Changed,
    /// The same after an exception return: the PC is where the guest goes on. After an indirect
    /// branch mode and masks are what they were.
    Branched,
    /// The virtual CPU took an exception: the PC is at the vector.
    Taken(Vector),
    /// As [`Self::Taken`] with the vector of undefined instructions, by an instruction or register
    /// that no part of the virtual CPU knows: worth counting, since a guest may rely on it.
    Unknown,
    /// The memory asked to wait. Nothing has changed: the PC is at the instruction.
    Again,
    /// Address translation has changed, or is asked for.
    Mmu(MmuOperation),
    /// An operation on caches or branch predictors.
    Cache(CacheOperation),
    /// A barrier.
    Barrier(Barrier),
    /// VFP and Advanced SIMD may have been enabled or disabled
    /// ([`VirtualCpu::has_floating_point`](crate::VirtualCpu::has_floating_point)).
    FloatingPoint,
    /// The guest waits.
    Wait(Wait),
    /// SEV: an event for all CPUs of the VM.
    Event,
    /// YIELD: another vCPU may run.
    Yield,
    /// An access to the generic timer, which the caller carries out.
    Timer(TimerAccess),
    /// A call of the firmware. The arguments are in R0 to R3, which take the results.
    Firmware(Conduit),
}

/// What a guest waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// WFI: for an interrupt, masked or not.
    Interrupt,
    /// WFE: for an event or an interrupt.
    Event,
}

/// How a guest calls the firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conduit {
    /// HVC, with its immediate. The ID registers say that there is none, the device tree that the
    /// firmware is called so.
    Hvc(u16),
    /// SMC, with its immediate.
    Smc(u8),
}

/// What concerns address translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MmuOperation {
    /// A register that address translation depends on has another value now.
    Changed(RegimeChange),
    /// TLB entries become invalid.
    Tlb(TlbOperation),
    /// An address is to be translated; [`VirtualCpu::set_par`](crate::VirtualCpu::set_par) takes the
    /// answer.
    Translate(Translation),
}

/// A register that address translation depends on, and that has got another value. A write of the
/// value that is there already is [`Outcome::Done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegimeChange {
    /// SCTLR.
    Control {
        /// The bits that have changed.
        changed: u32,
    },
    /// TTBR0, TTBR1 or TTBCR: where the tables are.
    Tables,
    /// DACR: what the domains allow.
    Domains,
    /// PRRR or NMRR: what memory types mean.
    MemoryTypes,
    /// CONTEXTIDR, the address space's number; the ASID is its low byte.
    Context,
}
