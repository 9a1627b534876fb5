//! A32 (DDI 0406C, A5).

use super::step::{A32_PIPELINE, Found, Goes, PC, Relative, Step, bit, place, register};
use super::{extension, media, sensitive};
use hanok_decode::aarch32::{Isa, ItState, sensitive_a32};

/// The A32 `word` as the flow sees it. Every word has an answer.
pub fn step_a32(word: u32) -> Step {
    let condition = word >> 28;
    let found = match sensitive_a32(word) {
        Some(found) => sensitive::flow(&found, A32_PIPELINE),
        None if condition == 0b1111 => unconditional(word),
        None => conditional(word),
    };
    Step {
        bytes: 4,
        goes: found.goes,
        conditional: condition < 0b1110,
        loads: found.loads,
        opens: ItState::NONE,
    }
}

fn conditional(word: u32) -> Found {
    match word >> 25 & 0b111 {
        0b000 => registers(word),
        0b001 => constant(word),
        0b011 if bit(word, 4) => media::flow(word),
        0b010 | 0b011 => single(word),
        0b100 => Found::leaving(bit(word, 20) && bit(word, 15)),
        0b101 if bit(word, 24) => Found::to(Goes::Call(distance(word, 0), Isa::A32)),
        0b101 => Found::to(Goes::Jump(distance(word, 0))),
        0b111 if bit(word, 24) => Found::NEXT,
        _ => extension::flow(word, A32_PIPELINE),
    }
}

/// The distance of B, BL and BLX (A8.8.18, A8.8.25).
fn distance(word: u32, half: i32) -> Relative {
    let words = (word << 8).cast_signed() >> 8;
    Relative {
        offset: words * 4 + half * 2 + A32_PIPELINE,
        aligned: false,
    }
}

/// The unconditional space (A5.7).
fn unconditional(word: u32) -> Found {
    match word >> 20 & 0xff {
        0x20..=0x3f | 0x41 | 0x45 | 0x49 | 0x4d | 0x55 | 0x5d => Found::NEXT,
        0x40..=0x4f if !bit(word, 20) => Found::NEXT,
        0x57 => Found::defined(matches!(word >> 4 & 0xf, 1 | 4..=6)),
        0x61 | 0x65 | 0x69 | 0x6d | 0x75 | 0x7d => Found::defined(!bit(word, 4)),
        0xa0..=0xbf => {
            let half = i32::from(bit(word, 24));
            Found::to(Goes::Call(distance(word, half), Isa::T32))
        }
        _ => Found::NOWHERE,
    }
}

/// Bits 27 to 25 are 000: data processing, and much that shares its space (A5.2).
fn registers(word: u32) -> Found {
    let other = compares(word) && !bit(word, 20);
    match (bit(word, 7), bit(word, 4)) {
        (true, true) if word >> 5 & 0b11 == 0 => multiply(word),
        (true, true) => extra(word),
        (false, _) if other => miscellaneous(word),
        (true, false) if other => Found::NEXT,
        _ => process(word),
    }
}

/// Whether the operation is one that only writes flags.
fn compares(word: u32) -> bool {
    word >> 23 & 0b11 == 0b10
}

/// Data processing: what writes the PC leaves. What also restores the CPSR is sensitive.
fn process(word: u32) -> Found {
    Found::leaving(!compares(word) && register(word, 12) == PC)
}

/// Bits 27 to 25 are 001. MOVW, MOVT and hints compare without writing flags (A5.2.3, A5.2.11).
fn constant(word: u32) -> Found {
    if compares(word) || register(word, 12) != PC {
        return Found::NEXT;
    }
    let sum = match word >> 20 & 0x1f {
        0b01000 => 1i32,
        0b00100 => -1,
        _ => return Found::ELSEWHERE,
    };
    let constant = (word & 0xff).rotate_right(register(word, 8) * 2);
    // The lowest bits of another constant would choose the instruction set.
    if register(word, 16) != PC || constant & 3 != 0 {
        return Found::ELSEWHERE;
    }
    let offset = constant.cast_signed().wrapping_mul(sum);
    Found::to(Goes::Jump(Relative {
        offset: offset.wrapping_add(A32_PIPELINE),
        aligned: false,
    }))
}

/// BX, BXJ, BLX, CLZ, saturating addition, BKPT (A5.2.12).
fn miscellaneous(word: u32) -> Found {
    match (word >> 4 & 0b111, word >> 21 & 0b11) {
        (0b001 | 0b010, 0b01) => Found::ELSEWHERE,
        (0b011, 0b01) => Found::to(Goes::CallElsewhere),
        (0b001, 0b11) | (0b101, _) => Found::NEXT,
        _ => Found::NOWHERE,
    }
}

/// Multiplication, swaps and exclusive accesses (A5.2.5, A5.2.10).
fn multiply(word: u32) -> Found {
    Found::defined(match (word >> 21 & 0xf, bit(word, 20)) {
        (0b0010 | 0b0011, flags) => !flags,
        (0b0000..=0b0111, _) => true,
        (0b1000 | 0b1010, load) => !load,
        (operation, _) => operation >= 0b1100,
    })
}

/// LDRH, LDRSB, LDRSH, LDRD and stores (A5.2.8). Without a base's offset those that write back are
/// sensitive or undefined.
fn extra(word: u32) -> Found {
    let (before, write_back) = (bit(word, 24), bit(word, 21));
    if !before && write_back {
        return Found::NOWHERE;
    }
    let bytes = match (bit(word, 20), word >> 5 & 0b11) {
        (false, 0b10) => 8,
        (false, _) => return Found::NEXT,
        (true, 0b10) => 1,
        (true, _) => 2,
    };
    let found = Found::NEXT;
    if bit(word, 22) && before && !write_back && register(word, 16) == PC {
        let distance = word >> 4 & 0xf0 | word & 0xf;
        return found.loading(bytes, place(bit(word, 23), distance, A32_PIPELINE, false));
    }
    found
}

/// LDR, LDRB and stores (A5.3).
fn single(word: u32) -> Found {
    let load = bit(word, 20);
    let found = Found::leaving(load && register(word, 12) == PC);
    let constant = !bit(word, 25) && bit(word, 24) && !bit(word, 21);
    if !load || !constant || register(word, 16) != PC {
        return found;
    }
    let bytes = if bit(word, 22) { 1 } else { 4 };
    found.loading(
        bytes,
        place(bit(word, 23), word & 0xfff, A32_PIPELINE, false),
    )
}
