//! VFP and Advanced SIMD: both instruction sets have the same lower 28 bits (DDI 0406C, A7.6 to
//! A7.9). Other coprocessors' instructions are sensitive, but for a few that are undefined.

use super::step::{Found, PC, bit, place, register};

/// The flow of the coprocessor instructions that are not sensitive.
pub(super) fn flow(bits: u32, pipeline: i32) -> Found {
    let (before, up, write_back) = (bit(bits, 24), bit(bits, 23), bit(bits, 21));
    if bits >> 24 & 0xf == 0b1110 {
        return Found::NEXT;
    }
    // VMOV of two core registers has D set.
    if !before && !up && !write_back {
        return Found::defined(bit(bits, 22));
    }
    let literal = before && !write_back && bit(bits, 20) && register(bits, 16) == PC;
    if !literal {
        return Found::NEXT;
    }
    let bytes = if bit(bits, 8) { 8 } else { 4 };
    let distance = (bits & 0xff) * 4;
    Found::NEXT.loading(bytes, place(up, distance, pipeline, true))
}
