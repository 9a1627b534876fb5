//! Goes through code of which the instruction set is known, one instruction after the other.

use crate::bytes::{half, word};
use hanok_decode::aarch32::{Encoding, Isa, ItState, is_wide};

/// Reads the instruction at `at`; `None` if not all its bytes are there.
pub fn fetch(bytes: &[u8], at: usize, isa: Isa) -> Option<Encoding> {
    match isa {
        Isa::A32 => word(bytes, at).map(Encoding::A32),
        Isa::T32 => {
            let first = half(bytes, at)?;
            let second = if is_wide(first) {
                half(bytes, at + 2)?
            } else {
                0
            };
            Some(Encoding::t32(first, second))
        }
    }
}

/// The place in an IT block of the instruction behind `encoding`.
pub fn advance(encoding: Encoding, it: ItState) -> ItState {
    match encoding {
        // IT (A8.8.54): its low byte is the next ITSTATE.
        Encoding::Narrow(half) if half >> 8 == 0xbf && half & 0xf != 0 => {
            ItState::from_bits(half as u8)
        }
        _ => it.next(),
    }
}

/// Each instruction of `bytes`, with its offset and its place in an IT block.
pub fn instructions(
    bytes: &[u8],
    isa: Isa,
) -> impl Iterator<Item = (usize, Encoding, ItState)> + '_ {
    let mut at = 0;
    let mut it = ItState::NONE;
    std::iter::from_fn(move || {
        let encoding = fetch(bytes, at, isa)?;
        let found = (at, encoding, it);
        at += encoding.bytes() as usize;
        it = advance(encoding, it);
        Some(found)
    })
}
