//! Why the guest was stopped, and what follows for the backend.

use hanok_cpu32::{TimerAccess, Wait};
use hanok_types::{GuestPage, Ipa};

/// The exception by which the guest left User mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// An undefined instruction.
    Undefined,
    /// SVC.
    SupervisorCall,
    /// A fetch was refused.
    PrefetchAbort {
        /// IFSR.
        status: u32,
        /// IFAR.
        address: u32,
    },
    /// A load or store was refused.
    DataAbort {
        /// DFSR.
        status: u32,
        /// DFAR.
        address: u32,
    },
}

/// An access to what is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Where it goes.
    pub at: Ipa,
    /// Whether it is a store.
    pub write: bool,
    /// The instruction: an A32 word, or two halfwords of T32, the first one in the upper half.
    pub instruction: u32,
}

/// Why a VM cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It uses long descriptors.
    LongDescriptors,
    /// The code at the PC cannot be proven.
    Unproven {
        /// The address in the guest's memory.
        at: Ipa,
    },
    /// It maps all places of the hypervisor's window.
    NoWindow,
}

impl Stopped {
    /// The reason, for a person.
    pub const fn words(&self) -> &'static str {
        match self {
            Self::LongDescriptors => {
                "its kernel wants long descriptors (LPAE), which CPUs without virtualization \
                 extensions do not have: give it a kernel without LPAE"
            }
            Self::Unproven { .. } => {
                "its kernel executes code that contradicts itself, so that nobody knows what it is"
            }
            Self::NoWindow => {
                "its kernel has something in each of the megabytes from 0xff000000 to 0xffe00000, \
                 of which the hypervisor needs one"
            }
        }
    }
}

/// What the backend is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// Enter the guest.
    Resume,
    /// Carry out an access to a device; the PC is at the instruction.
    Device(Device),
    /// A fetch from what is no memory; the PC is at the instruction.
    Fetch(Ipa),
    /// The page is absent; the PC is at the instruction.
    Page(GuestPage),
    /// A hypercall; the PC is behind the instruction.
    Hypercall,
    /// The guest waits; the PC is behind the instruction.
    Wait(Wait),
    /// Others may run; the PC is behind the instruction.
    Yield,
    /// An access to the timer; the PC is behind the instruction, and
    /// [`Monitor::finish_timer`](crate::Monitor::finish_timer) takes a value that was read.
    Timer(TimerAccess),
    /// The first use of VFP or Advanced SIMD since the vCPU came; the PC is at the instruction.
    FloatingPoint,
    /// An external abort that came late.
    SystemError,
    /// The VM cannot go on.
    Stop(Stopped),
}
