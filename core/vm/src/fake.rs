//! A machine and a VM on it, for tests on a PC.

use crate::{
    Action, Clock, CpuRegisters, Exit, Guest, Home, Interrupts, SerialLines, StackPointer, Vcpu, Vm,
};
use core::cell::{Cell, RefCell, RefMut};
use hanok_config::{VmConfig, platform_slots};
use hanok_decode::SysReg;
use hanok_hal::SerialPort;
use hanok_hal::fake::{FakeBackend, FakeListRegisters, FakeSerialPort};
use hanok_types::{CpuId, GicVersion, IntId, Ipa, Regs, Span, VcpuId, VmId};
use std::vec;
use std::vec::Vec;

/// The first pCPU that the VM has: its vCPU 0 is there, the others follow.
pub const FIRST_CPU: u8 = 3;
/// The VM's RAM.
pub const RAM_START: u64 = 0x4000_0000;
/// Bytes of it.
pub const RAM_LEN: u64 = 0x1000_0000;
/// Where its vCPU 0 begins, and with what.
pub const ENTRY: u64 = RAM_START + 0x8_0000;
/// vCPU 0's X0.
pub const ARGUMENT: u64 = 0x4800_0000;
/// Ticks a second.
pub const FREQUENCY: u64 = 62_500_000;
/// PSTATE of EL1 on its own stack, all masked.
pub const EL1H: u64 = 0x3c5;

/// Notes what the core asks for.
#[derive(Debug)]
pub struct FakeMachine {
    /// The counter.
    pub now: Cell<u64>,
    /// pCPUs that were kicked, oldest first.
    pub kicks: RefCell<Vec<CpuId>>,
    /// Physical interrupts that were deactivated, oldest first.
    pub deactivated: RefCell<Vec<IntId>>,
    /// The line behind the VM's serial port.
    pub line: RefCell<FakeSerialPort>,
    /// The CPU's MDSCR_EL1.
    pub mdscr: Cell<u64>,
    /// Its breakpoint and watchpoint registers that are not zero.
    pub breakpoints: RefCell<Vec<(SysReg, u64)>>,
    /// The last [`SerialLines::line_state`].
    pub line_state: Cell<Option<(bool, bool)>>,
    /// What [`SerialLines::input_waits`] says.
    pub input_waits: Cell<bool>,
    /// Every ID register's value.
    pub id_register: Cell<u64>,
    /// SP_EL0 and SP_EL1.
    pub stack_pointers: Cell<[u64; 2]>,
    /// V0 to V31, if the guest has them.
    pub vectors: RefCell<Option<[u128; 32]>>,
}

/// Borrows the line: one who asks for it twice at a time panics, as he would deadlock.
#[derive(Debug)]
pub struct FakePort<'a>(RefMut<'a, FakeSerialPort>);

impl SerialPort for FakePort<'_> {
    fn try_send(&mut self, byte: u8) -> bool {
        self.0.try_send(byte)
    }
}

impl FakeMachine {
    fn new() -> Self {
        Self {
            now: Cell::new(1000),
            kicks: RefCell::default(),
            deactivated: RefCell::default(),
            line: RefCell::new(FakeSerialPort {
                room: usize::MAX,
                ..Default::default()
            }),
            mdscr: Cell::new(0),
            breakpoints: RefCell::default(),
            line_state: Cell::new(None),
            input_waits: Cell::new(false),
            id_register: Cell::new(u64::MAX),
            stack_pointers: Cell::new([0; 2]),
            vectors: RefCell::new(None),
        }
    }

    /// The pCPUs kicked since the last call, as vCPU indices, sorted, each once.
    pub fn kicked(&self) -> Vec<usize> {
        let mut kicked: Vec<_> = self
            .kicks
            .take()
            .into_iter()
            .map(|cpu| cpu.index() - usize::from(FIRST_CPU))
            .collect();
        kicked.sort_unstable();
        kicked.dedup();
        kicked
    }
}

impl Interrupts for FakeMachine {
    fn kick(&self, home: Home) {
        self.kicks.borrow_mut().push(home.cpu);
    }

    fn deactivate(&self, interrupt: IntId) {
        self.deactivated.borrow_mut().push(interrupt);
    }
}

impl Clock for FakeMachine {
    fn counter(&self) -> u64 {
        self.now.get()
    }

    fn counter_frequency(&self) -> u64 {
        FREQUENCY
    }
}

impl SerialLines for FakeMachine {
    type Port<'a> = FakePort<'a>;

    fn port(&self, _vm: VmId) -> FakePort<'_> {
        FakePort(self.line.borrow_mut())
    }

    fn line_state(&self, _vm: VmId, room: bool, waiting: bool) {
        // The backend takes the line's lock here.
        drop(self.line.borrow_mut());
        self.line_state.set(Some((room, waiting)));
    }

    fn input_waits(&self, _vm: VmId) -> bool {
        self.input_waits.get()
    }
}

impl CpuRegisters for FakeMachine {
    fn id_register(&self, _id: SysReg) -> u64 {
        self.id_register.get()
    }

    fn stack_pointer(&self, which: StackPointer) -> u64 {
        self.stack_pointers.get()[which as usize]
    }

    fn set_stack_pointer(&self, which: StackPointer, value: u64) {
        let mut pointers = self.stack_pointers.get();
        pointers[which as usize] = value;
        self.stack_pointers.set(pointers);
    }

    fn set_debug_control(&self, value: u64) {
        self.mdscr.set(value);
    }

    fn debug_register(&self, id: SysReg) -> u64 {
        let all = self.breakpoints.borrow();
        all.iter().find(|(at, _)| *at == id).map_or(0, |one| one.1)
    }

    fn set_debug_register(&self, id: SysReg, value: u64) {
        let mut all = self.breakpoints.borrow_mut();
        all.retain(|(at, _)| *at != id);
        all.push((id, value));
    }

    fn clear_debug_registers(&self) {
        self.breakpoints.borrow_mut().clear();
    }

    fn vector(&self, index: u8) -> Option<u128> {
        self.vectors
            .borrow()
            .as_ref()
            .map(|vectors| vectors[usize::from(index)])
    }

    fn set_vector(&self, index: u8, value: u128) {
        if let Some(vectors) = self.vectors.borrow_mut().as_mut() {
            vectors[usize::from(index)] = value;
        }
    }
}

/// A VM, each vCPU on a pCPU of its own.
#[derive(Debug)]
pub struct Fixture {
    /// The machine.
    pub machine: FakeMachine,
    /// The VM.
    pub vm: Vm,
    /// Its vCPUs' private parts.
    pub vcpus: Vec<Vcpu>,
    /// Their registers.
    pub regs: Vec<Regs>,
    /// Their pCPUs' list registers.
    pub lists: Vec<FakeListRegisters>,
}

/// The description of a VM of `vcpus` vCPUs.
pub fn config(vcpus: u8) -> VmConfig {
    VmConfig {
        name: "test".try_into().unwrap(),
        cpus: (0..vcpus).map(|n| CpuId::new(FIRST_CPU + n)).collect(),
        promises: Default::default(),
        memory: Span::new(Ipa::new(RAM_START), RAM_LEN).unwrap(),
        entry: Ipa::new(ENTRY),
        argument: ARGUMENT,
        blobs: Default::default(),
        slots: platform_slots(),
        devices: Default::default(),
        trusted: false,
        autostart: true,
        aarch32: false,
    }
}

impl Fixture {
    /// A VM that has begun its life, vCPU 0 running, the others off.
    pub fn new(vcpus: u8) -> Self {
        Self::with_gic(vcpus, GicVersion::V3)
    }

    /// The same on CPUs whose virtual interface is of this version.
    pub fn with_gic(vcpus: u8, version: GicVersion) -> Self {
        let this = Self {
            machine: FakeMachine::new(),
            vm: Vm::new(VmId::new(0), config(vcpus), version, 5, 0),
            vcpus: (0..vcpus).map(|n| Vcpu::new(VcpuId::new(n))).collect(),
            regs: vec![
                Regs {
                    pstate: EL1H,
                    pc: ENTRY,
                    ..Regs::default()
                };
                vcpus.into()
            ],
            lists: (0..vcpus).map(|_| FakeListRegisters::new(4)).collect(),
        };
        assert!(this.vm.lifecycle().begin() && this.vm.begin());
        this.come_in(0);
        this
    }

    /// What a pCPU does with a vCPU whose start was asked for.
    pub fn come_in(&self, n: u8) {
        assert!(self.vm.lifecycle().enter());
        assert!(self.vm.power(VcpuId::new(n)).take_start().is_some());
    }

    /// The core's handler for vCPU `n`.
    pub fn guest(&mut self, n: usize) -> Guest<'_, FakeMachine, FakeListRegisters> {
        Guest {
            vm: &self.vm,
            vcpu: &mut self.vcpus[n],
            regs: &mut self.regs[n],
            machine: &self.machine,
            lists: &mut self.lists[n],
        }
    }

    /// vCPU `n` exits.
    pub fn handle(&mut self, n: usize, exit: Exit) -> Action {
        self.guest(n).handle(exit)
    }

    /// vCPU `n` calls: X0 to X3; its X0 afterwards, and what follows.
    pub fn call(&mut self, n: usize, arguments: [u64; 4]) -> (u64, Action) {
        self.regs[n].x[..4].copy_from_slice(&arguments);
        let action = self.handle(n, Exit::Hypercall);
        (self.regs[n].x[0], action)
    }

    /// The ids that vCPU `n`'s list registers show as pending.
    pub fn shown(&self, n: usize) -> Vec<u32> {
        let pending = |lr: &&u64| **lr >> 62 & 1 != 0;
        self.lists[n]
            .lr
            .iter()
            .filter(pending)
            .map(|lr| *lr as u32)
            .collect()
    }
}

/// The fake CPUs have no debug registers.
impl CpuRegisters for FakeBackend {
    fn id_register(&self, _id: SysReg) -> u64 {
        self.registers().id
    }

    fn stack_pointer(&self, which: StackPointer) -> u64 {
        self.registers().stack_pointers[which as usize]
    }

    fn set_stack_pointer(&self, which: StackPointer, value: u64) {
        self.registers().stack_pointers[which as usize] = value;
    }

    fn set_debug_control(&self, _value: u64) {}

    fn debug_register(&self, _id: SysReg) -> u64 {
        0
    }

    fn set_debug_register(&self, _id: SysReg, _value: u64) {}

    fn clear_debug_registers(&self) {}

    fn vector(&self, index: u8) -> Option<u128> {
        let vectors = self.registers().vectors;
        vectors.map(|vectors| vectors[usize::from(index)])
    }

    fn set_vector(&self, index: u8, value: u128) {
        if let Some(vectors) = self.registers().vectors.as_mut() {
            vectors[usize::from(index)] = value;
        }
    }
}
