//! A board of fake CPUs with VMs on it, for tests that run the executive on a PC.

use crate::Traces;
pub use crate::fake_software::SoftwareLists;
use crate::{
    Board, BoardInterrupts, Notices, Pcpu, PcpuPolicy, SharedPool, Vcpu, VmUnit, gather, regions_of,
};
use hanok_abi::trace::area_size;
use hanok_config::{Ask, ChannelEnd, CorePolicy, SystemView, VmConfig};
use hanok_hal::Mutex;
use hanok_hal::fake::{
    FakeBackend, FakeContext, FakeCpuInterface, FakeGic, FakeLine, FakeLists, FakeRegion,
    FakeTableMemory, FakeTlb, HYP_TIMER, Settings, VIRTUAL_TIMER, Wire,
};
use hanok_hal::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use hanok_memory::{AddressSpace, FrameMap, Owner, Owners};
use hanok_paging::{Geometry, VmidPool};
use hanok_sched::{
    Budgets, Credit, Deals, Grant, Interface, Kind, Node, Order, Reservation, RoundRobin, Slack,
    Tree,
};
use hanok_trace::{Area, Choice, CpuAccount, Facts};
use hanok_types::{
    CpuId, GicVersion, Hpa, IntId, Ipa, MAX_CPUS, PAGE_SIZE, Span, VcpuId, VmId, platform,
};
use hanok_vgic::GuestInterface;
use hanok_vm::{Buffers, Granted, Interruptions, Members, Multiplexer, PortQueues, Said};
use std::boxed::Box;
use std::format;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::vec;
use std::vec::Vec;

/// The serial port's interrupt, which goes to CPU 0.
pub const UART: u32 = 33;
/// The maintenance interrupt.
pub const MAINTENANCE: u32 = 25;
/// The start of each VM's RAM.
pub const RAM: Ipa = Ipa::new(0x4000_0000);
/// A frame that belongs to the hypervisor, which a test can give to a VM.
pub const SPARE: Hpa = Hpa::new(0x8000_0000);
/// The size of RAM: two pieces of loading, so that loading can be interrupted.
const RAM_LEN: u64 = 0x10_0000;

/// The board, whose parts are never dropped, as on a real one.
#[allow(missing_debug_implementations)]
pub struct FakeBoard<L: FakeLists + GuestInterface = FakeCpuInterface> {
    /// What all CPUs share.
    pub board: &'static Board<FakeBackend<L>>,
    /// The CPUs, each with its vCPUs.
    pub pcpus: Vec<Pcpu<FakeBackend<L>>>,
    /// The other end of the serial line.
    pub wire: Wire,
    /// The number of vCPUs in each VM's guest, which the test counts. None may be in a VM whose
    /// memory is loaded.
    pub inhabitants: Vec<Arc<AtomicUsize>>,
}

/// The number of records of each ring of a fake board.
pub const TRACE_RECORDS: usize = 128;

impl FakeBoard {
    /// A board with `vms`, named `vm0` and so on. Each entry has the CPUs of the VM's vCPUs, which
    /// take turns of 100 ticks.
    pub fn new(settings: Settings, vms: &[Vec<u8>], version: GicVersion) -> Self {
        Self::with_promises(settings, vms, version, &[])
    }

    /// As [`Self::new`], with a channel on which all VMs are, each with its own index.
    pub fn with_channel(settings: Settings, vms: &[Vec<u8>], version: GicVersion) -> Self {
        let plan = Plan {
            settings,
            vms,
            version,
            promises: &[],
            pool: &[],
            software: false,
            channel: true,
            traced: false,
        };
        Self::with_machine(FakeBackend::new(settings), &plan)
    }

    /// As [`Self::new`], with a trace, which records nothing yet. (A model checker has no room for one on each board.)
    pub fn with_trace(settings: Settings, vms: &[Vec<u8>], version: GicVersion) -> Self {
        let plan = Plan {
            settings,
            vms,
            version,
            promises: &[],
            pool: &[],
            software: false,
            channel: false,
            traced: true,
        };
        Self::with_machine(FakeBackend::new(settings), &plan)
    }

    /// As [`Self::new`], with servers under EDF on the CPUs for which there is a promise; they
    /// leave time that they do not use idle.
    pub fn with_promises(
        settings: Settings,
        vms: &[Vec<u8>],
        version: GicVersion,
        promises: &[FakePromise],
    ) -> Self {
        Self::with_pool(settings, vms, version, promises, &[])
    }

    /// As [`Self::with_promises`], where the vCPUs of the CPUs of `pool` share these, under global EDF. They
    /// have promises; a promise names the first CPU of its vCPU.
    pub fn with_pool(
        settings: Settings,
        vms: &[Vec<u8>],
        version: GicVersion,
        promises: &[FakePromise],
        pool: &[u8],
    ) -> Self {
        let plan = Plan {
            settings,
            vms,
            version,
            promises,
            pool,
            software: false,
            channel: false,
            traced: false,
        };
        Self::with_machine(FakeBackend::new(settings), &plan)
    }
}

impl FakeBoard<SoftwareLists> {
    /// As [`Self::new`], with CPUs that have no virtual CPU interface and no virtual timer for guests.
    pub fn in_software(settings: Settings, vms: &[Vec<u8>]) -> Self {
        let plan = Plan {
            settings,
            vms,
            version: GicVersion::V2,
            promises: &[],
            pool: &[],
            software: true,
            channel: false,
            traced: false,
        };
        let lists = (0..settings.cpus).map(|_| SoftwareLists::new(plan.version));
        Self::with_machine(FakeBackend::with_lists(settings, lists.collect()), &plan)
    }
}

impl<L: FakeLists + GuestInterface> FakeBoard<L> {
    /// Makes the serial line a framed one.
    pub fn frame_line(&self) {
        *self.board.console.lock() = console(self.board.vms, &self.wire, true);
    }

    fn with_machine(machine: FakeBackend<L>, plan: &Plan<'_>) -> Self {
        let Plan {
            settings,
            vms,
            promises,
            ..
        } = *plan;
        let inhabitants: Vec<_> = vms.iter().map(|_| Arc::default()).collect();
        let units = (0..vms.len()).map(|vm| unit(plan, vm, Arc::clone(&inhabitants[vm])));
        let units: &'static [VmUnit<FakeBackend<L>>] = Box::leak(units.collect());
        if plan.channel {
            join(units);
        }
        let wire = Wire::default();
        let board = Box::leak(Box::new(board(machine, plan, units, &wire)));
        let pooled = |cpu: usize| plan.pool.contains(&(cpu as u8));
        let promised =
            |cpu: usize| !pooled(cpu) && promises.iter().any(|promise| promise.cpu == cpu);
        let pcpu = |cpu| {
            let interruptions = Box::leak(vec![Interruptions::default(); vms.len()].into());
            Pcpu::new(
                CpuId::new(cpu as u8),
                board,
                policy(promised(cpu)),
                interruptions,
            )
        };
        let mut pcpus: Vec<_> = (0..settings.cpus).map(pcpu).collect();
        let seats = plan.pool.iter().map(|cpu| CpuId::new(*cpu));
        let pool = Box::leak(Box::new(SharedPool::new(
            board,
            Order::EarliestDeadline,
            seats,
        )));
        for pcpu in &mut pcpus {
            pcpu.local.gic = Some(FakeGic);
            if let Some(seat) = pool.seat(pcpu.local.id) {
                pcpu.join(seat);
            }
        }
        for unit in units {
            for (index, cpu) in unit.vm.config().cpus.iter().enumerate() {
                let core = hanok_vm::Vcpu::new(VcpuId::new(index as u8));
                let vcpu = Box::leak(Box::new(Vcpu::new(unit, core, FakeContext::default())));
                let own = |promise: &&FakePromise| {
                    promise.cpu == cpu.index() && promise.vm == unit.vm.id().index()
                };
                let grant = promises.iter().find(own).map(FakePromise::grant);
                let ask = Ask::default();
                let adopted = pcpus[cpu.index()].adopt(vcpu, Granted { grant, ask });
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

/// What is on a board.
struct Plan<'a> {
    settings: Settings,
    vms: &'a [Vec<u8>],
    version: GicVersion,
    promises: &'a [FakePromise],
    /// The CPUs that share their vCPUs.
    pool: &'a [u8],
    /// Whether the guests' CPU interfaces are in software.
    software: bool,
    /// Whether all VMs are on a channel, by their index.
    channel: bool,
    /// Whether the board has a trace.
    traced: bool,
}

/// The promise to the vCPU of a VM on a CPU.
#[derive(Clone, Copy, Debug)]
pub struct FakePromise {
    /// The CPU.
    pub cpu: usize,
    /// The VM.
    pub vm: usize,
    /// The period in ticks.
    pub period: u64,
    /// The budget of each period in ticks.
    pub budget: u64,
}

impl FakePromise {
    fn grant(&self) -> Grant {
        let interface = Interface::periodic(self.period, self.budget).expect("a promise");
        Grant::Promise(0, Reservation::rate_monotonic(Kind::Periodic, interface))
    }
}

fn policy(promised: bool) -> PcpuPolicy {
    if promised {
        let root = Box::new(Node::new(Order::EarliestDeadline, Slack::Idle));
        let tree = Tree::new(Box::leak(root), &mut []);
        let rest = Credit::new(3_000, 100, Deals::Used, 0);
        let budgets = Budgets::new(tree, rest, Slack::Idle, 0);
        PcpuPolicy::Budgets(Box::leak(Box::new(budgets)))
    } else {
        PcpuPolicy::RoundRobin(RoundRobin::new(100))
    }
}

fn unit<L: FakeLists + GuestInterface>(
    plan: &Plan<'_>,
    vm: usize,
    inhabitants: Arc<AtomicUsize>,
) -> VmUnit<FakeBackend<L>> {
    let mut config = config(&format!("vm{vm}"), &plan.vms[vm]);
    if plan.channel {
        let end = end(vm);
        config.slots.extend(end.slot());
        config.channels.push(end).expect("room for one");
    }
    let ram = FakeRegion::new(config.memory, inhabitants);
    let space = space(&config, home(vm));
    let bit = |vcpu| bit(plan, vm, vcpu);
    let mut core = hanok_vm::fake::vm(VmId::new(vm as u8), config, plan.version, &bit);
    if plan.software {
        core = core.with_software_interface();
    }
    VmUnit {
        vm: core,
        ram,
        flash: None,
        is_fixed: space.is_fixed(),
        memory: Mutex::new(space),
        space: AtomicU64::new(0),
        last_here: [const { AtomicU8::new(0) }; MAX_CPUS],
        notices: Notices::default(),
    }
}

/// The end that VM `vm` has of the one channel.
fn end(vm: usize) -> ChannelEnd {
    ChannelEnd {
        number: 0,
        index: vm as u8,
        memory: Span::new(platform::CHANNEL_MEMORY, PAGE_SIZE).expect("a span"),
        read_only: false,
        cached: false,
    }
}

/// Puts all VMs on the channel.
fn join<L: FakeLists + GuestInterface>(units: &[VmUnit<FakeBackend<L>>]) {
    let vms: Vec<_> = units.iter().map(|unit| unit.vm.config().clone()).collect();
    let system = SystemView {
        vms: &vms,
        promises: &[],
        groups: &[],
        gic: GicVersion::V3,
        slice: 1_000,
        switch_cost: 0,
        trace: Default::default(),
        policies: [CorePolicy::RoundRobin; MAX_CPUS],
    };
    let members: &_ = Box::leak(Box::new(Members::new(&system, 0)));
    for (vm, unit) in units.iter().enumerate() {
        unit.vm.join(&end(vm), members);
    }
}

fn config(name: &str, cpus: &[u8]) -> VmConfig {
    let mut config = hanok_vm::fake::config(cpus.len() as u8);
    config.name = name.try_into().expect("a short name");
    config.cpus = cpus.iter().map(|cpu| CpuId::new(*cpu)).collect();
    config.memory = Span::new(RAM, RAM_LEN).expect("a span");
    config
}

/// The start of VM `vm`'s RAM on the board: one VM's RAM follows another's.
fn home(vm: usize) -> Hpa {
    Hpa::new(RAM.get() + vm as u64 * RAM_LEN)
}

/// The address space of a VM with all pages present, and slots for two pages away from their homes.
fn space(config: &VmConfig, home: Hpa) -> AddressSpace<FakeTableMemory> {
    let regions = regions_of(config, home, None, None, None, &[]).expect("few regions");
    let tables = FakeTableMemory::new(64);
    let slots = Box::leak(Box::new([None; 2]));
    let mut tlb = FakeTlb::default();
    AddressSpace::new(Geometry::BITS_40, tables, &mut tlb, &regions, slots).expect("room for it")
}

/// The owners of this board's RAM: each of the `vms` VMs owns its own, and the hypervisor owns
/// [`SPARE`].
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

/// The bit of vCPU `vcpu` of VM `vm` if its CPU may hold it back, counted in the description's
/// order.
fn bit(plan: &Plan<'_>, vm: usize, vcpu: usize) -> u64 {
    let Plan {
        vms,
        promises,
        pool,
        ..
    } = *plan;
    // A pool counts its vCPUs as if they had one CPU.
    let place = |cpu: u8| if pool.contains(&cpu) { pool[0] } else { cpu };
    let cpu = place(vms[vm][vcpu]);
    let all: Vec<u8> = vms.iter().flatten().map(|cpu| place(*cpu)).collect();
    let before: usize = vms[..vm].iter().map(Vec::len).sum::<usize>() + vcpu;
    let enforced = pool.contains(&cpu) || promises.iter().any(|promise| promise.cpu == cpu.into());
    let shared = enforced || all.iter().filter(|other| **other == cpu).count() > 1;
    let place = all[..before].iter().filter(|other| **other == cpu).count();
    if shared { 1 << place } else { 0 }
}

/// The console behind a wire, framed or plain.
fn console<L: FakeLists + GuestInterface>(
    units: &[VmUnit<FakeBackend<L>>],
    wire: &Wire,
    framed: bool,
) -> Multiplexer<'static, FakeLine> {
    let names = units.iter().map(|unit| unit.vm.config().name.clone());
    let buffers = Buffers {
        said: Box::leak(Box::new(Said::new())),
        guests: Box::leak(units.iter().map(|_| PortQueues::new()).collect()),
    };
    let names: &[_] = Box::leak(names.collect());
    Multiplexer::new(FakeLine(wire.clone()), framed, names, buffers)
}

/// A trace that records nothing yet.
fn traces(rings: usize) -> Traces {
    let words = (0..area_size(rings, TRACE_RECORDS) / size_of::<usize>())
        .map(|_| hanok_hal::sync::atomic::AtomicUsize::new(0));
    let facts = Facts {
        rings,
        records: TRACE_RECORDS,
        frequency: 1_000_000,
        architecture: 64,
        names: &["vm0"],
    };
    let words: &'static [_] = Box::leak(words.collect());
    let memory = Span::new(Hpa::new(0x4000), 0x1000).unwrap_or_default();
    match Area::lay(words, facts) {
        Some(area) => {
            let tracers = (0..rings).filter_map(|index| area.tracer(index));
            let tracers = Box::leak(tracers.collect());
            Traces::new(area, memory, tracers, Choice::default())
        }
        None => Traces::default(),
    }
}

fn board<L: FakeLists + GuestInterface>(
    mut machine: FakeBackend<L>,
    plan: &Plan<'_>,
    units: &'static [VmUnit<FakeBackend<L>>],
    wire: &Wire,
) -> Board<FakeBackend<L>> {
    machine.connect(UART, wire.clone());
    let console = console(units, wire, false);
    let random = gather(&machine, &[1; 32], &[], None);
    Board {
        machine,
        console: Mutex::new(console),
        interrupts: BoardInterrupts {
            virtual_timer: if plan.software {
                BoardInterrupts::NONE
            } else {
                IntId::new(VIRTUAL_TIMER)
            },
            hyp_timer: IntId::new(HYP_TIMER),
            maintenance: IntId::new(MAINTENANCE),
            uart: Some(IntId::new(UART)),
        },
        lines: Default::default(),
        vms: units,
        updates: [const { AtomicU64::new(0) }; MAX_CPUS],
        vmids: Mutex::new(VmidPool::new()),
        owners: Mutex::new(owners(units.len())),
        payload: &[],
        random: Mutex::new(random),
        jitter: AtomicU32::new(0),
        rx_lock: Mutex::default(),
        input_waits: AtomicU64::new(0),
        output_waits: AtomicBool::new(false),
        counts_instructions: false,
        endings: Mutex::new(()),
        any_stopped: AtomicBool::new(false),
        bootargs: "",
        policies: [CorePolicy::RoundRobin; MAX_CPUS],
        wish: Mutex::new(None),
        groups: &[],
        inhabited: plan
            .vms
            .iter()
            .flatten()
            .chain(plan.pool)
            .fold(0, |all, cpu| all | 1 << cpu),
        accounts: Box::leak((0..plan.settings.cpus).map(|_| CpuAccount::new()).collect()),
        traces: if plan.traced {
            traces(plan.settings.cpus)
        } else {
            Traces::default()
        },
    }
}
