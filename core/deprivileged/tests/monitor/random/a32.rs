//! Blocks of A32.

use super::image::{Blocks, Code, ROOTS, data};
use super::{May, Rng};

const MODES: [u32; 7] = [0x11, 0x12, 0x13, 0x17, 0x1b, 0x1f, 0x13];

/// A data access's base.
fn base(rng: &mut Rng) -> u32 {
    rng.one(&[4, 4, 5, 6, 7, 13])
}

fn condition(rng: &mut Rng) -> u32 {
    if rng.once_in(5) {
        rng.below(14) << 28
    } else {
        0xe000_0000
    }
}

fn plain(rng: &mut Rng) -> u32 {
    let (d, n, m) = (rng.below(4), rng.below(4), rng.below(4));
    let c = condition(rng);
    match rng.below(9) {
        0 | 1 => {
            let operation = rng.one(&[0, 1, 2, 3, 4, 5, 6, 7, 12, 14]);
            c | 0x0200_0000
                | operation << 21
                | rng.below(2) << 20
                | n << 16
                | d << 12
                | rng.below(4096)
        }
        2 | 3 => {
            let operation = rng.one(&[0, 1, 2, 3, 4, 5, 6, 7, 12, 14]);
            c | operation << 21
                | rng.below(2) << 20
                | n << 16
                | d << 12
                | rng.below(128) << 5 & 0xfe0
                | m
        }
        4 => c | 0x0310_0000 | rng.below(4) << 21 | n << 16 | rng.below(4096),
        5 | 6 => {
            // LDR, STR, LDRB, STRB.
            let bits = rng.below(2) << 20 | rng.below(2) << 22;
            c | 0x0580_0000 | bits | base(rng) << 16 | d << 12 | rng.below(0x200) << rng.below(3)
        }
        7 => {
            let bits = rng.one(&[0x00b0, 0x0010_00b0, 0x0010_00d0, 0x0010_00f0]);
            c | 0x01c0_0000 | bits | base(rng) << 16 | d << 12 | rng.below(16)
        }
        _ => {
            let bits = rng.below(2) << 20 | rng.one(&[0, 2]) << 22;
            c | 0x0800_0000 | bits | base(rng) << 16 | 1 << rng.below(4) | 1 << rng.below(4)
        }
    }
}

fn status(rng: &mut Rng, may: &May) -> u32 {
    let c = condition(rng);
    let r = rng.below(4);
    match rng.below(9) {
        0 => 0xf108_0000 | rng.below(2) << 18 | rng.below(8) << 6,
        1 if may.modes => 0xf102_0000 | rng.one(&MODES),
        2 => c | 0x010f_0000 | r << 12,
        3 => c | 0x014f_0000 | r << 12,
        // The flags; or the mode and the masks.
        4 => c | 0x0128_f000 | r,
        5 if may.modes => c | 0x0321_f000 | rng.one(&MODES) | rng.below(4) << 6,
        6 => c | 0x0169_f000 | r,
        7 if may.modes => 0xe321_f010,
        _ => c | 0x0320_f000 | rng.one(&[0, 1, 2, 3, 4]),
    }
}

fn unusual(rng: &mut Rng) -> u32 {
    let c = condition(rng);
    let r = rng.below(4);
    match rng.below(8) {
        0 => c | 0x0f00_0000,
        1 => rng.one(&[0xe7f0_00f0, 0xe7f0_01f2, 0xe120_0071, 0xe160_0070]),
        // LDRT, STRT, LDRBT, STRBT.
        2 | 3 => {
            let bits = rng.below(2) << 20 | rng.below(2) << 22;
            c | 0x04a0_0000 | bits | base(rng) << 16 | r << 12 | rng.below(4) << 2
        }
        4 => c | 0x00e0_00b0 | rng.below(2) << 20 | base(rng) << 16 | r << 12,
        // SRS, STM and LDM of User mode's registers.
        5 => 0xf96d_0500 | rng.one(&MODES),
        6 => c | 0x08c4_0000 | rng.below(2) << 20 | 1 << rng.below(4) | rng.below(2) << 14,
        // SETEND.
        _ if rng.once_in(2) => 0xf101_0000 | rng.below(2) << 9,
        _ => 0xf57f_f05f,
    }
}

/// Registers of CP15, and the MMU.
fn system(code: &mut Code, rng: &mut Rng, may: &May) {
    match rng.below(12) {
        11 if may.mmu => {
            // TTBCR: TTBR1 has the upper half, or the upper three quarters.
            code.a32(0xe3a0_0000 | rng.one(&[0, 0, 1, 2]));
            code.a32(0xee02_0f50);
        }
        10 => {
            // The translation of an address, and PAR.
            code.a32(0xee07_0f18 | rng.below(4) << 5 | rng.one(&[4, 5, 6, 7]) << 12);
            code.a32(0xee17_0f14 | rng.below(4) << 12);
        }
        0 if may.mmu => {
            code.set(0, rng.one(&ROOTS));
            code.a32(0xee02_0f10);
        }
        1 if may.mmu => {
            code.a32(0xe3a0_0000 | rng.one(&[0x5, 0x15, 0x11, 0x7, 0x1d, 0x3f, 0x35]));
            code.a32(0xee03_0f10);
        }
        2 => {
            code.a32(0xe3a0_0000 | rng.below(3));
            code.a32(0xee0d_0f30);
        }
        3 if may.mmu && rng.once_in(2) => {
            code.a32(0xee11_0f10);
            code.a32(rng.one(&[0xe220_0001, 0xe220_0001, 0xe220_0202]));
            code.a32(0xee01_0f10);
        }
        4 => code.a32(rng.one(&[
            0xee08_0f17,
            0xee07_0f15,
            0xee08_0f37,
            0xee08_0f57,
            0xee07_0f3a,
        ])),
        5 if may.edits && may.mmu => {
            code.a32(0xe140_0070);
            // TLBIALL, TLBIMVAA, TLBIMVA.
            let invalidation = rng.one(&[0xee08_0f17, 0xee08_0f77, 0xee08_0f37]);
            // Their inner shareable forms have another CRm.
            code.a32(invalidation & !(u32::from(may.siblings) << 2));
        }
        6 => code.a32(0xee0d_0f90 | rng.below(4) << 12),
        // TPIDRPRW, DFAR, DFSR, CONTEXTIDR, TTBR0, TPIDRURW.
        _ => {
            let read = rng.one(&[
                0xee1d_0f90,
                0xee16_0f10,
                0xee15_0f10,
                0xee1d_0f30,
                0xee12_0f10,
                0xee1d_0f50,
            ]);
            code.a32(read | rng.below(4) << 12);
        }
    }
}

/// Goes on somewhere.
fn leave(code: &mut Code, rng: &mut Rng, blocks: &Blocks, may: &May) {
    let to = blocks.any(rng, may);
    match rng.below(8) {
        0 | 1 => {
            if let Some(to) = blocks.near(rng, false) {
                let distance = to.wrapping_sub(code.here()).wrapping_sub(8) >> 2;
                let c = condition(rng);
                code.a32(c | 0x0a00_0000 | rng.below(2) << 24 | distance & 0xff_ffff);
            }
        }
        2 => {
            code.set(14, to & !1);
            code.set(0, 0x13 | (to & 1) << 5);
            code.a32(0xe16f_f000);
            code.a32(rng.one(&[0xe1b0_f00e, 0xe25e_f000]));
        }
        3 => {
            // A pair on the stack, for RFE.
            code.set(0, to & !1);
            code.set(1, rng.one(&[0x13, 0x1f, 0x10]) | (to & 1) << 5);
            code.a32(0xe92d_0003);
            code.a32(0xf8bd_0a00);
        }
        4 => {
            code.set(0, to);
            code.a32(0xe92d_0001);
            code.a32(0xe8bd_8000);
        }
        5 => {
            // ldr pc, [pc, #-4]
            code.a32(0xe51f_f004);
            code.a32(to);
        }
        6 => {
            code.set(0, to & !1);
            code.set(1, 0x13 | (to & 1) << 5);
            code.a32(0xe16f_f001);
            code.a32(0xe92d_0005);
            code.a32(0xe8fd_8001);
        }
        _ => {}
    }
    code.set(0, to);
    code.a32(rng.one(&[0xe12f_ff10, 0xe12f_ff30, 0xe1a0_f000]));
}

pub fn block(code: &mut Code, rng: &mut Rng, blocks: &Blocks, may: &May) {
    for _ in 0..2 + rng.below(8) {
        match rng.below(10) {
            0 | 1 => {
                let word = status(rng, may);
                code.a32(word);
            }
            2 => {
                let word = unusual(rng);
                code.a32(word);
            }
            3 | 4 => system(code, rng, may),
            5 => {
                // Literals in the block's end.
                let distance = code.at + 0x7c - code.here() - 8;
                code.a32(0xe59f_0000 | rng.below(4) << 12 | distance);
            }
            6 => {
                // Over data.
                let count = rng.below(2);
                code.a32(0xea00_0000 | count);
                (0..=count).for_each(|_| code.a32(data(rng)));
            }
            _ => {
                let word = plain(rng);
                code.a32(word);
            }
        }
        if code.halves.len() > 36 {
            break;
        }
    }
    leave(code, rng, blocks, may);
}
