//! The bank of NOR flash in which a firmware keeps its variables, with the Intel command set.
//!
//! Two chips of 16 bits lie side by side, as on QEMU's `virt`: a word of 32 bits is one of each, a command goes to both,
//! and so does an answer come from both. Sources: JESD68.01 (CFI), JEP137B (command sets), and the datasheet of
//! Intel's StrataFlash P30 (306666) for the commands.
//!
//! Every access exits. A firmware reads its variables once, and keeps a copy; reads out of mapped memory would need a
//! change of the tables, with its TLB maintenance on all CPUs, at each of the commands, of which a firmware has
//! thousands (docs/adr/0021-firmware.md).
//!
//! The first [`NOR_STORED`] bytes have memory behind them, words in the order of the flash, and after them a bit for
//! each [`BLOCK`] that is erased, whatever its words hold. So erasing a sector changes a few words, and the first byte that
//! is programmed in an erased block fills the block: no access takes longer than that, and no guest finds the
//! chip busy, as it does not on QEMU. All that is behind reads as erased, and cannot be programmed (status bit 4).
//!
//! It follows QEMU: programming replaces a word where a real chip can only clear bits, a reset keeps what is stored, the
//! sectors are never locked. Other than there, bytes of a buffer are programmed as they come, not with the confirmation,
//! a sector is erased with the confirmation, not before, and a buffer of one word is one.

use crate::device::{Model, World};
use crate::lanes::{read_words, write_words};
use crate::{Access, Unknown};
use hanok_config::{NOR_BLOCK, NOR_MEMORY, NOR_STORED};
use hanok_hal::sync::atomic::{AtomicU32, Ordering};
use hanok_types::Width;

/// Bytes of a sector, which is erased as a whole.
const SECTOR: u64 = 256 << 10;
/// Bytes that have a bit which says that they are erased.
const BLOCK: u64 = NOR_BLOCK;
/// Words of all that is stored.
const WORDS: usize = (NOR_STORED / 4) as usize;
/// Words of memory that a bank needs: what is stored, and the bits of its blocks.
pub const NOR_WORDS: usize = (NOR_MEMORY / 4) as usize;
/// The words of such a memory, with `kept` at the bank's start and the rest erased. The words of erased blocks are
/// looked at by nobody.
pub fn nor_memory(kept: &[u8]) -> impl Iterator<Item = u32> {
    let words = (0..WORDS).map(|at| {
        let bytes = kept.get(at * 4..).and_then(<[u8]>::first_chunk);
        bytes.map_or(ERASED, |bytes| u32::from_le_bytes(*bytes))
    });
    let first_erased = kept.len().div_ceil(BLOCK as usize);
    let bits = (0..NOR_WORDS - WORDS).map(move |word| {
        let erased = (0..32).filter(|bit| word * 32 + bit >= first_erased);
        erased.fold(0, |bits, bit| bits | 1 << bit)
    });
    words.chain(bits)
}

/// An erased word.
const ERASED: u32 = u32::MAX;

/// Status bits: ready, and an error of programming.
const READY: u8 = 1 << 7;
const FAILED: u8 = 1 << 4;

/// The manufacturer's and the device's code: Intel, 28F128J3.
const ID: [u8; 2] = [0x89, 0x18];

/// The answers to a query, from its first on (JESD68.01, table 1; the last ones are the vendor's table).
const QUERY_START: u64 = 0x10;
const QUERY: [u8; 48] = [
    b'Q', b'R', b'Y', 0x01, 0, 0x31, 0, 0, 0, 0,
    0, // Intel's commands, and where its table is.
    0x45, 0x55, 0, 0, 7, 7, 10, 0, 4, 4, 4, 0, // Voltages; times of writing and erasing.
    25, 2, 0, 11, 0, // Each chip has 2^25 bytes, 16 bits wide, and a buffer of 2^11.
    1, 0xff, 0, 0, 2, // One region of 256 blocks of 128 KiB.
    b'P', b'R', b'I', b'1', b'0', 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
];

/// What a read gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    Array,
    Status,
    Id,
    Query,
}

/// What the next write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaits {
    Command,
    /// The word to program.
    Word,
    /// The confirmation of erasing the sector at this offset.
    Erase(u64),
    /// What is to be done about a sector's lock.
    Lock,
    /// The number of words in the buffer, less one.
    Count,
    /// This many words of the buffer, and one more.
    Buffer(u16),
    /// The confirmation of the buffer.
    Program,
    /// Nothing but the end of the query.
    End,
}

/// The bank.
#[derive(Clone, Debug)]
pub struct Nor {
    /// [`NOR_WORDS`] words, or fewer.
    memory: &'static [AtomicU32],
    shows: Shows,
    awaits: Awaits,
    status: u8,
    unknown: Unknown,
}

impl Nor {
    /// A bank after a reset, with this memory of [`NOR_WORDS`] words. What lies beyond it reads as erased.
    pub const fn new(memory: &'static [AtomicU32]) -> Self {
        Self {
            memory,
            shows: Shows::Array,
            awaits: Awaits::Command,
            status: READY,
            unknown: Unknown {
                reads: 0,
                writes: 0,
            },
        }
    }

    /// The word, and the bit, that say whether the block at `offset` is erased; `None` where nothing is stored.
    fn block(&self, offset: u64) -> Option<(&'static AtomicU32, u32)> {
        let block = (offset < NOR_STORED).then_some(offset / BLOCK)?;
        let word = self.memory.get(WORDS + (block / 32) as usize)?;
        Some((word, 1 << (block % 32)))
    }

    /// The word that holds `offset`, if it is stored and not erased.
    fn word(&self, offset: u64) -> Option<&'static AtomicU32> {
        let (bits, bit) = self.block(offset)?;
        let kept = bits.load(Ordering::Relaxed) & bit == 0;
        kept.then(|| self.memory.get((offset / 4) as usize))?
    }

    /// The bytes at `offset`, which may lie in several words.
    fn array(&self, offset: u64, width: Width) -> u64 {
        (0..width.bytes()).rev().fold(0, |value, byte| {
            let at = offset.saturating_add(byte);
            let word = self
                .word(at)
                .map_or(ERASED, |word| word.load(Ordering::Relaxed));
            value << 8 | u64::from(word.to_le_bytes()[(at % 4) as usize])
        })
    }

    /// Makes the words of the block at `offset` what the guest sees. `None` where nothing is stored.
    fn unfold(&self, offset: u64) -> Option<()> {
        let (bits, bit) = self.block(offset)?;
        if bits.load(Ordering::Relaxed) & bit != 0 {
            let first = (offset / BLOCK * (BLOCK / 4)) as usize;
            let words = self.memory.get(first..first + (BLOCK / 4) as usize)?;
            words
                .iter()
                .for_each(|word| word.store(ERASED, Ordering::Relaxed));
            bits.fetch_and(!bit, Ordering::Relaxed);
        }
        Some(())
    }

    /// Programs the bytes at `offset`.
    fn program(&mut self, offset: u64, width: Width, value: u32) {
        let bytes = value.to_le_bytes();
        let done = bytes
            .iter()
            .zip(0..width.bytes())
            .try_for_each(|(byte, index)| {
                let at = offset.checked_add(index)?;
                self.unfold(at)?;
                let word = self.word(at)?;
                let shift = at % 4 * 8;
                let rest = word.load(Ordering::Relaxed) & !(0xff << shift);
                word.store(rest | u32::from(*byte) << shift, Ordering::Relaxed);
                Some(())
            });
        self.status |= READY | if done.is_none() { FAILED } else { 0 };
    }

    /// Erases the sector at `offset`.
    fn erase(&mut self, offset: u64) {
        let blocks = (0..SECTOR).step_by(BLOCK as usize * 32);
        for (bits, _) in blocks.filter_map(|at| self.block(offset + at)) {
            bits.store(u32::MAX, Ordering::Relaxed);
        }
        self.status |= READY;
    }

    fn read_word(&mut self, offset: u64) -> u32 {
        let register = offset / 4;
        let one = match self.shows {
            Shows::Array => return 0,
            Shows::Status => Some(&self.status),
            Shows::Id => ID.get((register % 0x100) as usize),
            Shows::Query => {
                let index = register.checked_sub(QUERY_START);
                index.and_then(|index| QUERY.get(usize::try_from(index).ok()?))
            }
        };
        u32::from(one.copied().unwrap_or(0)) * 0x1_0001
    }

    fn write_word(&mut self, offset: u64, width: Width, value: u32) {
        let (shows, awaits) = match (self.awaits, value as u8) {
            (Awaits::Command, command) => self.command(offset, command),
            (Awaits::Word, _) => {
                self.program(offset, width, value);
                (Shows::Status, Awaits::Command)
            }
            (Awaits::Erase(sector), 0xd0) => {
                self.erase(sector);
                (Shows::Status, Awaits::Command)
            }
            (Awaits::Lock, 0x01 | 0xd0) => {
                self.status |= READY;
                (Shows::Status, Awaits::Command)
            }
            (Awaits::Program, 0xd0) => (Shows::Status, Awaits::Command),
            (Awaits::Count, _) => (Shows::Status, Awaits::Buffer(value as u16)),
            (Awaits::Buffer(left), _) => {
                self.program(offset, width, value);
                let next = left.checked_sub(1).map(Awaits::Buffer);
                (Shows::Status, next.unwrap_or(Awaits::Program))
            }
            (Awaits::End, end) if end != 0xff => return self.unknown.write(),
            (Awaits::Erase(_) | Awaits::Lock | Awaits::Program | Awaits::End, _) => {
                (Shows::Array, Awaits::Command)
            }
        };
        (self.shows, self.awaits) = (shows, awaits);
    }

    fn command(&mut self, offset: u64, command: u8) -> (Shows, Awaits) {
        match command {
            0x10 | 0x40 => (Shows::Status, Awaits::Word),
            0x20 => (Shows::Status, Awaits::Erase(offset & !(SECTOR - 1))),
            0x50 => {
                self.status = 0;
                (Shows::Array, Awaits::Command)
            }
            0x60 => (Shows::Status, Awaits::Lock),
            0x70 => (Shows::Status, Awaits::Command),
            0x90 => (Shows::Id, Awaits::Command),
            0x98 => (Shows::Query, Awaits::End),
            0xe8 => {
                self.status |= READY;
                (Shows::Status, Awaits::Count)
            }
            // Read the array; 0xf0 is another manufacturer's word for it.
            0x00 | 0xf0 | 0xff => (Shows::Array, Awaits::Command),
            _ => {
                self.unknown.write();
                (Shows::Array, Awaits::Command)
            }
        }
    }
}

impl Model for Nor {
    fn access(&mut self, offset: u64, access: Access, _world: &mut impl World) -> u64 {
        let width = access.width;
        if access.write {
            let word = if width == Width::Double {
                Width::Word
            } else {
                width
            };
            write_words(offset, width, access.value, |at, value| {
                self.write_word(at, word, value);
            });
            return 0;
        }
        match self.shows {
            Shows::Array => self.array(offset, width),
            _ => read_words(offset, width, |at| self.read_word(at)),
        }
    }

    fn reset(&mut self) {
        *self = Self {
            unknown: self.unknown,
            ..Self::new(self.memory)
        };
    }

    fn unknown(&self) -> Unknown {
        self.unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::{FakeWorld, memory};
    use hanok_types::Ipa;
    use std::vec::Vec;

    const LAST: u64 = (64 << 20) - 4;

    fn load(nor: &mut Nor, offset: u64, width: Width) -> u64 {
        let access = Access::load(Ipa::new(offset), width);
        nor.access(offset, access, &mut FakeWorld::default())
    }

    fn store(nor: &mut Nor, offset: u64, width: Width, value: u64) {
        let access = Access::store(Ipa::new(offset), width, value);
        assert_eq!(nor.access(offset, access, &mut FakeWorld::default()), 0);
    }

    fn word(nor: &mut Nor, offset: u64) -> u64 {
        load(nor, offset, Width::Word)
    }

    fn put(nor: &mut Nor, offset: u64, words: &[u64]) {
        for value in words {
            store(nor, offset, Width::Word, *value);
        }
    }

    #[test]
    fn what_is_kept_is_there_and_the_rest_is_erased() {
        let kept: Vec<u8> = (0..3 * 1024).map(|at| (at / 4) as u8).collect();
        let words: Vec<_> = nor_memory(&kept).map(AtomicU32::new).collect();
        assert_eq!(words.len(), NOR_WORDS);
        let mut nor = Nor::new(Vec::leak(words));
        assert_eq!(word(&mut nor, 4 * 7), 0x0707_0707);
        assert_eq!(word(&mut nor, 3 * 1024 - 4), 0xffff_ffff);
        assert_eq!(word(&mut nor, 3 * 1024 - 8), 0xfefe_fefe);
        for at in [3 * 1024, NOR_STORED - 4, NOR_STORED, LAST] {
            assert_eq!(word(&mut nor, at), 0xffff_ffff, "{at:#x}");
        }
        // Also across words, blocks, and the end of what is stored.
        let across = [
            (4 * 7 + 3, 0x0909_0908_0808_0807),
            (3 * 1024 - 7, 0xffff_ffff_fffe_fefe),
        ];
        for (at, expected) in across {
            assert_eq!(load(&mut nor, at, Width::Double), expected);
        }
        assert_eq!(load(&mut nor, NOR_STORED - 1, Width::Half), 0xffff);
    }

    #[test]
    fn a_byte_that_is_programmed_changes_no_other() {
        let mut nor = Nor::new(memory());
        store(&mut nor, 0x405, Width::Byte, 0x40);
        store(&mut nor, 0x405, Width::Byte, 0x12);
        assert_eq!(word(&mut nor, 0), 0x80_0080);
        put(&mut nor, 0, &[0xff]);
        for at in (0x3f8..0x808).step_by(4) {
            let expected = if at == 0x404 {
                0xffff_12ff
            } else {
                0xffff_ffff
            };
            assert_eq!(word(&mut nor, at), expected, "{at:#x}");
        }
    }

    #[test]
    fn an_erased_sector_reads_as_erased_whatever_its_memory_holds() {
        let memory = memory();
        let mut nor = Nor::new(memory);
        for (index, word) in memory.iter().enumerate() {
            word.store(if index < WORDS { 7 } else { 0 }, Ordering::Relaxed);
        }
        put(&mut nor, 2 * SECTOR - 4, &[0x20, 0xd0]);
        assert_eq!(word(&mut nor, 0), 0x80_0080);
        put(&mut nor, 0, &[0xff]);
        let ends = [SECTOR - 4, SECTOR, 2 * SECTOR - 4, 2 * SECTOR];
        let ends = ends.map(|at| word(&mut nor, at));
        assert_eq!(ends, [7, 0xffff_ffff, 0xffff_ffff, 7]);
        put(&mut nor, SECTOR + 8, &[0x10, 0xabcd]);
        put(&mut nor, 0, &[0xff]);
        let block = (SECTOR..SECTOR + BLOCK).step_by(4);
        let kept: Vec<_> = block
            .filter(|at| word(&mut nor, *at) != 0xffff_ffff)
            .collect();
        assert_eq!(kept, [SECTOR + 8]);
        assert_eq!(word(&mut nor, SECTOR + BLOCK), 0xffff_ffff);
    }

    #[test]
    fn what_is_not_stored_cannot_be_programmed_and_says_so() {
        let mut nor = Nor::new(memory());
        put(&mut nor, NOR_STORED, &[0x40, 0x1234]);
        assert_eq!(word(&mut nor, 0), 0x90_0090);
        put(&mut nor, 0, &[0x50, 0x70]);
        assert_eq!(word(&mut nor, 0), 0);
        // A word that lies half in what is stored.
        put(&mut nor, NOR_STORED - 2, &[0x40, 0x1234_5678]);
        assert_eq!(word(&mut nor, 0), 0x90_0090);
        put(&mut nor, 0, &[0x50]);
        put(&mut nor, LAST, &[0x20, 0xd0]);
        assert_eq!(word(&mut nor, 0), 0x80_0080, "it is erased");
        put(&mut nor, 0, &[0xff]);
        assert_eq!(word(&mut nor, NOR_STORED), 0xffff_ffff);
        let mut none = Nor::new(&[]);
        put(&mut none, 0, &[0x40, 0x1234]);
        assert_eq!(word(&mut none, 0), 0x90_0090, "without memory");
    }

    #[test]
    fn a_buffer_has_one_word_more_than_its_number() {
        for count in [0, 1, 31, 0xffff] {
            let mut nor = Nor::new(memory());
            put(&mut nor, 0x100, &[0xe8, 0xff_0000 | count]);
            for at in 0..=count {
                store(&mut nor, 4 * at, Width::Word, at);
            }
            // No word, but the confirmation.
            put(&mut nor, 0x100, &[0xd0]);
            assert_eq!(word(&mut nor, 0), 0x80_0080, "{count}");
            put(&mut nor, 0x100, &[0xff]);
            assert_eq!(word(&mut nor, 4 * count), count);
            assert_eq!(word(&mut nor, 4 * (count + 1)), 0xffff_ffff);
        }
        let mut nor = Nor::new(memory());
        put(&mut nor, 0, &[0xe8, 0, 5, 0x70]);
        assert_eq!(word(&mut nor, 0), 5, "something else than the confirmation");
    }

    #[test]
    fn a_reset_keeps_what_is_stored() {
        let mut nor = Nor::new(memory());
        put(&mut nor, 0, &[0x40, 0x1234, 0x12, 0x98]);
        let counted = nor.unknown();
        assert_eq!(counted.writes, 1);
        nor.reset();
        assert_eq!(word(&mut nor, 0), 0x1234);
        assert_eq!(nor.unknown(), counted);
        put(&mut nor, 0, &[0x70]);
        assert_eq!(word(&mut nor, 0), 0x80_0080);
    }

    #[test]
    fn answers_end_as_their_kind_does() {
        let mut nor = Nor::new(memory());
        put(&mut nor, 0, &[0x90]);
        assert_eq!(load(&mut nor, 0, Width::Double), 0x18_0018_0089_0089);
        assert_eq!(word(&mut nor, 0x400), 0x89_0089);
        assert_eq!(word(&mut nor, 8), 0);
        put(&mut nor, 0, &[0x98, 0x90]);
        let query = [0x40, 0x3c, 0xfc, 0x100, LAST].map(|at| word(&mut nor, at));
        assert_eq!(query, [0x51_0051, 0, 0x1_0001, 0, 0]);
        for end in [0xff, 0x60, 0x20, 0x90] {
            put(&mut nor, 0, &[0xff, end, 0xff]);
            assert_eq!(word(&mut nor, 0), 0xffff_ffff, "{end:#x}");
        }
        for confirmed in [[0x60, 0x01], [0x60, 0xd0], [0x20, 0xd0]] {
            put(&mut nor, 0, &[0x50]);
            put(&mut nor, 0, &confirmed);
            assert_eq!(word(&mut nor, 0), 0x80_0080, "{confirmed:#x?}");
            put(&mut nor, 0, &[0xff]);
        }
    }
}
