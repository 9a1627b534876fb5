//! From counters that only grow to what happened between two markers.
//!
//! QEMU adds to the counters itself, in the code that it makes of each instruction; nothing
//! of ours runs then. Only markers, entries through a vector and `eret` call here.

use std::collections::{BTreeMap, BTreeSet};

use crate::code::{Code, Offset};
use crate::operations::Operation;
use crate::report::{Cpu, Exit, Reason, Stretch};

/// One of the counters that each CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// The hypervisor's instructions.
    Hypervisor,
    /// All other instructions.
    Others,
    /// How often an operation was done.
    Operation(Operation),
    /// Executions of one of the hypervisor's instructions.
    Instruction(Offset),
}

impl Counter {
    /// How many counters there are without any code.
    pub const PLAIN: usize = 2 + Operation::ALL.len();

    /// The counter's index in memory.
    pub fn index(self) -> usize {
        match self {
            Self::Hypervisor => 0,
            Self::Others => 1,
            Self::Operation(operation) => 2 + operation as usize,
            Self::Instruction(offset) => Self::PLAIN + offset.0 as usize,
        }
    }

    /// How many counters there are for `code`.
    pub fn number(code: &Code) -> usize {
        Self::PLAIN + code.len()
    }
}

/// Access to the counters of all CPUs.
pub trait Counters {
    /// How many CPUs there are.
    fn cpus(&self) -> usize;
    /// A counter's value.
    fn get(&self, cpu: usize, counter: Counter) -> u64;
    /// Sets a counter to 0.
    fn clear(&self, cpu: usize, counter: Counter);
}

/// The exits of one CPU.
#[derive(Debug, Default)]
struct Exits {
    /// The exit that has not ended, and the count of instructions at its start.
    open: Option<(Reason, u64)>,
    over: BTreeMap<Reason, BTreeMap<u64, u64>>,
}

/// Records what the counters alone do not tell: stretches and exits.
#[derive(Debug, Default)]
pub struct Recorder {
    /// An instruction that was never translated never ran: most counters need not be read.
    seen: BTreeSet<Offset>,
    cpus: Vec<Exits>,
    running: bool,
    number: u64,
}

impl Recorder {
    /// Records that the instruction at `offset` is counted from now on.
    pub fn counts(&mut self, offset: Offset) {
        self.seen.insert(offset);
    }

    /// Returns whether a stretch has begun and has not ended.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// Begins a stretch; a stretch that had begun is discarded.
    pub fn begin(&mut self, counters: &impl Counters) {
        for cpu in 0..counters.cpus() {
            counters.clear(cpu, Counter::Hypervisor);
            counters.clear(cpu, Counter::Others);
            for operation in Operation::ALL {
                counters.clear(cpu, Counter::Operation(*operation));
            }
            for offset in &self.seen {
                counters.clear(cpu, Counter::Instruction(*offset));
            }
        }
        self.cpus.clear();
        self.running = true;
    }

    /// Ends the stretch, if there is one, and returns it. The caller knows whether the hypervisor
    /// was found; without its code, none of its instructions was counted.
    pub fn end(&mut self, code: Option<&Code>, counters: &impl Counters) -> Option<Stretch> {
        if !std::mem::take(&mut self.running) {
            return None;
        }
        self.cpus.resize_with(counters.cpus(), Exits::default);
        let exits = std::mem::take(&mut self.cpus).into_iter().enumerate();
        let cpus = exits.map(|(cpu, exits)| self.cpu(code, counters, cpu, exits));
        let stretch = Stretch {
            number: self.number,
            cpus: cpus.collect(),
            ..Stretch::default()
        };
        self.number += 1;
        Some(stretch)
    }

    fn cpu(&self, code: Option<&Code>, counters: &impl Counters, cpu: usize, exits: Exits) -> Cpu {
        let counts = self.seen.iter().filter_map(|offset| {
            let count = counters.get(cpu, Counter::Instruction(*offset));
            Some((code?.address(*offset), count))
        });
        let operations = Operation::ALL.iter().map(|operation| {
            (
                *operation,
                counters.get(cpu, Counter::Operation(*operation)),
            )
        });
        let exits = exits.over.into_iter().map(|(reason, costs)| Exit {
            reason,
            costs: costs.into_iter().collect(),
        });
        Cpu {
            hypervisor: counters.get(cpu, Counter::Hypervisor),
            others: counters.get(cpu, Counter::Others),
            counts: counts.filter(|(_, count)| *count > 0).collect(),
            exits: exits.collect(),
            operations: operations.filter(|(_, count)| *count > 0).collect(),
        }
    }

    /// Records that `cpu` came through a vector; `total` is its count of hypervisor instructions
    /// without the vector's first one.
    pub fn entered(&mut self, cpu: usize, reason: Reason, total: u64) {
        self.of(cpu).open = Some((reason, total));
    }

    /// Records the detail of the reason of the exit that `cpu` has begun.
    pub fn knows(&mut self, cpu: usize, syndrome: u64, detail: u64) {
        if let Some((reason, _)) = &mut self.of(cpu).open {
            reason.syndrome = Some(syndrome);
            reason.detail = Some(detail);
        }
    }

    /// Records that `cpu` leaves the hypervisor; `total` includes the `eret`.
    pub fn left(&mut self, cpu: usize, total: u64) {
        let exits = self.of(cpu);
        if let Some((reason, before)) = exits.open.take() {
            let costs = exits.over.entry(reason).or_default();
            *costs.entry(total.saturating_sub(before)).or_default() += 1;
        }
    }

    fn of(&mut self, cpu: usize) -> &mut Exits {
        if self.cpus.len() <= cpu {
            self.cpus.resize_with(cpu + 1, Exits::default);
        }
        &mut self.cpus[cpu]
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::code::{A64, Entry};

    /// A fake board that executes the instructions a test names.
    struct Board {
        code: Code,
        recorder: Recorder,
        counters: Fake,
    }

    struct Fake(Vec<Vec<Cell<u64>>>);

    impl Counters for Fake {
        fn cpus(&self) -> usize {
            self.0.len()
        }
        fn get(&self, cpu: usize, counter: Counter) -> u64 {
            self.0[cpu][counter.index()].get()
        }
        fn clear(&self, cpu: usize, counter: Counter) {
            self.0[cpu][counter.index()].set(0);
        }
    }

    impl Fake {
        fn add(&self, cpu: usize, counter: Counter, count: u64) {
            self.0[cpu][counter.index()].update(|before| before + count);
        }
    }

    impl Board {
        fn new(cpus: usize) -> Self {
            let code = Code::new(&A64, 0x4000, vec![0; 4096], 0x4000).unwrap();
            let counters = Fake(vec![vec![Cell::new(0); Counter::number(&code)]; cpus]);
            let recorder = Recorder::default();
            Self {
                code,
                recorder,
                counters,
            }
        }

        fn guest(&mut self, cpu: usize, count: u64) {
            self.counters.add(cpu, Counter::Others, count);
        }

        /// Executes `count` instructions from `first` on.
        fn hypervisor(&mut self, cpu: usize, first: u32, count: u32) {
            for offset in (first..first + count).map(Offset) {
                self.recorder.counts(offset);
                self.counters.add(cpu, Counter::Instruction(offset), 1);
                self.counters.add(cpu, Counter::Hypervisor, 1);
            }
        }

        fn exit(&mut self, cpu: usize, entry: Entry, count: u32) {
            let total = |board: &Self| board.counters.get(cpu, Counter::Hypervisor);
            let first = if entry == Entry::Synchronous {
                256
            } else {
                288
            };
            let reason = Reason {
                entry,
                syndrome: None,
                detail: None,
            };
            let before = total(self);
            self.recorder.entered(cpu, reason, before);
            self.hypervisor(cpu, first, count);
            let after = total(self);
            self.recorder.left(cpu, after);
        }

        fn begin(&mut self) {
            self.recorder.begin(&self.counters);
        }

        fn end(&mut self) -> Option<Stretch> {
            self.recorder.end(Some(&self.code), &self.counters)
        }
    }

    #[test]
    fn only_what_is_between_the_markers_counts() {
        let mut board = Board::new(2);
        board.guest(0, 1000);
        board.exit(0, Entry::Synchronous, 30);
        board.counters.add(0, Counter::Operation(Operation::Dsb), 9);
        board.begin();
        board.guest(0, 5);
        board.exit(0, Entry::Synchronous, 20);
        board.exit(0, Entry::Synchronous, 20);
        board.exit(0, Entry::Interrupt, 10);
        let flush = Counter::Operation(Operation::TlbAll);
        board.counters.add(0, flush, 3);
        board.guest(1, 7);
        let stretch = board.end().unwrap();
        board.guest(0, 100);
        assert_eq!(board.end(), None);
        let [one, two] = &stretch.cpus[..] else {
            panic!("two CPUs")
        };
        assert_eq!((one.others, one.hypervisor), (5, 50));
        assert_eq!(one.counts.iter().map(|(_, count)| count).sum::<u64>(), 50);
        assert_eq!(one.counts[0], (0x4000 + 8 * 128, 2));
        assert_eq!(one.operations, [(Operation::TlbAll, 3)]);
        assert_eq!(one.exits.len(), 2);
        assert_eq!(one.exits[0].costs, [(20, 2)]);
        assert_eq!(one.exits[1].costs, [(10, 1)]);
        assert_eq!((two.others, two.hypervisor), (7, 0));
        assert!(two.exits.is_empty());
    }

    #[test]
    fn stretches_are_numbered_and_begin_anew() {
        let mut board = Board::new(1);
        board.begin();
        board.guest(0, 5);
        board.begin();
        board.guest(0, 3);
        let first = board.end().unwrap();
        board.begin();
        let second = board.end().unwrap();
        assert_eq!((first.number, first.cpus[0].others), (0, 3));
        assert_eq!((second.number, second.cpus[0].others), (1, 0));
    }

    #[test]
    fn an_exit_that_began_before_the_stretch_has_no_cost() {
        let mut board = Board::new(1);
        let reason = Reason {
            entry: Entry::Interrupt,
            syndrome: None,
            detail: None,
        };
        board.recorder.entered(0, reason, 0);
        board.hypervisor(0, 100, 10);
        board.begin();
        board.hypervisor(0, 110, 10);
        board.recorder.left(0, 10);
        let stretch = board.end().unwrap();
        assert_eq!(stretch.cpus[0].hypervisor, 10);
        assert!(stretch.cpus[0].exits.is_empty());
    }
}
