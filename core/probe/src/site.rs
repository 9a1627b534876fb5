//! Where a probe is put.

use crate::Refused;
use hanok_decode::aarch32::{Encoding, ItState, is_wide};
use hanok_types::Gva;

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstructionSet {
    /// A64, of AArch64 state.
    A64,
    /// A32, of AArch32 state.
    A32,
    /// T32, of AArch32 state.
    T32,
}

/// Whether a T32 instruction is in an IT block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum ItBlock {
    /// It is in none.
    Outside,
    /// It is in one.
    Inside,
    /// Nobody knows.
    Unknown,
}

/// The most bytes from an IT instruction to an instruction of its block: itself, and three
/// instructions of two halfwords.
const BLOCK: usize = 2 + 3 * 4;

impl ItBlock {
    /// Whether an instruction is in an IT block, by the bytes right before it. The answer is
    /// [`Self::Unknown`] if a halfword there is an IT whose block has the instruction, because the
    /// halfword may be the second one of another instruction as well, or if there are fewer than
    /// 14 bytes and none of them decides it. `before` has to be code.
    pub fn before(before: &[u8]) -> Self {
        let (_, halves) = before.as_rchunks::<2>();
        let near = halves.len().saturating_sub(BLOCK / 2);
        let halves = halves.get(near..).unwrap_or(&[]);
        let covers = (0..halves.len()).any(|place| covers(halves.get(place..).unwrap_or(&[])));
        if covers || before.len() < BLOCK {
            Self::Unknown
        } else {
            Self::Outside
        }
    }
}

/// Whether the first of the halfwords is an IT instruction, and the instruction behind the last
/// one is in its block.
fn covers(halves: &[[u8; 2]]) -> bool {
    let half = |place: usize| halves.get(place).map(|half| u16::from_le_bytes(*half));
    let Some(it) = half(0).filter(|it| it & 0xff00 == 0xbf00) else {
        return false;
    };
    let (mut state, mut place) = (ItState::from_bits(it as u8), 1);
    while state.is_inside() {
        let Some(first) = half(place) else {
            return place == halves.len();
        };
        place += if is_wide(first) { 2 } else { 1 };
        state = state.next();
    }
    false
}

/// An instruction of a guest, and what its caller knows of it.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The instruction set.
    pub set: InstructionSet,
    /// The address of the instruction.
    pub at: Gva,
    /// The bytes from there on: four; of T32 code, six where there are so many.
    pub code: &'a [u8],
    /// Whether the page is guarded: indirect branches may go to landing pads alone (FEAT_BTI).
    pub guarded: bool,
    /// Whether the instruction is in an IT block, which only T32 has.
    pub block: ItBlock,
    /// Whether nothing branches to the second instruction, so that a T32 instruction of one halfword
    /// may be displaced along with it. The second instruction must not be one that is returned to,
    /// either.
    pub joined: bool,
}

impl Site<'_> {
    /// The first four bytes.
    pub(crate) fn first(&self) -> Result<[u8; 4], Refused> {
        let first = self.code.first_chunk();
        first.copied().ok_or(Refused::MissingBytes)
    }

    /// The word at the site.
    pub(crate) fn word(&self) -> Result<u32, Refused> {
        self.first().map(u32::from_le_bytes)
    }

    /// The T32 instruction at this byte offset.
    pub(crate) fn t32(&self, offset: usize) -> Result<Encoding, Refused> {
        let half = |at: usize| {
            let bytes = self.code.get(at..)?.first_chunk();
            bytes.map(|bytes| u16::from_le_bytes(*bytes))
        };
        let first = half(offset).ok_or(Refused::MissingBytes)?;
        if !is_wide(first) {
            return Ok(Encoding::Narrow(first));
        }
        let second = half(offset + 2).ok_or(Refused::MissingBytes)?;
        Ok(Encoding::t32(first, second))
    }

    /// The address, if it is one of the instruction set.
    pub(crate) fn address(&self) -> Result<u64, Refused> {
        aligned(self.set, self.at)
    }
}

/// An instruction's address as a number, if it is aligned for the instruction set and has no more
/// bits than its addresses.
pub(crate) fn aligned(set: InstructionSet, at: Gva) -> Result<u64, Refused> {
    let (at, mask) = match set {
        InstructionSet::A64 => (at.get(), 3),
        InstructionSet::A32 => (at.get(), 3 | !0xffff_ffff),
        InstructionSet::T32 => (at.get(), 1 | !0xffff_ffff),
    };
    if at & mask == 0 {
        Ok(at)
    } else {
        Err(Refused::Misaligned)
    }
}
