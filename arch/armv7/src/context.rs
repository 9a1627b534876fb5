//! A vCPU's registers. What the executive asks of them is in `switch.rs`.

use crate::deprivileged::Deprivileged;
use crate::fp::FpState;
use crate::pl1::Pl1State;
use crate::{read, stage1, write, write_own};
use core::arch::asm;
use hanok_arm_common::aborts::{Aborted, Untranslated};
use hanok_arm_common::controls::Hcr;
use hanok_arm_common::privilege::is_deprivileged;
use hanok_decode::{Psr, banked_register};
use hanok_types::{Ipa, Regs};

/// Registers that the trap entry saves: R0 to R12 and LR_usr.
const FRAME: usize = 14;
/// Registers of [`Vcpu::banked`]: those of the other modes, ELR_hyp and SPSR_hyp.
const BANKED: usize = 18;

/// A vCPU's registers; what the trap entry stores comes first.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct HypContext {
    /// R0 to R12 and LR_usr as the trap entry stores and loads them.
    pub frame: [u32; FRAME],
    /// Top of the stack of the pCPU it runs on.
    pub stack: u64,
    /// The registers of the guest's other modes, and its program counter and status, while the vCPU is
    /// `folded`: in the order of [`Self::unfold`].
    banked: [u32; BANKED],
    /// Whether its registers are in `frame` and `banked`, as after an exit that needs none of them, so that
    /// they are not copied to [`Self::regs`] and back in vain.
    folded: bool,
    /// All general registers between [`Self::arrive`] and [`Self::depart`], at the places that
    /// they have in AArch64.
    pub regs: Regs,
    /// HCR while it runs.
    pub hcr: Hcr,
    /// PL1 registers while it is not in a CPU.
    pub pl1: Pl1State,
    /// FP registers while they are not in a CPU.
    pub fp: FpState,
    /// What it has at PL1 of a CPU without virtualization extensions.
    pub deprivileged: Option<&'static mut Deprivileged>,
}

macro_rules! banked {
    ($do:ident) => {
        $do!(
            13 "sp_usr", 16 "lr_irq", 17 "sp_irq", 18 "lr_svc", 19 "sp_svc", 20 "lr_abt",
            21 "sp_abt", 22 "lr_und", 23 "sp_und", 24 "r8_fiq", 25 "r9_fiq", 26 "r10_fiq",
            27 "r11_fiq", 28 "r12_fiq", 29 "sp_fiq", 30 "lr_fiq"
        )
    };
}

impl HypContext {
    /// The registers of a vCPU that is off. `hcr` is HCR for the guests of its pCPU, and `stack` the top of
    /// the stack on which its exits are handled; its EL1 is always AArch32.
    pub fn new(hcr: Hcr, _aarch32: bool, stack: u64) -> Self {
        Self {
            frame: [0; FRAME],
            stack,
            banked: [0; BANKED],
            folded: false,
            regs: Regs::default(),
            hcr,
            pl1: Pl1State::default(),
            fp: FpState::default(),
            deprivileged: None,
        }
    }

    /// Its PSTATE.
    pub fn psr(&self) -> Psr {
        Psr::from_bits(self.regs.pstate as u32)
    }

    /// Takes all general registers out of the CPU and the frame. At an exit of this vCPU.
    pub fn arrive(&mut self) {
        self.folded = false;
        let regs = &mut self.regs;
        for (to, from) in regs.x.iter_mut().zip(self.frame.iter().take(FRAME - 1)) {
            *to = u64::from(*from);
        }
        regs.x[14] = u64::from(self.frame[FRAME - 1]);
        macro_rules! take {
            ($($index:literal $register:tt),*) => { $(regs.x[$index] = read!($register);)* };
        }
        banked!(take);
        regs.pc = read!("elr_el2");
        regs.pstate = read!("spsr_el2");
    }

    /// Takes all general registers out of the CPU, and leaves them folded, at an exit whose handling
    /// needs none of them.
    pub fn arrive_folded(&mut self) {
        self.folded = true;
        // SAFETY: `banked` has room for three times six registers, which are written in the order
        // that `unfold` knows; reading a banked register changes nothing (DDI 0406C, B9.3.9).
        unsafe {
            asm!(
                ".arch_extension virt",
                "mrs r1, sp_usr", "mrs r2, lr_irq", "mrs r3, sp_irq",
                "mrs r4, lr_svc", "mrs r5, sp_svc", "mrs r8, lr_abt",
                "stmia {at}!, {{r1, r2, r3, r4, r5, r8}}",
                "mrs r1, sp_abt", "mrs r2, lr_und", "mrs r3, sp_und",
                "mrs r4, r8_fiq", "mrs r5, r9_fiq", "mrs r8, r10_fiq",
                "stmia {at}!, {{r1, r2, r3, r4, r5, r8}}",
                "mrs r1, r11_fiq", "mrs r2, r12_fiq", "mrs r3, sp_fiq",
                "mrs r4, lr_fiq", "mrs r5, elr_hyp", "mrs r8, spsr_hyp",
                "stmia {at}!, {{r1, r2, r3, r4, r5, r8}}",
                at = inout(reg) self.banked.as_mut_ptr() => _,
                out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _, out("r8") _,
                options(nostack, preserves_flags)
            );
        }
    }

    /// Puts the registers back into the CPU that [`Self::arrive_folded`] took out.
    fn depart_folded(&mut self) {
        self.folded = false;
        // SAFETY: what was taken out of the same registers of this vCPU, in the same order; none
        // of them is Hyp mode's own stack pointer.
        unsafe {
            asm!(
                ".arch_extension virt",
                "ldmia {at}!, {{r1, r2, r3, r4, r5, r8}}",
                "msr sp_usr, r1", "msr lr_irq, r2", "msr sp_irq, r3",
                "msr lr_svc, r4", "msr sp_svc, r5", "msr lr_abt, r8",
                "ldmia {at}!, {{r1, r2, r3, r4, r5, r8}}",
                "msr sp_abt, r1", "msr lr_und, r2", "msr sp_und, r3",
                "msr r8_fiq, r4", "msr r9_fiq, r5", "msr r10_fiq, r8",
                "ldmia {at}!, {{r1, r2, r3, r4, r5, r8}}",
                "msr r11_fiq, r1", "msr r12_fiq, r2", "msr sp_fiq, r3",
                "msr lr_fiq, r4", "msr elr_hyp, r5", "msr spsr_hyp, r8",
                at = inout(reg) self.banked.as_ptr() => _,
                out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _, out("r8") _,
                options(nostack, preserves_flags)
            );
        }
    }

    /// Puts all general registers into the CPU and the frame, from where the guest goes on.
    pub fn put_back(&mut self) {
        if self.folded {
            return self.depart_folded();
        }
        // Nothing is folded at PL1, and an exit of Hyp mode that folds does not ask.
        if is_deprivileged() {
            return;
        }
        let regs = &self.regs;
        for (from, to) in regs.x.iter().zip(self.frame.iter_mut().take(FRAME - 1)) {
            *to = *from as u32;
        }
        self.frame[FRAME - 1] = regs.x[14] as u32;
        macro_rules! give {
            ($($index:literal $register:tt),*) => { $(write!($register, regs.x[$index]);)* };
        }
        banked!(give);
        // SAFETY: used by the return to the guest alone, whose program counter it is.
        unsafe { write_own!("elr_el2", regs.pc) };
        // SAFETY: as above; a vCPU's PSTATE names no mode but its own (PL1 and PL0).
        unsafe { write_own!("spsr_el2", regs.pstate) };
    }

    /// A copy of its registers, folded or not.
    pub fn registers(&self) -> Regs {
        if !self.folded {
            return self.regs;
        }
        let mut regs = Regs::default();
        let frame = self.frame.iter().take(FRAME - 1);
        for (to, from) in regs.x.iter_mut().zip(frame) {
            *to = u64::from(*from);
        }
        regs.x[14] = u64::from(self.frame[FRAME - 1]);
        // From here on in the order of AArch64's places.
        regs.x[13] = u64::from(self.banked[0]);
        for (to, from) in regs.x.iter_mut().skip(16).zip(&self.banked[1..]) {
            *to = u64::from(*from);
        }
        [regs.pc, regs.pstate] = [self.banked[BANKED - 2], self.banked[BANKED - 1]].map(u64::from);
        regs
    }

    /// [`Self::regs`] has the registers from now on, whatever was folded.
    pub fn forget_folded(&mut self) {
        self.folded = false;
    }

    /// Copies folded registers to [`Self::regs`], in which they can be read and changed.
    pub fn unfold(&mut self) {
        self.regs = self.registers();
        self.folded = false;
    }
}

impl Aborted for HypContext {
    fn translate(&self, at: u64) -> Result<Ipa, Untranslated> {
        stage1::translate(self.psr(), at)
    }

    fn fetch_address() -> u64 {
        stage1::fetch_address()
    }

    /// The number in AArch64 of the register that the syndrome means.
    fn register(&self, register: u8) -> u8 {
        banked_register(register, self.psr().mode())
    }
}
