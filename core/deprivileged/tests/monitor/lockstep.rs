//! Both CPUs, one instruction after the other.

use crate::board::{Board, RAM, WORDS, word_of};
use crate::guest::{Guest, Outcomes};
use crate::native::{Event, Native, settled};
use hanok_cpu32::Lines;
use hanok_deprivileged::Stopped;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It did as many instructions as it was to do, or stands still.
    Ran,
    /// It did what a test knows no answer to.
    Unknown,
    /// It went where the documentation promises nothing.
    Excused,
    Stopped(Stopped),
}

pub struct Both<const ROOTS: usize, const TABLES: usize> {
    pub native: Native,
    pub guest: Guest<ROOTS, TABLES>,
    pub steps: u64,
    /// What the last instruction led to.
    pub last: Event,
}

/// How a guest is made.
#[derive(Clone, Debug)]
pub struct Setup {
    pub slots: usize,
    pub asids: u8,
    pub sections: bool,
    /// Absent pages, by their number from the begin of RAM.
    pub absent: Vec<u32>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            slots: 8,
            asids: 255,
            sections: true,
            absent: Vec::new(),
        }
    }
}

/// Memory with these words at these addresses.
pub fn memory(parts: &[(u32, &[u32])]) -> Vec<u32> {
    let mut words = vec![0; WORDS];
    for (at, part) in parts {
        let first = word_of(u64::from(*at)).expect("memory");
        words[first..first + part.len()].copy_from_slice(part);
    }
    words
}

impl<const ROOTS: usize, const TABLES: usize> Both<ROOTS, TABLES> {
    pub fn new(words: Vec<u32>, entry: u32, setup: &Setup) -> Self {
        let board = Board::new(words.clone(), setup.sections);
        let absent = setup.absent.iter().map(|page| u64::from(RAM / 4096 + page));
        board.absent.borrow_mut().extend(absent);
        let mut guest = Guest::new(board, setup.slots, setup.asids);
        guest.monitor.boot(entry, [0; 3]);
        let native = Native::new(guest.monitor.cpu.clone(), guest.monitor.registers, words);
        Self {
            native,
            guest,
            steps: 0,
            last: Event::Retired,
        }
    }

    /// One instruction on both. `None` if they go on.
    pub fn step(&mut self) -> Option<End> {
        let before = (self.native.registers, self.native.cpu.clone());
        let at = self.native.registers;
        let code = self.native.fetch();
        let expected = self.native.step();
        if expected == Event::Unknown {
            return Some(End::Unknown);
        }
        self.steps += 1;
        self.last = expected;
        let got = match self.guest.step() {
            Outcomes::Event(event) => event,
            Outcomes::Excused => return Some(End::Excused),
            Outcomes::Stopped(stopped) => return Some(End::Stopped(stopped)),
            Outcomes::Stuck => {
                let stands = before == (self.native.registers, self.native.cpu.clone());
                assert!(stands, "no progress at {:#x}, {code:x?}", at.pc);
                return Some(End::Ran);
            }
        };
        assert_eq!(expected, got, "step {}, {code:x?} {at:x?}", self.steps);
        let what = || format!("step {}, {code:x?} {at:x?}", self.steps);
        agree(&mut self.native, &self.guest, what);
        None
    }

    /// Signals interrupts to both, which take them if they are not masked.
    pub fn interrupt(&mut self, lines: Lines) {
        self.native.cpu.set_lines(lines);
        let taken = self.native.cpu.deliver(&mut self.native.registers);
        assert_eq!(self.guest.deliver(lines), taken);
    }

    pub fn run(&mut self, steps: u64) -> End {
        let last = self.steps + steps;
        while self.steps < last {
            if let Some(end) = self.step() {
                return self.end(end);
            }
            if self.native.registers.pc == STOP {
                break;
            }
        }
        self.end(End::Ran)
    }

    pub fn end(&self, end: End) -> End {
        // A program that was stopped may have stored more here than there.
        if end == End::Ran {
            let same = self.guest.board.originals() == self.native.memory.words;
            assert!(same, "the memories differ");
        }
        end
    }
}

/// Both CPUs have the same registers, and the same in what was written last.
pub fn agree<const ROOTS: usize, const TABLES: usize>(
    native: &mut Native,
    guest: &Guest<ROOTS, TABLES>,
    what: impl Fn() -> String,
) {
    let (registers, cpu) = (guest.monitor.registers, &guest.monitor.cpu);
    assert_eq!(native.registers, registers, "{}", what());
    let expected = settled(&native.cpu, &native.registers);
    assert_eq!(expected, settled(cpu, &registers), "{}", what());
    let memory = &mut native.memory;
    for (word, _) in memory.written.clone() {
        let its = guest.board.original(word);
        memory.agree(word, its);
        let mine = memory.words[word];
        assert_eq!(mine, its, "word {word:#x}, {}", what());
    }
}

/// Where hand-written programs end.
pub const STOP: u32 = RAM + 0xf00;
