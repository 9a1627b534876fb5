//! The hypervisor's own instructions, and how they are told from everybody else's.
//!
//! A guest uses the same numeric addresses as the hypervisor, so an address says nothing.
//! What tells them apart is *physical* memory: the image lies in one piece of the board's
//! memory, which no guest can reach. Where that piece is, is found by the first block of code
//! that equals a part of the ELF file and nothing else in it: before the hypervisor runs,
//! only the boot loader does. From then on one subtraction decides, also for the
//! instructions that run before the MMU is on, at other addresses.

use anyhow::{Context, Result, bail};
use object::{Architecture, Object, ObjectSection, ObjectSymbol};
use serde::{Deserialize, Serialize};

/// The instructions of a set that mean something here, and what its vector table looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instructions {
    /// `hint #0x40`: the measured stretch begins. A guest executes it; the architecture lets
    /// unallocated hints be NOPs (DDI 0487, C6.2.133, HINT; DDI 0406C, A5.2.11).
    pub begin: u32,
    /// `hint #0x41`: the measured stretch is over.
    pub end: u32,
    /// `eret`: the way out of the hypervisor.
    pub eret: u32,
    /// Bytes of an entry of the vector table.
    slot_bytes: u64,
    /// What each entry of the vector table is for.
    slots: &'static [Entry],
}

/// What comes through an entry of a vector table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entry {
    /// From the hypervisor itself, or never.
    Own,
    /// A guest's synchronous exception.
    Synchronous,
    /// An interrupt while a guest ran.
    Interrupt,
    /// An asynchronous abort while a guest ran, where it has an entry of its own.
    SystemError,
    /// None: the hypervisor looked for interrupts by itself, with them masked, and goes on.
    Turn,
}

/// A64, of a 64-bit hypervisor (the table: DDI 0487, D1.4.1).
pub const A64: Instructions = Instructions {
    begin: 0xd503_201f | 0x40 << 5,
    end: 0xd503_201f | 0x41 << 5,
    eret: 0xd69f_03e0,
    slot_bytes: 128,
    slots: &{
        use Entry::{Interrupt as Irq, Own, Synchronous as Sync, SystemError as Error};
        [
            Own, Own, Own, Own, Own, Own, Own, Own, Sync, Irq, Irq, Error, Sync, Irq, Irq, Error,
        ]
    },
};

/// A32, of a 32-bit hypervisor (the table of Hyp mode: DDI 0406C, B1.8.1).
pub const A32: Instructions = Instructions {
    begin: 0xe320_f000 | 0x40,
    end: 0xe320_f000 | 0x41,
    eret: 0xe160_006e,
    slot_bytes: 4,
    slots: &{
        use Entry::{Interrupt as Irq, Own, Synchronous as Sync};
        [Own, Own, Own, Own, Own, Sync, Irq, Irq]
    },
};

/// The symbol of the exception vectors.
const VECTORS: &str = "hanok_vectors";
/// In the symbols of the functions that look for interrupts while they are masked: to take them, and
/// to stop what could go on.
const LOOKS: [&str; 2] = ["serve_pending", "interrupt_is_pending"];
/// So many instructions, the same in one place alone, are no accident.
const CERTAIN: usize = 6;
const WORD: u64 = 4;
const PAGE: u64 = 4096;

/// One of the hypervisor's instructions, counted from the start of its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(pub u32);

impl Word {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The code of one ELF file.
#[derive(Clone, Debug)]
pub struct Code {
    base: u64,
    words: Vec<u32>,
    vectors: u64,
    /// Where interrupts are taken while they are masked.
    looks: Vec<u64>,
    set: &'static Instructions,
}

impl Code {
    /// The code in `elf`, the hypervisor as it was linked.
    pub fn parse(elf: &[u8]) -> Result<Self> {
        let file = object::File::parse(elf).context("the ELF file is damaged")?;
        let text = file
            .section_by_name(".text")
            .context("the ELF file has no .text")?;
        let vectors = file
            .symbols()
            .find(|symbol| symbol.name() == Ok(VECTORS))
            .with_context(|| format!("the ELF file has no symbol {VECTORS}"))?;
        let words = text.data()?.chunks_exact(4).filter_map(word).collect();
        let set = match file.architecture() {
            Architecture::Aarch64 => &A64,
            Architecture::Arm => &A32,
            other => bail!("the ELF file is for {other:?}"),
        };
        let is_look = |name: &str| LOOKS.iter().any(|look| name.contains(look));
        let named = |symbol: &object::Symbol<'_, '_>| symbol.name().is_ok_and(is_look);
        let looks = file.symbols().filter(named);
        let looks = looks.map(|symbol| symbol.address()).collect();
        let code = Self::new(set, text.address(), words, vectors.address())?;
        Ok(Self { looks, ..code })
    }

    /// Code of `set` at `base`, with the exception vectors at `vectors`.
    pub fn new(
        set: &'static Instructions,
        base: u64,
        words: Vec<u32>,
        vectors: u64,
    ) -> Result<Self> {
        let code = Self {
            base,
            words,
            vectors,
            looks: Vec::new(),
            set,
        };
        if !base.is_multiple_of(PAGE) || code.word(vectors).is_none() {
            bail!("the code at {base:#x} does not hold the vectors at {vectors:#x}");
        }
        Ok(code)
    }

    /// The set that it is of.
    pub fn set(&self) -> &'static Instructions {
        self.set
    }

    /// How many instructions there are.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The linked address of an instruction.
    pub fn address(&self, word: Word) -> u64 {
        self.base + u64::from(word.0) * WORD
    }

    /// The instruction linked at `address`.
    pub fn word(&self, address: u64) -> Option<Word> {
        let index = address.checked_sub(self.base)? / WORD;
        let word = Word(u32::try_from(index).ok()?);
        (word.index() < self.words.len() && address.is_multiple_of(WORD)).then_some(word)
    }

    /// The instruction itself.
    pub fn instruction(&self, word: Word) -> Option<u32> {
        self.words.get(word.index()).copied()
    }

    /// The entry of the vector table that `word` is the first instruction of.
    pub fn entry(&self, word: Word) -> Option<Entry> {
        let distance = self.address(word).checked_sub(self.vectors)?;
        let first = distance.is_multiple_of(self.set.slot_bytes);
        let slot = usize::try_from(distance / self.set.slot_bytes).ok()?;
        self.set.slots.get(slot).filter(|_| first).copied()
    }

    /// Whether `word` is the first instruction of the function that takes interrupts while they are
    /// masked.
    pub fn looks(&self, word: Word) -> bool {
        self.looks.contains(&self.address(word))
    }

    /// Where the code starts, if `block`, executed at `place`, is certain to be a part of it.
    fn start(&self, place: u64, block: &[u32]) -> Option<u64> {
        if block.len() < CERTAIN {
            return None;
        }
        let mut found = self
            .words
            .windows(block.len())
            .enumerate()
            .filter(|(_, words)| *words == block);
        let at = found.next()?.0 as u64 * WORD;
        let start = place.checked_sub(at)?;
        (found.next().is_none() && start.is_multiple_of(PAGE)).then_some(start)
    }
}

fn word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// Finds the hypervisor's instructions in the board's memory.
#[derive(Debug)]
pub struct Finder {
    code: Code,
    start: Option<u64>,
    differing: u64,
}

impl Finder {
    /// Of `code`, which is not found yet.
    pub fn new(code: Code) -> Self {
        Self {
            code,
            start: None,
            differing: 0,
        }
    }

    /// What is looked for.
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// Whether any of it was seen.
    pub fn is_found(&self) -> bool {
        self.start.is_some()
    }

    /// How many instructions were seen in its place that are others than in the ELF file.
    pub fn differing(&self) -> u64 {
        self.differing
    }

    /// Looks at a block of instructions, one after the other in memory from `place` on: a
    /// number that tells physical addresses apart and grows with them by one a byte.
    pub fn block(&mut self, place: u64, block: &[u32]) {
        if self.start.is_none() {
            self.start = self.code.start(place, block);
        }
    }

    /// Which of the hypervisor's instructions `instruction` at `place` is.
    pub fn find(&mut self, place: u64, instruction: u32) -> Option<Word> {
        let distance = place.checked_sub(self.start?)?;
        let word = self.code.word(self.code.base.checked_add(distance)?)?;
        if self.code.instruction(word) != Some(instruction) {
            self.differing += 1;
        }
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x7f_c000_0000;

    fn code() -> Code {
        let words = (0..2048).map(|number| number / 8 * 3 + number).collect();
        Code::new(&A64, BASE, words, BASE + 4096).unwrap()
    }

    #[test]
    fn markers_are_unallocated_hints() {
        assert_eq!((A64.begin, A64.end), (0xd503_281f, 0xd503_283f));
        assert_eq!((A32.begin, A32.end), (0xe320_f040, 0xe320_f041));
    }

    #[test]
    fn addresses_and_slots() {
        let code = code();
        let word = code.word(BASE + 4096 + 128).unwrap();
        assert_eq!(code.entry(word), Some(Entry::Own));
        assert_eq!(code.entry(Word(word.0 + 1)), None);
        let guests = code.word(BASE + 4096 + 8 * 128).unwrap();
        assert_eq!(code.entry(guests), Some(Entry::Synchronous));
        assert_eq!(code.entry(code.word(BASE + 4096 + 2048).unwrap()), None);
        assert_eq!(code.entry(Word(0)), None);
        assert_eq!(code.word(BASE + 2), None);
        assert_eq!(code.word(BASE + 8192), None);
        assert_eq!(code.word(BASE - 4), None);
        assert!(Code::new(&A64, BASE, vec![0; 4], BASE + 16).is_err());
    }

    #[test]
    fn the_table_of_hyp_mode_has_an_instruction_for_each_entry() {
        let code = Code::new(&A32, BASE, vec![0; 64], BASE + 32).unwrap();
        let entry = |slot: u32| code.entry(Word(8 + slot));
        assert_eq!(entry(4), Some(Entry::Own));
        assert_eq!(entry(5), Some(Entry::Synchronous));
        assert_eq!(entry(6), Some(Entry::Interrupt));
        assert_eq!(entry(8), None);
    }

    #[test]
    fn the_first_certain_block_tells_where_all_is() {
        let mut finder = Finder::new(code());
        let words = finder.code().words.clone();
        let place = 0x7000_0000;
        finder.block(place, &words[..3]);
        assert_eq!(
            finder.find(place, words[0]),
            None,
            "too short to be certain"
        );
        finder.block(place + 4, &words[..6]);
        assert!(
            !finder.is_found(),
            "the same words at another place in the page"
        );
        finder.block(place + 400, &words[100..106]);
        assert_eq!(finder.find(place, words[0]), Some(Word(0)));
        assert_eq!(finder.find(place + 8188, words[2047]), Some(Word(2047)));
        assert_eq!(finder.find(place + 8192, 0), None);
        assert_eq!(finder.find(place - 4, 0), None);
        assert_eq!(finder.differing(), 0);
        assert_eq!(finder.find(place + 4, !0), Some(Word(1)));
        assert_eq!(finder.differing(), 1);
    }

    #[test]
    fn a_block_that_is_there_twice_proves_nothing() {
        let code = Code::new(&A64, BASE, [7; 64].to_vec(), BASE).unwrap();
        let mut finder = Finder::new(code);
        finder.block(0x1000, &[7; 8]);
        assert!(!finder.is_found());
    }
}
