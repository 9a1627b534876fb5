//! The operations that the executive needs on a vCPU's registers: reset, loading into the CPU, saving, and
//! taking an exception.

use crate::aarch32::{self, Aarch32State};
use crate::context::El2Context;
use crate::debug::DebugState;
use crate::el1::{self, El1State};
use crate::fp::{self, FpState};
use crate::{Host, errors, inject, read, registers, traps, write};
use core::fmt::Arguments;
use hanok_arm_common::controls::Hcr;
use hanok_arm_common::mmu::stack_tops;
use hanok_arm_common::space;
use hanok_arm_common::sysreg::isb;
use hanok_hal::{Arrival, Backend, Context, FpGiven, GuestFault, GuestMemory, LateError, Start};
use hanok_types::{CpuId, Deadline, Regs};

/// PSTATE of a vCPU that starts: EL1h, D, A, I and F masked (arm64 boot protocol; DEN0022F
/// 6.4 for CPU_ON).
const START_PSTATE: u64 = 0x3c5;

impl Context<Host> for El2Context {
    const DIGITS: usize = 16;
    const SYNDROME: &'static str = "ESR_EL2";
    const ERROR: &'static str = "SError";

    #[inline(always)]
    fn regs(&self) -> &Regs {
        &self.regs
    }

    #[inline(always)]
    fn regs_mut(&mut self) -> &mut Regs {
        &mut self.regs
    }

    #[inline(always)]
    fn depart(&mut self) {}

    fn reset(&mut self, start: Start) {
        let Start {
            entry,
            mpidr,
            boots,
        } = start;
        self.hcr.remove(Hcr::VSE);
        self.regs = Regs::default();
        if self.is_aarch32() {
            self.regs.pc = entry.pc & !1;
            self.regs.pstate = aarch32::start_pstate(entry.pc);
            aarch32::start_registers(&mut self.regs.x, boots, entry.argument);
            self.el1 = El1State::reset(mpidr, aarch32::SCTLR_RESET);
        } else {
            self.regs.pc = entry.pc;
            self.regs.pstate = START_PSTATE;
            self.regs.x[0] = entry.argument;
            self.el1 = El1State::reset(mpidr, el1::SCTLR_RESET);
        }
        self.aarch32 = Aarch32State::default();
        self.fp = FpState::default();
        self.debug = DebugState::default();
    }

    #[inline(always)]
    fn save(&mut self, machine: &Host, debugs: bool) -> LateError {
        self.el1.save(machine.features.pointer_authentication);
        if self.is_aarch32() {
            self.aarch32.save_all();
        }
        write!("cntv_ctl_el0", 0);
        // A virtual SError that the guest has taken meanwhile is no longer pending.
        self.hcr
            .set(Hcr::VSE, read!("hcr_el2") & Hcr::VSE.bits() != 0);
        let late = errors::take(machine.planted.has_late_error());
        fp::close();
        if debugs {
            self.debug.save();
        }
        machine.reported(late)
    }

    fn load(&mut self, machine: &Host, arrival: Arrival) {
        let keys = machine.features.pointer_authentication;
        self.el1.load(arrival.space, self.hcr, keys);
        if arrival.stale {
            isb();
            space::forget_current_vmid_here();
        }
        if self.is_aarch32() {
            self.aarch32.load(self.el1.contextidr);
        }
        if arrival.debugs {
            self.debug.load();
        }
        if arrival.has_fp {
            fp::open();
        } else {
            fp::close();
        }
    }

    fn arrived(&self, _machine: &Host) {
        traps::forget_errors();
        isb();
    }

    fn discard(&mut self, machine: &Host) -> LateError {
        machine.stop_virtual_timer();
        let late = errors::take(false);
        fp::close();
        machine.reported(late)
    }

    fn hand_over_fp(owner: Option<&mut Self>, next: &mut Self) -> FpGiven {
        fp::open();
        if let Some(owner) = owner {
            owner.fp.save();
        }
        next.fp.load();
        FpGiven::Loaded
    }

    fn take_fp(&mut self) {
        fp::open();
        self.fp.save();
        fp::close();
    }

    fn comes_to(&mut self, cpu: CpuId) {
        self.stack = stack_tops(cpu).0;
    }

    fn virtual_timer_due(&self) -> Deadline {
        const ENABLE: u64 = 1;
        const IMASK: u64 = 1 << 1;
        Deadline::at(self.el1.cntv_cval).when(self.el1.cntv_ctl & (ENABLE | IMASK) == ENABLE)
    }

    /// A pending virtual SError also wakes the vCPU from WFI (DDI 0487, D1.6.2).
    fn has_pending_error(&self, resident: bool) -> bool {
        let hcr = if resident {
            read!("hcr_el2")
        } else {
            self.hcr.bits()
        };
        hcr & Hcr::VSE.bits() != 0
    }

    fn pend_error(&mut self) {
        self.hcr.insert(Hcr::VSE);
    }

    fn inject(&mut self, fault: GuestFault, memory: &impl GuestMemory) {
        inject::inject(self, fault, memory);
    }

    fn fetch_vector(&self) -> u64 {
        inject::fetch_vector(self)
    }

    fn copy_from_cpu(&mut self, machine: &Host) {
        self.el1.save(machine.features.pointer_authentication);
        if self.is_aarch32() {
            self.aarch32.save();
        }
    }

    fn storm_vector(&self) -> Option<u64> {
        registers::storm_vector(self)
    }

    fn describe(&self, say: impl Fn(Arguments<'_>)) {
        registers::describe(self, say);
    }
}
