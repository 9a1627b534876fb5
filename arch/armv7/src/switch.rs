//! The operations that the executive needs on a vCPU's registers: reset, loading into the CPU, saving, and
//! taking an exception.
//!
//! At PL1 of a CPU without virtualization extensions no register of the CPU's is a guest's but those of User
//! mode and FP: the others are the virtual CPU's (`deprivileged`).

use crate::context::HypContext;
use crate::fp::{self, FpState};
use crate::pl1::Pl1State;
use crate::{Host, errors, inject, read, registers, write, write_own};
use core::fmt::Arguments;
use hanok_arm_common::controls::Hcr;
use hanok_arm_common::mmu::stack_tops;
use hanok_arm_common::privilege::is_deprivileged;
use hanok_arm_common::{space, sysreg};
use hanok_decode::{Psr, mode};
use hanok_hal::{
    Arrival, Backend, Context, Forgotten, FpGiven, GuestFault, GuestMemory, LateError, Start,
};
use hanok_types::{CpuId, Deadline, Regs};

/// What R1 of a kernel means by "the device tree says it": no machine has this number
/// (Documentation/arch/arm/booting.rst).
const NO_MACHINE: u64 = 0xffff_ffff;

impl Context<Host> for HypContext {
    const DIGITS: usize = 8;
    const SYNDROME: &'static str = "HSR";
    const ERROR: &'static str = "asynchronous abort";

    #[inline(always)]
    fn regs(&self) -> &Regs {
        &self.regs
    }

    #[inline(always)]
    fn regs_mut(&mut self) -> &mut Regs {
        &mut self.regs
    }

    fn depart(&mut self) {
        self.put_back();
    }

    /// Supervisor mode, all masked.
    ///
    /// The first one to start in a boot is the VM's own, by the protocol of Linux: the tree in
    /// R2. All others are started by CPU_ON, with its argument in R0 (DEN0022F 6.4).
    fn reset(&mut self, start: Start) {
        let Start {
            entry,
            mpidr,
            boots,
        } = start;
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
        // A firmware or an ELF file is not told where the device tree is: its registers are zero, as on
        // QEMU.
        if boots && entry.argument != 0 {
            self.regs.x[1] = NO_MACHINE;
            self.regs.x[2] = entry.argument;
        } else {
            self.regs.x[0] = entry.argument;
        }
        self.forget_folded();
        self.hcr.remove(Hcr::VSE);
        self.pl1 = Pl1State::reset(mpidr);
        self.fp = FpState::default();
        if let Some(own) = &mut self.deprivileged {
            own.reset(start);
            own.show(&mut self.regs);
        }
    }

    fn forget_pages(&mut self) -> Forgotten {
        let own = self.deprivileged.as_mut();
        own.map_or(Forgotten::All, |own| own.forget_pages())
    }

    fn save(&mut self, machine: &Host, _debugs: bool) -> LateError {
        if is_deprivileged() {
            return LateError::None;
        }
        self.pl1.save(machine.features.thumbee);
        write!("cntv_ctl_el0", 0);
        // A virtual abort that the guest has taken meanwhile is no longer pending.
        self.hcr
            .set(Hcr::VSE, read!("hcr_el2") & Hcr::VSE.bits() != 0);
        let late = errors::take(machine.planted.has_late_error());
        self.fp.close();
        machine.reported(late)
    }

    fn load(&mut self, machine: &Host, arrival: Arrival) {
        if let Some(own) = &mut self.deprivileged {
            own.has_fp = arrival.has_fp;
            return;
        }
        self.pl1.load(arrival.space, machine.features.thumbee);
        if arrival.stale {
            sysreg::isb();
            space::forget_current_vmid_here();
        }
        sysreg::clear_exclusive();
        // SAFETY: made by `Hcr::of_guest`: stage 2 and all traps are on while the guest runs.
        unsafe { write_own!("hcr_el2", self.hcr.bits()) };
        if arrival.has_fp {
            self.fp.open();
        } else {
            fp::close();
        }
    }

    fn arrived(&self, _machine: &Host) {
        sysreg::isb();
    }

    fn discard(&mut self, machine: &Host) -> LateError {
        machine.stop_virtual_timer();
        if is_deprivileged() {
            return LateError::None;
        }
        let late = errors::take(false);
        fp::close();
        machine.reported(late)
    }

    fn hand_over_fp(owner: Option<&mut Self>, next: &mut Self) -> FpGiven {
        let given = fp::hand_over(owner.map(|owner| &mut owner.fp), &next.fp);
        if let Some(own) = &mut next.deprivileged {
            own.has_fp = given == FpGiven::Loaded;
        }
        given
    }

    /// At PL1 vCPUs do not move: the tool refuses it.
    fn take_fp(&mut self) {
        // Whose they were is kept, and nobody's are left.
        let _ = fp::hand_over(Some(&mut self.fp), &FpState::default());
        fp::close();
    }

    fn comes_to(&mut self, cpu: CpuId) {
        self.stack = stack_tops(cpu).0;
    }

    /// At PL1 the guest's timers are emulated, and these registers are zero.
    fn virtual_timer_due(&self) -> Deadline {
        const ENABLE: u64 = 1;
        const IMASK: u64 = 1 << 1;
        Deadline::at(self.pl1.cntv_cval)
            .when(u64::from(self.pl1.cntv_ctl) & (ENABLE | IMASK) == ENABLE)
    }

    /// A pending virtual abort also wakes the vCPU from WFI (DDI 0406C, B1.8.13).
    fn has_pending_error(&self, resident: bool) -> bool {
        let hcr = if resident && !is_deprivileged() {
            read!("hcr_el2")
        } else {
            self.hcr.bits()
        };
        hcr & Hcr::VSE.bits() != 0
    }

    fn pend_error(&mut self) {
        self.hcr.insert(Hcr::VSE);
    }

    fn inject(&mut self, fault: GuestFault, _memory: &impl GuestMemory) {
        if let Some(own) = &mut self.deprivileged {
            return own.inject(&mut self.regs, fault);
        }
        inject::inject(self, fault);
    }

    fn fetch_vector(&self) -> u64 {
        match &self.deprivileged {
            Some(own) => own.fetch_vector().into(),
            None => inject::fetch_vector(),
        }
    }

    fn copy_from_cpu(&mut self, machine: &Host) {
        match &self.deprivileged {
            Some(own) => own.describe(&mut self.pl1),
            None => self.pl1.save(machine.features.thumbee),
        }
    }

    fn storm_vector(&self) -> Option<u64> {
        registers::storm_vector(self)
    }

    fn describe(&self, say: impl Fn(Arguments<'_>)) {
        registers::describe(self, say);
    }
}
