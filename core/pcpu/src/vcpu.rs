//! A vCPU, with its pCPU's data about it.

use crate::VmUnit;
use crate::loading::Loading;
use hanok_hal::{Backend, Context, Entry, Start, VirtualCpuInterface};
use hanok_sched::Entity;
use hanok_trace::{Account, Source, VcpuLog};
use hanok_types::{Deadline, GuestPage};
use hanok_vm::Requests;

/// A vCPU. The backend's part is first, for the trap entry. Its pCPU owns it.
#[allow(missing_debug_implementations)]
#[repr(C, align(64))]
pub struct Vcpu<B: Backend> {
    /// Its registers.
    pub context: B::Context,
    /// Its VM.
    pub unit: &'static VmUnit<B>,
    /// Its counters and its latest exits.
    pub log: VcpuLog,
    /// The requests of other pCPUs.
    pub requests: &'static Requests,
    /// Its state in the core.
    pub core: hanok_vm::Vcpu,
    /// Its index among its pCPU's vCPUs.
    pub(crate) entity: Entity,
    /// Whether it is in its VM: started, and not off.
    pub(crate) on: bool,
    /// Whether it waits: for `page`, or else for an interrupt.
    pub(crate) waiting: bool,
    /// The page of its VM's memory for which it waits.
    pub(crate) page: Option<GuestPage>,
    /// Whether the policy was told that it has work.
    pub(crate) ready: bool,
    /// The instant from which on it has work and does not run.
    pub(crate) waits_since: u64,
    /// The instant from which on it may ask for another interface.
    pub(crate) asks_from: u64,
    /// The number by which it is known in accounts of turns.
    pub(crate) who: u16,
    /// Its account.
    pub(crate) account: &'static Account,
    /// The instant at which one of its timers is due, while it waits and is in no CPU.
    pub(crate) wake_at: Deadline,
    /// Whether its virtual timer wakes it at `wake_at`, if nothing is requested of it meanwhile.
    pub(crate) timer_wakes: bool,
    /// Whether it goes on as its virtual timer was due, whose interrupt it has not got yet.
    pub(crate) timer_due: bool,
    /// The progress of loading its VM's memory, which is the first vCPU's work.
    pub(crate) loading: Option<Loading>,
    /// Whether it was printed in this boot that its exception vector cannot be fetched.
    pub(crate) fault_loop_noticed: bool,
    /// When the devices that its VM serves are looked at next ([`crate::watchdog`]); `NEVER` but of the first vCPU of such a VM.
    pub(crate) watch_at: Deadline,
    /// How often the VM was reset in a row because it hung, and when it last was.
    pub(crate) hung: (u8, u64),
    /// The VM's boot in which it was last started.
    boot: u32,
    /// The state of its virtual CPU interface, while it is in no CPU.
    pub(crate) interface: <B::Lists as VirtualCpuInterface>::State,
}

impl<B: Backend> Vcpu<B> {
    /// A vCPU that is off.
    pub fn new(unit: &'static VmUnit<B>, core: hanok_vm::Vcpu, context: B::Context) -> Self {
        Self {
            context,
            unit,
            log: VcpuLog::new(unit.vm.counters(core.id)),
            requests: unit.vm.requests(core.id),
            core,
            entity: Entity::FIRST,
            on: false,
            waiting: false,
            page: None,
            ready: false,
            waits_since: 0,
            asks_from: 0,
            who: crate::report::who(unit, core.id),
            account: unit.vm.account(core.id),
            wake_at: Deadline::NEVER,
            timer_wakes: false,
            timer_due: false,
            loading: None,
            fault_loop_noticed: false,
            watch_at: Deadline::NEVER,
            hung: (0, 0),
            boot: 0,
            interface: Default::default(),
        }
    }

    /// Its VM and its number, for events about it.
    #[inline(always)]
    pub fn source(&self) -> Source {
        Source {
            vm: self.unit.vm.id(),
            vcpu: self.core.id,
        }
    }

    /// Whether it is in its VM: started, and not off.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Resets all of its state to that of a vCPU that starts at `entry`.
    pub(crate) fn reset(&mut self, entry: Entry) {
        let boot = self.unit.vm.lifecycle().number();
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
        self.waiting = false;
        self.page = None;
        self.wake_at = Deadline::NEVER;
        self.timer_due = false;
    }
}
