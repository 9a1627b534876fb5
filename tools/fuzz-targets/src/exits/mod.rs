//! Runs several pCPUs with any exits of their guests, through the executive itself on the fake
//! backend.

mod check;
mod choose;

use crate::bytes::Bytes;
use check::{fits, named, unchanged};
use hanok_hal::fake::{FakeBackend, PoweredOff, Settings};
use hanok_hal::{Backend, Context};
use hanok_pcpu::fake::{FakeBoard, MAINTENANCE, UART};
use hanok_pcpu::{After, Board, Local, Pcpu, Vcpu, begin_all, guest};
use hanok_types::{GicVersion, IntId, Ipa, MAX_CPUS, PAGE_SIZE, VcpuId, Width, platform};
use hanok_vm::fake::ENTRY;
use hanok_vm::{Action, Cause, DataAbort, Exit, Instruction, MmioAccess, Vm, Wait, function};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;

/// After so many rounds of all pCPUs, those that still kick each other are taken to do so for ever.
const ROUNDS: usize = 64;
/// The counter's upper limit: at a microsecond a tick, longer than a board runs.
const LAST_TICK: u64 = 1 << 54;
/// `Ctrl-]`, after which keys go to the prompt.
const ATTENTION: u8 = 0x1d;
/// What is typed at the prompt.
const LINES: [&str; 8] = [
    "pause vm0",
    "resume vm0",
    "restart vm0",
    "restart vm0",
    "stop vm0",
    "stats",
    "dump vm0",
    "list",
];

thread_local! {
    /// The pCPU as which the test acts at the moment.
    static CPU: Cell<usize> = const { Cell::new(0) };
}

/// The payload of the unwinding by which a pCPU goes to sleep: the other pCPUs run then.
struct Asleep;

fn asleep() {
    // This is not a failure: the panic hook must not print it.
    resume_unwind(Box::new(Asleep));
}

struct World {
    board: &'static Board<FakeBackend>,
    pcpus: Vec<Pcpu<FakeBackend>>,
    fake: Outside,
    /// Which pCPUs sleep.
    asleep: Vec<bool>,
}

/// The other ends of the board's lines.
struct Outside {
    wire: hanok_hal::fake::Wire,
    inhabitants: Vec<std::sync::Arc<std::sync::atomic::AtomicUsize>>,
}

/// An exit ends in an action of its kind, and changes no registers but those that the instruction
/// names; all pCPUs come to rest; a pCPU with work does not sleep; a VM that ended stays ended
/// until it is started again. A second VM, on a pCPU of its own, keeps the board on.
pub fn exits(data: &[u8]) {
    let mut input = Bytes(data);
    let version = input.gic_version();
    let vcpus = crate::vgic::vcpus(version, input.byte().into());
    // One is left for the second VM.
    let cpus = 1 + usize::from(input.byte()) % vcpus.min(MAX_CPUS - 1);
    let lists = 1 + usize::from(input.byte()) % 16;
    let mut world = World::new(version, vcpus, cpus, lists);
    if input.flag() {
        world.board.machine.registers().vectors = Some([u128::MAX / 3; 32]);
    }
    world.board.machine.registers().id = input.number();
    world.come_to_rest();
    // Makes many of the settings that a guest makes first, so that events meet vCPUs with live
    // interrupts.
    if input.flag() {
        world.set_up();
    }
    for _ in 0..512 {
        if input.is_empty() {
            break;
        }
        let acted = world.step(&mut input);
        world.come_to_rest();
        world.check(acted);
    }
}

impl World {
    /// The first VM's vCPUs, spread over `cpus` pCPUs; each of these has `lists` list registers.
    fn new(version: GicVersion, vcpus: usize, cpus: usize, lists: usize) -> Self {
        let first = (0..vcpus).map(|vcpu| (vcpu % cpus) as u8).collect();
        let settings = Settings {
            cpus: cpus + 1,
            this_cpu: || CPU.get(),
            pause: || {},
            asleep,
            lists,
        };
        CPU.set(0);
        let fake = FakeBoard::new(settings, &[first, vec![cpus as u8]], version);
        begin_all(fake.board);
        let mut world = Self {
            board: fake.board,
            asleep: fake.pcpus.iter().map(|_| true).collect(),
            pcpus: fake.pcpus,
            fake: Outside {
                wire: fake.wire,
                inhabitants: fake.inhabitants,
            },
        };
        for cpu in 0..world.pcpus.len() {
            world.on(cpu, Pcpu::schedule);
        }
        world.type_line(&[ATTENTION]);
        world
    }

    /// The VM under test.
    fn vm(&self) -> &'static Vm {
        &self.board.vms[0].vm
    }

    /// How many pCPUs the VM under test has.
    fn cpus(&self) -> usize {
        self.pcpus.len() - 1
    }

    /// Does `work` as this pCPU, until the work is done or the pCPU sleeps.
    fn on<R>(&mut self, cpu: usize, work: impl FnOnce(&mut Pcpu<FakeBackend>) -> R) -> Option<R> {
        CPU.set(cpu);
        let pcpu = &mut self.pcpus[cpu];
        let done = catch_unwind(AssertUnwindSafe(|| work(pcpu)));
        self.asleep[cpu] = done.is_err();
        match done {
            Ok(done) => Some(done),
            Err(thrown) if thrown.is::<Asleep>() => None,
            Err(thrown) if thrown.is::<PoweredOff>() => panic!("the other VM keeps the board on"),
            Err(thrown) => resume_unwind(thrown),
        }
    }

    /// Does `work` with the vCPU whose guest this pCPU runs, if it runs one, and ends the exit.
    fn exit_of(
        &mut self,
        cpu: usize,
        work: impl FnOnce(&mut Vcpu<FakeBackend>, &mut Local<FakeBackend>) -> (Cause, After),
    ) {
        if self.asleep[cpu] {
            return;
        }
        self.on(cpu, |pcpu| {
            let (Some(vcpu), local) = pcpu.resident_and_local() else {
                panic!("a pCPU is awake for nobody");
            };
            vcpu.context.depart();
            vcpu.context.take_error();
            let (cause, after) = work(vcpu, local);
            pcpu.finish(cause, after);
        });
    }

    /// The interrupt that is pending for a pCPU.
    fn interrupt(&mut self, cpu: usize) {
        if self.asleep[cpu] {
            self.on(cpu, Pcpu::schedule);
            return;
        }
        self.on(cpu, |pcpu| {
            pcpu.local.taken = pcpu.local.board.machine.acknowledge();
            let after = pcpu.interrupted();
            pcpu.finish(Cause::Interrupt, after);
        });
    }

    /// Every pCPU for which an interrupt is pending takes it, until none is.
    fn come_to_rest(&mut self) {
        for _ in 0..ROUNDS {
            let machine = &self.board.machine;
            let all = 0..self.pcpus.len();
            let kicked: Vec<_> = all.filter(|cpu| machine.is_interrupted(*cpu)).collect();
            if kicked.is_empty() {
                return;
            }
            kicked.into_iter().for_each(|cpu| self.interrupt(cpu));
        }
        panic!("pCPUs kick each other without end");
    }

    /// Types at the board's prompt.
    fn type_line(&mut self, bytes: &[u8]) {
        self.fake.wire.send(bytes);
        self.board.machine.raise(0, UART);
        self.come_to_rest();
    }

    /// All vCPUs run, every interrupt is enabled, and the SPIs are spread over all vCPUs.
    fn set_up(&mut self) {
        let vcpus = self.vm().vcpus();
        for n in 1..vcpus {
            self.exit_of(0, |vcpu, local| {
                let call = [
                    (function::CPU_ON | function::SMC64).into(),
                    n as u64,
                    ENTRY,
                    0,
                ];
                vcpu.context.regs.x[..4].copy_from_slice(&call);
                (Cause::Hypercall, handle(vcpu, local, Exit::Hypercall))
            });
            self.come_to_rest();
        }
        let shared = platform::GIC_DIST.get();
        self.put(0, shared, Width::Word, 0x13);
        for word in 0..=u64::from(platform::SPIS / 32) {
            for cpu in 0..self.cpus() {
                // IGROUPR and ISENABLER; of the first word each vCPU has its own.
                let frame = if word == 0 { self.private(cpu) } else { shared };
                self.put(cpu, frame + 0x80 + word * 4, Width::Word, u64::MAX);
                self.put(cpu, frame + 0x100 + word * 4, Width::Word, u64::MAX);
            }
        }
        for spi in 0..platform::SPIS.into() {
            let n = spi % vcpus as u64;
            match self.vm().gic_version() {
                GicVersion::V2 => self.put(0, shared + 0x820 + spi, Width::Byte, 1 << n),
                GicVersion::V3 => {
                    self.put(0, shared + 0x6000 + 8 * (32 + spi), Width::Double, n);
                }
            }
        }
    }

    /// The address of the private interrupts' registers, for the vCPU that a pCPU runs.
    fn private(&mut self, cpu: usize) -> u64 {
        let n = self.pcpus[cpu]
            .resident()
            .map_or(0, |vcpu| vcpu.core.id.index());
        match self.vm().gic_version() {
            GicVersion::V2 => platform::GIC_DIST.get(),
            GicVersion::V3 => {
                let redistributor = n as u64 * platform::GIC_REDIST_STRIDE + 0x1_0000;
                platform::GIC_REDIST.get() + redistributor
            }
        }
    }

    fn put(&mut self, cpu: usize, ipa: u64, width: Width, value: u64) {
        let access = MmioAccess {
            width,
            register: 9,
            sign_extend: false,
            wide: true,
        };
        let abort = DataAbort {
            ipa: Ipa::new(ipa),
            write: true,
            walk: false,
            access: Some(access),
            instruction: Instruction::Unknown,
            reach: PAGE_SIZE,
        };
        self.exit_of(cpu, |vcpu, local| {
            vcpu.context.regs.x[9] = value;
            (Cause::Device, handle(vcpu, local, Exit::Data(abort)))
        });
        self.come_to_rest();
    }

    /// Returns the pCPU whose guest changed its list registers.
    fn step(&mut self, input: &mut Bytes<'_>) -> Option<usize> {
        let operation = input.byte() % 32;
        let cpu = usize::from(input.byte()) % self.cpus();
        let machine = &self.board.machine;
        match operation {
            0..=19 => self.exit(cpu, input),
            20 | 21 => self.guest_acts(cpu, input.byte().into()),
            22 => {
                let now = machine.counter();
                machine.cpu(cpu).set_virtual_timer(Some(now));
            }
            23 => machine.raise(cpu, MAINTENANCE),
            24 => machine.raise(cpu, 0),
            25 => self.exit_of(cpu, |_, _| (Cause::Hypercall, After::Yield)),
            _ => self.board(operation, input),
        }
        Some(cpu).filter(|_| matches!(operation, 20 | 21))
    }

    /// An event from outside of the guest.
    fn board(&mut self, operation: u8, input: &mut Bytes<'_>) {
        let (vm, board) = (self.vm(), self.board);
        CPU.set(0);
        match operation {
            26 => {
                let now = board.machine.counter();
                let later = now.saturating_add(input.number()).min(LAST_TICK);
                board.machine.advance(later.saturating_sub(now));
            }
            27 => {
                let room = vm.receive_room();
                let mut byte = Some(input.byte());
                let _ = vm.receive(board, || byte.take());
                let taken = byte.is_none();
                assert_eq!(taken, room > 0);
                assert_eq!(vm.receive_room(), room - usize::from(taken));
            }
            28 => _ = vm.transmit(board),
            29 => {
                let number = input.byte();
                let (irq, physical) = (IntId::spi(112 + u32::from(number % 64)), number);
                vm.device_interrupt(board, irq, IntId::spi(physical.into()));
            }
            _ => {
                let line = LINES[usize::from(input.byte()) % LINES.len()];
                self.type_line(format!("{line}\r").as_bytes());
            }
        }
    }

    /// The guest acknowledges what a list register shows, or ends it (IHI 0069H 4.8).
    fn guest_acts(&mut self, cpu: usize, which: usize) {
        if self.asleep[cpu] {
            return;
        }
        let cpu = self.board.machine.cpu(cpu);
        let mut lists = cpu.lists();
        let which = which % lists.len();
        let lr = &mut lists[which];
        // Pending, then active, then nothing; pending and active, then pending.
        let (pending, active) = (*lr >> 62 & 1, *lr >> 63);
        let state = if active == 1 { pending } else { pending << 1 };
        *lr = *lr & !(3 << 62) | state << 62;
    }

    fn exit(&mut self, cpu: usize, input: &mut Bytes<'_>) {
        let inhabitants = self.fake.inhabitants[0].clone();
        let vm = self.vm();
        self.exit_of(cpu, |vcpu, local| {
            // Memory may not be allocated while a guest runs in it.
            inhabitants.fetch_add(1, Ordering::SeqCst);
            let machine = &local.board.machine;
            let exit = choose::any_exit(&mut vcpu.context.regs, machine, input);
            let before = vcpu.context.regs;
            let mut action = decide(vcpu, local, exit);
            if let Exit::Data(DataAbort { access: None, .. }) = exit {
                // An instruction with several accesses is resumed for each: four, for two Q
                // registers.
                for _ in 1..4 {
                    if action == Action::Resume {
                        action = decide(vcpu, local, exit);
                    }
                }
            }
            assert!(fits(exit, action), "{exit:?} -> {action:?}");
            let may_change = match action {
                Action::Inject(_) | Action::Block(Wait::Page(_)) => 0,
                _ => named(exit),
            };
            unchanged(&before, &vcpu.context.regs, may_change);
            if let (Action::Next, Exit::Data(abort)) = (action, exit)
                && let Some(access) = abort.access.filter(|access| !access.sign_extend)
                && !abort.write
            {
                let value = vcpu.context.regs.get(access.register);
                assert_eq!(value & !access.width.mask(), 0, "{access:?}");
            }
            if action == Action::Reconsider {
                let runs = vm.lifecycle().is_running() && vm.power(vcpu.core.id).is_on();
                assert!(!runs, "{exit:?} ends nothing");
            }
            inhabitants.fetch_sub(1, Ordering::SeqCst);
            (Cause::from(&exit), vcpu.act(local, 0, action))
        });
    }
}

/// What the core decides on an exit of a vCPU.
fn decide(vcpu: &mut Vcpu<FakeBackend>, local: &Local<FakeBackend>, exit: Exit) -> Action {
    let board = local.board;
    guest(vcpu, board, &mut board.machine.lists()).handle(exit)
}

/// Decides on an exit of a vCPU, and carries the decision out.
fn handle(vcpu: &mut Vcpu<FakeBackend>, local: &mut Local<FakeBackend>, exit: Exit) -> After {
    let action = decide(vcpu, local, exit);
    vcpu.act(local, 0, action)
}

fn id(n: usize) -> VcpuId {
    VcpuId::new(n as u8)
}
