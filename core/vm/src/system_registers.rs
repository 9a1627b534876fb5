//! Trapped system registers.
//!
//! Closed by default: what is not named here is undefined for the guest, as an encoding
//! that its CPU does not have.

use crate::id_registers::id_register;
use crate::{Action, DebugAccess, Guest, GuestFault, Machine, SystemRegister};
use hanok_decode::SysReg;
use hanok_hal::ListRegisters;
use hanok_vgic::SgiRegister;

/// MDSCR_EL1 bits that do nothing while no debug event is enabled: all but SS, KDE and MDE.
const MDSCR_EVENTS: u64 = 1 | 1 << 13 | 1 << 15;
/// MDSCR_EL1.TDCC: EL0 may not reach the debug channel. The one bit that is worth keeping
/// while there are no debug events.
const MDSCR_TDCC: u64 = 1 << 12;
/// OSLSR_EL1: an OS lock is implemented (OSLM = 0b10).
const OSLM: u64 = 1 << 3;

impl<M: Machine, L: ListRegisters> Guest<'_, M, L> {
    pub(crate) fn system_register(&mut self, access: SystemRegister) -> Action {
        let SystemRegister {
            id,
            register,
            write,
        } = access;
        if write {
            let value = self.regs.get(register);
            return self.write_register(id, value);
        }
        match self.read_register(id) {
            Answer::Value(value) => {
                self.regs.set(register, value);
                Action::Next
            }
            Answer::Undefined => Action::Inject(GuestFault::Undefined),
            Answer::Debug => self.give_debug(),
        }
    }

    fn read_register(&mut self, id: SysReg) -> Answer {
        let now = self.machine.counter();
        Answer::Value(match id {
            _ if id.is_feature_id() => id_register(id, self.machine.id_register(id)),
            SysReg::CNTP_CTL_EL0 => self.vcpu.timer.control(now),
            SysReg::CNTP_CVAL_EL0 => self.vcpu.timer.compare(),
            SysReg::CNTP_TVAL_EL0 => self.vcpu.timer.value(now),
            SysReg::MDSCR_EL1 if self.debug_is_trapped() => self.vcpu.mdscr,
            SysReg::OSLSR_EL1 => OSLM | u64::from(self.vcpu.os_lock) << 1,
            // No auxiliary control, no LORegions, no debug ROM, no external debug
            // communication, no power-down request.
            SysReg::ACTLR_EL1
            | SysReg::LORID_EL1
            | SysReg::LORSA_EL1
            | SysReg::LOREA_EL1
            | SysReg::LORN_EL1
            | SysReg::LORC_EL1
            | SysReg::MDRAR_EL1
            | SysReg::MDCCSR_EL0
            | SysReg::MDCCINT_EL1
            | SysReg::OSDLR_EL1
            | SysReg::DBGPRCR_EL1
            | SysReg::DBGAUTHSTATUS_EL1
            | SysReg::OSDTRRX_EL1
            | SysReg::OSDTRTX_EL1
            | SysReg::OSECCR_EL1
            | SysReg::DBGCLAIMCLR_EL1 => 0,
            SysReg::DBGCLAIMSET_EL1 => 0xff,
            _ if is_debug(id) => return Answer::Debug,
            _ => return Answer::Undefined,
        })
    }

    pub(crate) fn write_register(&mut self, id: SysReg, value: u64) -> Action {
        match id {
            SysReg::ICC_SGI1R_EL1 => {
                self.send_sgi(SgiRegister::Sgi1, value);
                Action::Next
            }
            SysReg::ICC_SGI0R_EL1 => {
                self.send_sgi(SgiRegister::Sgi0, value);
                Action::Next
            }
            SysReg::ICC_ASGI1R_EL1 => {
                self.send_sgi(SgiRegister::Asgi1, value);
                Action::Next
            }
            SysReg::CNTP_CTL_EL0 => self.set_timer(|timer, _| timer.set_control(value)),
            SysReg::CNTP_CVAL_EL0 => self.set_timer(|timer, _| timer.set_compare(value)),
            SysReg::CNTP_TVAL_EL0 => self.set_timer(|timer, now| timer.set_value(now, value)),
            SysReg::OSLAR_EL1 => {
                self.vcpu.os_lock = value & 1 != 0;
                if !self.debug_is_trapped() {
                    self.machine.set_os_lock(self.vcpu.os_lock);
                }
                Action::Next
            }
            // Kernels clear it as they start: that needs no debug registers.
            SysReg::MDSCR_EL1 if value & MDSCR_EVENTS == 0 && self.debug_is_trapped() => {
                self.vcpu.mdscr = value & MDSCR_TDCC;
                Action::Next
            }
            SysReg::ACTLR_EL1
            | SysReg::LORSA_EL1
            | SysReg::LOREA_EL1
            | SysReg::LORN_EL1
            | SysReg::LORC_EL1
            | SysReg::MDCCINT_EL1
            | SysReg::OSDLR_EL1
            | SysReg::DBGPRCR_EL1
            | SysReg::OSDTRRX_EL1
            | SysReg::OSDTRTX_EL1
            | SysReg::OSECCR_EL1
            | SysReg::DBGCLAIMSET_EL1
            | SysReg::DBGCLAIMCLR_EL1 => Action::Next,
            // Clearing one that was never set, likewise.
            _ if is_debug(id) && value == 0 => Action::Next,
            _ if is_debug(id) => self.give_debug(),
            _ => Action::Inject(GuestFault::Undefined),
        }
    }

    fn debug_is_trapped(&self) -> bool {
        self.vcpu.debug == DebugAccess::Trapped
    }

    /// Serves one of the three registers by which SGIs are sent.
    #[inline(never)]
    pub(crate) fn send_sgi(&mut self, kind: SgiRegister, value: u64) {
        let set = self.vm.gic.lock().send_sgi(self.vcpu.id, value, kind);
        self.attend(set);
    }

    fn set_timer(&mut self, change: impl FnOnce(&mut crate::PhysicalTimer, u64)) -> Action {
        let now = self.machine.counter();
        change(&mut self.vcpu.timer, now);
        self.physical_timer_line();
        self.vcpu.rearm = true;
        Action::Next
    }
}

enum Answer {
    Value(u64),
    Undefined,
    Debug,
}

/// Whether a register of self-hosted debug that a vCPU can be given: MDSCR_EL1, and the
/// breakpoint and watchpoint registers (op0 2, op1 0, CRn 0, op2 4 to 7).
fn is_debug(id: SysReg) -> bool {
    let numbered = id.op0() == 2 && id.op1() == 0 && id.crn() == 0 && id.op2() >= 4;
    id == SysReg::MDSCR_EL1 || numbered
}
