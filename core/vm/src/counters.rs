//! What a vCPU's exits cost: how many there were by cause, and how many instructions of the
//! hypervisor's own each cause took.
//!
//! The pCPU that runs the vCPU counts; anybody may look. So a count is a plain load and
//! store of an atomic, with no read-modify-write: there is one writer at a time.

use crate::Exit;
use core::sync::atomic::{AtomicU64, Ordering};

/// Why the hypervisor ran on a vCPU's behalf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// HVC.
    Hypercall,
    /// SMC.
    MonitorCall,
    /// WFI.
    Wait,
    /// A load or store that stage 2 did not translate: a device, or nothing.
    Device,
    /// A fetch from where nothing is.
    Fetch,
    /// A trapped system register.
    SystemRegister,
    /// The first use of FP registers.
    Fp,
    /// An instruction that the VM does not have.
    Denied,
    /// The virtual timer's interrupt.
    Timer,
    /// Any other physical interrupt.
    Interrupt,
    /// An SError.
    SystemError,
    /// An exit that the configured traps cannot give.
    Unexpected,
}

impl Cause {
    /// How many there are.
    pub const COUNT: usize = 12;

    /// All of them, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Hypercall,
        Self::MonitorCall,
        Self::Wait,
        Self::Device,
        Self::Fetch,
        Self::SystemRegister,
        Self::Fp,
        Self::Denied,
        Self::Timer,
        Self::Interrupt,
        Self::SystemError,
        Self::Unexpected,
    ];

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Hypercall => "hypercall",
            Self::MonitorCall => "smc",
            Self::Wait => "wait",
            Self::Device => "device",
            Self::Fetch => "fetch",
            Self::SystemRegister => "register",
            Self::Fp => "fp",
            Self::Denied => "undefined",
            Self::Timer => "timer",
            Self::Interrupt => "interrupt",
            Self::SystemError => "serror",
            Self::Unexpected => "unexpected",
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
            Exit::Unexpected { .. } => Self::Unexpected,
        }
    }
}

/// One vCPU's counts since its VM was made.
#[derive(Debug, Default)]
pub struct Counters {
    exits: [AtomicU64; Cause::COUNT],
    instructions: [AtomicU64; Cause::COUNT],
}

impl Counters {
    /// An exit happened. On the vCPU's own pCPU.
    #[inline(always)]
    pub fn count(&self, cause: Cause) {
        add(&self.exits[cause as usize], 1);
    }

    /// The hypervisor executed `instructions` for it. On the vCPU's own pCPU.
    #[inline(always)]
    pub fn charge(&self, cause: Cause, instructions: u64) {
        add(&self.instructions[cause as usize], instructions);
    }

    /// How many exits there were for `cause`.
    pub fn exits(&self, cause: Cause) -> u64 {
        self.exits[cause as usize].load(Ordering::Relaxed)
    }

    /// How many instructions they took; zero where the CPU does not count them.
    pub fn instructions(&self, cause: Cause) -> u64 {
        self.instructions[cause as usize].load(Ordering::Relaxed)
    }
}

#[inline(always)]
fn add(count: &AtomicU64, more: u64) {
    let value = count.load(Ordering::Relaxed).wrapping_add(more);
    count.store(value, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_place() {
        let counters = Counters::default();
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, index);
            (0..=index).for_each(|_| counters.count(cause));
            counters.charge(cause, 100 * index as u64);
        }
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(counters.exits(cause), index as u64 + 1, "{}", cause.word());
            assert_eq!(counters.instructions(cause), 100 * index as u64);
        }
    }
}
