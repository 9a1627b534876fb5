//! T32 instructions of two halfwords (DDI 0406C, A6.3).

use super::step::{Found, Own, T32_PIPELINE, bit};
use super::{control, data, extension, memory};

/// The flow of the instruction, the first halfword in the upper half of `both`.
pub(super) fn flow(both: u32) -> (Found, Own) {
    let found = match both >> 25 & 0xf {
        0b0100 if !bit(both, 22) => memory::multiple(both),
        0b0100 => memory::dual(both),
        0b0101 => data::shifted(both),
        0b1000 | 0b1010 if !bit(both, 15) => data::constant(both),
        0b1001 | 0b1011 if !bit(both, 15) => data::plain(both),
        0b1000..=0b1011 => return control::flow(both),
        0b1100 => memory::single(both),
        0b1101 => data::registers(both),
        _ => coprocessor(both),
    };
    (found, Own::None)
}

/// The coprocessor instructions that are not sensitive (A6.3.18).
fn coprocessor(both: u32) -> Found {
    match (both >> 24 & 0xf, bit(both, 28)) {
        // Advanced SIMD data processing.
        (0b1111, _) => Found::NEXT,
        (_, false) => extension::flow(both, T32_PIPELINE),
        (_, true) => Found::NOWHERE,
    }
}
