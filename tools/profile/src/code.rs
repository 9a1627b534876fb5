//! The hypervisor's own instructions, and how they are told from all other instructions.

use anyhow::{Context, Result, bail};
use object::{Architecture, Object, ObjectSection, ObjectSymbol};
use serde::{Deserialize, Serialize};

/// The instructions of a set that the profile has to know, and the layout of its vector table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instructions {
    /// `hint #0x40`: the measured stretch begins. A guest executes it; the architecture lets
    /// unallocated hints be NOPs (DDI 0487, C6.2.133, HINT; DDI 0406C, A5.2.11).
    pub begin: u32,
    /// `hint #0x41`: the measured stretch is over.
    pub end: u32,
    /// `eret`: the way out of the hypervisor.
    pub eret: u32,
    /// The way out of the window, where a guest runs in User mode: `movs pc, lr`; 0 if there is none.
    movs: u32,
    /// The bytes of the shortest instruction; each instruction begins at a multiple of them.
    unit: u64,
    /// The bytes of an entry of the vector table.
    slot_bytes: u64,
    /// What each entry of the vector table is for.
    slots: &'static [Entry],
    /// What each entry of the window's vector table is for.
    window_slots: &'static [Entry],
}

impl Instructions {
    /// The address of the function whose symbol has this value: the value of a T32 function is odd
    /// (AAELF32, "Symbol Values").
    pub fn start(&self, symbol: u64) -> u64 {
        symbol - symbol % self.unit
    }
}

/// What an entry of a vector table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entry {
    /// An exception of the hypervisor itself, or one that never comes.
    Own,
    /// A guest's synchronous exception.
    Synchronous,
    /// An interrupt while a guest ran.
    Interrupt,
    /// An asynchronous abort while a guest ran, where it has an entry of its own.
    SystemError,
    /// An undefined instruction of a guest in User mode.
    Undefined,
    /// SVC of a guest in User mode.
    Call,
    /// A fetch of a guest in User mode that failed.
    Prefetch,
    /// An access of a guest in User mode that failed.
    Data,
    /// No entry: the hypervisor took interrupts by itself, with them masked, and goes on.
    Turn,
}

/// A64, of a 64-bit hypervisor (the table: DDI 0487, D1.4.1).
pub const A64: Instructions = Instructions {
    begin: 0xd503_201f | 0x40 << 5,
    end: 0xd503_201f | 0x41 << 5,
    eret: 0xd69f_03e0,
    movs: 0,
    unit: 4,
    slot_bytes: 128,
    slots: &{
        use Entry::{Interrupt as Irq, Own, Synchronous as Sync, SystemError as Error};
        [
            Own, Own, Own, Own, Own, Own, Own, Own, Sync, Irq, Irq, Error, Sync, Irq, Irq, Error,
        ]
    },
    window_slots: &[],
};

/// A32 and T32, of a 32-bit hypervisor: its vectors are A32, and so are the guest's markers (the table of
/// Hyp mode and that of the other ones: DDI 0406C, B1.8.1).
pub const A32: Instructions = Instructions {
    begin: 0xe320_f000 | 0x40,
    end: 0xe320_f000 | 0x41,
    eret: 0xe160_006e,
    movs: 0xe1b0_f00e,
    unit: 2,
    slot_bytes: 4,
    slots: &{
        use Entry::{Interrupt as Irq, Own, Synchronous as Sync};
        [Own, Own, Own, Own, Own, Sync, Irq, Irq]
    },
    window_slots: &{
        use Entry::{Call, Data, Interrupt as Irq, Own, Prefetch, Undefined};
        [Own, Undefined, Call, Prefetch, Data, Own, Irq, Irq]
    },
};

/// The symbol of the exception vectors.
const VECTORS: &str = "hanok_vectors";
/// The symbols of the window: its vectors, where an exit's cause is known that is not carried out there, and its end.
const WINDOW: [&str; 3] = ["hanok_window", "window_known", "hanok_window_end"];
/// Substrings of the symbols of the functions that take interrupts while they are masked: to handle
/// them, and to stop work that could go on.
const LOOKS: [&str; 2] = ["serve_pending", "interrupt_is_pending"];
/// A substring of the symbol of the function that makes an entry of a shadow table for an abort of a guest's.
const FILLS: &str = "fill_mapped";
/// So many bytes that are equal to the ELF file's, at one place only, are taken for the
/// hypervisor's code.
const CERTAIN: usize = 24;
const PAGE: u64 = 4096;

/// One of the hypervisor's instructions: its distance from the start of the code, in units of the set's
/// shortest instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub u32);

/// The code of one ELF file.
#[derive(Clone, Debug)]
pub struct Code {
    base: u64,
    bytes: Vec<u8>,
    vectors: u64,
    /// Where interrupts are taken while they are masked.
    looks: Vec<u64>,
    /// Where entries of shadow tables are made.
    fills: Vec<u64>,
    /// From where on the code is of T32, or is not, in the order of addresses (AAELF32, "Mapping symbols").
    sets: Vec<(u64, bool)>,
    /// The window, by the addresses of [`WINDOW`].
    window: Option<[u64; 3]>,
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
        let set = match file.architecture() {
            Architecture::Aarch64 => &A64,
            Architecture::Arm => &A32,
            other => bail!("the ELF file is for {other:?}"),
        };
        let like = |parts: &[&str]| {
            let is_like = |name: &str| parts.iter().any(|part| name.contains(part));
            let all = file.symbols();
            let all = all.filter(|symbol| symbol.name().is_ok_and(is_like));
            all.map(|symbol| set.start(symbol.address()))
                .collect::<Vec<_>>()
        };
        let (looks, fills) = (like(&LOOKS), like(&[FILLS]));
        let sets = file.symbols().filter_map(|symbol| {
            let kind = symbol.name().ok()?.strip_prefix('$')?.chars().next()?;
            Some((symbol.address(), kind == 't'))
        });
        let mut sets: Vec<_> = sets.collect();
        sets.sort_unstable();
        let bytes = text.data()?.to_vec();
        let code = Self::new(set, text.address(), bytes, vectors.address())?;
        let named = |name| {
            let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name))?;
            Some(symbol.address())
        };
        let [vectors, known, end] = WINDOW.map(named);
        let window = vectors.zip(known).zip(end);
        let window = window.map(|((vectors, known), end)| [vectors, known, end]);
        Ok(Self {
            looks,
            fills,
            sets,
            window,
            ..code
        })
    }

    /// Code of `set` at `base`, with the exception vectors at `vectors`.
    pub fn new(
        set: &'static Instructions,
        base: u64,
        bytes: Vec<u8>,
        vectors: u64,
    ) -> Result<Self> {
        let code = Self {
            base,
            bytes,
            vectors,
            looks: Vec::new(),
            fills: Vec::new(),
            sets: Vec::new(),
            window: None,
            set,
        };
        if !base.is_multiple_of(PAGE) || code.offset(vectors).is_none() {
            bail!("the code at {base:#x} does not hold the vectors at {vectors:#x}");
        }
        Ok(code)
    }

    /// Its instruction set.
    pub fn set(&self) -> &'static Instructions {
        self.set
    }

    /// How many instructions there may be: its length in units of the shortest one.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.set.unit as usize
    }

    /// Returns whether the code is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The linked address of an instruction.
    pub fn address(&self, offset: Offset) -> u64 {
        self.base + u64::from(offset.0) * self.set.unit
    }

    /// The instruction linked at `address`.
    pub fn offset(&self, address: u64) -> Option<Offset> {
        let index = address.checked_sub(self.base)? / self.set.unit;
        let offset = Offset(u32::try_from(index).ok()?);
        let inside = (index as usize) < self.len() && address.is_multiple_of(self.set.unit);
        inside.then_some(offset)
    }

    /// Returns whether the instruction at `offset` is `bytes`.
    pub fn is(&self, offset: Offset, bytes: &[u8]) -> bool {
        let from = offset.0 as usize * self.set.unit as usize;
        let own = self.bytes.get(from..from + bytes.len());
        own == Some(bytes)
    }

    /// The entry of the vector table that `offset` is the first instruction of.
    pub fn entry(&self, offset: Offset) -> Option<Entry> {
        let of = |vectors, slots: &[Entry]| {
            let distance = self.address(offset).checked_sub(vectors)?;
            let first = distance.is_multiple_of(self.set.slot_bytes);
            let slot = usize::try_from(distance / self.set.slot_bytes).ok()?;
            slots.get(slot).filter(|_| first).copied()
        };
        let own = of(self.vectors, self.set.slots);
        own.or_else(|| of(self.window?[0], self.set.window_slots))
    }

    /// Returns whether the instruction at `offset`, which is `word`, leaves the hypervisor.
    pub fn leaves(&self, offset: Offset, word: u32) -> bool {
        let at = self.address(offset);
        let in_window = |[from, _, to]: [u64; 3]| (from..to).contains(&at);
        word == self.set.eret || word == self.set.movs && self.window.is_some_and(in_window)
    }

    /// Returns whether `offset` is where the window knows an exit's cause: that is in R0 to R3, as the window's code
    /// says.
    pub fn knows(&self, offset: Offset) -> bool {
        self.window
            .is_some_and(|[_, known, _]| known == self.address(offset))
    }

    /// Returns whether `offset` is the first instruction of the function that takes interrupts
    /// while they are masked.
    pub fn looks(&self, offset: Offset) -> bool {
        self.looks.contains(&self.address(offset))
    }

    /// Returns whether the instruction at `offset` is of T32.
    pub fn is_t32(&self, offset: Offset) -> bool {
        let at = self.address(offset);
        let after = self.sets.partition_point(|(from, _)| *from <= at);
        let last = after.checked_sub(1).and_then(|last| self.sets.get(last));
        last.is_some_and(|(_, t32)| *t32)
    }

    /// Returns whether `offset` is the first instruction of the function that makes an entry of a shadow table.
    pub fn fills(&self, offset: Offset) -> bool {
        self.fills.contains(&self.address(offset))
    }

    /// The place at which the code starts, if `block`, executed at `place`, is certain to be a part
    /// of the code.
    fn start(&self, place: u64, block: &[u8]) -> Option<u64> {
        if block.len() < CERTAIN {
            return None;
        }
        let mut found = self
            .bytes
            .windows(block.len())
            .enumerate()
            .step_by(self.set.unit as usize)
            .filter(|(_, bytes)| *bytes == block);
        let at = found.next()?.0 as u64;
        let start = place.checked_sub(at)?;
        (found.next().is_none() && start.is_multiple_of(PAGE)).then_some(start)
    }
}

/// Finds the hypervisor's instructions in the board's memory.
#[derive(Debug)]
pub struct Finder {
    code: Code,
    start: Option<u64>,
    differing: u64,
}

impl Finder {
    /// A search for `code`, which is not found yet.
    pub fn new(code: Code) -> Self {
        Self {
            code,
            start: None,
            differing: 0,
        }
    }

    /// The code that is searched.
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// Returns whether any of it was seen.
    pub fn is_found(&self) -> bool {
        self.start.is_some()
    }

    /// How many instructions were seen at its place that differ from the ELF file.
    pub fn differing(&self) -> u64 {
        self.differing
    }

    /// Looks at the bytes of a block of instructions that follow each other in memory from `place`
    /// on; `place` stands for a physical address: different places are different numbers, and the
    /// next byte is the next number.
    pub fn block(&mut self, place: u64, block: &[u8]) {
        if self.start.is_none() {
            self.start = self.code.start(place, block);
        }
    }

    /// Which of the hypervisor's instructions the one at `place` is, whose bytes are `instruction`.
    pub fn find(&mut self, place: u64, instruction: &[u8]) -> Option<Offset> {
        let distance = place.checked_sub(self.start?)?;
        let offset = self.code.offset(self.code.base.checked_add(distance)?)?;
        if !self.code.is(offset, instruction) {
            self.differing += 1;
        }
        Some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x7f_c000_0000;

    fn code() -> Code {
        let words = (0..2048).map(|number| number / 8 * 3 + number);
        Code::new(&A64, BASE, bytes(words), BASE + 4096).unwrap()
    }

    fn bytes(words: impl Iterator<Item = u32>) -> Vec<u8> {
        words.flat_map(u32::to_le_bytes).collect()
    }

    #[test]
    fn markers_are_unallocated_hints() {
        assert_eq!((A64.begin, A64.end), (0xd503_281f, 0xd503_283f));
        assert_eq!((A32.begin, A32.end), (0xe320_f040, 0xe320_f041));
    }

    #[test]
    fn addresses_and_slots() {
        let code = code();
        let offset = code.offset(BASE + 4096 + 128).unwrap();
        assert_eq!(code.entry(offset), Some(Entry::Own));
        assert_eq!(code.entry(Offset(offset.0 + 1)), None);
        let guests = code.offset(BASE + 4096 + 8 * 128).unwrap();
        assert_eq!(code.entry(guests), Some(Entry::Synchronous));
        assert_eq!(code.entry(code.offset(BASE + 4096 + 2048).unwrap()), None);
        assert_eq!(code.entry(Offset(0)), None);
        assert_eq!(code.offset(BASE + 2), None);
        assert_eq!(code.offset(BASE + 8192), None);
        assert_eq!(code.offset(BASE - 4), None);
        assert!(Code::new(&A64, BASE, vec![0; 16], BASE + 16).is_err());
    }

    #[test]
    fn the_table_of_hyp_mode_has_an_instruction_for_each_entry() {
        let code = Code::new(&A32, BASE, vec![0; 256], BASE + 32).unwrap();
        let entry = |slot: u32| code.entry(code.offset(BASE + 32 + 4 * u64::from(slot))?);
        assert_eq!(entry(4), Some(Entry::Own));
        assert_eq!(entry(5), Some(Entry::Synchronous));
        assert_eq!(entry(6), Some(Entry::Interrupt));
        assert_eq!(entry(8), None);
    }

    #[test]
    fn the_first_certain_block_tells_where_all_is() {
        let mut finder = Finder::new(code());
        let code = finder.code().bytes.clone();
        let word = |index: usize| &code[4 * index..][..4];
        let place = 0x7000_0000;
        finder.block(place, &code[..12]);
        assert_eq!(finder.find(place, word(0)), None, "too short to be certain");
        finder.block(place + 4, &code[..24]);
        assert!(
            !finder.is_found(),
            "the same words at another place in the page"
        );
        finder.block(place + 400, &code[400..424]);
        assert_eq!(finder.find(place, word(0)), Some(Offset(0)));
        assert_eq!(finder.find(place + 8188, word(2047)), Some(Offset(2047)));
        assert_eq!(finder.find(place + 8192, &[0; 4]), None);
        assert_eq!(finder.find(place - 4, &[0; 4]), None);
        assert_eq!(finder.differing(), 0);
        assert_eq!(finder.find(place + 4, &[0xff; 4]), Some(Offset(1)));
        assert_eq!(finder.differing(), 1);
    }

    #[test]
    fn instructions_of_two_bytes_and_of_four_are_found_where_both_may_be() {
        let code: Vec<u8> = (0..=255).collect();
        let place = 0x7000_0000;
        let mut finder = Finder::new(Code::new(&A32, BASE, code.clone(), BASE).unwrap());
        finder.block(place + 10, &code[10..34]);
        assert_eq!(finder.find(place + 2, &code[2..4]), Some(Offset(1)));
        assert_eq!(finder.find(place + 6, &code[6..10]), Some(Offset(3)));
        assert_eq!(finder.differing(), 0);
        let found = finder.find(place + 254, &[254, 255, 0, 0]);
        assert_eq!((found, finder.differing()), (Some(Offset(127)), 1));
        assert_eq!(A32.start(BASE | 1), BASE);
        assert_eq!(A64.start(BASE + 4), BASE + 4);
    }

    #[test]
    fn mapping_symbols_tell_the_set() {
        let mut code = Code::new(&A32, BASE, vec![0; 64], BASE).unwrap();
        let sets = |code: &Code| [0, 4, 6, 16].map(|at| code.is_t32(Offset(at)));
        assert_eq!(sets(&code), [false; 4]);
        code.sets = vec![(BASE + 8, true), (BASE + 32, false)];
        assert_eq!(sets(&code), [false, true, true, false]);
    }

    #[test]
    fn a_block_that_is_there_twice_proves_nothing() {
        let code = Code::new(&A64, BASE, [7; 256].to_vec(), BASE).unwrap();
        let mut finder = Finder::new(code);
        finder.block(0x1000, &[7; 32]);
        assert!(!finder.is_found());
    }
}
