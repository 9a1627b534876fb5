//! A board of CPUs in memory, for tests of the executive.
//!
//! It checks what a real board would punish: a vCPU's context is in one CPU at most and leaves it
//! before another one comes; no vCPU is in a VM whose memory is written; a CPU without work sleeps
//! until an interrupt is pending for it.

use crate::fake_line::Wire;
use crate::{HostGic, ListRegisters, VirtualCpuInterface};
use core::any::Any;
use core::fmt;
use hanok_types::{CpuId, Hpa, IntId, Ipa};
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

/// The payload of the panic that [`Backend::idle`](crate::Backend::idle) raises after the board was turned off.
#[derive(Clone, Copy, Debug)]
pub struct PoweredOff;

/// One CPU.
#[derive(Debug, Default)]
pub struct FakeCpu {
    /// The pending interrupts, without those of the timers.
    pub pending: BTreeSet<u32>,
    /// The instant at which the hypervisor's timer fires.
    pub(crate) timer: Option<u64>,
    /// The instant at which the virtual timer of the resident vCPU fires.
    pub(crate) virtual_timer: Option<u64>,
    /// The current address space: VTTBR_EL2; zero is the empty stage 2.
    pub space: u64,
    /// Whether a vCPU's context is in it.
    pub occupied: bool,
    /// Whether the CPU sleeps.
    pub asleep: bool,
    /// How many interrupts it has taken.
    pub(crate) taken: u32,
    /// The entries of its TLB: the frame, by address space and page.
    pub translations: BTreeMap<(u64, Ipa), Hpa>,
    /// Its list registers.
    lists: Arc<Mutex<Vec<u64>>>,
    pub(crate) interface_on: bool,
    /// Whether its trap entry records exits.
    pub traces_exits: bool,
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
    pub(crate) lists: Vec<L>,
    registers: Mutex<FakeRegisters>,
    pub(crate) cpus: Vec<Mutex<FakeCpu>>,
    pub(crate) now: AtomicU64,
    pub(crate) off: AtomicBool,
    /// The serial line, and its interrupt: a level, as a PL011's.
    pub(crate) serial: Option<(u32, Wire)>,
    /// What a crate above wants to find again.
    notes: Mutex<Vec<Box<dyn Any + Send>>>,
}

pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
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

    pub(crate) fn time(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }
}

impl FakeCpu {
    /// The interrupt that would be acknowledged now.
    pub(crate) fn next(&self, now: u64) -> Option<u32> {
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
