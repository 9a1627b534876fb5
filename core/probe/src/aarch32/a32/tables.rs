//! Instructions that do the same anywhere.

use crate::aarch32::rows::{D, M, N, NONE, Row, S, row};

/// MOVW, MOVT, MSR of a constant, hints (DDI 0406C A5.2.3, A5.2.11).
pub(super) const CONSTANTS: &[Row] = &[
    row(0x0fb0_0000, 0x0300_0000, D),
    row(0x0fff_ff00, 0x0320_f000, 0),
    row(0x0fbf_f000, 0x0320_f000, NONE), // no field is written
    row(0x0fb0_f000, 0x0320_f000, 0),
];

/// Multiplications and SWP (A5.2.5, A5.2.10).
pub(super) const MULTIPLICATIONS: &[Row] = &[
    row(0x0fe0_f0f0, 0x0000_0090, N | S | M),     // mul
    row(0x0fe0_00f0, 0x0020_0090, N | D | S | M), // mla
    row(0x0ff0_00f0, 0x0040_0090, N | D | S | M), // umaal
    row(0x0ff0_00f0, 0x0060_0090, N | D | S | M), // mls
    row(0x0f80_00f0, 0x0080_0090, N | D | S | M), // umull, umlal, smull, smlal
    row(0x0fb0_0ff0, 0x0100_0090, N | D | M),     // swp, swpb
];

/// MRS and MSR, CLZ, saturating additions, ERET, multiplications of halfwords (A5.2.6, A5.2.7,
/// A5.2.12).
pub(super) const MISCELLANEOUS: &[Row] = &[
    row(0x0fbf_0fff, 0x010f_0000, D),             // mrs
    row(0x0fb0_0eff, 0x0100_0200, D),             // mrs of a banked register
    row(0x0fb0_fff0, 0x0120_f000, M),             // msr
    row(0x0fb0_fef0, 0x0120_f200, M),             // msr of a banked register
    row(0x0fff_0ff0, 0x016f_0f10, D | M),         // clz
    row(0x0f90_0ff0, 0x0100_0050, N | D | M),     // qadd, qsub, qdadd, qdsub
    row(0x0fff_ffff, 0x0160_006e, 0),             // eret
    row(0x0ff0_0090, 0x0100_0080, N | D | S | M), // smlabb
    row(0x0ff0_00b0, 0x0120_0080, N | D | S | M), // smlawb
    row(0x0ff0_f0b0, 0x0120_00a0, N | S | M),     // smulwb
    row(0x0ff0_0090, 0x0140_0080, N | D | S | M), // smlalbb
    row(0x0ff0_f090, 0x0160_0080, N | S | M),     // smulbb
];

/// Media instructions (A5.4).
pub(super) const MEDIA: &[Row] = &[
    row(0x0fb0_0010, 0x0600_0010, NONE),
    row(0x0f80_00f0, 0x0600_00b0, NONE),
    row(0x0f80_00f0, 0x0600_00d0, NONE),
    row(0x0f80_0f10, 0x0600_0f10, N | D | M), // parallel addition and subtraction
    row(0x0ff0_0030, 0x0680_0010, N | D | M), // pkh
    row(0x0fa0_0030, 0x06a0_0010, D | M),     // ssat, usat
    row(0x0fb0_0ff0, 0x06a0_0f30, D | M),     // ssat16, usat16
    row(0x0fb0_03f0, 0x0680_0070, D | M),     // sxtab16, uxtab16
    row(0x0fa0_03f0, 0x06a0_0070, D | M),     // sxtab, sxtah, uxtab, uxtah
    row(0x0ff0_0ff0, 0x0680_0fb0, N | D | M), // sel
    row(0x0fff_0ff0, 0x06bf_0f30, D | M),     // rev
    row(0x0fff_0ff0, 0x06bf_0fb0, D | M),     // rev16
    row(0x0fff_0ff0, 0x06ff_0f30, D | M),     // rbit
    row(0x0fff_0ff0, 0x06ff_0fb0, D | M),     // revsh
    row(0x0ff0_0090, 0x0700_0010, N | S | M), // smlad, smlsd
    row(0x0ff0_0090, 0x0740_0010, N | D | S | M), // smlald, smlsld
    row(0x0ff0_00d0, 0x0750_0010, N | S | M), // smmla
    row(0x0ff0_00d0, 0x0750_00d0, N | D | S | M), // smmls
    row(0x0fd0_f0f0, 0x0710_f010, N | S | M), // sdiv, udiv
    row(0x0ff0_00f0, 0x0780_0010, N | S | M), // usada8
    row(0x0fa0_0070, 0x07a0_0050, D | M),     // sbfx, ubfx
    row(0x0fe0_007f, 0x07c0_001f, D),         // bfc
    row(0x0fe0_0070, 0x07c0_0010, D | M),     // bfi
];

/// CPS, SETEND, Advanced SIMD, barriers, RFE and SRS (A5.7).
pub(super) const UNCONDITIONAL: &[Row] = &[
    row(0xfff1_fe20, 0xf100_0000, 0),
    row(0xffff_fdff, 0xf101_0000, 0),
    row(0xfe00_0000, 0xf200_0000, 0),
    row(0xff10_0000, 0xf400_0000, N),
    row(0xffff_ffff, 0xf57f_f01f, 0), // clrex
    row(0xffff_fff0, 0xf57f_f040, 0), // dsb
    row(0xffff_fff0, 0xf57f_f050, 0), // dmb
    row(0xffff_fff0, 0xf57f_f060, 0), // isb
    row(0xfe50_ffff, 0xf810_0a00, N), // rfe
    row(0xfe5f_ffe0, 0xf84d_0500, 0), // srs
];
