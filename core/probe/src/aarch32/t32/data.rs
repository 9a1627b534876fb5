//! Data processing of two halfwords (DDI 0406C A6.3.1, A6.3.3, A6.3.11 to A6.3.17).

use crate::Refused;
use crate::aarch32::rows::{D, M, N, NONE, Row, S, has_pc, look_up, row};
use crate::aarch32::{Found, Meaning, PC, SP, bit, field, same};

/// The field of Rd, which is where A32 has Rs.
const RD: u8 = S;

/// With a constant.
pub(super) fn by_constant(both: u32) -> Found {
    same(field(both, 21, 4) != 0b0110 && operands(both))
}

/// With a shifted register.
pub(super) fn by_register(both: u32) -> Found {
    let packs = field(both, 21, 4) == 0b0110;
    let unpackable = packs && (bit(both, 20) || bit(both, 4));
    same(operands(both) && !unpackable && !bit(both, 15) && !has_pc(both, M))
}

/// Whether the operation exists and has the PC nowhere, but where that means another operation: as
/// Rd a comparison, as Rn a move.
fn operands(both: u32) -> bool {
    let operation = field(both, 21, 4);
    let known = matches!(operation, 0..=4 | 6 | 8 | 10 | 11 | 13 | 14);
    let compares = bit(both, 20) && matches!(operation, 0 | 4 | 8 | 13);
    let moves = matches!(operation, 2 | 3);
    known && (compares || !has_pc(both, RD)) && (moves || !has_pc(both, N))
}

/// With a plain constant: ADDW, SUBW and ADR, MOVW and MOVT, saturation, bit fields.
pub(super) fn plain(both: u32, pc: u32) -> Found {
    let adds = both & 0xfbf0_8000 == 0xf200_0000;
    let subtracts = both & 0xfbf0_8000 == 0xf2a0_0000;
    if !(has_pc(both, N) && (adds || subtracts)) {
        return look_up(PLAIN, both);
    }
    let distance = field(both, 26, 1) << 11 | field(both, 12, 3) << 8 | field(both, 0, 8);
    let register = field(both, 8, 4);
    if register == SP || register == PC {
        return Err(Refused::Unknown);
    }
    let value = if adds {
        (pc & !3).wrapping_add(distance)
    } else {
        (pc & !3).wrapping_sub(distance)
    };
    Ok(Meaning::Constant { register, value })
}

const PLAIN: &[Row] = &[
    row(0xfbf0_8000, 0xf200_0000, N | RD), // addw
    row(0xfbf0_8000, 0xf2a0_0000, N | RD), // subw
    row(0xfbf0_8000, 0xf240_0000, RD),     // movw
    row(0xfbf0_8000, 0xf2c0_0000, RD),     // movt
    row(0xffd0_8020, 0xf300_0000, N | RD), // ssat, ssat16
    row(0xfff0_8020, 0xf340_0000, N | RD), // sbfx
    row(0xfff0_8020, 0xf360_0000, RD),     // bfi, bfc
    row(0xffd0_8020, 0xf380_0000, N | RD), // usat, usat16
    row(0xfff0_8020, 0xf3c0_0000, N | RD), // ubfx
];

/// With registers alone: shifts, extensions, parallel additions, and others (A6.3.12 to A6.3.15).
pub(super) fn registers(both: u32) -> Found {
    look_up(REGISTERS, both)
}

const REGISTERS: &[Row] = &[
    row(0xff80_f0f0, 0xfa00_f000, N | RD | M), // lsl, lsr, asr, ror
    row(0xffc0_f0c0, 0xfa00_f080, RD | M),     // the extensions of halfwords and of pairs of bytes
    row(0xffe0_f0c0, 0xfa40_f080, RD | M),     // the extensions of bytes
    row(0xfff0_f080, 0xfab0_f000, NONE),
    row(0xfff0_f080, 0xfaf0_f000, NONE),
    row(0xff80_f0b0, 0xfa80_f030, NONE),
    row(0xff80_f080, 0xfa80_f000, N | RD | M), // parallel additions
    row(0xffe0_f0c0, 0xfa80_f080, N | RD | M), // qadd and its like, rev and its like
    row(0xfff0_f0f0, 0xfaa0_f080, N | RD | M), // sel
    row(0xfff0_f0f0, 0xfab0_f080, N | RD | M), // clz
];

/// Multiplications and divisions (A6.3.16, A6.3.17).
pub(super) fn multiply(both: u32) -> Found {
    look_up(MULTIPLICATIONS, both)
}

const MULTIPLICATIONS: &[Row] = &[
    row(0xfff0_00f0, 0xfb00_0000, N | RD | M),     // mul, mla
    row(0xfff0_00f0, 0xfb00_0010, N | D | RD | M), // mls
    row(0xfff0_00c0, 0xfb10_0000, N | RD | M),     // smlabb
    row(0xfff0_00e0, 0xfb20_0000, N | RD | M),     // smlad
    row(0xfff0_00e0, 0xfb30_0000, N | RD | M),     // smlawb
    row(0xfff0_00e0, 0xfb40_0000, N | RD | M),     // smlsd
    row(0xfff0_00e0, 0xfb50_0000, N | RD | M),     // smmla
    row(0xfff0_00e0, 0xfb60_0000, N | D | RD | M), // smmls
    row(0xfff0_00f0, 0xfb70_0000, N | RD | M),     // usada8
    row(0xffd0_00f0, 0xfb80_0000, N | D | RD | M), // smull, umull
    row(0xffd0_f0f0, 0xfb90_f0f0, N | RD | M),     // sdiv, udiv
    row(0xffd0_00f0, 0xfbc0_0000, N | D | RD | M), // smlal, umlal
    row(0xfff0_00c0, 0xfbc0_0080, N | D | RD | M), // smlalbb
    row(0xfff0_00e0, 0xfbc0_00c0, N | D | RD | M), // smlald
    row(0xfff0_00e0, 0xfbd0_00c0, N | D | RD | M), // smlsld
    row(0xfff0_00f0, 0xfbe0_0060, N | D | RD | M), // umaal
];
