//! Self-hosted debug of an AArch64 guest (DDI 0487, D2): breakpoints, watchpoints, single steps.
//!
//! Every access to a debug register exits, always (MDCR_EL2.TDA, TDOSA, TDRA): what they do not
//! name would be the CPU's own, which the next VM on it would find, and what an external debugger
//! uses (the debug channel, MDSCR_EL1's other bits, the OS lock) could stop the CPU itself. So a
//! guest has breakpoints and watchpoints, which are in the CPU while its vCPU is, once it has set
//! one, and three bits of MDSCR_EL1. All else reads as zero and ignores writes.
//!
//! The OS lock is the vCPU's own, and the CPU's is never set: while a guest has its lock set, its
//! three bits are kept from the CPU, so that no debug event comes (D2.4, "OSLSR_EL1.OSLK").

use crate::{Action, Guest, Machine};
use hanok_decode::SysReg;
use hanok_hal::ListRegisters;

/// MDSCR_EL1.SS, KDE and MDE: a debug event may come.
const EVENTS: u64 = 1 | 1 << 13 | 1 << 15;
/// MDSCR_EL1.TDCC: EL0 may not reach the debug channel.
const TDCC: u64 = 1 << 12;
/// OSLSR_EL1: an OS lock is implemented (OSLM = 0b10).
const OSLM: u64 = 1 << 3;

/// A vCPU's debug registers that are no breakpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebugControl {
    /// MDSCR_EL1, the bits that it has.
    mdscr: u64,
    /// OSLSR_EL1.OSLK.
    locked: bool,
    /// Whether its breakpoints and watchpoints are in the CPU while it is: it has set one, or
    /// lets events come.
    pub in_use: bool,
}

impl DebugControl {
    /// Out of reset: locked, and nothing is on.
    pub(crate) const RESET: Self = Self {
        mdscr: 0,
        locked: true,
        in_use: false,
    };

    /// MDSCR_EL1, as the guest reads it.
    pub(crate) fn control(&self) -> u64 {
        self.mdscr
    }

    /// OSLSR_EL1, as the guest reads it.
    pub(crate) fn lock_status(&self) -> u64 {
        OSLM | u64::from(self.locked) << 1
    }

    /// MDSCR_EL1, as the CPU is to have it.
    fn in_cpu(&self) -> u64 {
        if self.locked {
            self.mdscr & TDCC
        } else {
            self.mdscr
        }
    }
}

impl<M: Machine, L: ListRegisters> Guest<'_, M, L> {
    pub(crate) fn set_os_lock(&mut self, locked: bool) -> Action {
        self.vcpu.debug.locked = locked;
        self.machine.set_debug_control(self.vcpu.debug.in_cpu());
        Action::Next
    }

    pub(crate) fn set_debug_control(&mut self, value: u64) -> Action {
        // Kernels clear it as they start: that needs no breakpoints.
        if value & EVENTS != 0 {
            self.use_debug();
        }
        self.vcpu.debug.mdscr = value & (EVENTS | TDCC);
        self.machine.set_debug_control(self.vcpu.debug.in_cpu());
        Action::Next
    }

    /// Whether the vCPU has this breakpoint or watchpoint register: DBGBVR, DBGBCR, DBGWVR and
    /// DBGWCR are op0 2, op1 0, CRn 0, op2 4 to 7, by CRm; ID_AA64DFR0_EL1 says how many there are
    /// of either (BRPs and WRPs, less one).
    pub(crate) fn has_debug(&self, id: SysReg) -> bool {
        if (id.op0(), id.op1(), id.crn()) != (2, 0, 0) || id.op2() < 4 {
            return false;
        }
        let last = match id.op2() {
            4 | 5 => self.machine.id_register(SysReg::ID_AA64DFR0_EL1) >> 12 & 0xf,
            _ => self.machine.id_register(SysReg::ID_AA64DFR0_EL1) >> 20 & 0xf,
        };
        u64::from(id.crm()) <= last
    }

    /// One that [`Self::has_debug`].
    pub(crate) fn debug_register(&self, id: SysReg) -> u64 {
        if self.vcpu.debug.in_use {
            self.machine.debug_register(id)
        } else {
            0
        }
    }

    /// One that [`Self::has_debug`]. Kernels clear all as they start: that is to cost nothing.
    pub(crate) fn set_debug_register(&mut self, id: SysReg, value: u64) -> Action {
        if value != 0 || self.vcpu.debug.in_use {
            self.use_debug();
            self.machine.set_debug_register(id, value);
        }
        Action::Next
    }

    /// What another vCPU left of breakpoints in the CPU goes, before this one uses some.
    fn use_debug(&mut self) {
        if !core::mem::replace(&mut self.vcpu.debug.in_use, true) {
            self.machine.clear_debug_registers();
        }
    }
}
