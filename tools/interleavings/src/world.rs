//! A board with VMs on it, and the threads that run it.

use crate::events;
use crate::{Guest, Habits};
use hanok_hal::fake::{FakeBackend, PoweredOff, Settings, Wire};
use hanok_memory::{Absence, Page, PageError, Taken};
use hanok_pcpu::fake::{FakeBoard, FakePromise, RAM, SPARE, UART};
use hanok_pcpu::{Board, PageFault, Pcpu, VmUnit};
use hanok_types::{GicVersion, GuestPage, Hpa, Ipa, VcpuId, VmId};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as PlainMutex};

/// `Ctrl-]`, by which keys go to the prompt.
const ATTENTION: u8 = 0x1d;
/// What is awaited must be printed within so many turns of the other threads.
const PATIENCE: usize = 20_000;
/// The prefix of a plan's line that is awaited, not typed.
const AWAIT: &str = "await ";

/// Of a VM with more vCPUs than a GICv2 has, these are used, and of more VMs than that these boot: the first,
/// the last, and one past the bits of a word of 32.
const SPARSE: [usize; 3] = [0, 33, 63];
/// How many there may be of which all are used.
const FEW: usize = 8;

/// Which of so many are used.
pub(crate) fn used(number: usize) -> Vec<usize> {
    if number > FEW {
        SPARSE.into_iter().filter(|one| *one < number).collect()
    } else {
        (0..number).collect()
    }
}

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many CPUs. Those without work have no thread.
    pub cpus: usize,
    /// For each VM the CPUs of its vCPUs.
    pub vms: Vec<Vec<u8>>,
    /// What vCPUs are promised; vCPUs without a budget do not run on these CPUs.
    pub promises: Vec<FakePromise>,
    /// The CPUs that share their vCPUs, which all have promises.
    pub pool: Vec<u8>,
    /// The guests' habits.
    pub habits: Habits,
    /// How often each vCPU is to run before the first line is typed: where guests wait for each
    /// other, or for their timers, a lost wakeup shows by this.
    pub runs: usize,
    /// How often a page of the first VM, which all its vCPUs use, is taken away and given back in
    /// another frame.
    pub thefts: usize,
    /// What is typed at the prompt, a line at a time. A line that begins with `await ` is not
    /// typed: the text behind that word must have been printed before the next line is typed.
    pub lines: Vec<&'static str>,
}

impl Plan {
    /// The VMs that boot.
    fn booting(&self) -> Vec<usize> {
        used(self.vms.len())
    }

    /// The CPUs that have work: each is a thread. The serial port's interrupt goes to the first.
    fn working(&self) -> BTreeSet<usize> {
        let cpus_of = |vm: usize| {
            let cpus = &self.vms[vm];
            used(cpus.len())
                .into_iter()
                .map(|vcpu| usize::from(cpus[vcpu]))
        };
        let cpus = self.booting().into_iter().flat_map(cpus_of);
        let pool = self.pool.iter().map(|cpu| usize::from(*cpu));
        cpus.chain(pool).chain([0]).collect()
    }

    /// A GICv2 where all VMs have few enough vCPUs for one.
    fn gic(&self) -> GicVersion {
        if self.cpus <= FEW && self.vms.iter().all(|vm| vm.len() <= FEW) {
            GicVersion::V2
        } else {
            GicVersion::V3
        }
    }
}

/// A running board.
pub struct World {
    /// What all CPUs share.
    pub board: &'static Board<FakeBackend>,
    /// The other end of its serial line.
    pub wire: Wire,
    /// How many of each VM's vCPUs run their guest at the moment.
    inhabitants: Vec<Arc<AtomicUsize>>,
    /// How often each VM's guest has run, by its vCPUs.
    runs: Vec<Vec<AtomicUsize>>,
    /// The CPU on which each last ran, and how often it was another one than before.
    last: Vec<Vec<AtomicUsize>>,
    moves: AtomicUsize,
    /// Frames that no guest may access.
    stolen: PlainMutex<BTreeSet<Hpa>>,
}

fn this_cpu() -> usize {
    let name = shuttle::thread::current().name().map(str::to_owned);
    // The thread that makes the board, or types, is none of the CPUs.
    name.and_then(|name| name.parse().ok()).unwrap_or(0)
}

impl World {
    /// Makes the board of `plan`, and its CPUs.
    fn new(plan: &Plan) -> (Self, Vec<Pcpu<FakeBackend>>) {
        let settings = Settings {
            cpus: plan.cpus,
            this_cpu,
            pause: shuttle::thread::yield_now,
            asleep: shuttle::thread::yield_now,
            lists: 4,
        };
        let (vms, promises) = (&plan.vms, &plan.promises);
        let fake = FakeBoard::with_pool(settings, vms, plan.gic(), promises, &plan.pool);
        let runs = |cpus: &Vec<u8>| cpus.iter().map(|_| AtomicUsize::new(0)).collect();
        let home = |cpu: &u8| AtomicUsize::new((*cpu).into());
        let world = Self {
            board: fake.board,
            wire: fake.wire,
            inhabitants: fake.inhabitants,
            stolen: PlainMutex::default(),
            runs: plan.vms.iter().map(runs).collect(),
            last: plan
                .vms
                .iter()
                .map(|cpus| cpus.iter().map(home).collect())
                .collect(),
            moves: AtomicUsize::new(0),
        };
        (world, fake.pcpus)
    }

    /// Runs the board of `plan` until it is turned off, each CPU in a thread; returns what it
    /// printed. The plan's last lines have to end all VMs. To be called inside a run of the
    /// checker.
    pub fn run(plan: &Plan) -> String {
        Self::run_and_count(plan).0
    }

    /// [`Self::run`], which also returns how often a vCPU ran on another CPU than before.
    pub fn run_and_count(plan: &Plan) -> (String, usize) {
        let (world, pcpus) = Self::new(plan);
        world.begin(&plan.booting());
        let world = Arc::new(world);
        let working = plan.working();
        let threads: Vec<_> = pcpus
            .into_iter()
            .enumerate()
            .filter(|(cpu, _)| working.contains(cpu))
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
        let mut awaited = false;
        for line in &plan.lines {
            let text = line.strip_prefix(AWAIT);
            match text {
                Some(text) => world.await_text(text),
                None => {
                    // The text awaited is found at once.
                    let turns = if awaited { 0 } else { 20 };
                    (0..turns).for_each(|_| shuttle::thread::yield_now());
                    world.type_line(line);
                }
            }
            awaited = text.is_some();
        }
        for thread in threads {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
        world.check_end(plan);
        events::check(&world.board.machine);
        (world.wire.text(), world.moves.load(Ordering::SeqCst))
    }

    /// Lets these VMs boot.
    fn begin(&self, vms: &[usize]) {
        for unit in vms.iter().map(|vm| &self.board.vms[*vm]) {
            let begun = unit.vm.lifecycle().begin();
            assert!(begun.is_made(), "it has not booted yet");
            unit.vm.kick_first(self.board);
        }
    }

    /// Waits until every VM's first vCPU has run, or the VM has ended by itself, and until each
    /// vCPU has run as often as the plan says.
    fn await_runs(&self, plan: &Plan) {
        for (unit, runs) in self.board.vms.iter().zip(&self.runs) {
            for (vcpu, runs) in used(runs.len()).into_iter().map(|vcpu| (vcpu, &runs[vcpu])) {
                let wanted = plan.runs.max(usize::from(vcpu == 0));
                while runs.load(Ordering::SeqCst) < wanted && !unit.vm.lifecycle().is_ended() {
                    shuttle::thread::yield_now();
                }
            }
        }
    }

    /// Takes a page of the first VM away and gives it back in another frame, so many times.
    fn steal(&self, thefts: usize) {
        let (unit, page) = (&self.board.vms[0], GuestPage::of(RAM).expect("a page"));
        let mut spare = SPARE;
        for _ in 0..thefts {
            let taken = loop {
                match self.board.take_page(unit, page, Absence::Taken) {
                    Ok(Taken::Split) => {}
                    // It is reset. Its next boot can lose the page.
                    Err(PageFault::Space(PageError::InMaking)) => shuttle::thread::yield_now(),
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

    /// A vCPU of a VM, on its CPU, accesses the page that may be taken away, by a translation that
    /// its CPU has cached or by a walk. Returns the page if it is absent.
    pub(crate) fn touch(&self, unit: &VmUnit<FakeBackend>) -> Option<Ipa> {
        let machine = &self.board.machine;
        let key = (machine.here().space, RAM);
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
        let Page::Present(frame) = space.page(RAM) else {
            return Some(RAM);
        };
        check(frame);
        machine.here().translations.insert(key, frame);
        None
    }

    /// Waits until the board has printed this.
    fn await_text(&self, text: &str) {
        for _ in 0..PATIENCE {
            if self.wire.text().contains(text) {
                return;
            }
            shuttle::thread::yield_now();
        }
        panic!("{text}: was not said, but {}", self.wire.text());
    }

    /// Types a line at the prompt.
    fn type_line(&self, line: &str) {
        self.wire.send(line.as_bytes());
        self.wire.send(b"\r");
        self.board.machine.raise(0, UART);
    }

    /// Runs one CPU until the board is off.
    fn run_cpu(&self, mut pcpu: Pcpu<FakeBackend>, habits: Habits) {
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
        let (here, last) = (this_cpu(), &self.last[vm.index()][vcpu.index()]);
        if last.swap(here, Ordering::SeqCst) != here {
            self.moves.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A vCPU of a VM has left its guest.
    pub(crate) fn leave(&self, vm: VmId) {
        self.inhabitants[vm.index()].fetch_sub(1, Ordering::SeqCst);
    }

    /// Checks what must hold after the board was turned off because every VM had ended. A VM that
    /// is restarted meanwhile may end once more.
    fn check_end(&self, plan: &Plan) {
        let text = self.wire.text();
        let ends = text.matches("end: off").count() + text.matches("end: stopped").count();
        assert!(ends > 0, "the run ends: {text}");
        if plan.lines.iter().any(|line| line.starts_with("restart")) {
            return;
        }
        assert_eq!(ends, 1, "the run ends once: {text}");
        let ended = |unit: &VmUnit<FakeBackend>| unit.vm.lifecycle().is_ended();
        assert!(self.board.vms.iter().all(ended), "all are over: {text}");
    }
}
