//! Blocks of T32.

use super::image::{Blocks, Code, ROOTS, data};
use super::{May, Rng};

const MODES: [u32; 6] = [0x11, 0x12, 0x13, 0x17, 0x1b, 0x1f];

fn plain(code: &mut Code, rng: &mut Rng) {
    let (d, n) = (rng.below(4), rng.below(4));
    let base = rng.one(&[4, 4, 5, 6, 7]);
    match rng.below(10) {
        // MOV, CMP, ADD, SUB of eight bits.
        0 | 1 => code.t16(0x2000 | rng.below(4) << 11 | d << 8 | rng.below(256)),
        2 => code.t16(rng.below(3) << 11 | rng.below(32) << 6 | n << 3 | d),
        3 => code.t16(0x4000 | rng.below(16) << 6 | n << 3 | d),
        4 | 5 => code.t16(0x6000 | rng.below(4) << 11 | rng.below(32) << 6 | base << 3 | d),
        6 => code.t16(0x8000 | rng.below(2) << 11 | rng.below(32) << 6 | base << 3 | d),
        7 => code.t16(rng.one(&[0xb40f, 0xbc0f, 0xb403, 0xbc03])),
        8 => code
            .t32(0xf8c0_0000 | rng.below(2) << 20 | base << 16 | d << 12 | rng.below(0x100) << 2),
        _ => code.t32(0xe880_0003 | rng.below(2) << 20 | base << 16),
    }
}

fn status(code: &mut Code, rng: &mut Rng, may: &May) {
    let r = rng.below(4);
    match rng.below(8) {
        0 | 1 => code.t16(0xb660 | rng.below(2) << 4 | (1 + rng.below(7))),
        2 if may.modes => code.t32(0xf3af_8100 | rng.one(&MODES)),
        3 => code.t32(0xf3ef_8000 | r << 8),
        4 => code.t32(0xf3ff_8000 | r << 8),
        5 => code.t32(0xf380_8800 | r << 16),
        6 => code.t32(0xf390_8900 | r << 16),
        _ => code.t16(0xbf00 | rng.below(5) << 4),
    }
}

fn unusual(code: &mut Code, rng: &mut Rng) {
    let r = rng.below(4);
    let base = rng.one(&[4, 5, 6]);
    match rng.below(7) {
        0 => code.t16(0xdf00),
        1 => code.t16(rng.one(&[0xde00, 0xde01, 0xbe00])),
        2 => code.t32(0xf7f0_a000),
        3 | 4 => {
            code.t32(0xf840_0e00 | rng.below(2) << 20 | base << 16 | r << 12 | rng.below(8) << 2)
        }
        5 => code.t32(0xe80d_c000 | 1 << 21 | rng.one(&MODES)),
        _ if rng.once_in(2) => code.t16(0xb650 | rng.below(2) << 3),
        _ => code.t32(0xf3bf_8f5f),
    }
}

fn system(code: &mut Code, rng: &mut Rng, may: &May) {
    match rng.below(8) {
        0 if may.mmu => {
            code.set_t32(0, rng.one(&ROOTS));
            code.t32(0xee02_0f10);
        }
        1 if may.mmu => {
            code.t16(0x2000 | rng.one(&[0x5, 0x15, 0x11, 0x7, 0x1d, 0x3f, 0x35]));
            code.t32(0xee03_0f10);
        }
        2 => {
            code.t16(0x2000 | rng.below(3));
            code.t32(0xee0d_0f30);
        }
        3 => code.t32(rng.one(&[0xee08_0f17, 0xee07_0f15, 0xee08_0f37, 0xee08_0f57])),
        4 if may.edits && may.mmu => {
            code.t32(0xf7e0_8000);
            let invalidation = rng.one(&[0xee08_0f17, 0xee08_0f77, 0xee08_0f37]);
            code.t32(invalidation & !(u32::from(may.siblings) << 2));
        }
        5 => code.t32(0xee0d_0f90 | rng.below(4) << 12),
        _ => {
            let read = rng.one(&[0xee1d_0f90, 0xee16_0f10, 0xee15_0f10, 0xee1d_0f30]);
            code.t32(read | rng.below(4) << 12);
        }
    }
}

/// An IT block of one to three instructions.
fn conditional(code: &mut Code, rng: &mut Rng) {
    let (first, mask) = (rng.below(14), rng.one(&[0x8, 0x4, 0xc, 0x2, 0x6, 0xe]));
    code.t16(0xbf00 | first << 4 | mask);
    for _ in 0..4 - u32::trailing_zeros(mask) {
        match rng.below(8) {
            0 => code.t32(0xf3ef_8000 | rng.below(4) << 8),
            1 => code.t16(0xdf00),
            2 => code.t16(0xde00),
            _ => code.t16(0x2000 | rng.below(4) << 11 | rng.below(4) << 8 | rng.below(256)),
        }
    }
}

/// B, BL or BLX over a distance.
fn branch(link: u32, distance: u32) -> u32 {
    let distance = distance.wrapping_sub(4);
    let (sign, i1, i2) = (distance >> 24 & 1, distance >> 23 & 1, distance >> 22 & 1);
    let same = |bit: u32| bit ^ sign ^ 1;
    0xf000_0000
        | link
        | sign << 26
        | same(i1) << 13
        | same(i2) << 11
        | (distance >> 12 & 0x3ff) << 16
        | distance >> 1 & 0x7ff
}

/// An instruction of two halfwords at `from`, the end of a page.
pub fn seam(rng: &mut Rng, from: u32, blocks: &Blocks) -> u32 {
    let (d, t) = (rng.below(4), rng.below(4));
    let base = rng.one(&[4, 4, 5, 6, 7]);
    let near = rng.below(0x60) << 2;
    match rng.below(20) {
        0 => 0xf240_0000 | rng.below(16) << 16 | d << 8 | rng.below(256),
        1 => 0xf2c0_0000 | rng.below(16) << 16 | d << 8 | rng.below(256),
        2 => 0xeb10_0000 | t << 16 | d << 8 | rng.below(4),
        3 => 0xf110_0000 | t << 16 | d << 8 | rng.below(256),
        4 => 0xf8c0_0000 | rng.below(2) << 20 | base << 16 | d << 12 | near,
        5 => 0xf840_0900 | rng.below(2) << 20 | base << 16 | d << 12 | rng.below(8) << 2,
        6 => 0xe880_0003 | rng.below(2) << 20 | base << 16,
        7 => 0xe9c0_0000 | rng.below(2) << 20 | base << 16 | d << 12 | (d ^ 1) << 8 | near >> 2,
        // Literals on both sides.
        8 | 9 => 0xf81f_0000 | rng.below(3) << 21 | rng.below(2) << 23 | d << 12 | near,
        10 => 0xe95f_0000 | rng.below(2) << 23 | d << 12 | (d ^ 1) << 8 | near >> 2,
        11 => rng.one(&[0xf20f_0000, 0xf2af_0000]) | d << 8 | rng.below(256),
        12 => match blocks.near(rng, true) {
            Some(to) => branch(rng.one(&[0x9000, 0xd000]), to.wrapping_sub(from)),
            None => 0xf3af_8000,
        },
        13 => match blocks.near(rng, false) {
            Some(to) => branch(0xc000, to.wrapping_sub(from & !3)),
            None => 0xf3bf_8f5f,
        },
        // B<c> over a bit.
        14 | 15 => 0xf000_8000 | rng.below(14) << 22 | rng.below(4),
        16 => rng.one(&[0xf3ef_8000, 0xf3ff_8000]) | d << 8,
        17 => rng.one(&[0xf380_8800, 0xf390_8900]) | d << 16,
        18 => 0xf840_0e00 | rng.below(2) << 20 | base << 16 | d << 12 | rng.below(8) << 2,
        _ => rng.one(&[
            0xf7f0_a000,
            0xf3af_8600,
            0xee1d_0f90,
            0xee0d_0f90,
            0xe8df_f000,
        ]),
    }
}

/// A block at the end of a page, whose last instruction lies across it; the halfword behind that is the last one.
pub fn last_block(code: &mut Code, rng: &mut Rng, blocks: &Blocks, may: &May) {
    for _ in 0..rng.below(8) {
        match rng.below(5) {
            0 => status(code, rng, may),
            1 => conditional(code, rng),
            _ => plain(code, rng),
        }
    }
    // An IT block, in which it is the last or the one before.
    let block = rng.below(4);
    while code.halves.len() < 63 - block as usize {
        code.t16(0xbf00);
    }
    if block > 0 {
        let end = rng.one(&[0x10, 0x8]) >> block;
        let mask = end | rng.next() & 0xf & !(2 * end - 1);
        code.t16(0xbf00 | rng.below(14) << 4 | mask);
    }
    for _ in 1..block {
        code.t16(0x2000 | rng.below(4) << 8 | rng.below(256));
    }
    let from = code.here();
    code.t32(seam(rng, from, blocks));
    code.t16(rng.one(&[0xbf00, 0x2107, 0x3201]));
}

fn leave(code: &mut Code, rng: &mut Rng, blocks: &Blocks, may: &May) {
    let to = blocks.any(rng, may);
    match rng.below(8) {
        0 => {
            // cbz r0 over one instruction; b over a word.
            code.t16(0xb100 | rng.below(4));
            code.t16(0xbf00);
            code.t16(0xe001);
            code.t32(data(rng));
        }
        1 => {
            code.set_t32(14, to & !1);
            code.set_t32(0, 0x13 | (to & 1) << 5);
            code.t32(0xf390_8f00);
            code.t32(0xf3de_8f00);
        }
        2 => {
            code.set_t32(0, to & !1);
            code.set_t32(1, rng.one(&[0x13, 0x1f, 0x10]) | (to & 1) << 5);
            code.t16(0xb403);
            code.t32(0xe9bd_c000);
        }
        3 => {
            code.set_t32(0, to);
            code.t16(0xb401);
            code.t16(0xbd00);
        }
        4 => {
            // tbb [pc, r0], with a table of two entries: behind it.
            code.t16(0x2000 | rng.below(2));
            code.t32(0xe8df_f000);
            code.t16(0x0101);
        }
        5 => {
            let condition = rng.below(14);
            code.t16(0xd000 | condition << 8 | rng.below(3));
            code.t16(0xbf00);
            code.t16(0xbf00);
            code.t16(0xbf00);
            code.t16(0xbf00);
        }
        6 => {
            if let Some(to) = blocks.near(rng, true) {
                let link = rng.one(&[0x9000, 0xd000]);
                code.t32(branch(link, to.wrapping_sub(code.here())));
            }
        }
        _ => {}
    }
    code.set_t32(0, to);
    code.t16(rng.one(&[0x4700, 0x4780, 0x4687]));
}

pub fn block(code: &mut Code, rng: &mut Rng, blocks: &Blocks, may: &May) {
    for _ in 0..2 + rng.below(10) {
        match rng.below(11) {
            0 | 1 => status(code, rng, may),
            2 => unusual(code, rng),
            3 | 4 => system(code, rng, may),
            5 => conditional(code, rng),
            6 => {
                // Literals in the block's end.
                let distance = (code.at & !0x7f) + 0x7c - (code.here() & !3) - 4;
                code.t16(0x4800 | rng.below(4) << 8 | distance >> 2);
            }
            _ => plain(code, rng),
        }
        if code.halves.len() > 36 {
            break;
        }
    }
    leave(code, rng, blocks, may);
}
