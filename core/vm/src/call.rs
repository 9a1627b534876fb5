//! Hypercalls: SMCCC 1.5 (DEN0028G), PSCI 1.1 (DEN0022F), random numbers ([`trng`]) and the
//! hypervisor's own ([`hypercall`]), by HVC.

use crate::smccc::{INVALID_PARAMETERS, NOT_SUPPORTED, SUCCESS, function};
use crate::{Action, Ending, Entry, Guest, Machine, StartRefused, TELLS_STOLEN, Wait, trng};
use hanok_abi::{hypercall, schedule};
use hanok_vgic::GuestInterface;

const ALREADY_ON: i64 = -4;
const ON_PENDING: i64 = -5;
const INVALID_ADDRESS: i64 = -9;

const PSCI_1_1: i64 = 0x1_0001;
const SMCCC_1_1: i64 = 0x1_0001;
/// There is no Trusted OS, so it need not be migrated.
const NO_TRUSTED_OS: i64 = 2;
/// CPU_SUSPEND takes the original format of power_state, and suspends in platform-coordinated mode.
const SUSPEND_FEATURES: i64 = 0;
/// The bits that are clear in a valid power_state of the original format: reserved bits and
/// PowerLevel, since there is no power state above the CPU's own (DEN0022F 5.4).
const SUSPEND_INVALID: u32 = 0xfffe_0000;

/// The affinity fields of MPIDR.
const AFFINITY: u64 = 0xff_00ff_ffff;

/// The answer of a function that is the same for every caller at any time, so that a backend may
/// give it on a fast path.
#[inline(always)]
pub fn constant_answer(id: u32) -> Option<i64> {
    Some(match id {
        hypercall::NULL => SUCCESS,
        function::SMCCC_VERSION => SMCCC_1_1,
        function::PSCI_VERSION => PSCI_1_1,
        function::MIGRATE_INFO_TYPE => NO_TRUSTED_OS,
        _ => return None,
    })
}

/// The answer of the hypercall `id` if it is YIELD. A backend may do it on a fast path without
/// [`Guest::hypercall`], which does the same.
#[inline(always)]
pub fn yield_answer(id: u32) -> Option<i64> {
    (id == hypercall::YIELD).then_some(SUCCESS)
}

impl<M: Machine, L: GuestInterface> Guest<'_, M, L> {
    /// Handles an HVC. The answer of an unknown function is NOT_SUPPORTED (DEN0028G 5.2).
    pub fn hypercall(&mut self) -> Action {
        let id = self.regs.x[0] as u32;
        match id & !function::SMC64 {
            function::CPU_SUSPEND if self.may_call(id) => return self.cpu_suspend(id),
            function::CPU_OFF if id == function::CPU_OFF => {
                self.vm.power(self.vcpu.id).turn_off();
                return Action::Reconsider;
            }
            function::SYSTEM_OFF if id == function::SYSTEM_OFF => return self.end(Ending::Off),
            function::SYSTEM_RESET if id == function::SYSTEM_RESET => {
                return self.end(Ending::Reset);
            }
            _ => {}
        }
        if let Some(answer) = yield_answer(id) {
            self.answer(answer);
            return Action::Yield;
        }
        if let schedule::FEATURES | schedule::READ | schedule::ASK | schedule::WAIT = id {
            return Action::Schedule { next: false };
        }
        match id {
            hypercall::CALL_UID => return self.answer_words(&hypercall::UID),
            hypercall::REVISION_OF_CALLS => {
                let (major, minor) = hypercall::REVISION;
                return self.answer_words(&[major, minor]);
            }
            _ => {}
        }
        if let Some(answer) = constant_answer(id) {
            return self.answer(answer);
        }
        if TELLS_STOLEN && let Some(answer) = self.stolen_call(id) {
            return self.answer(answer);
        }
        let answer = match id {
            function::SMCCC_ARCH_FEATURES => self.arch_features(self.argument(id, 1) as u32),
            function::PSCI_FEATURES => match self.argument(id, 1) as u32 {
                asked if self.may_call(asked) => psci_features(asked),
                _ => NOT_SUPPORTED,
            },
            function::TRNG_VERSION => trng::version(),
            function::TRNG_FEATURES => match self.argument(id, 1) as u32 {
                asked if self.may_call(asked) => trng::features(asked),
                _ => NOT_SUPPORTED,
            },
            function::TRNG_GET_UUID => return self.trng_uuid(),
            _ if !self.may_call(id) => NOT_SUPPORTED,
            _ => match id & !function::SMC64 {
                function::TRNG_RND => return self.trng_numbers(id),
                function::CPU_ON => self.cpu_on(id),
                function::AFFINITY_INFO => self.affinity_info(id),
                _ => NOT_SUPPORTED,
            },
        };
        self.answer(answer)
    }

    /// Whether the caller may make PSCI's call with this number: AArch32 does not have those with
    /// 64-bit arguments (DEN0028G 2.5).
    fn may_call(&self, id: u32) -> bool {
        id & function::SMC64 == 0 || !self.regs.is_aarch32()
    }

    /// Argument `index` of call `id`. A call with 32-bit arguments ignores the upper halves.
    pub(crate) fn argument(&self, id: u32, index: u8) -> u64 {
        let value = self.regs.get(index);
        if id & function::SMC64 != 0 {
            value
        } else {
            value & 0xffff_ffff
        }
    }

    /// Sets the answer of a call. A 32-bit call's answer is in W0 and a caller may not use the
    /// upper half. It is the sign, as on QEMU, for callers that use it nevertheless.
    pub(crate) fn answer(&mut self, value: i64) -> Action {
        self.regs.set(0, value as u64);
        // The return address of an HVC is already that of the next instruction.
        Action::Resume
    }

    /// Sets an answer of several words, from W0 on.
    pub(crate) fn answer_words(&mut self, words: &[u32]) -> Action {
        for (register, word) in (0..).zip(words) {
            self.regs.set(register, u64::from(*word));
        }
        Action::Resume
    }

    fn arch_features(&self, id: u32) -> i64 {
        match id {
            function::SMCCC_VERSION | function::SMCCC_ARCH_FEATURES => SUCCESS,
            function::PV_TIME_FEATURES if self.vm.stolen_page().is_some() => SUCCESS,
            _ => NOT_SUPPORTED,
        }
    }

    fn end(&mut self, ending: Ending) -> Action {
        // The caller's vCPU is in the VM, so the last vCPU to leave carries the ending out.
        let _ = self.vm.request_end(self.machine, ending, None);
        Action::Reconsider
    }

    /// CPU_SUSPEND always waits in standby, even if power down is requested, as on QEMU: a caller
    /// must expect that, since an interrupt may undo a power down at any time (DEN0022F 5.4).
    fn cpu_suspend(&mut self, id: u32) -> Action {
        if self.argument(id, 1) as u32 & SUSPEND_INVALID != 0 {
            return self.answer(INVALID_PARAMETERS);
        }
        self.answer(SUCCESS);
        Action::Block(Wait::Interrupt)
    }

    /// Whether a CPU can start at `pc`: a word's address; for AArch32 also T32 code, which bit 0
    /// means (DEN0022F 5.6, "entry_point_address").
    fn is_start(&self, pc: u64) -> bool {
        pc & 3 == 0 || pc & 1 != 0 && self.regs.is_aarch32()
    }

    fn cpu_on(&mut self, id: u32) -> i64 {
        let Some(target) = self.vm.vcpu_with_affinity(self.argument(id, 1)) else {
            return INVALID_PARAMETERS;
        };
        let entry = Entry {
            pc: self.argument(id, 2),
            argument: self.argument(id, 3),
        };
        if !self.is_start(entry.pc)
            || !self
                .vm
                .config()
                .memory
                .contains(hanok_types::Ipa::new(entry.pc))
        {
            return INVALID_ADDRESS;
        }
        match self.vm.power(target).start(entry) {
            Ok(()) => {
                self.vm.wake(self.machine, target, self.vcpu.id);
                SUCCESS
            }
            Err(StartRefused::AlreadyOn) => ALREADY_ON,
            Err(StartRefused::OnPending) => ON_PENDING,
        }
    }

    fn affinity_info(&self, id: u32) -> i64 {
        let target = self.argument(id, 1);
        // The fields from the requested level up name the node. At each level there is only number
        // 0, which is on, since the caller is in it.
        let fields = match self.argument(id, 2) {
            0 => {
                let vcpu = self.vm.vcpu_with_affinity(target);
                return vcpu.map_or(INVALID_PARAMETERS, |v| self.vm.power(v).affinity_info());
            }
            1 => AFFINITY & !0xff,
            2 => AFFINITY & !0xffff,
            3 => AFFINITY & !0xff_ffff,
            _ => return INVALID_PARAMETERS,
        };
        if target & fields == 0 {
            SUCCESS
        } else {
            INVALID_PARAMETERS
        }
    }
}

fn psci_features(id: u32) -> i64 {
    const WIDE: [u32; 2] = [function::CPU_ON, function::AFFINITY_INFO];
    match id {
        function::CPU_SUSPEND => SUSPEND_FEATURES,
        _ if id == function::CPU_SUSPEND | function::SMC64 => SUSPEND_FEATURES,
        function::PSCI_VERSION
        | function::CPU_OFF
        | function::MIGRATE_INFO_TYPE
        | function::SYSTEM_OFF
        | function::SYSTEM_RESET
        | function::PSCI_FEATURES
        | function::SMCCC_VERSION => SUCCESS,
        _ if WIDE.contains(&(id & !function::SMC64)) => SUCCESS,
        _ => NOT_SUPPORTED,
    }
}
