//! A vCPU as this backend keeps it.

use crate::controls::Hcr;
use crate::fp::FpState;
use crate::lists::InterfaceState;
use crate::loading::Loading;
use crate::pl1::Pl1State;
use crate::trail::Trail;
use crate::unit::VmUnit;
use crate::{read, write};
use core::arch::asm;
use hanok_decode::{Psr, banked_register, mode};
use hanok_sched::Entity;
use hanok_types::{Deadline, Regs};
use hanok_vm::{Counters, Requests};

/// Registers that the trap entry saves: R0 to R12 and LR_usr.
const FRAME: usize = 14;
/// What R1 of a kernel means by "the device tree says it": no machine has this number
/// (Documentation/arch/arm/booting.rst).
const NO_MACHINE: u64 = 0xffff_ffff;

/// Registers of [`Vcpu::banked`]: those of the other modes, ELR_hyp and SPSR_hyp.
const BANKED: usize = 18;

/// A vCPU: the trap entry's registers first. Owned by its pCPU.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Vcpu {
    /// R0 to R12 and LR_usr as the trap entry stores and loads them.
    pub frame: [u32; FRAME],
    /// Top of the stack of the pCPU it runs on.
    pub stack: u64,
    /// The registers of the guest's other modes, and where it goes on, while the vCPU is
    /// `folded`: in the order of [`Self::unfold`].
    banked: [u32; BANKED],
    /// Whether its registers are in `frame` and `banked`: after an exit at which nobody looks at
    /// them, [`Self::regs`] would be in the way.
    folded: bool,
    /// All general registers between [`Self::arrive`] and [`Self::depart`], at the places that
    /// they have in AArch64.
    pub regs: Regs,
    /// Its VM.
    pub unit: &'static VmUnit,
    /// What counts its exits.
    pub counters: &'static Counters,
    /// What others ask of it.
    pub requests: &'static Requests,
    /// The core's part.
    pub core: hanok_vm::Vcpu,
    /// HCR while it runs.
    pub hcr: Hcr,
    /// Its place among its pCPU's vCPUs.
    pub entity: Entity,
    /// Whether it is in its VM: started, and not off.
    pub on: bool,
    /// Whether it waits for an interrupt.
    pub waiting: bool,
    /// Whether the policy was told that it has work.
    pub ready: bool,
    /// While it waits and is in no CPU: when one of its timers is due.
    pub wake_at: Deadline,
    /// The making of its VM's memory, which is the first vCPU's work.
    pub loading: Option<Loading>,
    /// Whether it was said in this life that its exception vector cannot be fetched.
    pub loop_noticed: bool,
    /// The VM's life in which it was last started.
    life: u32,
    /// Its latest exits.
    pub trail: Trail,
    /// PL1 registers while it is not in a CPU.
    pub pl1: Pl1State,
    /// The interrupt interface while it is not in a CPU.
    pub interface: InterfaceState,
    /// FP registers while they are not in a CPU.
    pub fp: FpState,
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

impl Vcpu {
    /// A vCPU that is off.
    pub fn new(unit: &'static VmUnit, core: hanok_vm::Vcpu, hcr: Hcr) -> Self {
        Self {
            frame: [0; FRAME],
            stack: 0,
            banked: [0; BANKED],
            folded: false,
            regs: Regs::default(),
            unit,
            counters: unit.vm.counters(core.id),
            requests: unit.vm.requests(core.id),
            core,
            hcr,
            entity: Entity::FIRST,
            on: false,
            waiting: false,
            ready: false,
            wake_at: Deadline::NEVER,
            loading: None,
            loop_noticed: false,
            life: 0,
            trail: Trail::new(),
            pl1: Pl1State::default(),
            interface: InterfaceState::default(),
            fp: FpState::default(),
        }
    }

    /// Its PSTATE.
    pub fn psr(&self) -> Psr {
        Psr::from_bits(self.regs.pstate as u32)
    }

    /// The general register that the syndrome of a data abort means, at its place in AArch64.
    pub fn register(&self, register: u8) -> u8 {
        banked_register(register, self.psr().mode())
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

    /// Takes them out of the CPU, and leaves them folded, where the exit is of a kind that looks
    /// at no register.
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

    /// Puts them back as [`Self::arrive_folded`] took them.
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

    /// Its registers, wherever they are.
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

    /// Somebody is going to look at its registers, or change them.
    pub fn unfold(&mut self) {
        self.regs = self.registers();
        self.folded = false;
    }

    /// Puts them back: the next return from Hyp mode by this vCPU's frame is to its guest.
    pub fn depart(&mut self) {
        if self.folded {
            return self.depart_folded();
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
        write!("elr_el2", regs.pc);
        write!("spsr_el2", regs.pstate);
    }

    /// When the virtual timer is to interrupt, by the registers as they were saved.
    pub fn virtual_timer_due(&self) -> Deadline {
        const ENABLE: u64 = 1;
        const IMASK: u64 = 1 << 1;
        Deadline::at(self.pl1.cntv_cval)
            .when(u64::from(self.pl1.cntv_ctl) & (ENABLE | IMASK) == ENABLE)
    }

    /// The state of a vCPU that starts at `entry`: Supervisor mode, all masked.
    ///
    /// The first one to start in a life is the VM's boot, by the protocol of Linux: the tree in
    /// R2. All others are started by CPU_ON, with its argument in R0 (DEN0022F 6.4).
    pub fn reset(&mut self, entry: hanok_vm::Entry) {
        let life = self.unit.vm.life().number();
        let boots = self.core.id.index() == 0 && self.life != life;
        self.life = life;
        self.core = hanok_vm::Vcpu::new(self.core.id);
        let psr = Psr::new()
            .with_mode(mode::SUPERVISOR)
            .with_thumb(entry.pc & 1 != 0)
            .with_abort_masked(true)
            .with_irq_masked(true)
            .with_fiq_masked(true);
        self.regs = Regs {
            pc: entry.pc & !1,
            pstate: psr.into_bits().into(),
            ..Regs::default()
        };
        // A firmware or an ELF file is told of no tree, and finds zeros, as on QEMU.
        if boots && entry.argument != 0 {
            self.regs.x[1] = NO_MACHINE;
            self.regs.x[2] = entry.argument;
        } else {
            self.regs.x[0] = entry.argument;
        }
        self.folded = false;
        self.hcr.remove(Hcr::VSE);
        self.pl1 = Pl1State::reset(self.core.mpidr());
        self.interface = InterfaceState::default();
        self.fp = FpState::default();
        self.loop_noticed = false;
        self.trail = Trail::new();
        self.waiting = false;
        self.wake_at = Deadline::NEVER;
    }
}
