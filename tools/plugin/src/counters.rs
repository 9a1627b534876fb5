//! Counts instructions: with QEMU's own counters where the board has one CPU, with ours where it
//! has several.

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

/// Which kind of counters is used.
pub enum Kept {
    /// By QEMU, for the one CPU.
    Qemu(Scoreboard),
    /// Here, for so many.
    Ours(Several),
}

impl Kept {
    /// Counters for a board of `cpus` CPUs, `each` for each of them.
    pub fn new(cpus: usize, each: usize) -> Self {
        match cpus {
            0 | 1 => Self::Qemu(Scoreboard::new(each)),
            _ => Self::Ours(Several::new(cpus, each)),
        }
    }

    /// Whether the plugin needs a callback at the start of each block.
    pub fn wants_blocks(&self) -> bool {
        matches!(self, Self::Ours(_))
    }

    /// Makes each execution of `instruction` add to a counter.
    pub fn count(&self, instruction: &Instruction, counter: Counter) {
        match self {
            Self::Qemu(scoreboard) => instruction.adds_one(scoreboard, counter.index()),
            Self::Ours(_) => instruction.calls(Event::Count(counter.index())),
        }
    }

    /// Handles [`Event::Count`]: adds one to a counter.
    pub fn add(&self, counter: usize) {
        match self {
            Self::Qemu(scoreboard) => {
                scoreboard.set(cpu(), counter, scoreboard.value(cpu(), counter) + 1);
            }
            Self::Ours(several) => {
                if let Some(count) = several.of(cpu(), counter) {
                    count.fetch_add(1, Relaxed);
                }
            }
        }
    }
}

impl Counters for Kept {
    fn cpus(&self) -> usize {
        match self {
            // Empty while the plugin is installed.
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

/// Records that this thread runs `cpu`, from now on or among others.
pub fn runs(cpu: usize) {
    if CPU.replace(Some(cpu)).is_some_and(|before| before != cpu) {
        SHARED.store(true, Relaxed);
    }
}

/// Tells CPUs apart where one thread runs them all.
#[derive(Default)]
pub struct Identities {
    /// VMPIDR_EL2 as the reset leaves it, in the order in which CPUs begin.
    begun: Vec<u64>,
    /// TPIDR_EL2 of each CPU: the hypervisor stores the address of the CPU's own data there.
    own: Vec<(u64, usize)>,
}

impl Identities {
    /// Records that a block begins on the CPU whose registers are these.
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
        // Until a CPU has set its TPIDR_EL2, VMPIDR_EL2 identifies it.
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
