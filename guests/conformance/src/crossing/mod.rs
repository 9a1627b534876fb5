//! A guest that fills every register it can write with a pattern of its VM, its vCPU and its life,
//! and looks whether all of them hold it after others had the core, whether any other register
//! that it can read has changed, and whether anything is left of a former life.
//!
//! Which registers there are is found by trying each encoding. All are written, read, and read
//! again after the vCPU was taken off its core, which it sees by the clock; a bit that took no
//! part of a pattern is compared just as well, so that what is read-only here and written by
//! another VM is found. In one of three rounds the pattern is the same each time, and for two
//! VMs (`registers.key=0` and `1`) each is the other's complement, so that no bit is alike.
//!
//! Boot arguments: `conformance.run=registers`, with `registers.key=`, `registers.rounds=`
//! (default 12), `registers.lives=yes` (after its rounds the VM is reset with its pattern in all
//! registers) and `registers.spoil=yes` (the payload changes a register itself, which must be
//! found). With more than one vCPU the others are started, turned off with patterns in their
//! registers, and started again.

mod routines;

pub use routines::Layout;

use crate::arch::crossing::{self as arch, Register};
use crate::arch::fp;
use crate::arch::fuzz::{registers, space, trip};
use crate::cpu;
use crate::fuzz::random::Random;
use crate::fuzz::repair;
use crate::machine::Machine;
use crate::tree::Area;
use crate::{psci, smp, timer};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use routines::{Values, find_registers, layout, listed, make_routines};

/// What the boot arguments ask for.
#[derive(Clone, Copy)]
pub struct Options {
    key: u64,
    rounds: u64,
    lives: bool,
    spoil: bool,
}

impl Options {
    /// Parses the words of the command line, each by its prefix.
    pub fn new<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Self {
        let number = |key, otherwise| {
            value(key)
                .map_or(Ok(otherwise), str::parse)
                .unwrap_or(otherwise)
        };
        Self {
            key: number("registers.key=", 0),
            rounds: number("registers.rounds=", 12),
            lives: value("registers.lives=") == Some("yes"),
            spoil: value("registers.spoil=") == Some("yes"),
        }
    }
}

/// How a register has to be treated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// As any other: it is written, read and compared.
    None,
    /// It changes by itself, and is not compared.
    Moves,
    /// A write has an effect and is not stored: the register is not written.
    Acts,
    /// It may be zero after others had the core.
    Forgotten,
    /// Other registers are accessible only while it has a certain value: it is written last, and
    /// read first.
    Last,
}

/// How to wait until others had the core.
#[derive(Clone, Copy)]
pub struct Wait {
    /// The shortest gap, in ticks, between two reads of the clock that counts;
    pub gap: u64,
    /// how many gaps to wait for;
    pub gaps: u64,
    /// the most ticks to wait.
    pub patience: u64,
    /// The payload itself changes a register meanwhile.
    pub spoil: bool,
}

/// What is done while the registers hold their pattern.
#[derive(Clone, Copy)]
pub enum Action {
    /// Nothing.
    Wait(Wait),
    /// A call that does not return.
    Call(u64),
}

/// One run through all registers: the arguments of the architecture's routine. Each address is of
/// an array with a value for each register.
#[repr(C, align(16))]
pub struct Run {
    /// The FP and SIMD registers: what is written, and what is read before and after.
    pub fp: fp::State,
    /// Before.
    pub fp_first: fp::State,
    /// After.
    pub fp_second: fp::State,
    /// What is written.
    pub values: u64,
    /// What is written at the end.
    pub before: u64,
    /// What is read right after the writes.
    pub first: u64,
    /// What is read after the wait.
    pub second: u64,
    /// How many gaps of the clock were seen.
    pub seen: u64,
    /// What is done meanwhile,
    pub action: Action,
    /// and its arguments, where the architecture has too few registers to pass them.
    pub arguments: [u64; 3],
}

/// What one CPU knows of its registers.
struct Known {
    values: Values,
    before: Values,
    first: Values,
    second: Values,
    /// The values that the unchanging pattern led to.
    always: Values,
    /// Bits that were seen to change by a write.
    stuck: Values,
    /// Faults that were reported already: each is reported once.
    told: Values,
}

impl Known {
    const fn new() -> Self {
        Self {
            values: Values::new(),
            before: Values::new(),
            first: Values::new(),
            second: Values::new(),
            always: Values::new(),
            stuck: Values::new(),
            told: Values::new(),
        }
    }
}

/// How many CPUs take part at most: each keeps much.
const MAX_CPUS: usize = 8;

static KNOWN: [Known; MAX_CPUS] = [const { Known::new() }; MAX_CPUS];

static WRONG: AtomicU64 = AtomicU64::new(0);
static SWITCHES: AtomicU64 = AtomicU64::new(0);
/// How many faults are reported one by one.
const TOLD: u64 = 64;

fn wrong(what: core::fmt::Arguments<'_>) {
    if WRONG.fetch_add(1, SeqCst) < TOLD {
        println!("FAIL registers: vCPU {}: {what}", cpu::this().index());
    }
}

/// What [`arch::first_look`] found that is not zero: the index and value of the last one.
static FOUND: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Stores what was found first, before the console works.
pub fn remember(found: &[(&str, u64)]) {
    for (place, (_, value)) in (1..).zip(found).filter(|(_, (_, value))| *value != 0) {
        FOUND[0].store(place, Relaxed);
        FOUND[1].store(*value, Relaxed);
    }
}

fn judge_first_look(found: &[(&str, u64)]) {
    for (name, value) in found.iter().filter(|(_, value)| *value != 0) {
        wrong(format_args!("{name} is {value:#x} at the start"));
    }
}

/// The FP and SIMD registers, which no code has used yet.
fn judge_floating_point() {
    fp::enable(true);
    let found = fp::State::stored();
    if found != fp::State::ZERO {
        let register = found.first_difference(&fp::State::ZERO);
        wrong(format_args!(
            "FP register {register:?} is not zero at the start"
        ));
    }
}

/// The patterns of one vCPU in one life.
#[derive(Clone, Copy)]
struct Pattern {
    key: u64,
    cpu: u64,
    life: u64,
}

impl Pattern {
    /// How many successive rounds have the same pattern.
    const SAME: u64 = 3;

    fn of(self, register: u64, round: u64) -> u64 {
        let own = register | self.cpu << 32;
        if round.is_multiple_of(Self::SAME) {
            // The patterns of two VMs have no bit in common.
            return Random::of(0, own).next() ^ (self.key & 1).wrapping_neg();
        }
        Random::of(self.life ^ self.key << 56, own ^ round << 40).next()
    }
}

/// Runs one vCPU's rounds over its registers.
struct Holder {
    known: &'static Known,
    pattern: Pattern,
    options: Options,
    this: u64,
}

impl Holder {
    fn new(options: Options, memory: Area) -> Self {
        let index = cpu::this().index();
        judge_floating_point();
        space::install(memory);
        let this = read_sysreg!("tpidr_el1");
        repair::registers(this);
        Self {
            known: &KNOWN[index],
            pattern: Pattern {
                key: options.key,
                cpu: index as u64,
                life: timer::now(),
            },
            options,
            this,
        }
    }

    /// Reads the registers before anything is written to them.
    fn look_before(&self) {
        let start = arch::start_read(&layout(), self.known.before.address());
        // SAFETY: reads into this CPU's own values, and the way back restores what is needed.
        unsafe { trip::travel(&start) };
    }

    fn fill(&self, round: u64) {
        for (index, register, _, written) in listed() {
            let value = if written {
                register.bearable(self.pattern.of(register.bits().into(), round))
            } else {
                0
            };
            self.known.values.0[index].store(value, Relaxed);
        }
    }

    fn run(&self, round: u64, action: Action) -> Run {
        self.fill(round);
        let known = self.known;
        let mut run = Run {
            fp: fp::State::pattern(self.pattern.of(1 << 31, round)),
            fp_first: fp::State::ZERO,
            fp_second: fp::State::ZERO,
            values: known.values.address(),
            before: known.before.address(),
            first: known.first.address(),
            second: known.second.address(),
            seen: 0,
            action,
            arguments: [0; 3],
        };
        let start = arch::start(&layout(), &mut run);
        // SAFETY: the MMU is off and everything masked while the registers are anything; the
        // routine writes within `run` and this CPU's values alone, and puts all back.
        unsafe { trip::travel(&start) };
        repair::registers(self.this);
        run
    }

    fn round(&self, round: u64) {
        let wait = Wait {
            gap: timer::microseconds(GAP_US),
            gaps: 2,
            patience: timer::microseconds(PATIENCE_US),
            spoil: self.options.spoil,
        };
        let run = self.run(round, Action::Wait(wait));
        SWITCHES.fetch_add(run.seen, Relaxed);
        for fp in [&run.fp_first, &run.fp_second] {
            if *fp != run.fp {
                let register = run.fp.first_difference(fp);
                wrong(format_args!(
                    "round {round}: FP register {register:?} changed"
                ));
            }
        }
        for (index, register, read, _) in listed() {
            if read && register.special() != Special::Moves {
                self.judge(round, index, register);
            }
        }
    }

    fn judge(&self, round: u64, index: usize, register: Register) {
        let known = self.known;
        let [first, second, before] =
            [&known.first, &known.second, &known.before].map(|values| values.at(index));
        // Other VMs may have had the core before the first look too.
        let forgets = register.special() == Special::Forgotten;
        if first != second && !(forgets && second == 0) && self.is_news(index, 0) {
            let value = known.values.at(index);
            wrong(format_args!(
                "round {round}: {register}: {value:#x} gave {first:#x}, then {second:#x}"
            ));
        }
        if round == 0 {
            known.always.0[index].store(first, Relaxed);
        } else if round.is_multiple_of(Pattern::SAME)
            && !forgets
            && known.always.at(index) != first
            && self.is_news(index, 1)
        {
            let always = known.always.at(index);
            wrong(format_args!(
                "round {round}: {register}: {first:#x}, formerly {always:#x}"
            ));
        }
        let changed = (first ^ before) & before & !register.excused();
        if changed & !known.stuck.0[index].fetch_or(changed, Relaxed) != 0 && self.is_news(index, 2)
        {
            wrong(format_args!("{register} was {before:#x} at the start"));
        }
    }

    /// Returns whether this fault of a register is found for the first time.
    fn is_news(&self, index: usize, kind: u32) -> bool {
        self.known.told.0[index].fetch_or(1 << kind, Relaxed) & 1 << kind == 0
    }

    fn rounds(&self) {
        (0..self.options.rounds).for_each(|round| self.round(round));
    }

    /// Ends with the pattern in all registers.
    fn call(&self, function: u64) -> ! {
        self.run(1, Action::Call(function));
        panic!("{function:#x} came back");
    }
}

/// A gap of the clock this long, in microseconds, means that another vCPU had the core.
const GAP_US: u64 = 300;
/// After so many microseconds no other vCPU is expected on the core.
const PATIENCE_US: u64 = 100_000;

static OPTIONS: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];
static ENDED: [AtomicBool; MAX_CPUS] = [const { AtomicBool::new(false) }; MAX_CPUS];

/// The routine of another vCPU: its rounds, then CPU_OFF with its pattern in all registers.
fn work(index: usize) {
    judge_first_look(&arch::first_look());
    let [key, rounds, spoil, start, size] = OPTIONS.each_ref().map(|word| word.load(SeqCst));
    let options = Options {
        key,
        rounds,
        lives: false,
        spoil: spoil != 0,
    };
    let holder = Holder::new(options, Area { start, size });
    holder.look_before();
    holder.rounds();
    ENDED[index].store(true, SeqCst);
    holder.call(psci::CPU_OFF);
}

fn start_others(machine: &Machine, options: Options) {
    let memory = machine.memory();
    let words = [
        options.key,
        options.rounds,
        options.spoil.into(),
        memory.start,
        memory.size,
    ];
    for (place, word) in OPTIONS.iter().zip(words) {
        place.store(word, SeqCst);
    }
    for (index, ended) in ENDED.iter().take(machine.cpus).enumerate().skip(1) {
        ended.store(false, SeqCst);
        let started = smp::start(index, work);
        if started != psci::SUCCESS {
            wrong(format_args!("CPU_ON of vCPU {index}: {started}"));
        }
    }
}

fn wait_for_others(machine: &Machine) {
    for (index, ended) in ENDED.iter().take(machine.cpus).enumerate().skip(1) {
        let is_off = || ended.load(SeqCst) && psci::affinity_info(index as u64) == psci::OFF;
        if !timer::wait_until(is_off) {
            wrong(format_args!("vCPU {index} does not go off"));
        }
    }
}

/// Runs the rounds and reports the result, for ever or with a reset after each time.
pub fn run(machine: &Machine, options: Options) -> ! {
    let found = [0, 1].map(|index: usize| FOUND[index].load(Relaxed));
    if found[1] != 0 {
        let [place, value] = found;
        wrong(format_args!(
            "first look: register {place} is {value:#x} at the start"
        ));
    }
    let holder = Holder::new(options, machine.memory());
    registers::prepare();
    find_registers();
    make_routines();
    holder.look_before();
    let (read, written) = listed().fold((0, 0), |(read, written), entry| {
        (read + u32::from(entry.2), written + u32::from(entry.3))
    });
    let pending = read_sysreg!("isr_el1");
    println!("registers: {read} can be read, {written} written, {pending:#x} pending");
    loop {
        start_others(machine, options);
        holder.rounds();
        wait_for_others(machine);
        let (wrong, switches) = (WRONG.load(SeqCst), SWITCHES.swap(0, SeqCst));
        let rounds = options.rounds;
        println!("registers: {rounds} rounds, switches {switches}, {wrong} wrong");
        if options.lives {
            start_others(machine, options);
            holder.call(psci::SYSTEM_RESET);
        }
    }
}
