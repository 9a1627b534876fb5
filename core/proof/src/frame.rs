//! The words of a frame, and where instructions stand in them. Words are little-endian, as
//! instructions always are in ARMv7 (DDI 0406C, A3.3.1).

use hanok_decode::aarch32::{Encoding, Isa, is_wide};

/// The number of bytes in a frame.
pub const BYTES: u32 = 4096;
/// The number of words in a frame.
pub const WORDS: usize = 1024;
/// The number of halfwords in a frame.
pub(crate) const HALFWORDS: usize = 2048;

/// The words of a frame.
pub type Words = [u32; WORDS];

/// The word that `offset` is in; zero beyond the frame.
fn word(words: &Words, offset: u32) -> u32 {
    words.get((offset / 4) as usize).copied().unwrap_or(0)
}

fn halfword(words: &Words, offset: u32) -> u16 {
    (word(words, offset) >> (offset % 4 / 2 * 16)) as u16
}

/// The instruction at `offset`, which is aligned for `isa`; `None` if it does not end inside the
/// frame.
pub(crate) fn encoding(words: &Words, offset: u32, isa: Isa) -> Option<Encoding> {
    if offset >= BYTES {
        return None;
    }
    if isa == Isa::A32 {
        return Some(Encoding::A32(word(words, offset)));
    }
    let first = halfword(words, offset);
    let whole = !is_wide(first) || offset + 2 < BYTES;
    whole.then(|| Encoding::t32(first, halfword(words, offset + 2)))
}

fn set_halfword(words: &mut Words, offset: u32, half: u16) {
    let shift = offset % 4 / 2 * 16;
    if let Some(word) = words.get_mut((offset / 4) as usize) {
        *word = *word & !(0xffff << shift) | u32::from(half) << shift;
    }
}

/// Writes an instruction. What would be beyond the frame is not written.
pub(crate) fn write(words: &mut Words, offset: u32, encoding: Encoding) {
    match encoding {
        Encoding::Narrow(half) => set_halfword(words, offset, half),
        Encoding::Wide(both) => {
            set_halfword(words, offset, (both >> 16) as u16);
            set_halfword(words, offset + 2, both as u16);
        }
        Encoding::A32(bits) => {
            if let Some(word) = words.get_mut((offset / 4) as usize) {
                *word = bits;
            }
        }
    }
}
