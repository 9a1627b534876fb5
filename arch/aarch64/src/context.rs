//! A vCPU's registers. What the executive asks of them is in `switch.rs`.

use crate::aarch32::Aarch32State;
use crate::debug::DebugState;
use crate::el1::El1State;
use crate::fp::FpState;
use crate::stage1;
use hanok_arm_common::aborts::{Aborted, Untranslated};
use hanok_arm_common::controls::Hcr;
use hanok_decode::{Psr, syndrome_register};
use hanok_types::{Ipa, Regs};

/// A vCPU's registers: the general ones first, for the trap entry.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct El2Context {
    /// General registers while the guest does not run.
    pub regs: Regs,
    /// Top of the stack of the pCPU it runs on.
    pub stack: u64,
    /// HCR_EL2 while it runs.
    pub hcr: Hcr,
    /// EL1 registers while it is not in a CPU.
    pub el1: El1State,
    /// Registers that only AArch32 has, if its EL1 is AArch32.
    pub aarch32: Aarch32State,
    /// FP registers while they are not in a CPU.
    pub fp: FpState,
    /// Debug registers while they are not in a CPU.
    pub debug: DebugState,
}

impl El2Context {
    /// The registers of a vCPU that is off. `hcr` is HCR_EL2 for the guests of its pCPU, `aarch32` says
    /// whether its EL1 is AArch32, and `stack` is the top of the stack on which its exits are handled.
    pub fn new(hcr: Hcr, aarch32: bool, stack: u64) -> Self {
        Self {
            regs: Regs::default(),
            stack,
            hcr: if aarch32 { hcr - Hcr::RW } else { hcr },
            el1: El1State::default(),
            aarch32: Aarch32State::default(),
            fp: FpState::default(),
            debug: DebugState::default(),
        }
    }

    /// Whether its EL1 is AArch32.
    #[inline(always)]
    pub fn is_aarch32(&self) -> bool {
        !self.hcr.contains(Hcr::RW)
    }

    /// PSTATE of an AArch32 vCPU in the format of a CPSR.
    pub fn psr(&self) -> Psr {
        Psr::from_bits(self.regs.pstate as u32)
    }
}

impl Aborted for El2Context {
    fn translate(&self, at: u64) -> Result<Ipa, Untranslated> {
        stage1::translate(&self.regs, at)
    }

    fn fetch_address() -> u64 {
        stage1::fetch_address()
    }

    fn register(&self, register: u8) -> u8 {
        if self.regs.is_aarch32() {
            syndrome_register(register, self.psr().mode())
        } else {
            register
        }
    }
}
