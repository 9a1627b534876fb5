//! The registers of a vCPU on a fake board.

use crate::fake_backend::{FakeBackend, FakeCpuInterface, FakeLists};
use crate::{Arrival, Context, Forgotten, FpGiven, GuestFault, GuestMemory, LateError, Start};
use core::fmt;
use core::marker::PhantomData;
use hanok_types::{CpuId, Deadline, Regs};

/// A vCPU's registers.
#[derive(Debug)]
pub struct FakeContext<L = FakeCpuInterface> {
    /// General registers.
    pub regs: Regs,
    /// Whether the context is in a CPU.
    pub loaded: bool,
    /// The number of starts.
    pub starts: usize,
    /// How many parts of what is known of pages have to be forgotten before the next start.
    pub known_parts: usize,
    /// The number of times that its FP registers were taken out of a CPU.
    pub fp_taken: usize,
    /// The number of times that it moved to another CPU.
    pub moves: usize,
    virtual_timer: Option<u64>,
    error: bool,
    board: PhantomData<fn() -> L>,
}

impl<L> Default for FakeContext<L> {
    fn default() -> Self {
        Self {
            regs: Regs::default(),
            loaded: false,
            starts: 0,
            known_parts: 0,
            virtual_timer: None,
            error: false,
            fp_taken: 0,
            moves: 0,
            board: PhantomData,
        }
    }
}

impl<L> FakeContext<L> {
    /// Acts as the guest: takes the SError that is pending, if there is one.
    pub fn take_error(&mut self) {
        self.error = false;
    }

    fn leave(&mut self, machine: &FakeBackend<L>) {
        assert!(self.loaded, "a context leaves a CPU in which it is not");
        self.loaded = false;
        let mut cpu = machine.here();
        assert!(cpu.occupied);
        cpu.occupied = false;
        self.virtual_timer = cpu.virtual_timer.take();
    }
}

impl<L: FakeLists> Context<FakeBackend<L>> for FakeContext<L> {
    const DIGITS: usize = 16;
    const SYNDROME: &'static str = "ESR";
    const ERROR: &'static str = "SError";

    fn regs(&self) -> &Regs {
        &self.regs
    }

    fn regs_mut(&mut self) -> &mut Regs {
        &mut self.regs
    }

    fn reset(&mut self, start: Start) {
        assert!(!self.loaded, "a vCPU starts while it is in a CPU");
        assert_eq!(
            self.known_parts, 0,
            "a vCPU starts before pages are forgotten"
        );
        *self = Self {
            starts: self.starts + 1,
            ..Self::default()
        };
        self.regs.pc = start.entry.pc;
        self.regs.x[0] = start.entry.argument;
    }

    fn forget_pages(&mut self) -> Forgotten {
        let Some(left) = self.known_parts.checked_sub(1) else {
            return Forgotten::All;
        };
        self.known_parts = left;
        Forgotten::Part
    }

    fn depart(&mut self) {
        assert!(self.loaded, "a vCPU is entered that is in no CPU");
    }

    fn save(&mut self, machine: &FakeBackend<L>, _debugs: bool) -> LateError {
        self.leave(machine);
        LateError::None
    }

    fn load(&mut self, machine: &FakeBackend<L>, arrival: Arrival) {
        assert!(!self.loaded, "a vCPU comes to a CPU while it is in one");
        self.loaded = true;
        let mut cpu = machine.here();
        assert!(!cpu.occupied, "two vCPUs in one CPU");
        cpu.occupied = true;
        cpu.space = arrival.space;
        cpu.virtual_timer = self.virtual_timer;
    }

    fn arrived(&self, machine: &FakeBackend<L>) {
        assert!(machine.here().interface_on || machine.settings.cpus > 0);
    }

    fn discard(&mut self, machine: &FakeBackend<L>) -> LateError {
        self.leave(machine);
        LateError::None
    }

    fn hand_over_fp(_owner: Option<&mut Self>, _next: &mut Self) -> FpGiven {
        FpGiven::Loaded
    }

    fn take_fp(&mut self) {
        assert!(
            !self.loaded,
            "the FP registers of a vCPU that runs are taken"
        );
        self.fp_taken += 1;
    }

    fn comes_to(&mut self, _cpu: CpuId) {
        assert!(!self.loaded, "a vCPU moves while it is in a CPU");
        self.moves += 1;
    }

    fn virtual_timer_due(&self) -> Deadline {
        self.virtual_timer.into()
    }

    fn has_pending_error(&self, _resident: bool) -> bool {
        self.error
    }

    fn pend_error(&mut self) {
        self.error = true;
    }

    fn inject(&mut self, fault: GuestFault, _memory: &impl GuestMemory) {
        self.error |= fault == GuestFault::SystemError;
    }

    fn fetch_vector(&self) -> u64 {
        u64::MAX
    }

    fn copy_from_cpu(&mut self, _machine: &FakeBackend<L>) {}

    fn storm_vector(&self) -> Option<u64> {
        None
    }

    fn describe(&self, say: impl Fn(fmt::Arguments<'_>)) {
        say(format_args!("pc {:x}", self.regs.pc));
    }
}
