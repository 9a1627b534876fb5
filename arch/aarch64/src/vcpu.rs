//! A vCPU as this backend keeps it.

use crate::aarch32::{self, Aarch32State};
use crate::controls::Hcr;
use crate::debug::DebugState;
use crate::el1::{self, El1State};
use crate::fp::FpState;
use crate::lists::InterfaceState;
use crate::loading::Loading;
use crate::trail::Trail;
use crate::unit::VmUnit;
use hanok_decode::{Psr, syndrome_register};
use hanok_sched::Entity;
use hanok_types::{Deadline, Regs};
use hanok_vm::Counters;

/// PSTATE of a vCPU that starts: EL1h, D, A, I and F masked (arm64 boot protocol; DEN0022F
/// 6.4 for CPU_ON).
const START_PSTATE: u64 = 0x3c5;

/// A vCPU: registers first, for the trap entry. Owned by its pCPU.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Vcpu {
    /// General registers while the guest does not run.
    pub regs: Regs,
    /// Top of the stack of the pCPU it runs on.
    pub stack: u64,
    /// Its VM.
    pub unit: &'static VmUnit,
    /// Its counters, which are its VM's.
    pub counters: &'static Counters,
    /// The core's part.
    pub core: hanok_vm::Vcpu,
    /// HCR_EL2 while it runs.
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
    /// EL1 registers while it is not in a CPU.
    pub el1: El1State,
    /// Those of AArch32 alone, where its EL1 is AArch32.
    pub aarch32: Aarch32State,
    /// The interrupt interface while it is not in a CPU.
    pub interface: InterfaceState,
    /// FP registers while they are not in a CPU.
    pub fp: FpState,
    /// Debug registers while they are not in a CPU.
    pub debug: DebugState,
}

impl Vcpu {
    /// A vCPU that is off.
    pub fn new(unit: &'static VmUnit, core: hanok_vm::Vcpu, hcr: Hcr) -> Self {
        let hcr = match unit.vm.config().aarch32 {
            true => hcr - Hcr::RW,
            false => hcr,
        };
        Self {
            regs: Regs::default(),
            stack: 0,
            unit,
            counters: unit.vm.counters(core.id),
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
            el1: El1State::default(),
            aarch32: Aarch32State::default(),
            interface: InterfaceState::default(),
            fp: FpState::default(),
            debug: DebugState::default(),
        }
    }

    /// Whether its EL1 is AArch32.
    #[inline(always)]
    pub fn is_aarch32(&self) -> bool {
        !self.hcr.contains(Hcr::RW)
    }

    /// The status of an AArch32 vCPU.
    pub fn psr(&self) -> Psr {
        Psr::from_bits(self.regs.pstate as u32)
    }

    /// The general register that the syndrome of a data abort means.
    pub fn register(&self, register: u8) -> u8 {
        match self.regs.is_aarch32() {
            true => syndrome_register(register, self.psr().mode()),
            false => register,
        }
    }

    /// Its registers are where the way back to the guest takes them from.
    #[inline(always)]
    pub fn depart(&mut self) {}

    /// When the virtual timer is to interrupt, by the registers as they were saved.
    pub fn virtual_timer_due(&self) -> Deadline {
        const ENABLE: u64 = 1;
        const IMASK: u64 = 1 << 1;
        Deadline::at(self.el1.cntv_cval).when(self.el1.cntv_ctl & (ENABLE | IMASK) == ENABLE)
    }

    /// The state of a vCPU that starts at `entry`.
    pub fn reset(&mut self, entry: hanok_vm::Entry) {
        self.core = hanok_vm::Vcpu::new(self.core.id);
        let life = self.unit.vm.life().number();
        let boots = self.core.id.index() == 0 && self.life != life;
        self.life = life;
        self.hcr.remove(Hcr::VSE);
        self.regs = Regs::default();
        if self.is_aarch32() {
            self.regs.pc = entry.pc & !1;
            self.regs.pstate = aarch32::start_pstate(entry.pc);
            aarch32::start_registers(&mut self.regs.x, boots, entry.argument);
        } else {
            self.regs.pc = entry.pc;
            self.regs.pstate = START_PSTATE;
            self.regs.x[0] = entry.argument;
        }
        let mpidr = self.core.mpidr();
        self.el1 = match self.is_aarch32() {
            true => El1State::reset(mpidr, aarch32::SCTLR_RESET),
            false => El1State::reset(mpidr, el1::SCTLR_RESET),
        };
        self.aarch32 = Aarch32State::default();
        self.interface = InterfaceState::default();
        self.fp = FpState::default();
        self.loop_noticed = false;
        self.trail = Trail::new();
        self.waiting = false;
        self.wake_at = Deadline::NEVER;
        self.debug = DebugState::default();
    }
}
