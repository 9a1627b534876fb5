//! A board with VMs on it, and the threads that run it.

use crate::{Guest, Habits};
use hanok_config::VmConfig;
use hanok_hal::Mutex;
use hanok_hal::fake::{
    FakeBackend, FakeContext, FakeGic, FakeLine, FakeRegion, FakeTableMemory, FakeTlb, PoweredOff,
    Settings, Wire,
};
use hanok_hal::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use hanok_memory::{Absence, AddressSpace, FrameMap, Owner, Owners, Page, Taken};
use hanok_paging::{Geometry, VmidPool};
use hanok_pcpu::{
    Board, BoardInterrupts, Notices, Pcpu, Vcpu, VmUnit, begin_all, gather, regions_of,
};
use hanok_types::{CpuId, GicVersion, GuestPage, Hpa, IntId, Ipa, PAGE_SIZE, Span, VcpuId, VmId};
use hanok_vm::{Buffers, Multiplexer, Vm};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as PlainMutex};

/// The serial port's interrupt, which goes to CPU 0.
pub const UART: u32 = 33;
/// `Ctrl-]`, by which keys go to the prompt.
const ATTENTION: u8 = 0x1d;

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many CPUs.
    pub cpus: usize,
    /// For each VM the CPUs of its vCPUs.
    pub vms: Vec<Vec<u8>>,
    /// What guests do.
    pub habits: Habits,
    /// How often each vCPU is to run before something is typed: where guests wait for each other, or for
    /// their timers, a wakeup that is lost shows by it.
    pub runs: usize,
    /// How often a page of the first VM, which all its vCPUs use, is taken and given back elsewhere.
    pub thefts: usize,
    /// What is typed at the prompt, a line at a time.
    pub lines: Vec<&'static str>,
}

/// A board that runs.
pub struct World {
    /// What all CPUs share.
    pub board: &'static Board<FakeBackend>,
    /// The other end of its serial line.
    pub wire: Wire,
    /// How many vCPUs are in each VM's guest.
    inhabitants: Vec<Arc<AtomicUsize>>,
    /// How often each VM's guest has run, by its vCPUs.
    runs: Vec<Vec<AtomicUsize>>,
    /// Frames that no guest may reach.
    stolen: PlainMutex<BTreeSet<Hpa>>,
}

/// The page that is stolen.
const LOOT: Ipa = Ipa::new(0x4000_0000);
/// Two pieces of loading, so that it can be interrupted.
const RAM_LEN: u64 = 0x10_0000;
/// Where it goes.
const HIDEOUT: Hpa = Hpa::new(0x8000_0000);

fn this_cpu() -> usize {
    let name = shuttle::thread::current().name().map(str::to_owned);
    // Whoever makes the world, or types, acts as no CPU in particular.
    name.and_then(|name| name.parse().ok()).unwrap_or(0)
}

fn config(name: &str, cpus: &[u8]) -> VmConfig {
    let mut config = hanok_vm::fake::config(cpus.len() as u8);
    config.name = name.try_into().expect("a short name");
    config.cpus = cpus.iter().map(|cpu| CpuId::new(*cpu)).collect();
    config.memory = Span::new(LOOT, RAM_LEN).expect("a span");
    config
}

/// A VM's space, which has all of its RAM, and room for a page elsewhere.
fn space(config: &VmConfig, host: Hpa) -> AddressSpace<FakeTableMemory> {
    let regions = regions_of(config, host, None, None).expect("few regions");
    let tables = FakeTableMemory::new(64);
    let mut tlb = FakeTlb::default();
    let slots = Box::leak(Box::new([None; 2]));
    AddressSpace::new(Geometry::BITS_40, tables, &mut tlb, &regions, slots).expect("room for it")
}

/// The VMs' RAM, which is one above the other on this board, is theirs; one frame is the hypervisor's.
fn owners(units: &[VmUnit<FakeBackend>]) -> Owners {
    let ram = Span::new(LOOT, units.len() as u64 * RAM_LEN).expect("a span");
    let ram = Span::new(Hpa::new(ram.start().get()), ram.len()).expect("a span");
    let hideout = Span::new(HIDEOUT, PAGE_SIZE).expect("a span");
    let map = FrameMap::new(&[ram, hideout], &[]).expect("little RAM");
    let mut owners = Owners::new(&map).expect("few spans");
    let mut give = |span, to| owners.hand_over(span, Owner::Free, to).expect("it is free");
    for unit in units {
        let at = unit.memory.lock().find(LOOT).expect("it is there");
        let own = Span::new(at, RAM_LEN).expect("a span");
        give(own, Owner::Vm(unit.vm.id()));
    }
    give(hideout, Owner::Hypervisor);
    owners
}

/// A bit for the `vcpu`th vCPU of VM `vm` where it shares its CPU, as the description's order counts.
fn bit(vms: &[Vec<u8>], vm: usize, vcpu: usize) -> u64 {
    let cpu = vms[vm][vcpu];
    let all: Vec<u8> = vms.iter().flatten().copied().collect();
    let before: usize = vms[..vm].iter().map(Vec::len).sum::<usize>() + vcpu;
    let shared = all.iter().filter(|other| **other == cpu).count() > 1;
    let place = all[..before].iter().filter(|other| **other == cpu).count();
    if shared { 1 << place } else { 0 }
}

impl World {
    /// The world of `plan`, and its CPUs. Everything lives for ever, as on a board.
    fn new(plan: &Plan) -> (Self, Vec<Pcpu<FakeBackend>>) {
        let inhabitants: Vec<_> = plan.vms.iter().map(|_| Arc::default()).collect();
        let units = plan.vms.iter().enumerate().map(|(index, cpus)| {
            let config = config(&format!("vm{index}"), cpus);
            let ram = FakeRegion::new(config.memory, Arc::clone(&inhabitants[index]));
            let host = Hpa::new(LOOT.get() + index as u64 * RAM_LEN);
            let space = space(&config, host);
            let mut vm = Vm::new(VmId::new(index as u8), config, GicVersion::V2, 5, 0);
            for vcpu in 0..cpus.len() {
                vm.set_bit(VcpuId::new(vcpu as u8), bit(&plan.vms, index, vcpu));
            }
            VmUnit {
                vm,
                ram,
                flash: None,
                memory: Mutex::new(space),
                space: AtomicU64::new(0),
                last_here: Default::default(),
                notices: Notices::default(),
            }
        });
        let units: &'static [VmUnit<FakeBackend>] = Box::leak(units.collect());
        let wire = Wire::default();
        let board = Box::leak(Box::new(Self::board(plan, units, &wire)));
        let mut pcpus: Vec<_> = (0..plan.cpus)
            .map(|cpu| Pcpu::new(CpuId::new(cpu as u8), board, 100))
            .collect();
        for unit in units {
            for (index, cpu) in unit.vm.config().cpus.iter().enumerate() {
                let core = hanok_vm::Vcpu::new(VcpuId::new(index as u8));
                let vcpu = Box::leak(Box::new(Vcpu::new(unit, core, FakeContext::default())));
                pcpus[cpu.index()].adopt(vcpu).expect("room for it");
            }
        }
        let world = Self {
            board,
            wire,
            inhabitants,
            stolen: PlainMutex::default(),
            runs: plan
                .vms
                .iter()
                .map(|cpus| cpus.iter().map(|_| AtomicUsize::new(0)).collect())
                .collect(),
        };
        (world, pcpus)
    }

    fn board(
        plan: &Plan,
        units: &'static [VmUnit<FakeBackend>],
        wire: &Wire,
    ) -> Board<FakeBackend> {
        let machine = FakeBackend::new(Settings {
            cpus: plan.cpus,
            this_cpu,
            pause: shuttle::thread::yield_now,
        });
        let names = units.iter().map(|unit| unit.vm.config().name.clone());
        let buffers = Box::leak(Box::new(Buffers::new()));
        let console = Multiplexer::new(FakeLine(wire.clone()), false, names.collect(), buffers);
        let random = gather(&machine, &[1; 32], &[], None);
        Board {
            machine,
            console: Mutex::new(console),
            interrupts: BoardInterrupts {
                virtual_timer: IntId::new(27),
                hyp_timer: IntId::new(26),
                maintenance: IntId::new(25),
                uart: Some(IntId::new(UART)),
            },
            lines: Default::default(),
            vms: units,
            news: Default::default(),
            vmids: Mutex::new(VmidPool::new()),
            owners: Mutex::new(owners(units)),
            payload: &[],
            random: Mutex::new(random),
            jitter: AtomicU32::new(0),
            reception: Mutex::new(()),
            input_waits: AtomicU32::new(0),
            output_waits: AtomicBool::new(false),
            counts_instructions: false,
            endings: Mutex::new(()),
            any_stopped: AtomicBool::new(false),
            bootargs: "",
        }
    }

    /// Runs the world of `plan` until the board is turned off, each CPU a thread; what the board said.
    /// The last of the plan's lines are to end all VMs. To be called inside a checker's run.
    pub fn run(plan: &Plan) -> String {
        let (world, pcpus) = Self::new(plan);
        begin_all(world.board);
        let world = Arc::new(world);
        let threads: Vec<_> = pcpus
            .into_iter()
            .enumerate()
            .map(|(cpu, pcpu)| {
                let (world, habits) = (Arc::clone(&world), plan.habits);
                let run = move || world.run_cpu(pcpu, habits);
                let thread = shuttle::thread::Builder::new().name(cpu.to_string());
                thread.spawn(run).expect("a thread")
            })
            .collect();
        world.await_runs(plan);
        world.steal(plan.thefts);
        world.wire.send(&[ATTENTION]);
        for line in &plan.lines {
            world.type_line(line);
        }
        for thread in threads {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
        world.check_end(plan);
        world.wire.text()
    }

    /// Waits until every VM's first vCPU has run, or the VM has ended by itself; and until each vCPU has
    /// run as often as the plan says.
    fn await_runs(&self, plan: &Plan) {
        for (unit, runs) in self.board.vms.iter().zip(&self.runs) {
            for (vcpu, runs) in runs.iter().enumerate() {
                let wanted = plan.runs.max(usize::from(vcpu == 0));
                while runs.load(Ordering::SeqCst) < wanted && !unit.vm.life().is_ended() {
                    shuttle::thread::yield_now();
                }
            }
        }
    }

    /// Takes a page of the first VM and gives it back in another frame, so many times.
    fn steal(&self, thefts: usize) {
        let (unit, page) = (&self.board.vms[0], GuestPage::of(LOOT).expect("a page"));
        let mut spare = HIDEOUT;
        for _ in 0..thefts {
            let taken = loop {
                match self.board.take_page(unit, page, Absence::Taken) {
                    Ok(Taken::Split) => {}
                    Ok(Taken::Frame(frame)) => break frame,
                    Err(error) => panic!("{error:?}"),
                }
            };
            let stolen = || self.stolen.lock().expect("nobody panicked");
            stolen().insert(taken);
            for _ in 0..10 {
                shuttle::thread::yield_now();
            }
            stolen().remove(&spare);
            let given = self.board.give_page(unit, page, spare);
            given.expect("it was taken");
            spare = taken;
        }
    }

    /// A vCPU of a VM, in its CPU, uses the page that may be stolen: by what its CPU has cached, or by a
    /// walk. The page, if it is not there.
    pub(crate) fn touch(&self, unit: &VmUnit<FakeBackend>) -> Option<Ipa> {
        let machine = &self.board.machine;
        let key = (machine.here().space, LOOT);
        let cached = machine.here().translations.get(&key).copied();
        let check = |frame: Hpa| {
            let stolen = self.stolen.lock().expect("nobody panicked");
            assert!(!stolen.contains(&frame), "{frame:?} is another one's");
        };
        if let Some(frame) = cached {
            check(frame);
            return None;
        }
        let space = unit.memory.lock();
        let Page::Present(frame) = space.page(LOOT) else {
            return Some(LOOT);
        };
        check(frame);
        machine.here().translations.insert(key, frame);
        None
    }

    /// Types a line at the prompt, after a while.
    fn type_line(&self, line: &str) {
        for _ in 0..20 {
            shuttle::thread::yield_now();
        }
        self.wire.send(line.as_bytes());
        self.wire.send(b"\r");
        self.board.machine.raise(0, UART);
    }

    /// One CPU until the board is off.
    fn run_cpu(&self, mut pcpu: Pcpu<FakeBackend>, habits: Habits) {
        pcpu.local.gic = Some(FakeGic);
        let mut guest = Guest::new(habits);
        let run = AssertUnwindSafe(|| {
            pcpu.schedule();
            while !self.board.machine.is_off() {
                guest.run(&mut pcpu, self);
            }
        });
        if let Err(panic) = catch_unwind(run)
            && !panic.is::<PoweredOff>()
        {
            resume_unwind(panic);
        }
    }

    /// A vCPU of a VM enters its guest.
    pub(crate) fn enter(&self, vm: VmId, vcpu: VcpuId) {
        self.inhabitants[vm.index()].fetch_add(1, Ordering::SeqCst);
        self.runs[vm.index()][vcpu.index()].fetch_add(1, Ordering::SeqCst);
    }

    /// A vCPU of a VM has left its guest.
    pub(crate) fn leave(&self, vm: VmId) {
        self.inhabitants[vm.index()].fetch_sub(1, Ordering::SeqCst);
    }

    /// What is true after the board was turned off because every VM had ended. A VM that is restarted
    /// meanwhile may end once more.
    fn check_end(&self, plan: &Plan) {
        let text = self.wire.text();
        let ends = text.matches("end: off").count() + text.matches("end: stopped").count();
        assert!(ends > 0, "the run ends: {text}");
        if plan.lines.iter().any(|line| line.starts_with("restart")) {
            return;
        }
        assert_eq!(ends, 1, "the run ends once: {text}");
        let ended = |unit: &VmUnit<FakeBackend>| unit.vm.life().is_ended();
        assert!(self.board.vms.iter().all(ended), "all are over: {text}");
    }
}
