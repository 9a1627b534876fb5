//! Sensitive instructions where it is known what is code: one after the other.

use crate::bytes::{half, word};
use hanok_decode::aarch32::{Encoding, Isa, ItState, is_wide};

/// The instruction at `at`, of which all bytes have to be there.
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

/// Where in an IT block what follows `encoding` stands.
pub fn advance(encoding: Encoding, it: ItState) -> ItState {
    match encoding {
        // IT (A8.8.54): the low byte is the ITSTATE to come.
        Encoding::Narrow(half) if half >> 8 == 0xbf && half & 0xf != 0 => {
            ItState::from_bits(half as u8)
        }
        _ => it.next(),
    }
}

/// Each instruction of `bytes`, with its place and where in an IT block it stands.
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
