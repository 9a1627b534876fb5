//! The counters: QEMU's own where the board has one CPU, ours where it has several.
//!
//! QEMU's are the fast ones. But where one thread of QEMU's runs several CPUs in turn, as it
//! does when time is a count of instructions, translated code is shared between them and has
//! the number of the CPU that it was first translated for as a constant (seen in QEMU 10.0,
//! accel/tcg/plugin-gen.c): all is counted as that one's, and where it is not the first CPU,
//! the address of its counter is wrong and QEMU dies. So with several CPUs each instruction
//! calls us. Which CPU it is, we find out by ourselves: by the thread, where each has its own,
//! else at each block's start by a register that differs from CPU to CPU.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use hanok_profile::record::{Counter, Counters};

use crate::qemu::{self, Event, Instruction, Registers, Scoreboard};

/// Whether one thread runs all CPUs.
static SHARED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The CPU that this thread runs now.
    static CPU: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Where things are counted.
pub enum Kept {
    /// By QEMU, for the one CPU.
    Qemu(Scoreboard),
    /// Here, for so many.
    Ours(Several),
}

impl Kept {
    /// For a board of `cpus` CPUs, with `each` counters for each.
    pub fn new(cpus: usize, each: usize) -> Self {
        match cpus {
            0 | 1 => Self::Qemu(Scoreboard::new(each)),
            _ => Self::Ours(Several::new(cpus, each)),
        }
    }

    /// Whether the start of each block is to be told.
    pub fn wants_blocks(&self) -> bool {
        matches!(self, Self::Ours(_))
    }

    /// Makes `instruction` count, each time that it is executed.
    pub fn count(&self, instruction: &Instruction, counter: Counter) {
        match self {
            Self::Qemu(scoreboard) => instruction.adds_one(scoreboard, counter.index()),
            Self::Ours(_) => instruction.calls(Event::Count(counter.index())),
        }
    }

    /// What [`Event::Count`] asks for.
    pub fn add(&self, counter: usize) {
        if let Self::Ours(several) = self
            && let Some(count) = several.of(cpu(), counter)
        {
            count.fetch_add(1, Relaxed);
        }
    }
}

impl Counters for Kept {
    fn cpus(&self) -> usize {
        match self {
            // None yet while it is installed.
            Self::Qemu(_) => qemu::cpus(),
            Self::Ours(several) => several.cpus,
        }
    }

    fn get(&self, cpu: usize, counter: Counter) -> u64 {
        match self {
            Self::Qemu(scoreboard) => scoreboard.value(cpu, counter.index()),
            Self::Ours(several) => {
                let count = several.of(cpu, counter.index());
                count.map_or(0, |count| count.load(Relaxed))
            }
        }
    }

    fn clear(&self, cpu: usize, counter: Counter) {
        match self {
            Self::Qemu(scoreboard) => scoreboard.set(cpu, counter.index(), 0),
            Self::Ours(several) => {
                if let Some(count) = several.of(cpu, counter.index()) {
                    count.store(0, Relaxed);
                }
            }
        }
    }
}

/// The counters of several CPUs.
pub struct Several {
    cpus: usize,
    each: usize,
    counts: Vec<AtomicU64>,
}

impl Several {
    fn new(cpus: usize, each: usize) -> Self {
        let mut counts = Vec::new();
        counts.resize_with(cpus * each, AtomicU64::default);
        Self { cpus, each, counts }
    }

    fn of(&self, cpu: usize, counter: usize) -> Option<&AtomicU64> {
        self.counts.get(cpu * self.each + counter)
    }
}

/// The CPU that this thread runs now.
pub fn cpu() -> usize {
    CPU.get().unwrap_or(0)
}

/// This thread runs `cpu`, from now on or among others.
pub fn runs(cpu: usize) {
    if CPU.replace(Some(cpu)).is_some_and(|before| before != cpu) {
        SHARED.store(true, Relaxed);
    }
}

/// Which CPU is which, where one thread runs them all.
#[derive(Default)]
pub struct Identities {
    /// VMPIDR_EL2 as the reset leaves it, in the order in which CPUs begin.
    begun: Vec<u64>,
    /// TPIDR_EL2, by which the hypervisor's CPUs find what is theirs, and whose it is.
    own: Vec<(u64, usize)>,
}

impl Identities {
    /// A block begins on the CPU whose registers are these.
    pub fn block(&mut self, registers: &Registers) {
        if SHARED.load(Relaxed)
            && let Some(cpu) = self.find(registers)
        {
            CPU.set(Some(cpu));
        }
    }

    fn find(&mut self, registers: &Registers) -> Option<usize> {
        let own = registers.read(qemu::TPIDR_EL2)?;
        if let Some((_, cpu)) = self.own.iter().find(|(known, _)| *known == own) {
            return Some(*cpu);
        }
        // Until a CPU has something of its own, its number is the physical one.
        let number = registers.read(qemu::VMPIDR_EL2)?;
        let known = self.begun.iter().position(|known| *known == number);
        let cpu = known.unwrap_or_else(|| {
            self.begun.push(number);
            self.begun.len() - 1
        });
        if own != 0 {
            self.own.push((own, cpu));
        }
        Some(cpu)
    }
}
