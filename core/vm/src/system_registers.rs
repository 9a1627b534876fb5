//! Trapped system registers.
//!
//! A register that is not named here is undefined for the guest, like an encoding that its CPU does
//! not have.

use crate::GuestTimer::Physical;
use crate::id_registers::id_register;
use crate::{Action, Guest, GuestFault, Machine, SystemRegister, TimerRegister};
use hanok_decode::SysReg;
use hanok_vgic::{GuestInterface, SgiRegister};

impl<M: Machine, L: GuestInterface> Guest<'_, M, L> {
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
        }
    }

    fn read_register(&mut self, id: SysReg) -> Answer {
        Answer::Value(match id {
            _ if id.is_feature_id() => id_register(id, self.machine.id_register(id)),
            SysReg::CNTP_CTL_EL0 => self.read_timer(TimerRegister::Control(Physical)),
            SysReg::CNTP_CVAL_EL0 => self.read_timer(TimerRegister::CompareValue(Physical)),
            SysReg::CNTP_TVAL_EL0 => self.read_timer(TimerRegister::TimerValue(Physical)),
            SysReg::MDSCR_EL1 => self.vcpu.debug.control(),
            SysReg::OSLSR_EL1 => self.vcpu.debug.lock_status(),
            // No auxiliary control, no LORegions, no debug ROM, no external debug communication, no
            // power-down request.
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
            _ if self.has_debug(id) => self.debug_register(id),
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
            SysReg::CNTP_CTL_EL0 => self.set_timer(TimerRegister::Control(Physical), value),
            SysReg::CNTP_CVAL_EL0 => self.set_timer(TimerRegister::CompareValue(Physical), value),
            SysReg::CNTP_TVAL_EL0 => self.set_timer(TimerRegister::TimerValue(Physical), value),
            SysReg::OSLAR_EL1 => self.set_os_lock(value & 1 != 0),
            SysReg::MDSCR_EL1 => self.set_debug_control(value),
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
            _ if self.has_debug(id) => self.set_debug_register(id, value),
            _ => Action::Inject(GuestFault::Undefined),
        }
    }

    /// Handles a write to one of the three registers by which SGIs are sent.
    #[inline(never)]
    pub(crate) fn send_sgi(&mut self, kind: SgiRegister, value: u64) {
        let set = self.vm.gic.lock().send_sgi(self.vcpu.id, value, kind);
        self.attend(set);
    }

    fn set_timer(&mut self, register: TimerRegister, value: u64) -> Action {
        self.write_timer(register, value);
        Action::Next
    }
}

enum Answer {
    Value(u64),
    Undefined,
}
