//! Self-hosted debug of an AArch64 guest (DDI 0487, D2): breakpoints, watchpoints, single steps.
//!
//! Every access to a debug register exits (MDCR_EL2.TDA, TDOSA, TDRA). A register that this code
//! does not handle would be the CPU's own, whose value the next VM would find; and what an external
//! debugger uses (the debug channel, the other bits of MDSCR_EL1, the OS lock) could stop the CPU
//! itself. So a guest has breakpoints and watchpoints, which are in the CPU together with the vCPU
//! once it has set one, and three bits of MDSCR_EL1. All other registers read as zero and ignore
//! writes.
//!
//! Each vCPU has an OS lock of its own; the CPU's is never set. While a guest's lock is set, its
//! three bits are not written to the CPU, so that no debug event occurs (D2.4, "OSLSR_EL1.OSLK").

use crate::{Action, Guest, Machine};
use hanok_decode::SysReg;
use hanok_vgic::GuestInterface;

/// MDSCR_EL1.SS, KDE and MDE: each enables debug events.
const EVENTS: u64 = 1 | 1 << 13 | 1 << 15;
/// MDSCR_EL1.TDCC: EL0 may not access the debug channel.
const TDCC: u64 = 1 << 12;
/// OSLSR_EL1: an OS lock is implemented (OSLM = 0b10).
const OSLM: u64 = 1 << 3;

/// The debug registers of a vCPU, without breakpoints and watchpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebugControl {
    /// The bits of MDSCR_EL1 that the vCPU has.
    mdscr: u64,
    /// OSLSR_EL1.OSLK.
    locked: bool,
    /// Whether its breakpoints and watchpoints are in the CPU whenever the vCPU is: it has set one,
    /// or has enabled debug events.
    pub in_use: bool,
}

impl DebugControl {
    /// The state after a reset: the lock is set, and no event is enabled.
    pub(crate) const RESET: Self = Self {
        mdscr: 0,
        locked: true,
        in_use: false,
    };

    /// The value of MDSCR_EL1 for the guest.
    pub(crate) fn control(&self) -> u64 {
        self.mdscr
    }

    /// The value of OSLSR_EL1 for the guest.
    pub(crate) fn lock_status(&self) -> u64 {
        OSLM | u64::from(self.locked) << 1
    }

    /// The value of MDSCR_EL1 for the CPU.
    fn in_cpu(&self) -> u64 {
        if self.locked {
            self.mdscr & TDCC
        } else {
            self.mdscr
        }
    }
}

impl<M: Machine, L: GuestInterface> Guest<'_, M, L> {
    pub(crate) fn set_os_lock(&mut self, locked: bool) -> Action {
        self.vcpu.debug.locked = locked;
        self.machine.set_debug_control(self.vcpu.debug.in_cpu());
        Action::Next
    }

    pub(crate) fn set_debug_control(&mut self, value: u64) -> Action {
        // Kernels clear the register when they start; that needs no breakpoints.
        if value & EVENTS != 0 {
            self.use_debug();
        }
        self.vcpu.debug.mdscr = value & (EVENTS | TDCC);
        self.machine.set_debug_control(self.vcpu.debug.in_cpu());
        Action::Next
    }

    /// Whether the vCPU has this breakpoint or watchpoint register. DBGBVR, DBGBCR, DBGWVR and
    /// DBGWCR are op0 2, op1 0, CRn 0, op2 4 to 7, with their number in CRm. ID_AA64DFR0_EL1 tells
    /// how many there are of each kind (BRPs and WRPs, minus one).
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

    /// The value of a register that [`Self::has_debug`].
    pub(crate) fn debug_register(&self, id: SysReg) -> u64 {
        if self.vcpu.debug.in_use {
            self.machine.debug_register(id)
        } else {
            0
        }
    }

    /// Writes a register that [`Self::has_debug`]. Kernels clear all of them when they start, and
    /// that must not make switches longer.
    pub(crate) fn set_debug_register(&mut self, id: SysReg, value: u64) -> Action {
        if value != 0 || self.vcpu.debug.in_use {
            self.use_debug();
            self.machine.set_debug_register(id, value);
        }
        Action::Next
    }

    /// Clears the breakpoints that another vCPU left in the CPU, before this vCPU uses some.
    fn use_debug(&mut self) {
        if !core::mem::replace(&mut self.vcpu.debug.in_use, true) {
            self.machine.clear_debug_registers();
        }
    }
}
