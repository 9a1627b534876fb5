//! A vCPU as its pCPU keeps it.

use crate::loading::Loading;
use crate::{ExitLog, VmUnit};
use hanok_hal::{Backend, Context, Entry, Start, VirtualInterface};
use hanok_sched::Entity;
use hanok_types::{Deadline, GuestPage};
use hanok_vm::{Counters, Requests};

/// A vCPU: its backend's part first, for the trap entry. Owned by its pCPU.
#[allow(missing_debug_implementations)]
#[repr(C, align(64))]
pub struct Vcpu<B: Backend> {
    /// Its registers.
    pub context: B::Context,
    /// Its VM.
    pub unit: &'static VmUnit<B>,
    /// What counts its exits.
    pub counters: &'static Counters,
    /// What others ask of it.
    pub requests: &'static Requests,
    /// The core's part.
    pub core: hanok_vm::Vcpu,
    /// Its place among its pCPU's vCPUs.
    pub(crate) entity: Entity,
    /// Whether it is in its VM: started, and not off.
    pub(crate) on: bool,
    /// Whether it waits: for `page`, or else for an interrupt.
    pub(crate) waiting: bool,
    /// The page of its VM's memory that it waits for.
    pub(crate) page: Option<GuestPage>,
    /// Whether the policy was told that it has work.
    pub(crate) ready: bool,
    /// While it waits and is in no CPU: when one of its timers is due.
    pub(crate) wake_at: Deadline,
    /// The making of its VM's memory, which is the first vCPU's work.
    pub(crate) loading: Option<Loading>,
    /// Whether it was said in this boot that its exception vector cannot be fetched.
    pub(crate) fault_loop_noticed: bool,
    /// The VM's boot in which it was last started.
    boot: u32,
    /// Its latest exits.
    pub exits: ExitLog,
    /// The interrupt interface while it is not in a CPU.
    pub(crate) interface: <B::Lists as VirtualInterface>::State,
}

impl<B: Backend> Vcpu<B> {
    /// A vCPU that is off.
    pub fn new(unit: &'static VmUnit<B>, core: hanok_vm::Vcpu, context: B::Context) -> Self {
        Self {
            context,
            unit,
            counters: unit.vm.counters(core.id),
            requests: unit.vm.requests(core.id),
            core,
            entity: Entity::FIRST,
            on: false,
            waiting: false,
            page: None,
            ready: false,
            wake_at: Deadline::NEVER,
            loading: None,
            fault_loop_noticed: false,
            boot: 0,
            exits: ExitLog::new(),
            interface: Default::default(),
        }
    }

    /// Whether it is in its VM: started, and not off.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// The state of a vCPU that starts at `entry`.
    pub(crate) fn reset(&mut self, entry: Entry) {
        let boot = self.unit.vm.life().number();
        let boots = self.core.id.index() == 0 && self.boot != boot;
        self.boot = boot;
        self.core = hanok_vm::Vcpu::new(self.core.id);
        let mpidr = self.core.mpidr();
        self.context.reset(Start {
            entry,
            mpidr,
            boots,
        });
        self.interface = Default::default();
        self.fault_loop_noticed = false;
        self.exits = ExitLog::new();
        self.waiting = false;
        self.page = None;
        self.wake_at = Deadline::NEVER;
    }
}
