//! A machine and a VM on it, for tests on a PC.

use crate::{
    Action, Bells, Clock, CpuRegisters, DeviceRegisters, Doorbells, Exit, Guest, Home, Interrupts,
    SerialLines, SharedVcpu, StackPointer, StolenPage, Vcpu, VcpuParts, Vm,
};
use core::cell::{Cell, RefCell, RefMut};
use hanok_config::{DeviceKind, VmConfig, platform_slots};
use hanok_decode::SysReg;
use hanok_devices::virtio::{Backed, SharedDevice};
use hanok_hal::fake::{FakeBackend, FakeListRegisters, FakeLists, FakeSerialPort};
use hanok_hal::{LineFull, SerialPort};
use hanok_types::{CpuId, GicVersion, Hpa, IntId, Ipa, Regs, Span, VcpuId, VmId, Width};
use hanok_vgic::CpuPart;
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

/// The pCPU of the VM's vCPU 0; the pCPUs of the others follow.
pub const FIRST_CPU: u8 = 3;
/// The start of the VM's RAM.
pub const RAM_START: u64 = 0x4000_0000;
/// The size of the VM's RAM in bytes.
pub const RAM_LEN: u64 = 0x1000_0000;
/// The entry of vCPU 0.
pub const ENTRY: u64 = RAM_START + 0x8_0000;
/// X0 of vCPU 0 at its entry.
pub const ARGUMENT: u64 = 0x4800_0000;
/// The frequency of the counter.
pub const FREQUENCY: u64 = 62_500_000;
/// PSTATE of EL1 on its own stack, all masked.
pub const EL1H: u64 = 0x3c5;

/// A machine that records what the core asks of it.
#[derive(Debug)]
pub struct FakeMachine {
    /// The value of the counter.
    pub now: Cell<u64>,
    /// The pCPUs that were kicked, oldest first.
    pub kicks: RefCell<Vec<CpuId>>,
    /// The physical interrupts that were deactivated, oldest first.
    pub deactivated: RefCell<Vec<IntId>>,
    /// The line behind the VM's serial port.
    pub line: RefCell<FakeSerialPort>,
    /// The CPU's MDSCR_EL1.
    pub mdscr: Cell<u64>,
    /// The CPU's breakpoint and watchpoint registers that are not zero.
    pub breakpoints: RefCell<Vec<(SysReg, u64)>>,
    /// The last [`SerialLines::line_state`].
    pub line_state: Cell<Option<(bool, bool)>>,
    /// The answer of [`SerialLines::input_waits`].
    pub input_waits: Cell<bool>,
    /// Every ID register's value.
    pub id_register: Cell<u64>,
    /// SP_EL0 and SP_EL1.
    pub stack_pointers: Cell<[u64; 2]>,
    /// V0 to V31, if the guest has them.
    pub vectors: RefCell<Option<[u128; 32]>>,
    /// The accesses to registers of real devices, oldest first.
    pub accesses: RefCell<Vec<(Hpa, Width, Option<u64>)>>,
    /// What was done to peers on channels.
    pub bells: RefCell<Vec<Bells>>,
    /// What a load from such a register answers; `None`: no device answers.
    pub register: Cell<Option<u64>>,
}

/// Borrows the line. A second borrow at the same time panics, as a lock would deadlock.
#[derive(Debug)]
pub struct FakePort<'a>(RefMut<'a, FakeSerialPort>);

impl SerialPort for FakePort<'_> {
    fn try_send(&mut self, byte: u8) -> Result<(), LineFull> {
        self.0.try_send(byte)
    }
}

impl Default for FakeMachine {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeMachine {
    /// One that was asked nothing yet.
    pub fn new() -> Self {
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
            accesses: RefCell::default(),
            bells: RefCell::default(),
            register: Cell::new(Some(0)),
        }
    }

    /// The vCPUs whose pCPUs were kicked since the last call, sorted, each once.
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

impl Doorbells for FakeMachine {
    fn ring(&self, bells: &Bells) {
        self.bells.borrow_mut().push(*bells);
    }
}

impl DeviceRegisters for FakeMachine {
    fn access_register(&self, at: Hpa, width: Width, value: Option<u64>) -> Option<u64> {
        self.accesses.borrow_mut().push((at, width, value));
        self.register.get()
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

/// A VM in which each vCPU has a pCPU of its own.
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

/// The description of a VM with `vcpus` vCPUs.
pub fn config(vcpus: u8) -> VmConfig {
    VmConfig {
        name: "test".try_into().unwrap(),
        cpus: (0..vcpus).map(|n| CpuId::new(FIRST_CPU + n)).collect(),
        memory: Span::new(Ipa::new(RAM_START), RAM_LEN).unwrap(),
        entry: Ipa::new(ENTRY),
        argument: ARGUMENT,
        blobs: Default::default(),
        slots: platform_slots(),
        channels: Default::default(),
        devices: Default::default(),
        trusted: false,
        autostart: true,
        aarch32: false,
        rewritten: false,
        trampolines: None,
        watchdog: 0,
    }
}

/// Resets all devices and shared interrupts of `vm`.
pub fn reset_devices(vm: &Vm, machine: &FakeMachine) {
    let mut parts = 0..;
    while parts
        .next()
        .is_some_and(|part| vm.reset_devices(machine, part))
    {}
}

/// A VM that never ran, of this description; each vCPU has its `bit` among those of its pCPU.
pub fn vm(id: VmId, config: VmConfig, version: GicVersion, bit: &dyn Fn(usize) -> u64) -> Vm {
    let config: &'static VmConfig = Box::leak(Box::new(config));
    let homes = config.cpus.iter().enumerate();
    let mut homes = homes.map(|(vcpu, cpu)| Home {
        cpu: *cpu,
        bit: bit(vcpu),
    });
    let first = homes.next().expect("a vCPU");
    let records = config.slots.iter().map(|slot| match slot.kind {
        DeviceKind::Virtio(kind) => {
            let record = SharedDevice::new(kind, Backed::ByHypervisor);
            Some(&*Box::leak(Box::new(record)))
        }
        _ => None,
    });
    let parts = VcpuParts {
        first,
        stolen: (!config.aarch32).then(|| &*Box::leak(Box::new(StolenPage::new()))),
        others: Box::leak(homes.map(SharedVcpu::new).collect()),
        shared: Box::leak(records.collect()),
        gic: Box::leak(
            (1..config.cpus.len())
                .map(|_| CpuPart::new(version))
                .collect(),
        ),
        variables: &[],
    };
    Vm::new(id, config, parts, version, 5, 0)
}

impl Fixture {
    /// A VM that has booted: vCPU 0 runs, the others are off.
    pub fn new(vcpus: u8) -> Self {
        Self::with_gic(vcpus, GicVersion::V3)
    }

    /// As [`Self::new`], on CPUs whose virtual CPU interface has this version.
    pub fn with_gic(vcpus: u8, version: GicVersion) -> Self {
        Self::of(config(vcpus), version)
    }

    /// As [`Self::with_gic`], with this description.
    pub fn of(config: VmConfig, version: GicVersion) -> Self {
        let vcpus = config.cpus.len() as u8;
        let this = Self {
            machine: FakeMachine::new(),
            vm: vm(VmId::new(0), config, version, &|_| 0),
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
        assert!(this.vm.lifecycle().begin().is_made());
        reset_devices(&this.vm, &this.machine);
        assert!(this.vm.begin().is_made());
        this.come_in(0);
        this
    }

    /// The same VM on CPUs without a virtual CPU interface.
    pub fn with_software_interface(self) -> Self {
        Self {
            vm: self.vm.with_software_interface(),
            ..self
        }
    }

    /// Does what a pCPU does with a vCPU whose start was requested.
    pub fn come_in(&self, n: u8) {
        assert!(self.vm.lifecycle().enter().is_made());
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

    /// Handles an exit of vCPU `n`.
    pub fn handle(&mut self, n: usize, exit: Exit) -> Action {
        self.guest(n).handle(exit)
    }

    /// vCPU `n` makes a hypercall with X0 to X3. The answer is its X0 afterwards, and the action.
    pub fn call(&mut self, n: usize, arguments: [u64; 4]) -> (u64, Action) {
        self.regs[n].x[..4].copy_from_slice(&arguments);
        let action = self.handle(n, Exit::Hypercall);
        (self.regs[n].x[0], action)
    }

    /// The ids of the interrupts that vCPU `n`'s list registers show as pending.
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

/// Each register reads as its address.
impl<L: FakeLists> DeviceRegisters for FakeBackend<L> {
    fn access_register(&self, at: Hpa, _width: Width, _value: Option<u64>) -> Option<u64> {
        Some(at.get())
    }
}

/// The fake CPUs have no debug registers.
impl<L: FakeLists> CpuRegisters for FakeBackend<L> {
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
