//! A pCPU's own record.

use crate::account::Turn;
use crate::devices::Restrained;
use crate::{Board, Host, PcpuPolicy, Seat, Vcpu, VmUnit};
use hanok_config::POOLS;
use hanok_hal::sync::atomic::{AtomicU64, Ordering};
use hanok_hal::{Backend, Taken};
use hanok_sched::{Entity, EntitySet, InterfaceError, MAX_ENTITIES, PlaceError, Tournament};
use hanok_trace::{CpuAccount, Event, Source};
use hanok_types::{CpuId, Deadline, IntId};
use hanok_vm::{Cause, Clock, Ending, Granted, Interruptions};

/// The pending updates of a pCPU that has none of its own in the board's list.
static NO_UPDATES: AtomicU64 = AtomicU64::new(0);

/// The number of alarms that are taken at a time: all vCPUs of a pCPU may wait for the same moment.
const ALARMS: usize = 8;

/// A pCPU's record without its vCPUs.
#[allow(missing_debug_implementations)]
pub struct Local<B: Backend> {
    /// The pCPU's number.
    pub id: CpuId,
    /// The data that all pCPUs share.
    pub board: &'static Board<B>,
    /// The interrupt that was acknowledged at the exit, with its priority dropped, and that has to be
    /// served; `None` if it has been ended already.
    pub taken: Option<Taken>,
    /// Whether a vCPU may be held back while it has work.
    shared: bool,
    /// Not zero if the CPU counts the hypervisor's own instructions. Every exit tests this; a bool would
    /// take one instruction more, as the compiler compares it with one.
    pub(crate) counts_instructions: u8,
    /// The last value that was read of the counter of these instructions.
    instructions: u32,
    /// The classes of events that it records.
    pub(crate) traced: u32,
    /// The policy that says which vCPU runs; in a pool it knows of none, as the pool's says that.
    pub(crate) policy: PcpuPolicy,
    /// Its place in a pool.
    seat: Option<Seat<B>>,
    /// The vCPUs that have to be brought up to date.
    pub(crate) updates: EntitySet,
    /// The vCPUs that other pCPUs kicked ([`Board::updates`]).
    pub(crate) posted: &'static AtomicU64,
    /// The instants at which vCPUs are due that wait and are in no CPU.
    alarms: Tournament<MAX_ENTITIES>,
    /// The earliest of these instants: each decision reads it, and few change it.
    first_alarm: Deadline,
    /// When a person's wish goes on, and the vCPU that it is about.
    pub(crate) asks_at: Deadline,
    /// The earliest of `asks_at`, `watch_at` and the end of [`Self::restrained`], or an instant before it: each decision reads it.
    pub(crate) seldom_at: Deadline,
    /// When one of the driver VMs that have their first vCPU here is looked at next.
    pub(crate) watch_at: Deadline,
    asks: Entity,
    /// Whether it goes on as soon as the vCPU is brought up to date.
    asks_now: bool,
    /// Whether the next piece of a report is due.
    reports_now: bool,
    /// The vCPU whose state is in this CPU.
    pub(crate) resident: Option<Entity>,
    /// Who runs as of the last decision, since when, and whether that is beyond its budget.
    pub(crate) turn: Turn,
    /// The instant of the last decision.
    pub(crate) decided: u64,
    /// What this pCPU did.
    pub(crate) account: &'static CpuAccount,
    /// The vCPU whose FP registers are in this CPU.
    pub(crate) fp_owner: Option<Entity>,
    /// The VM whose last vCPU has just left it on this pCPU, and the way in which it ends.
    pub(crate) ending: Option<(&'static VmUnit<B>, Ending)>,
    /// The instant at which a vCPU other than the resident one has to be brought up to date, or to have its
    /// turn.
    pub(crate) deadline: Deadline,
    /// Devices that have interrupted others' turns too often.
    pub(crate) restrained: Restrained,
    /// The instant to which the hypervisor's timer is set; `NEVER` if it is off.
    pub(crate) timer: Deadline,
    /// This pCPU's part of the interrupt controller, once it is set up.
    pub gic: Option<B::Gic>,
}

/// A pCPU with its vCPUs. Only that pCPU accesses it.
#[allow(missing_debug_implementations)]
pub struct Pcpu<B: Backend> {
    /// The record beside the vCPUs.
    pub local: Local<B>,
    /// The vCPUs of this pCPU, by their [`Entity`]. In a pool, others are at their places elsewhere.
    pub(crate) vcpus: [Option<&'static mut Vcpu<B>>; MAX_ENTITIES],
}

/// Why a pCPU does not take a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdoptError {
    /// It has no room for a further one.
    NoRoom,
    /// The promise to the vCPU cannot be kept.
    Promise(InterfaceError),
}

impl<B: Host> Local<B> {
    /// Whether a vCPU may be held back while it has work: several share the pCPU, or budgets are enforced.
    #[inline(always)]
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Its place in a pool, if it has one.
    #[inline(always)]
    pub(crate) fn seat(&self) -> Option<Seat<B>> {
        if POOLS { self.seat } else { None }
    }

    /// Notes that `vcpu` has to be brought up to date before the next decision.
    #[inline(always)]
    pub(crate) fn note_update(&mut self, vcpu: &Vcpu<B>) {
        self.updates.insert(vcpu.entity);
    }

    /// Takes the pending updates at `now`: the vCPUs that were kicked, whose alarm has come, or that this
    /// pCPU noted itself. A vCPU that has its pCPU alone is always brought up to date.
    #[inline(always)]
    pub(crate) fn take_updates(&mut self, now: u64) -> EntitySet {
        if !self.shared {
            return EntitySet::from_bits(1);
        }
        let mut updates = core::mem::take(&mut self.updates);
        if self.posted.load(Ordering::Relaxed) != 0 {
            let posted = self.posted.swap(0, Ordering::Acquire);
            updates = updates.union(EntitySet::from_bits(posted));
        }
        if self.first_alarm.has_come(now) {
            self.take_alarms(&mut updates, now);
        }
        if self.seldom_at.has_come(now) {
            self.take_wish(&mut updates, now);
        }
        updates
    }

    /// Notes an update as another pCPU's kick does.
    pub(crate) fn post(&self, bit: u64) {
        if bit != 0 {
            self.posted.fetch_or(bit, Ordering::Release);
        }
    }

    /// Whether a vCPU was kicked.
    pub(crate) fn has_posted(&self) -> bool {
        self.posted.load(Ordering::Relaxed) != 0
    }

    /// Takes the update of the vCPU about which a person's wish goes on, if that is due.
    #[cold]
    #[inline(never)]
    fn take_wish(&mut self, updates: &mut EntitySet, now: u64) {
        if self.asks_at.has_come(now) {
            self.asks_at = Deadline::NEVER;
            self.asks_now = true;
            updates.insert(self.asks);
        }
        self.seldom_at = self.next_seldom();
    }

    /// The earliest instant of what is seldom due.
    pub(crate) fn next_seldom(&self) -> Deadline {
        self.asks_at.or(self.restrained.until).or(self.watch_at)
    }

    /// Takes the alarms that have come by `now`, of which the first one has, at most [`ALARMS`] of them. What is left
    /// is due, and so ends the turn that the next decision gives.
    #[inline(never)]
    fn take_alarms(&mut self, updates: &mut EntitySet, now: u64) {
        for _ in 0..ALARMS {
            let Some((due, _)) = self.alarms.first() else {
                break;
            };
            self.alarms.remove(due);
            updates.insert(due);
            self.first_alarm = Deadline::at(self.alarms.first_key());
            if !self.first_alarm.has_come(now) {
                break;
            }
        }
    }

    /// Notes vCPUs again that still have to be brought up to date.
    pub(crate) fn put_back_updates(&mut self, updates: EntitySet) {
        self.updates = self.updates.union(updates);
    }

    /// Sets the alarm of a vCPU, or clears it if the vCPU does not wait any more, or is in the CPU.
    #[inline(never)]
    pub(crate) fn set_alarm(&mut self, vcpu: &Vcpu<B>) {
        let waits = vcpu.on && vcpu.waiting && self.resident != Some(vcpu.entity);
        match vcpu.wake_at.when(waits).ticks() {
            Some(at) => self.alarms.set(vcpu.entity, at),
            None => self.alarms.remove(vcpu.entity),
        }
        self.first_alarm = Deadline::at(self.alarms.first_key());
    }

    /// Clears the alarm of the vCPU at `entity`, which leaves this pCPU.
    pub(crate) fn drop_alarm(&mut self, entity: Entity) {
        self.alarms.remove(entity);
        self.first_alarm = Deadline::at(self.alarms.first_key());
    }

    /// Lets a person's wish about `vcpu` go on at `at`.
    pub(crate) fn go_on_asking(&mut self, vcpu: Entity, at: Deadline) {
        (self.asks, self.asks_at) = (vcpu, at);
        self.note_seldom(at);
    }

    /// Lets what is seldom due be looked at from `at` on, also if no decision comes before.
    #[inline(never)]
    pub(crate) fn note_seldom(&mut self, at: Deadline) {
        self.seldom_at = self.seldom_at.or(at);
        self.deadline = self.deadline.or(at);
    }

    /// The vCPU about which a person's wish goes on now, if it does.
    #[inline(always)]
    pub(crate) fn take_due_wish(&mut self) -> Option<Entity> {
        core::mem::take(&mut self.asks_now).then_some(self.asks)
    }

    /// Notes that the next piece of a report is due. It is a round of the scheduler, so that interrupts are looked at
    /// before and after it.
    pub(crate) fn note_report(&mut self) {
        self.reports_now = true;
        // In a pool the one of the last wish may be elsewhere, where each piece would kick it.
        let here = self.resident.filter(|_| POOLS);
        self.updates.insert(here.unwrap_or(self.asks));
    }

    /// Whether the next piece of a report is due now.
    #[inline(always)]
    pub(crate) fn take_due_report(&mut self) -> bool {
        core::mem::take(&mut self.reports_now)
    }

    /// The earliest instant at which a vCPU is due that waits and is in no CPU.
    #[inline(always)]
    pub(crate) fn first_alarm(&self) -> Deadline {
        self.first_alarm
    }

    /// Counts an exit of `vcpu` for `cause` that has been handled, and charges it the instructions since
    /// the last exit that was counted.
    #[inline(always)]
    pub fn handled(&mut self, vcpu: &mut Vcpu<B>, cause: Cause) {
        self.emit(vcpu, Event::Handled(cause));
        if self.counts_instructions != 0 {
            let instructions = self.instructions_since();
            self.emit(
                vcpu,
                Event::Spent {
                    cause,
                    instructions,
                },
            );
        }
    }

    /// Notes that `vcpu` has left its guest by a synchronous exception with this syndrome, at this address.
    #[inline(always)]
    pub fn exited(&self, vcpu: &mut Vcpu<B>, syndrome: u64, pc: u64) {
        self.emit(vcpu, Event::Exit { syndrome, pc });
    }

    /// Records an event that concerns no vCPU.
    #[inline(always)]
    pub fn record(&self, event: Event) {
        self.tell_sinks(None, event);
    }

    /// Records an event about `vcpu` in the vCPU's log and in the trace.
    #[inline(always)]
    pub fn emit(&self, vcpu: &mut Vcpu<B>, event: Event) {
        vcpu.log.read(event);
        self.tell_sinks(Some(vcpu.source()), event);
    }

    /// Records an event in the trace, and tells the backend of it.
    #[inline(always)]
    pub(crate) fn tell_sinks(&self, source: Option<Source>, event: Event) {
        let is_recorded = B::RECORDS_ENTRIES && event.is_of_entries();
        if !is_recorded && self.traced & event.class() != 0 {
            self.trace_event(source, event);
        }
        self.board.machine.record(source, event);
    }

    /// Records an interrupt with which the guest was left.
    #[inline(always)]
    pub fn interrupted_by(&self, id: IntId) {
        if B::RECORDS_ENTRIES {
            self.board.machine.record(None, Event::Interrupt(id));
        } else {
            self.record(Event::Interrupt(id));
        }
    }

    /// Charges the hypervisor's instructions until now to no exit.
    pub(crate) fn uncounted(&mut self) {
        if self.counts_instructions != 0 {
            self.instructions_since();
        }
    }

    /// The number of instructions that the hypervisor executed on this pCPU since the last call.
    #[inline(always)]
    fn instructions_since(&mut self) -> u32 {
        let now = self.board.machine.instructions();
        let since = now.wrapping_sub(self.instructions);
        self.instructions = now;
        since
    }
}

impl<B: Host> Pcpu<B> {
    /// A pCPU without vCPUs. `interruptions` has an account for each VM.
    pub fn new(
        id: CpuId,
        board: &'static Board<B>,
        policy: PcpuPolicy,
        interruptions: &'static mut [Interruptions],
    ) -> Self {
        let local = Local {
            id,
            board,
            taken: None,
            shared: policy.holds_back(),
            counts_instructions: board.counts_instructions.into(),
            instructions: 0,
            traced: 0,
            policy,
            seat: None,
            updates: EntitySet::EMPTY,
            posted: board.updates.get(id.index()).unwrap_or(&NO_UPDATES),
            alarms: Tournament::new(),
            first_alarm: Deadline::NEVER,
            asks_at: Deadline::NEVER,
            seldom_at: Deadline::NEVER,
            watch_at: Deadline::NEVER,
            asks: Entity::FIRST,
            asks_now: false,
            reports_now: false,
            resident: None,
            turn: Turn::default(),
            decided: 0,
            account: board.account(id),
            fp_owner: None,
            ending: None,
            deadline: Deadline::NEVER,
            restrained: Restrained::new(interruptions),
            timer: Deadline::NEVER,
            gic: None,
        };
        Self {
            local,
            vcpus: [const { None }; MAX_ENTITIES],
        }
    }

    /// Gives the pCPU, which has no vCPU yet, its place in a pool.
    pub fn join(&mut self, seat: Seat<B>) {
        self.local.seat = Some(seat);
        self.local.shared = true;
    }

    /// Gives the pCPU a vCPU, with what it is granted where budgets are enforced.
    pub fn adopt(
        &mut self,
        vcpu: &'static mut Vcpu<B>,
        granted: Granted,
    ) -> Result<(), AdoptError> {
        let local = &mut self.local;
        let now = local.board.counter();
        let entity = match local.seat() {
            Some(seat) => seat.enroll(vcpu, granted.grant)?,
            None => {
                let free = self.vcpus.iter().position(Option::is_none);
                let entity = free.and_then(Entity::new).ok_or(AdoptError::NoRoom)?;
                let added = local.policy.grant(entity, granted.grant, now);
                added.map_err(|error| match error {
                    PlaceError::NoPlace => AdoptError::NoRoom,
                    PlaceError::Interface(error) => AdoptError::Promise(error),
                })?;
                local.shared |= entity.index() > 0;
                local.board.traces.lives_on(local.id, vcpu.source());
                entity
            }
        };
        vcpu.unit.vm.set_granted(vcpu.core.id, granted);
        vcpu.entity = entity;
        let place = self.vcpus.get_mut(entity.index());
        *place.ok_or(AdoptError::NoRoom)? = Some(vcpu);
        Ok(())
    }

    /// All vCPUs of this pCPU.
    pub fn vcpus(&self) -> impl Iterator<Item = &Vcpu<B>> {
        self.vcpus.iter().flatten().map(|vcpu| &**vcpu)
    }

    /// The vCPU whose state is in this CPU.
    #[inline(always)]
    pub fn resident(&mut self) -> Option<&mut Vcpu<B>> {
        let (vcpu, _) = self.resident_and_local();
        vcpu
    }

    /// The vCPU whose state is in this CPU, and the rest of the record.
    #[inline(always)]
    pub fn resident_and_local(&mut self) -> (Option<&mut Vcpu<B>>, &mut Local<B>) {
        let resident = self.local.resident;
        let vcpu = resident.and_then(|entity| self.vcpus.get_mut(entity.index()));
        (vcpu.and_then(Option::as_deref_mut), &mut self.local)
    }

    /// The same for the vCPU at `entity`.
    #[inline(always)]
    pub(crate) fn vcpu_and_local(
        &mut self,
        entity: Entity,
    ) -> (Option<&mut Vcpu<B>>, &mut Local<B>) {
        let vcpu = self.vcpus.get_mut(entity.index());
        (vcpu.and_then(Option::as_deref_mut), &mut self.local)
    }
}
