//! Trapped coprocessor instructions of AArch32 code.
//!
//! Most registers are mapped to AArch64 ones (`hanok_decode::Coprocessor::counterpart`), which
//! `system_registers.rs` answers. Here are the registers that only AArch32 has. What is not named
//! here is undefined.
//!
//! A VM whose EL1 is AArch32 has no self-hosted debug: ID_DFR0 and DBGDIDR say so. The registers of
//! coprocessor 14 read as zero and ignore writes, since kernels access them before they check
//! whether they exist (DDI 0406C, C11.11). The registers of the performance monitors do the same:
//! the VM has none, but a 32-bit CPU cannot hide them in its ID_DFR0, and programs believe it. The
//! VM has no Jazelle either, since no switch saves its registers. Of the registers that an
//! implementation adds to coprocessor 15, the VM has those of the platform's Cortex-A15 on QEMU,
//! with the platform's values, whatever the board has.

use crate::exit::CoprocessorAccess;
use crate::{Action, Guest, GuestFault, GuestTimer, Machine, SystemRegister, TimerRegister};
use hanok_decode::{Coprocessor, CoprocessorPair, Psr, SysReg, mode};
use hanok_types::platform;
use hanok_vgic::GuestInterface;

/// ID_PFR0: A32, T32 and ThumbEE (State0, 1 and 3), without Jazelle (State2).
const INSTRUCTION_SETS: u64 = 0xf0ff;
/// The number of bits of a general register.
const WORD: u32 = 32;

impl<M: Machine, L: GuestInterface> Guest<'_, M, L> {
    pub(crate) fn coprocessor(&mut self, access: CoprocessorAccess) -> Action {
        match access {
            CoprocessorAccess::Cp15(one) => self.system_control(one),
            CoprocessorAccess::Cp15Pair(pair) => self.system_control_pair(pair),
            CoprocessorAccess::Cp14(one) => self.debug_channel(one),
            CoprocessorAccess::Cp14Pair(pair) => self.debug_address(pair),
            CoprocessorAccess::Vmrs(one) => match one.vmrs_counterpart() {
                Some(id) => self.by_counterpart(id, one),
                None => undefined(),
            },
        }
    }

    fn by_counterpart(&mut self, id: SysReg, one: Coprocessor) -> Action {
        if !one.read {
            // The CPU may have bits above these; the guest's word does not write them.
            return self.write_register(id, self.word(one.register));
        }
        self.system_register(SystemRegister {
            id,
            register: one.register,
            write: false,
        })
    }

    fn system_control(&mut self, one: Coprocessor) -> Action {
        match one.counterpart() {
            _ if is_pmu(&one) => self.performance_monitors(one),
            Some(SysReg::ID_DFR0_EL1) if one.read => self.give(one, 0),
            Some(SysReg::ID_PFR0_EL1) if one.read => {
                let action = self.by_counterpart(SysReg::ID_PFR0_EL1, one);
                let sets = self.regs.get(one.register) & INSTRUCTION_SETS;
                self.regs.set(one.register, sets);
                action
            }
            Some(id) => self.by_counterpart(id, one),
            // The registers that Cortex-A7 and A15 add may be accessed from PL1 only. A CPU may
            // trap an access from PL0, too.
            None if self.is_user() => undefined(),
            // Non-secure writes are ignored.
            None if is_l2ctlr(&one) && !one.read => Action::Next,
            None if is_l2ectlr(&one) => self.give_or_ignore(one),
            None if is_cbar(&one) && one.read => self.give(one, platform::GIC_DIST.get()),
            None if is_l2ctlr(&one) && one.read => {
                // Bits 25:24: the number of CPUs minus one (DDI 0438, 4.3.57). More than four CPUs
                // have several such caches.
                let others = self.vm.vcpus().clamp(1, 4) as u64 - 1;
                self.give(one, others << 24)
            }
            // ID registers that are not allocated yet (DDI 0406C, B3.17.1; DDI 0487, D24.3.1).
            None if is_reserved_id(&one) && one.read => self.give(one, 0),
            None => undefined(),
        }
    }

    /// The performance monitors: no counters, none enabled, and PL0 may use none (PMUSERENR, which
    /// PL0 may read).
    fn performance_monitors(&mut self, one: Coprocessor) -> Action {
        let userenr = one.read && (one.crm, one.opc2) == (14, 0);
        if self.is_user() && !userenr {
            undefined()
        } else {
            self.give_or_ignore(one)
        }
    }

    fn system_control_pair(&mut self, pair: CoprocessorPair) -> Action {
        match pair.counterpart() {
            Some(SysReg::CNTP_CVAL_EL0) if pair.read => {
                let value = self.read_timer(TimerRegister::CompareValue(GuestTimer::Physical));
                self.give_pair(pair, value)
            }
            Some(id) if !pair.read => self.write_register(id, self.pair(pair)),
            _ => undefined(),
        }
    }

    /// Coprocessor 14: debug is opc1 0.
    fn debug_channel(&mut self, one: Coprocessor) -> Action {
        match (one.opc1, one.read) {
            (0, true) => self.give(one, 0),
            (0, false) => Action::Next,
            _ => undefined(),
        }
    }

    /// DBGDRAR and DBGDSAR: zero means that there are no debug registers in memory.
    fn debug_address(&mut self, pair: CoprocessorPair) -> Action {
        match (pair.opc1, pair.read) {
            (0, true) => self.give_pair(pair, 0),
            _ => undefined(),
        }
    }

    fn give(&mut self, one: Coprocessor, value: u64) -> Action {
        self.regs.set(one.register, value);
        Action::Next
    }

    /// A register that is always zero, whatever is written.
    fn give_or_ignore(&mut self, one: Coprocessor) -> Action {
        if one.read {
            self.give(one, 0)
        } else {
            Action::Next
        }
    }

    fn is_user(&self) -> bool {
        Psr::from_bits(self.regs.pstate as u32).mode() == mode::USER
    }

    fn give_pair(&mut self, pair: CoprocessorPair, value: u64) -> Action {
        let [low, high] = pair.registers;
        self.regs.set(low, value & u64::from(u32::MAX));
        self.regs.set(high, value >> WORD);
        Action::Next
    }

    fn pair(&self, pair: CoprocessorPair) -> u64 {
        let [low, high] = pair.registers.map(|register| self.word(register));
        low | high << WORD
    }

    fn word(&self, register: u8) -> u64 {
        self.regs.get(register) & u64::from(u32::MAX)
    }
}

fn undefined() -> Action {
    Action::Inject(GuestFault::Undefined)
}

/// The performance monitors' registers of PMUv2 (DDI 0406C, table B3-30: CRn 9, opc1 0).
fn is_pmu(one: &Coprocessor) -> bool {
    let last = match one.crm {
        12 => 7,
        13 => 2,
        14 => 3,
        _ => return false,
    };
    (one.crn, one.opc1) == (9, 0) && one.opc2 <= last
}

/// Whether the register is in the reserved part of the ID registers, which reads as zero.
fn is_reserved_id(one: &Coprocessor) -> bool {
    (one.crn, one.opc1) == (0, 0) && matches!(one.crm, 3..=7)
}

/// The configuration base address register of Cortex-A7 and A15 (CRn 15, opc1 4, CRm 0, opc2 0; DDI
/// 0438): the address of the interrupt controller's registers.
fn is_cbar(one: &Coprocessor) -> bool {
    (one.crn, one.opc1, one.crm, one.opc2) == (15, 4, 0, 0)
}

/// The L2 extended control register of Cortex-A7 and A15 (CRn 9, opc1 1, CRm 0, opc2 3).
fn is_l2ectlr(one: &Coprocessor) -> bool {
    (one.crn, one.opc1, one.crm, one.opc2) == (9, 1, 0, 3)
}

/// The L2 control register of Cortex-A7 and A15 (CRn 9, opc1 1, CRm 0, opc2 2), by which kernels
/// count the CPUs of a cluster.
fn is_l2ctlr(one: &Coprocessor) -> bool {
    (one.crn, one.opc1, one.crm, one.opc2) == (9, 1, 0, 2)
}
