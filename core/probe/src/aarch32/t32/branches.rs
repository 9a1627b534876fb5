//! Branches and miscellaneous control (DDI 0406C A6.3.4).

use crate::Refused;
use crate::aarch32::rows::{N, Row, S, look_up, row};
use crate::aarch32::{ALWAYS, Found, Meaning, THUMB, bit, field};

/// What an instruction of two halfwords means that begins with 0b11110 and has bit 15 of the second
/// one set, for this value of the PC.
pub(super) fn decode(both: u32, pc: u32) -> Found {
    let far = pc.wrapping_add_signed(far(both));
    match (bit(both, 14), bit(both, 12)) {
        (true, true) => Ok(Meaning::Call(far | THUMB)),
        (true, false) if bit(both, 0) => Err(Refused::Unknown),
        (true, false) => Ok(Meaning::Call((pc & !3).wrapping_add(far.wrapping_sub(pc)))),
        (false, true) => Ok(Meaning::Jump {
            condition: ALWAYS,
            target: far | THUMB,
        }),
        (false, false) if field(both, 23, 3) != 0b111 => Ok(Meaning::Jump {
            condition: field(both, 22, 4),
            target: pc.wrapping_add_signed(near(both)) | THUMB,
        }),
        (false, false) if both & 0xffe0_0000 == 0xf7e0_0000 => Err(Refused::Exception),
        (false, false) => look_up(CONTROL, both),
    }
}

/// The offset of B, BL and BLX: S, I1, I2, and 21 bits.
const fn far(both: u32) -> i32 {
    let sign = field(both, 26, 1);
    let i1 = !(field(both, 13, 1) ^ sign) & 1;
    let i2 = !(field(both, 11, 1) ^ sign) & 1;
    let high = sign << 24 | i1 << 23 | i2 << 22;
    let offset = high | field(both, 16, 10) << 12 | field(both, 0, 11) << 1;
    (offset << 7) as i32 >> 7
}

/// The offset of B with a condition: S, J2, J1, and 17 bits.
const fn near(both: u32) -> i32 {
    let high = field(both, 26, 1) << 20 | field(both, 11, 1) << 19 | field(both, 13, 1) << 18;
    let offset = high | field(both, 16, 6) << 12 | field(both, 0, 11) << 1;
    (offset << 11) as i32 >> 11
}

/// MSR, hints, CPS, barriers, BXJ, exception returns, MRS.
const CONTROL: &[Row] = &[
    row(0xffe0_f0ff, 0xf380_8000, N),
    row(0xffe0_f0ef, 0xf380_8020, N),
    row(0xffff_ff00, 0xf3af_8000, 0),
    row(0xffff_f800, 0xf3af_8000, 0),
    row(0xffff_ffff, 0xf3bf_8f2f, 0),
    row(0xffff_fff0, 0xf3bf_8f40, 0),
    row(0xffff_fff0, 0xf3bf_8f50, 0),
    row(0xffff_fff0, 0xf3bf_8f60, 0),
    row(0xfff0_ffff, 0xf3c0_8f00, N),
    row(0xffff_ff00, 0xf3de_8f00, 0),
    row(0xffef_f0ff, 0xf3ef_8000, S),
    row(0xffe0_f0ef, 0xf3e0_8020, S),
];
