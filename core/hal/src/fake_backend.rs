//! A board of CPUs in memory, for tests of the executive.
//!
//! It checks what a real board would punish: a vCPU's context is in one CPU at most and leaves it
//! before another one comes; no vCPU is in a VM whose memory is written; a CPU without work sleeps
//! until an interrupt is pending for it.

use crate::fake::FakeTableMemory;
use crate::fake_context::FakeContext;
use crate::fake_line::{FakeLine, Wire};
use crate::fake_region::FakeRegion;
use crate::{Backend, HostGic, ListRegisters, Taken, VirtualCpuInterface};
use core::any::Any;
use core::fmt;
use hanok_types::{CpuId, Deadline, Hpa, IntId, Ipa, Span};
use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec;
use std::vec::Vec;

/// The settings of a fake board.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The number of CPUs.
    pub cpus: usize,
    /// The index of the CPU that calls.
    pub this_cpu: fn() -> usize,
    /// Called wherever a CPU reads what others may change, so that others can run.
    pub pause: fn(),
    /// Called while a CPU sleeps and has found nothing pending, so that others can run.
    pub asleep: fn(),
    /// The number of list registers of a CPU, 1 to 16.
    pub lists: usize,
}

/// The interrupt of the hypervisor's timer.
pub const HYP_TIMER: u32 = 26;
/// The interrupt of the virtual timer.
pub const VIRTUAL_TIMER: u32 = 27;

/// The payload of the panic that [`Backend::idle`] raises after the board was turned off.
#[derive(Clone, Copy, Debug)]
pub struct PoweredOff;

/// One CPU.
#[derive(Debug, Default)]
pub struct FakeCpu {
    /// The pending interrupts, without those of the timers.
    pub pending: BTreeSet<u32>,
    /// The instant at which the hypervisor's timer fires.
    timer: Option<u64>,
    /// The instant at which the virtual timer of the resident vCPU fires.
    pub(crate) virtual_timer: Option<u64>,
    /// The current address space: VTTBR_EL2; zero is the empty stage 2.
    pub space: u64,
    /// Whether a vCPU's context is in it.
    pub occupied: bool,
    /// Whether the CPU sleeps.
    pub asleep: bool,
    /// How many interrupts it has taken.
    taken: u32,
    /// The entries of its TLB: the frame, by address space and page.
    pub translations: BTreeMap<(u64, Ipa), Hpa>,
    /// Its list registers.
    lists: Arc<Mutex<Vec<u64>>>,
    pub(crate) interface_on: bool,
}

/// Registers that a guest reaches only by exits, the same in all CPUs.
#[derive(Debug, Default)]
pub struct FakeRegisters {
    /// The value of every ID register.
    pub id: u64,
    /// SP_EL0 and SP_EL1.
    pub stack_pointers: [u64; 2],
    /// V0 to V31, if the CPU has them.
    pub vectors: Option<[u128; 32]>,
}

/// List registers that a fake board can have.
pub trait FakeLists: VirtualCpuInterface + Clone + fmt::Debug + Send + Sync + 'static {}

impl<L: VirtualCpuInterface + Clone + fmt::Debug + Send + Sync + 'static> FakeLists for L {}

/// The board.
#[derive(Debug)]
pub struct FakeBackend<L = FakeCpuInterface> {
    pub(crate) settings: Settings,
    /// Each CPU's list registers.
    lists: Vec<L>,
    registers: Mutex<FakeRegisters>,
    cpus: Vec<Mutex<FakeCpu>>,
    now: AtomicU64,
    off: AtomicBool,
    /// The serial line, and its interrupt: a level, as a PL011's.
    serial: Option<(u32, Wire)>,
    /// What a crate above wants to find again.
    notes: Mutex<Vec<Box<dyn Any + Send>>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeBackend {
    /// A board whose counter shows zero.
    pub fn new(settings: Settings) -> Self {
        let lists = |_| FakeCpuInterface(Arc::new(Mutex::new(vec![0; settings.lists])));
        let mut this = Self::with_lists(settings, (0..settings.cpus).map(lists).collect());
        for (cpu, lists) in this.cpus.iter_mut().zip(&this.lists) {
            lock(cpu).lists = Arc::clone(&lists.0);
        }
        this
    }
}

impl<L> FakeBackend<L> {
    /// A board whose counter shows zero, and whose CPUs have these list registers, which replace
    /// [`FakeCpu::lists`].
    pub fn with_lists(settings: Settings, lists: Vec<L>) -> Self {
        let cpu = |_| Mutex::new(FakeCpu::default());
        Self {
            settings,
            lists,
            registers: Mutex::default(),
            cpus: (0..settings.cpus).map(cpu).collect(),
            now: AtomicU64::new(0),
            off: AtomicBool::new(false),
            serial: None,
            notes: Mutex::default(),
        }
    }

    /// The index of the CPU that calls.
    pub fn this_cpu(&self) -> usize {
        (self.settings.this_cpu)()
    }

    /// Lets `interrupt` come again while bytes for the board are on `wire`, or the board waits until it can send.
    pub fn connect(&mut self, interrupt: u32, wire: Wire) {
        self.serial = Some((interrupt, wire));
    }

    /// Keeps `note` for [`Self::take_notes`].
    pub fn note(&self, note: Box<dyn Any + Send>) {
        lock(&self.notes).push(note);
    }

    /// All notes since the last call, oldest first.
    pub fn take_notes(&self) -> Vec<Box<dyn Any + Send>> {
        core::mem::take(&mut *lock(&self.notes))
    }

    /// The registers that a guest reaches only by exits.
    pub fn registers(&self) -> MutexGuard<'_, FakeRegisters> {
        lock(&self.registers)
    }

    /// A CPU.
    pub fn cpu(&self, index: usize) -> MutexGuard<'_, FakeCpu> {
        lock(&self.cpus[index])
    }

    /// The CPU that calls.
    pub fn here(&self) -> MutexGuard<'_, FakeCpu> {
        self.cpu((self.settings.this_cpu)())
    }

    /// Whether the board was turned off.
    pub fn is_off(&self) -> bool {
        self.off.load(Ordering::SeqCst)
    }

    /// Lets time pass.
    pub fn advance(&self, ticks: u64) {
        self.now.fetch_add(ticks, Ordering::SeqCst);
    }

    /// Makes an interrupt pending for a CPU.
    pub fn raise(&self, cpu: usize, interrupt: u32) {
        self.cpu(cpu).pending.insert(interrupt);
    }

    /// Whether an interrupt is pending for a CPU.
    pub fn is_interrupted(&self, cpu: usize) -> bool {
        self.cpu(cpu).next(self.time()).is_some()
    }

    fn time(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }
}

impl FakeCpu {
    /// The interrupt that would be acknowledged now.
    fn next(&self, now: u64) -> Option<u32> {
        let due = |at: Option<u64>| at.is_some_and(|at| now >= at);
        let timers = [(HYP_TIMER, self.timer), (VIRTUAL_TIMER, self.virtual_timer)];
        let timer = timers.into_iter().find(|(_, at)| due(*at));
        self.pending.first().copied().or(timer.map(|(id, _)| id))
    }

    /// The list registers.
    pub fn lists(&self) -> MutexGuard<'_, Vec<u64>> {
        lock(&self.lists)
    }

    /// Acts as the guest of the resident vCPU: acknowledges and ends all listed interrupts.
    pub fn end_all(&mut self) {
        lock(&self.lists).fill(0);
    }

    /// Sets the instant at which the virtual timer of the resident vCPU fires.
    pub fn set_virtual_timer(&mut self, at: Option<u64>) {
        self.virtual_timer = at;
    }
}

impl<L: FakeLists> Backend for FakeBackend<L> {
    type Tables = FakeTableMemory;
    type Context = FakeContext<L>;
    type Lists = L;
    type Gic = FakeGic;
    type Memory = FakeRegion;
    type Line = FakeLine;

    fn counter(&self) -> u64 {
        self.now.fetch_add(1, Ordering::SeqCst)
    }

    fn counter_frequency(&self) -> u64 {
        1_000_000
    }

    fn set_timer(&self, due: Deadline) {
        self.here().timer = due.ticks();
    }

    fn stop_virtual_timer(&self) {
        self.here().virtual_timer = None;
    }

    fn kick(&self, cpu: CpuId) {
        self.raise(cpu.index(), 0);
        (self.settings.pause)();
    }

    fn acknowledge(&self) -> Option<Taken> {
        let now = self.time();
        let mut cpu = self.here();
        let next = cpu.next(now)?;
        cpu.taken += 1;
        cpu.pending.remove(&next);
        if next == VIRTUAL_TIMER {
            // The interrupt is active until the guest has handled it and set the timer again.
            cpu.virtual_timer = None;
        }
        Some(Taken::new(next))
    }

    fn drop_priority(&self, _taken: Taken) {}

    fn end(&self, taken: Taken) {
        if let Some((interrupt, wire)) = &self.serial
            && taken.id().get() == *interrupt
            && (!lock(&wire.typed).is_empty() || wire.called_when_writable.load(Ordering::SeqCst))
        {
            self.here().pending.insert(*interrupt);
        }
    }

    fn deactivate(&self, _interrupt: IntId) {}

    fn lists(&self) -> L {
        self.lists[self.this_cpu()].clone()
    }

    fn interrupt_is_pending(&self) -> bool {
        (self.settings.pause)();
        self.here().next(self.time()).is_some()
    }

    fn idle(&self) {
        loop {
            if self.is_off() {
                // Without the panic hook, which would report a panic.
                std::panic::resume_unwind(std::boxed::Box::new(PoweredOff));
            }
            {
                let mut cpu = self.here();
                cpu.asleep = cpu.next(self.time()).is_none();
                if !cpu.asleep {
                    return;
                }
            }
            self.advance(10);
            (self.settings.asleep)();
        }
    }

    fn enter_empty_space(&self) {
        self.here().space = 0;
    }

    fn invalidate_range(&self, space: u64, range: Span<Ipa>) {
        let stays = |of: &u64, at: &Ipa| *of != space || !range.contains(*at);
        for cpu in &self.cpus {
            lock(cpu).translations.retain(|(of, at), _| stays(of, at));
        }
    }

    fn invalidate_all_tlbs(&self) {}

    fn invalidate_instruction_caches(&self) {}

    /// It is as if only taking an interrupt needed one.
    fn instructions(&self) -> u32 {
        self.here().taken
    }

    fn power_off(&self) {
        self.off.store(true, Ordering::SeqCst);
    }
}

/// A CPU's virtual interface.
#[derive(Clone, Debug)]
pub struct FakeCpuInterface(Arc<Mutex<Vec<u64>>>);

impl ListRegisters for FakeCpuInterface {
    fn count(&self) -> usize {
        lock(&self.0).len()
    }

    fn read(&self, index: usize) -> u64 {
        lock(&self.0)[index]
    }

    fn write(&mut self, index: usize, value: u64) {
        lock(&self.0)[index] = value;
    }

    fn empty(&self) -> u32 {
        // The state is invalid (bits 63:62), and no end is to be reported: EOI (bit 41) without HW
        // (bit 61) asks for a report.
        let empty = |lr: u64| lr >> 62 == 0 && (lr >> 61 & 1 != 0 || lr >> 41 & 1 == 0);
        let lists = lock(&self.0);
        let lists = lists.iter().enumerate().filter(|(_, lr)| empty(**lr));
        lists.fold(0, |set, (index, _)| set | 1 << index)
    }

    fn set_none_pending_interrupt(&mut self, _on: bool) {}

    fn report_ends(&mut self, _on: bool) {}
}

impl VirtualCpuInterface for FakeCpuInterface {
    type State = ();

    fn enter(&mut self, _state: &()) {}

    fn leave(&mut self, _state: &mut ()) {}

    fn stop(&mut self) {}
}

/// A CPU's part of the interrupt controller, in which all interrupts are enabled.
#[derive(Debug)]
pub struct FakeGic;

impl HostGic for FakeGic {
    fn enable(&self, _interrupt: IntId, _on: bool) {}

    fn route(&self, _interrupt: IntId, _to: CpuId) {}

    fn set_active(&self, _interrupt: IntId, _on: bool) {}

    fn clear_pending(&self, _interrupt: IntId) {}

    fn set_edge(&self, _interrupt: IntId, _edge: bool) {}
}
