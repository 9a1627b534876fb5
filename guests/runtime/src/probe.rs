//! Instructions under observation: whether one faults, and how.

use crate::cpu;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

/// A synchronous exception that was caught.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// ESR_EL1.
    pub esr: u64,
    /// FAR_EL1; it only means something for aborts and PC alignment.
    pub far: u64,
    /// ELR_EL1: the instruction's address.
    pub elr: u64,
}

impl Fault {
    /// The exception class.
    pub fn class(&self) -> u64 {
        self.esr >> 26 & 0x3f
    }

    /// The fault status code of an abort.
    pub fn status(&self) -> u64 {
        self.esr & 0x3f
    }

    /// Whether an abort was caused by a write.
    pub fn is_write(&self) -> bool {
        self.esr & 1 << 6 != 0
    }

    /// The immediate of SVC, HVC, SMC and BRK.
    pub fn immediate(&self) -> u64 {
        self.esr & 0xffff
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "esr {:#x} far {:#x} elr {:#x}",
            self.esr, self.far, self.elr
        )
    }
}

/// Exception classes (DDI 0487, ESR_EL1.EC); for 32 bits, the ones that the vectors form.
pub mod class {
    pub use crate::arch::vectors::SVC;
    /// Unknown reason: UNDEFINED.
    pub const UNDEFINED: u64 = 0x00;
    /// Access to FP/SIMD while disabled.
    pub const FP_DISABLED: u64 = 0x07;
    /// Access to SVE while disabled.
    pub const SVE_DISABLED: u64 = 0x19;
    /// SME, disabled by CPACR_EL1.SMEN.
    pub const SME_DISABLED: u64 = 0x1d;
    /// Instruction abort, same level.
    pub const FETCH: u64 = 0x21;
    /// Misaligned PC.
    pub const PC_ALIGNMENT: u64 = 0x22;
    /// Data abort, same level.
    pub const DATA: u64 = 0x25;
    /// Misaligned stack pointer.
    pub const SP_ALIGNMENT: u64 = 0x26;
    /// Breakpoint, same level.
    pub const BREAKPOINT: u64 = 0x31;
    /// Software step, same level.
    pub const STEP: u64 = 0x33;
    /// Watchpoint, same level.
    pub const WATCHPOINT: u64 = 0x35;
    /// BRK of AArch64.
    pub const BRK: u64 = 0x3c;
}

/// Fault status codes (DDI 0487, ESR_EL1.ISS.DFSC).
pub mod status {
    /// Translation fault, level 0; others follow.
    pub const TRANSLATION: u64 = 0x04;
    /// Permission fault, level 3.
    pub const PERMISSION_3: u64 = 0x0f;
    /// Synchronous external abort, not on a walk.
    pub const EXTERNAL: u64 = 0x10;
    /// Synchronous external abort on a walk, level 0; others follow.
    pub const EXTERNAL_WALK: u64 = 0x14;
    /// Misaligned access.
    pub const ALIGNMENT: u64 = 0x21;
}

/// What the vectors make of a synchronous exception.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Catch {
    /// A probe expects it: it was noted.
    Expected,
    /// No probe expects an exception now.
    Unexpected,
}

/// Begins to catch; only for [`probe!`]. Returns where to store the address to continue at.
pub fn begin() -> *mut usize {
    let cpu = cpu::this();
    cpu.caught.store(false, Relaxed);
    cpu.recover.as_ptr()
}

/// What was caught since [`begin`].
pub fn end() -> Result<(), Fault> {
    let cpu = cpu::this();
    if !cpu.caught.swap(false, Relaxed) {
        return Ok(());
    }
    Err(Fault {
        esr: cpu.esr.load(Relaxed) as u64,
        far: cpu.far.load(Relaxed) as u64,
        elr: cpu.elr.load(Relaxed) as u64,
    })
}
