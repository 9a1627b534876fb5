//! Decodes instructions of two halfwords by their groups (DDI 0406C A6.3).

use super::{Decoded, PIPELINE, control, data, memory};
use crate::effects::Effects;
use crate::parts::Parts;
use crate::simd;

pub(super) fn decode(both: u32) -> Decoded {
    let parts = match both >> 25 & 0xf {
        0b0100 if both & 1 << 22 == 0 => memory::multiple(both),
        0b0100 => memory::dual(both),
        0b0101 => data::shifted(both),
        0b1000 | 0b1010 if both & 1 << 15 == 0 => data::constant(both),
        0b1001 | 0b1011 if both & 1 << 15 == 0 => data::plain(both),
        0b1000..=0b1011 => return control::decode(both),
        0b1100 if both >> 20 & 0b10001 == 0b10000 => simd::structures(both),
        0b1100 => memory::single(both),
        0b1101 => data::by_register(both),
        _ => coprocessor(both),
    };
    (parts, None)
}

/// The coprocessor instructions that are not sensitive (A6.3.18).
fn coprocessor(both: u32) -> Parts {
    // Advanced SIMD data processing, in both halves of the space.
    if both >> 24 & 0xf == 0xf {
        Parts::of(Effects::NONE)
    } else if both & 1 << 28 == 0 {
        simd::extension(both, PIPELINE)
    } else {
        Parts::UNDEFINED
    }
}
