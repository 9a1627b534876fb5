//! Where an indirect branch goes, as far as the code in front of it proves it.
//!
//! Compilers make jump tables in a few ways. Each is recognised by what it must have, which does
//! not depend on the compiler's version: an index with a bound, a table at a known place, and a
//! meaning of its entries. The encodings are data ([`LOADS`], [`DOUBLES`], [`LIMITS`]). A table
//! whose bound or place is not found is not followed at all. Its function then has code that
//! nothing explains, which [`super::closed`] notices.

use super::marks::{Mark, Marks};
use super::memory::Memory;
use super::step::{FlowStep, Next, step};
use hanok_decode::aarch32::{Encoding, Isa, Register};

/// The number of instructions that are examined in front of a jump.
const LOOK_BACK: usize = 64;
/// The largest number of entries of a jump table.
pub(super) const MAX_TABLE: u32 = 4096;
/// The registers that a called function preserves (AAPCS32 6.1.1): R4 to R11, and SP.
const KEPT: u16 = 0x2ff0;

/// A32 loads of a table entry by base and index: mask, value under the mask, bytes, whether the
/// entry is signed.
const LOADS: [(u32, u32, u32, bool); 4] = [
    (0x0ff0_0ff0, 0x07d0_0000, 1, false), // ldrb rt, [rn, rm]
    (0x0ff0_0ff0, 0x0190_00d0, 1, true),  // ldrsb rt, [rn, rm]
    (0x0ff0_0ff0, 0x0190_00b0, 2, false), // ldrh rt, [rn, rm]
    (0x0ff0_0ff0, 0x0190_00f0, 2, true),  // ldrsh rt, [rn, rm]
];

/// A32 instructions that double an index, for a table of halfwords: mask and value. The first one's
/// two operands are the same register.
const DOUBLES: [(u32, u32); 2] = [
    (0x0ff0_0ff0, 0x0080_0000), // add rd, rm, rm
    (0x0fef_0ff0, 0x01a0_0080), // lsl rd, rm, #1
];

/// An A32 instruction whose result has a bound: mask, value, and the bound.
type Limit = (u32, u32, fn(u32) -> u64);
const LIMITS: [Limit; 6] = [
    // and rd, rn, #constant
    (0x0fe0_0000, 0x0200_0000, |word| {
        u64::from((word & 0xff).rotate_right((word >> 8 & 0xf) * 2)) + 1
    }),
    // ubfx rd, rn, #lsb, #width
    (0x0fe0_0070, 0x07e0_0050, |word| 2 << (word >> 16 & 31)),
    // uxtb rd, rm
    (0x0fff_03f0, 0x06ef_0070, |_| 256),
    // lsr rd, rm, #amount, which is 32 if it is zero
    (0x0fef_0070, 0x01a0_0020, |word| {
        1 << (32
            - match word >> 7 & 31 {
                0 => 32,
                amount => amount,
            })
    }),
    // ldrb rt, [rn, #constant]
    (0x0e50_0000, 0x0450_0000, |_| 256),
    // ldrb rt, [rn, rm]
    (0x0e50_0010, 0x0650_0000, |_| 256),
];

/// A32 `add pc, rn, rm`.
const ADDS_TO_PC: (u32, u32) = (0x0ff0_fff0, 0x0080_f000);
/// A32 `and rd, rn, #constant`, with flags or without.
const MASKS: (u32, u32) = (0x0fe0_0000, 0x0200_0000);
/// A32 `rsb rd, rn, #constant`, with flags or without.
const REVERSES: (u32, u32) = (0x0fe0_0000, 0x0260_0000);

fn matches(word: u32, (mask, value): (u32, u32)) -> bool {
    word & mask == value && word >> 28 != 0b1111
}

/// The condition under which the code goes on after a comparison with a constant.
#[derive(Clone, Copy)]
enum Guard {
    /// LS.
    LowerOrSame,
    /// LO, also called CC.
    Lower,
}

impl Guard {
    /// The guard that a condition's four bits say (DDI 0406C A8.3).
    const fn of(condition: u8) -> Option<Self> {
        match condition {
            0b1001 => Some(Self::LowerOrSame),
            0b0011 => Some(Self::Lower),
            _ => None,
        }
    }
}

/// The condition that an instruction has in its own bits.
const fn condition(encoding: Encoding) -> Option<u8> {
    match encoding {
        Encoding::A32(word) if word >> 28 < 0b1110 => Some((word >> 28) as u8),
        Encoding::Narrow(half) if half >> 12 == 0b1101 && half >> 9 & 7 != 7 => {
            Some((half >> 8 & 0xf) as u8)
        }
        Encoding::Wide(word) if word & 0xf800_d000 == 0xf000_8000 && word >> 23 & 7 != 7 => {
            Some((word >> 22 & 0xf) as u8)
        }
        _ => None,
    }
}

/// A value, and whether the code runs straight from the instruction that made it to its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownValue {
    pub(super) value: u32,
    pub(super) straight: bool,
}

/// A table of distances, in words from the instruction behind an A32 jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Distances {
    /// The table's address.
    pub(super) place: KnownValue,
    /// The number of entries.
    pub(super) entries: u32,
    /// The size of an entry in bytes.
    pub(super) size: u32,
    /// Whether the entries are signed.
    pub(super) signed: bool,
}

/// An instruction in front of a jump.
struct Earlier {
    address: u32,
    encoding: Encoding,
    step: FlowStep,
    /// Whether the code runs straight from it to the jump.
    straight: bool,
}

/// The code in front of a jump.
#[derive(Clone, Copy)]
pub(crate) struct Before<'a> {
    pub(crate) memory: Memory<'a>,
    pub(crate) marks: &'a Marks,
    pub(crate) isa: Isa,
}

impl Before<'_> {
    /// The known instructions before `at`, the nearest first.
    fn earlier(&self, at: u32) -> impl Iterator<Item = Earlier> {
        let end = self.memory.offset(at).unwrap_or(0);
        let start = end.saturating_sub(4 * LOOK_BACK);
        let (memory, isa) = (self.memory, self.isa);
        let starts = self.marks.iter(start..end).rev();
        let mut next = at;
        let mut straight = true;
        starts.filter_map(move |(offset, mark)| {
            let address = memory.address(offset);
            let Mark::Start(found, it) = mark else {
                return None;
            };
            let encoding = memory.fetch(address, isa).filter(|_| found == isa)?;
            let step = step(encoding, address, it);
            straight &= address.wrapping_add(step.len) == next && step.may_fall();
            next = address;
            Some(Earlier {
                address,
                encoding,
                step,
                straight,
            })
        })
    }

    /// The instruction that gave `register` its value at `at`; `None` where a call may have written
    /// it.
    fn writer(&self, register: Register, at: u32) -> Option<Earlier> {
        let kept = KEPT >> register.number() & 1 == 1;
        for earlier in self.earlier(at) {
            if earlier.step.writes.contains(register) {
                return Some(earlier);
            }
            if earlier.step.calls() && !kept {
                return None;
            }
        }
        None
    }

    /// The value of `register` at `at`, if an address or a constant was put into it.
    pub(super) fn value(&self, register: Register, at: u32) -> Option<KnownValue> {
        let found = self.writer(register, at)?;
        let known = |value| KnownValue {
            value,
            straight: found.straight,
        };
        if let Some((_, address)) = found.step.address {
            return Some(known(address));
        }
        if let Some((literal, 4)) = found.step.literal {
            return self.memory.word(literal).map(known);
        }
        match constant(found.encoding)? {
            (16, high) => {
                let low = self.writer(register, found.address)?;
                let (0, half) = constant(low.encoding)? else {
                    return None;
                };
                Some(KnownValue {
                    value: high << 16 | half,
                    straight: found.straight && low.straight,
                })
            }
            (_, low) => Some(known(low)),
        }
    }

    /// The number of values that an index can have at `at`. It is known from a comparison after
    /// which the code goes on only if the index is small enough, or from the instruction that made
    /// the index.
    pub(crate) fn bound(&self, index: Register, at: u32) -> Option<u32> {
        let jump = self.memory.fetch(at, self.isa)?;
        let mut guard = condition(jump).and_then(Guard::of);
        for earlier in self.earlier(at) {
            if !earlier.straight {
                return None;
            }
            if let Some((register, most)) = earlier.step.compare {
                let guard = guard.take();
                if register == index {
                    let entries = match guard? {
                        Guard::LowerOrSame => most.checked_add(1)?,
                        Guard::Lower => most,
                    };
                    return Some(entries).filter(|entries| *entries <= MAX_TABLE);
                }
            } else if earlier.step.sets_flags {
                guard = None;
            }
            if earlier.step.writes.contains(index) || earlier.step.calls() {
                return self.limit(&earlier);
            }
            if matches!(earlier.step.next, Next::Branch { .. }) {
                let goes_on = condition(earlier.encoding).map(|condition| condition ^ 1);
                guard = goes_on.and_then(Guard::of).or(guard);
            }
        }
        None
    }

    fn limit(&self, writer: &Earlier) -> Option<u32> {
        let Encoding::A32(word) = writer.encoding else {
            return None;
        };
        let found = LIMITS
            .iter()
            .find(|(mask, value, _)| matches(word, (*mask, *value)));
        let limit = found.map(|(_, _, limit)| limit(word))?;
        u32::try_from(limit)
            .ok()
            .filter(|bound| *bound <= MAX_TABLE)
    }

    /// The address of an unrolled copy loop that A32 `add pc, rn, rm` at `at` jumps into. The
    /// distance is a masked number, or what it lacks to a constant; no table is loaded for it.
    pub(super) fn unrolled(&self, at: u32) -> Option<u32> {
        let Encoding::A32(word) = self.memory.fetch(at, self.isa)? else {
            return None;
        };
        if !matches(word, ADDS_TO_PC) {
            return None;
        }
        let [base, by] = [word >> 16, word].map(|bits| Register::from_bits(bits as u8));
        let place = match base {
            Register::PC => at.wrapping_add(8),
            _ => self.value(base, at).filter(|known| known.straight)?.value,
        };
        let masked = self.is_masked(by, at) || self.follows_twin(word, by, at);
        masked.then_some(place)
    }

    /// Whether `register` at `at` is a masked number, or the difference between a constant and one.
    fn is_masked(&self, register: Register, at: u32) -> bool {
        let writer = |register, at| {
            let found = self.writer(register, at).filter(|found| found.straight)?;
            match found.encoding {
                Encoding::A32(word) => Some((word, found.address)),
                _ => None,
            }
        };
        let reversed = |(word, at): (u32, u32)| {
            if matches(word, REVERSES) {
                writer(Register::from_bits((word >> 16) as u8), at)
            } else {
                Some((word, at))
            }
        };
        let found = writer(register, at).and_then(reversed);
        found.is_some_and(|(word, _)| matches(word, MASKS))
    }

    /// Whether the jump `word` at `at` stands behind one that is the same but for its condition,
    /// with the same distance in `by`: an unrolled loop has a part that loads and one that stores.
    fn follows_twin(&self, word: u32, by: Register, at: u32) -> bool {
        let same = |found: &Earlier| match found.encoding {
            Encoding::A32(other) => other << 4 == word << 4,
            _ => false,
        };
        let kept = self
            .earlier(at)
            .take_while(|found| !found.step.writes.contains(by));
        let twin = kept.into_iter().find(same);
        twin.is_some_and(|twin| self.is_masked(by, twin.address))
    }

    /// The table of an A32 `add pc, pc, index, lsl #2` at `at`, whose index was loaded from it.
    pub(super) fn distances(&self, index: Register, at: u32) -> Option<Distances> {
        let load = self.writer(index, at).filter(|found| found.straight)?;
        let Encoding::A32(word) = load.encoding else {
            return None;
        };
        let found = LOADS
            .iter()
            .find(|(mask, value, ..)| matches(word, (*mask, *value)));
        let (_, _, size, signed) = *found?;
        let [base, by] = [word >> 16, word].map(|bits| Register::from_bits(bits as u8));
        let (place, entries) = match size {
            1 => (
                self.value(base, load.address)?,
                self.bound(by, load.address)?,
            ),
            _ => self.halfwords(base, by, load.address)?,
        };
        Some(Distances {
            place,
            entries,
            size,
            signed,
        })
    }

    /// Address and length of a table of halfwords that is loaded from by two registers at `at`: the
    /// index was doubled, or it was added to the base before.
    fn halfwords(&self, base: Register, by: Register, at: u32) -> Option<(KnownValue, u32)> {
        let added = self.writer(base, at).filter(|found| found.straight);
        let sum = added.and_then(|found| Some((sums(found.encoding)?, found.address)));
        if let Some(((first, second), writer_at)) = sum
            && second == by
        {
            return Some((self.value(first, writer_at)?, self.bound(by, at)?));
        }
        let doubled = self.writer(by, at).filter(|found| found.straight)?;
        let index = doubles(doubled.encoding)?;
        Some((self.value(base, at)?, self.bound(index, doubled.address)?))
    }
}

/// The two registers that A32 `add rd, rn, rm` adds.
fn sums(encoding: Encoding) -> Option<(Register, Register)> {
    let Encoding::A32(word) = encoding else {
        return None;
    };
    matches(word, (0x0ff0_0ff0, 0x0080_0000)).then(|| {
        let [first, second] = [word >> 16, word].map(|bits| Register::from_bits(bits as u8));
        (first, second)
    })
}

/// MOVW and MOVT: the shift of their constant to the left, and the constant.
fn constant(encoding: Encoding) -> Option<(u32, u32)> {
    match encoding {
        Encoding::A32(word) if matches!(word & 0x0ff0_0000, 0x0300_0000 | 0x0340_0000) => {
            let half = word >> 4 & 0xf000 | word & 0xfff;
            Some((if word >> 22 & 1 == 1 { 16 } else { 0 }, half))
        }
        Encoding::Wide(word) if matches!(word & 0xfbf0_8000, 0xf240_0000 | 0xf2c0_0000) => {
            let half = word >> 4 & 0xf000 | word >> 15 & 0x800 | word >> 4 & 0x700 | word & 0xff;
            Some((if word >> 23 & 1 == 1 { 16 } else { 0 }, half))
        }
        _ => None,
    }
}

/// The register that an instruction doubles.
fn doubles(encoding: Encoding) -> Option<Register> {
    let Encoding::A32(word) = encoding else {
        return None;
    };
    let found = DOUBLES.iter().position(|form| matches(word, *form))?;
    let twice = found != 0 || word >> 16 & 0xf == word & 0xf;
    twice.then_some(Register::from_bits(word as u8))
}
