//! A board of fake CPUs with VMs on it, for tests that run the executive on a PC.

use crate::{Board, BoardInterrupts, Notices, Pcpu, PcpuPolicy, Vcpu, VmUnit, gather, regions_of};
use hanok_config::VmConfig;
use hanok_hal::Mutex;
use hanok_hal::fake::{
    FakeBackend, FakeContext, FakeGic, FakeLine, FakeRegion, FakeTableMemory, FakeTlb, HYP_TIMER,
    Settings, VIRTUAL_TIMER, Wire,
};
use hanok_hal::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use hanok_memory::{AddressSpace, FrameMap, Owner, Owners};
use hanok_paging::{Geometry, VmidPool};
use hanok_sched::{Interface, Kind, Order, Reservation, RoundRobin, Servers, Slack};
use hanok_types::{CpuId, GicVersion, Hpa, IntId, Ipa, PAGE_SIZE, Span, VcpuId, VmId};
use hanok_vm::{Buffers, Multiplexer, Vm};
use std::boxed::Box;
use std::format;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::vec::Vec;

/// The serial port's interrupt, which goes to CPU 0.
pub const UART: u32 = 33;
/// The maintenance interrupt.
pub const MAINTENANCE: u32 = 25;
/// Where each VM's RAM begins.
pub const RAM: Ipa = Ipa::new(0x4000_0000);
/// A frame that is the hypervisor's, for a test to give.
pub const SPARE: Hpa = Hpa::new(0x8000_0000);
/// Two pieces of loading, so that it can be interrupted.
const RAM_LEN: u64 = 0x10_0000;

/// The board, whose parts live for ever, as on a real one.
#[allow(missing_debug_implementations)]
pub struct FakeBoard {
    /// What all CPUs share.
    pub board: &'static Board<FakeBackend>,
    /// The CPUs, each with its vCPUs.
    pub pcpus: Vec<Pcpu<FakeBackend>>,
    /// The other end of the serial line.
    pub wire: Wire,
    /// How many vCPUs are in each VM's guest; the test is to count. Nobody may be where memory is made.
    pub inhabitants: Vec<Arc<AtomicUsize>>,
}

impl FakeBoard {
    /// A board with `vms`, called `vm0` and so on, of each of which these are the CPUs of its vCPUs, that
    /// take turns of 100 ticks.
    pub fn new(settings: Settings, vms: &[Vec<u8>], version: GicVersion) -> Self {
        Self::with_promises(settings, vms, version, &[])
    }

    /// The same, where the CPUs for which there is a promise are shared by servers under EDF that leave what
    /// they do not use.
    pub fn with_promises(
        settings: Settings,
        vms: &[Vec<u8>],
        version: GicVersion,
        promises: &[FakePromise],
    ) -> Self {
        let inhabitants: Vec<_> = vms.iter().map(|_| Arc::default()).collect();
        let units =
            (0..vms.len()).map(|vm| unit(vms, vm, version, Arc::clone(&inhabitants[vm]), promises));
        let units: &'static [VmUnit<FakeBackend>] = Box::leak(units.collect());
        let wire = Wire::default();
        let board = Box::leak(Box::new(board(settings, units, &wire)));
        let promised = |cpu: usize| promises.iter().any(|promise| promise.cpu == cpu);
        let pcpu = |cpu| Pcpu::new(CpuId::new(cpu as u8), board, policy(promised(cpu)));
        let mut pcpus: Vec<_> = (0..settings.cpus).map(pcpu).collect();
        for pcpu in &mut pcpus {
            pcpu.local.gic = Some(FakeGic);
        }
        for unit in units {
            for (index, cpu) in unit.vm.config().cpus.iter().enumerate() {
                let core = hanok_vm::Vcpu::new(VcpuId::new(index as u8));
                let vcpu = Box::leak(Box::new(Vcpu::new(unit, core, FakeContext::default())));
                let own = |promise: &&FakePromise| {
                    promise.cpu == cpu.index() && promise.vm == unit.vm.id().index()
                };
                let reservation = promises.iter().find(own).map(FakePromise::reservation);
                let adopted = pcpus[cpu.index()].adopt(vcpu, reservation);
                adopted.expect("room for it");
            }
        }
        Self {
            board,
            pcpus,
            wire,
            inhabitants,
        }
    }
}

/// What the vCPU of a VM on a CPU is promised.
#[derive(Clone, Copy, Debug)]
pub struct FakePromise {
    /// The CPU.
    pub cpu: usize,
    /// The VM.
    pub vm: usize,
    /// How often the budget comes, in ticks.
    pub period: u64,
    /// What comes in each period, in ticks.
    pub budget: u64,
}

impl FakePromise {
    fn reservation(&self) -> Reservation {
        let interface = Interface::periodic(self.period, self.budget).expect("a promise");
        Reservation::rate_monotonic(Kind::Periodic, interface)
    }
}

fn policy(promised: bool) -> PcpuPolicy {
    if promised {
        let servers = Servers::new(Order::EarliestDeadline, Slack::Idle);
        PcpuPolicy::Servers(Box::leak(Box::new(servers)))
    } else {
        PcpuPolicy::RoundRobin(RoundRobin::new(100))
    }
}

fn unit(
    vms: &[Vec<u8>],
    vm: usize,
    version: GicVersion,
    inhabitants: Arc<AtomicUsize>,
    promises: &[FakePromise],
) -> VmUnit<FakeBackend> {
    let config = config(&format!("vm{vm}"), &vms[vm]);
    let ram = FakeRegion::new(config.memory, inhabitants);
    let space = space(&config, home(vm));
    let mut core = Vm::new(VmId::new(vm as u8), config, version, 5, 0);
    for vcpu in 0..vms[vm].len() {
        core.set_bit(VcpuId::new(vcpu as u8), bit(vms, vm, vcpu, promises));
    }
    VmUnit {
        vm: core,
        ram,
        flash: None,
        memory: Mutex::new(space),
        space: AtomicU64::new(0),
        last_here: Default::default(),
        notices: Notices::default(),
    }
}

fn config(name: &str, cpus: &[u8]) -> VmConfig {
    let mut config = hanok_vm::fake::config(cpus.len() as u8);
    config.name = name.try_into().expect("a short name");
    config.cpus = cpus.iter().map(|cpu| CpuId::new(*cpu)).collect();
    config.memory = Span::new(RAM, RAM_LEN).expect("a span");
    config
}

/// Where the RAM of the `vm`th VM is on the board: one above the other.
fn home(vm: usize) -> Hpa {
    Hpa::new(RAM.get() + vm as u64 * RAM_LEN)
}

/// A VM's space, which has all of its RAM, and room for two pages elsewhere.
fn space(config: &VmConfig, home: Hpa) -> AddressSpace<FakeTableMemory> {
    let regions = regions_of(config, home, None, None).expect("few regions");
    let tables = FakeTableMemory::new(64);
    let slots = Box::leak(Box::new([None; 2]));
    let mut tlb = FakeTlb::default();
    AddressSpace::new(Geometry::BITS_40, tables, &mut tlb, &regions, slots).expect("room for it")
}

/// The owners of this board's RAM: each of the `vms` VMs has its own; [`SPARE`] is the hypervisor's.
fn owners(vms: usize) -> Owners {
    let span = |start, len| Span::new(start, len).expect("a span");
    let all = span(home(0), vms as u64 * RAM_LEN);
    let spare = span(SPARE, PAGE_SIZE);
    let map = FrameMap::new(&[all, spare], &[]).expect("little RAM");
    let mut owners = Owners::new(&map).expect("few spans");
    let mut give = |span, to| owners.hand_over(span, Owner::Free, to).expect("it is free");
    for vm in 0..vms {
        give(span(home(vm), RAM_LEN), Owner::Vm(VmId::new(vm as u8)));
    }
    give(spare, Owner::Hypervisor);
    owners
}

/// A bit for the `vcpu`th vCPU of VM `vm` where its CPU may hold it back, as the description's order counts.
fn bit(vms: &[Vec<u8>], vm: usize, vcpu: usize, promises: &[FakePromise]) -> u64 {
    let cpu = vms[vm][vcpu];
    let all: Vec<u8> = vms.iter().flatten().copied().collect();
    let before: usize = vms[..vm].iter().map(Vec::len).sum::<usize>() + vcpu;
    let enforced = promises.iter().any(|promise| promise.cpu == cpu.into());
    let shared = enforced || all.iter().filter(|other| **other == cpu).count() > 1;
    let place = all[..before].iter().filter(|other| **other == cpu).count();
    if shared { 1 << place } else { 0 }
}

fn board(
    settings: Settings,
    units: &'static [VmUnit<FakeBackend>],
    wire: &Wire,
) -> Board<FakeBackend> {
    let mut machine = FakeBackend::new(settings);
    machine.connect(UART, wire.clone());
    let names = units.iter().map(|unit| unit.vm.config().name.clone());
    let buffers = Box::leak(Box::new(Buffers::new()));
    let console = Multiplexer::new(FakeLine(wire.clone()), false, names.collect(), buffers);
    let random = gather(&machine, &[1; 32], &[], None);
    Board {
        machine,
        console: Mutex::new(console),
        interrupts: BoardInterrupts {
            virtual_timer: IntId::new(VIRTUAL_TIMER),
            hyp_timer: IntId::new(HYP_TIMER),
            maintenance: IntId::new(MAINTENANCE),
            uart: Some(IntId::new(UART)),
        },
        lines: Default::default(),
        vms: units,
        updates: Default::default(),
        vmids: Mutex::new(VmidPool::new()),
        owners: Mutex::new(owners(units.len())),
        payload: &[],
        random: Mutex::new(random),
        jitter: AtomicU32::new(0),
        rx_lock: Mutex::new(()),
        input_waits: AtomicU32::new(0),
        output_waits: AtomicBool::new(false),
        counts_instructions: false,
        endings: Mutex::new(()),
        any_stopped: AtomicBool::new(false),
        bootargs: "",
    }
}
