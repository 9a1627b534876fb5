//! T32: loads and stores of two halfwords (DDI 0406C, A6.3.5 to A6.3.10).

use super::step::{Found, PC, T32_PIPELINE, bit, place, register};

/// LDM and STM.
pub(super) fn multiple(both: u32) -> Found {
    Found::leaving(bit(both, 20) && bit(both, 15))
}

/// LDRD and STRD, exclusive accesses, TBB and TBH (A6.3.6).
pub(super) fn dual(both: u32) -> Found {
    let (before, up, write_back) = (bit(both, 24), bit(both, 23), bit(both, 21));
    let (load, kind) = (bit(both, 20), both >> 4 & 0xf);
    match (before, up, write_back) {
        (false, false, false) => Found::NEXT,
        (false, true, false) if load && kind < 2 => Found::ELSEWHERE,
        (false, true, false) => Found::defined(matches!(kind, 4 | 5 | 7)),
        (true, _, false) if load && register(both, 16) == PC => {
            let distance = (both & 0xff) * 4;
            Found::NEXT.loading(8, place(up, distance, T32_PIPELINE, true))
        }
        _ => Found::NEXT,
    }
}

/// Loads and stores of one register, preloads, and Advanced SIMD's loads and stores (A6.3.7 to
/// A6.3.10, A7.7).
pub(super) fn single(both: u32) -> Found {
    let (size, load, signed) = (both >> 21 & 0b11, bit(both, 20), bit(both, 24));
    if signed && !load {
        return Found::NEXT;
    }
    if size == 3 || signed && size == 2 {
        return Found::NOWHERE;
    }
    match (register(both, 16) == PC, load) {
        (true, true) => literal(both, size),
        (true, false) => Found::NOWHERE,
        _ => based(both, size),
    }
}

/// Whether a load of less than a word has the PC as destination: a preload.
fn is_preload(both: u32, size: u32) -> bool {
    bit(both, 20) && register(both, 12) == PC && size != 2
}

fn literal(both: u32, size: u32) -> Found {
    if is_preload(both, size) {
        return Found::NEXT;
    }
    let at = place(bit(both, 23), both & 0xfff, T32_PIPELINE, true);
    Found::leaving(register(both, 12) == PC).loading(1 << size, at)
}

/// With another base: twelve bits follow, or P, U and W and eight bits, or a register.
fn based(both: u32, size: u32) -> Found {
    let form = both >> 8 & 0xf;
    let moves = match (bit(both, 23), form) {
        (true, _) | (false, 0b1100) => false,
        (false, 0b0000) if both >> 6 & 0b11 == 0 => false,
        (false, 0b1001 | 0b1011 | 0b1101 | 0b1111) => true,
        _ => return Found::NOWHERE,
    };
    let preload = is_preload(both, size) && !moves;
    Found::leaving(bit(both, 20) && register(both, 12) == PC && !preload)
}
