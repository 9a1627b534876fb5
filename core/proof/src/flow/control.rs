//! T32: branches and miscellaneous control (DDI 0406C, A6.3.4).

use super::step::{Found, Goes, Own, Relative, T32_PIPELINE, bit};
use hanok_decode::aarch32::Isa;

/// The flow of one of these instructions.
pub(super) fn flow(both: u32) -> (Found, Own) {
    let found = match (bit(both, 14), bit(both, 12)) {
        (false, false) if both >> 23 & 0b111 == 0b111 => miscellaneous(both),
        (false, false) => {
            let target = relative(near(both), false);
            return (Found::to(Goes::Jump(target)), Own::Condition);
        }
        (false, true) => Found::to(Goes::Jump(relative(far(both), false))),
        (true, true) => Found::to(Goes::Call(relative(far(both), false), Isa::T32)),
        (true, false) if bit(both, 0) => Found::NOWHERE,
        (true, false) => Found::to(Goes::Call(relative(far(both), true), Isa::A32)),
    };
    (found, Own::None)
}

const fn relative(distance: i32, aligned: bool) -> Relative {
    Relative {
        offset: distance + T32_PIPELINE,
        aligned,
    }
}

/// The distance in bytes of B without a condition, BL and BLX (A8.8.18, encoding T4): S, I1, I2,
/// imm10, imm11.
fn far(both: u32) -> i32 {
    let sign = bit(both, 26);
    let same = |number: u32| u32::from(bit(both, number) == sign);
    let top = u32::from(sign) << 24 | same(13) << 23 | same(11) << 22;
    let rest = (both >> 16 & 0x3ff) << 12 | (both & 0x7ff) << 1;
    ((top | rest) << 7).cast_signed() >> 7
}

/// The distance in bytes of B with a condition (encoding T3): S, J2, J1, imm6, imm11.
fn near(both: u32) -> i32 {
    let top = (both >> 26 & 1) << 20 | (both >> 11 & 1) << 19 | (both >> 13 & 1) << 18;
    let rest = (both >> 16 & 0x3f) << 12 | (both & 0x7ff) << 1;
    ((top | rest) << 11).cast_signed() >> 11
}

/// Hints, barriers, BXJ, UDF; all others are sensitive.
fn miscellaneous(both: u32) -> Found {
    match both >> 20 & 0x7f {
        0b011_1010 => Found::NEXT,
        0b011_1011 => Found::defined(matches!(both >> 4 & 0xf, 0..=2 | 4..=6)),
        0b011_1100 => Found::ELSEWHERE,
        _ => Found::NOWHERE,
    }
}
