//! The memory of a random program: tables, vectors, handlers, and blocks.

use super::{May, Rng, a32, t32};
use crate::board::{RAM, word_of};
use crate::lockstep::memory;

/// The page of the vectors, the handlers, and the begin.
pub const ENTRY: u32 = RAM + 0x100;
/// The handler that goes on with another block.
const RECOVER: u32 = RAM + 0x400;
/// What it goes on with.
const TABLE: u32 = RAM + 0x7000;
/// The blocks.
const TEXT: u32 = RAM + 0x1000;
const PAGES: u32 = 5;
const BLOCK: u32 = 128;
const BLOCKS: u32 = PAGES * 4096 / BLOCK;
pub const DATA: u32 = RAM + 0x8000;
/// First-level tables, and second-level ones: of RAM and of its alias.
pub const ROOTS: [u32; 2] = [RAM + 0x10_0000, RAM + 0x10_4000];
pub const LEAVES: [u32; 3] = [RAM + 0x10_8000, RAM + 0x10_8400, RAM + 0x10_8800];
/// Whether a word of the memory is one of the tables'.
pub fn is_table(word: usize) -> bool {
    let within = |at: &u32, bytes: usize| {
        let first = word_of(u64::from(*at)).expect("memory");
        (first..first + bytes / 4).contains(&word)
    };
    ROOTS.iter().any(|at| within(at, 0x4000)) || LEAVES.iter().any(|at| within(at, 0x400))
}

/// The same pages by pages, and by a section.
pub const ALIAS: u32 = 0x8000_0000;
pub const WHOLE: u32 = 0x9000_0000;

/// Code of both instruction sets.
pub struct Code {
    pub at: u32,
    pub halves: Vec<u16>,
}

impl Code {
    pub fn new(at: u32) -> Self {
        Self {
            at,
            halves: Vec::new(),
        }
    }

    /// The address of the next instruction.
    pub fn here(&self) -> u32 {
        self.at + 2 * self.halves.len() as u32
    }

    pub fn a32(&mut self, word: u32) {
        self.halves.push(word as u16);
        self.halves.push((word >> 16) as u16);
    }

    pub fn t16(&mut self, half: u32) {
        self.halves.push(half as u16);
    }

    pub fn t32(&mut self, both: u32) {
        self.halves.push((both >> 16) as u16);
        self.halves.push(both as u16);
    }

    /// MOVW and MOVT, in A32.
    pub fn set(&mut self, register: u32, value: u32) {
        for (opcode, half) in [(0xe300_0000, value & 0xffff), (0xe340_0000, value >> 16)] {
            self.a32(opcode | (half & 0xf000) << 4 | register << 12 | half & 0xfff);
        }
    }

    /// The same in T32.
    pub fn set_t32(&mut self, register: u32, value: u32) {
        for (opcode, half) in [(0xf240_0000, value & 0xffff), (0xf2c0_0000, value >> 16)] {
            let parts = (half & 0xf000) << 4 | (half & 0x800) << 15 | (half & 0x700) << 4;
            self.t32(opcode | parts | register << 8 | half & 0xff);
        }
    }

    pub fn words(&self) -> Vec<u32> {
        let pairs = self.halves.chunks(2);
        pairs
            .map(|pair| u32::from(pair[0]) | u32::from(pair.get(1).copied().unwrap_or(0)) << 16)
            .collect()
    }
}

/// Where blocks are, and which are T32.
pub struct Blocks {
    t32: Vec<bool>,
}

impl Blocks {
    /// Whether an instruction lies across the begin of this block, which is that of a page.
    fn has_seam(&self, number: u32) -> bool {
        let t32 = |number: u32| self.t32.get(number as usize) == Some(&true);
        number.is_multiple_of(4096 / BLOCK) && t32(number) && t32(number.wrapping_sub(1))
    }

    /// Where a block begins.
    fn begin(&self, number: u32) -> u32 {
        TEXT + number * BLOCK + if self.has_seam(number) { 4 } else { 0 }
    }

    /// The address of one, with bit 0 for T32.
    pub fn any(&self, rng: &mut Rng, may: &May) -> u32 {
        let mut number = rng.below(BLOCKS);
        if rng.once_in(6) {
            // One that may go on in the next page.
            number |= 4096 / BLOCK - 1;
        }
        let mut at = self.begin(number);
        if may.mmu && rng.once_in(4) {
            at = at - RAM + rng.one(&[ALIAS, WHOLE]);
        }
        if may.wild_branches && rng.once_in(16) {
            return (at + rng.below(BLOCK / 2) * 2) | rng.below(2);
        }
        at | u32::from(self.t32[number as usize])
    }

    /// One of this instruction set, in RAM, near `from`.
    pub fn near(&self, rng: &mut Rng, t32: bool) -> Option<u32> {
        let number = rng.below(BLOCKS);
        (self.t32[number as usize] == t32).then_some(self.begin(number))
    }
}

/// Words that are data, and look like what must not run.
pub fn data(rng: &mut Rng) -> u32 {
    let looks = [
        0xf10c_0080,
        0xe10f_0000,
        0xe121_f000,
        0xe1b0_f00e,
        0xb672_b662,
        0xf3ef_8000,
        0xe4b0_1004,
        0xe8fd_8001,
        0xe320_f003,
        0xf8bd_0a00,
        0,
        0xffff_ffff,
        0xe12f_ff1e,
        0x4770_bf30,
    ];
    if rng.once_in(3) {
        rng.next()
    } else {
        rng.one(&looks)
    }
}

/// B in A32.
fn b(from: u32, to: u32) -> u32 {
    0xea00_0000 | (to.wrapping_sub(from).wrapping_sub(8) >> 2) & 0xff_ffff
}

fn vectors(rng: &mut Rng, may: &May) -> Code {
    let mut code = Code::new(RAM);
    for number in 0..8 {
        code.a32(match number {
            // Behind the first half of a T32 instruction of two.
            1 if may.wild_branches && rng.once_in(2) => 0xe1b0_f00e,
            2 if rng.once_in(2) => 0xe1b0_f00e,
            6 | 7 => 0xe25e_f004,
            _ => b(code.here(), RECOVER),
        });
    }
    code
}

fn begin(may: &May) -> Code {
    let mut code = Code::new(ENTRY);
    code.set(0, RAM);
    code.a32(0xee0c_0f10);
    for (mode, number) in [0x11, 0x12, 0x13, 0x17, 0x1b, 0x1f].into_iter().zip(1..) {
        code.a32(0xf102_0000 | mode);
        code.set(13, DATA + 0x200 * number);
        if may.siblings {
            // mrc MPIDR; add sp, sp, lr, lsl #12
            code.a32(0xee10_efb0);
            code.a32(0xe08d_d60e);
        }
        code.set(14, TEXT + BLOCK * number);
    }
    if may.mmu {
        code.set(0, ROOTS[0]);
        code.a32(0xee02_0f10);
        code.set(0, ROOTS[1]);
        code.a32(0xee02_0f30);
        code.a32(0xe3a0_0005);
        code.a32(0xee03_0f10);
        code.a32(0xee11_0f10);
        code.a32(0xe380_0001);
        code.a32(0xee01_0f10);
    }
    code.a32(b(code.here(), RECOVER));
    code
}

fn recover(may: &May) -> Code {
    let mut code = Code::new(RECOVER);
    code.set(8, TABLE);
    let words = [
        0xe598_9000, // ldr r9, [r8]
        0xe289_9001, // add r9, #1
        0xe588_9000, // str r9, [r8]
        0xe209_900f, // and r9, #15
        0xe088_8189, // add r8, r8, r9, lsl #3
        0xf102_0013, // cps #19, which has an SPSR
        0xe598_e008, // ldr lr, [r8, #8]
        0xe598_900c, // ldr r9, [r8, #12]
        0xe16f_f009, // msr spsr_fsxc, r9
    ];
    words.into_iter().for_each(|word| code.a32(word));
    code.set(4, DATA + 0x400);
    code.set(
        5,
        if may.stores_to_code {
            TEXT
        } else {
            DATA + 0x1000
        },
    );
    let other = if may.mmu { ALIAS + 0x8000 } else { DATA };
    code.set(6, other);
    code.set(7, RAM + 0x7100);
    code.a32(0xe1b0_f00e);
    code
}

fn table(rng: &mut Rng, blocks: &Blocks, may: &May) -> Vec<u32> {
    let mut words = vec![0, 0];
    for _ in 0..16 {
        let to = blocks.any(rng, may);
        let mode = if may.modes {
            rng.one(&[0x10, 0x10, 0x13, 0x13, 0x1f, 0x12, 0x11])
        } else {
            0x13
        };
        let thumb = (to & 1) << 5;
        words.push(to & !1);
        words.push(mode | thumb | (rng.next() & 0xf000_00c0));
    }
    words
}

fn block(rng: &mut Rng, number: u32, blocks: &Blocks, may: &May) -> Vec<u32> {
    let mut code = Code::new(blocks.begin(number));
    if blocks.has_seam(number + 1) {
        t32::last_block(&mut code, rng, blocks, may);
        return code.words();
    }
    let length = (BLOCK - code.at % BLOCK) / 4;
    if blocks.t32[number as usize] {
        t32::block(&mut code, rng, blocks, may);
    } else {
        a32::block(&mut code, rng, blocks, may);
    }
    if !code.halves.len().is_multiple_of(2) {
        code.t16(0xb672);
    }
    let mut words = code.words();
    assert!(words.len() <= length as usize, "{}", words.len());
    while words.len() < length as usize {
        words.push(data(rng));
    }
    words
}

/// The bit nG of what only one of the first-level tables has: what is global in one of them a TLB may use with the
/// other one (DDI 0406C, B3.9.1), and no CPU without a TLB does the same.
pub const fn own(number: usize) -> u32 {
    if number < 2 { 1 << 11 } else { 0 }
}

/// A small page of the guest's tables.
pub fn leaf(rng: &mut Rng, at: u32, plain: bool) -> u32 {
    let ap = if plain || !rng.once_in(4) {
        3
    } else {
        rng.one(&[1, 2, 5, 7, 0])
    };
    let never = u32::from(!plain && rng.once_in(6));
    let not_global = rng.below(2) << 11;
    at | 2 | never | not_global | (ap & 3) << 4 | (ap & 4) << 7 | 0x4c
}

fn tables(rng: &mut Rng, parts: &mut Vec<(u32, Vec<u32>)>) {
    for root in ROOTS {
        let mut words = vec![0; 4096];
        words[(RAM >> 20) as usize] = LEAVES[usize::from(root == ROOTS[1])] | 1;
        words[(ALIAS >> 20) as usize] = LEAVES[2] | 1 | 1 << 5;
        words[(WHOLE >> 20) as usize] = RAM | 2 | 3 << 10 | 2 << 5 | 0xc | rng.below(2) << 17;
        parts.push((root, words));
    }
    for (number, table) in LEAVES.into_iter().enumerate() {
        let mut words = vec![0; 256];
        for page in 0..16u32 {
            let at = match page {
                0..8 => page,
                _ if number == 1 => page ^ 1,
                _ => page,
            };
            let fixed = number < 2 && matches!(page, 0 | 7);
            words[page as usize] = leaf(rng, RAM + at * 4096, fixed) | own(number);
        }
        parts.push((table, words));
    }
}

/// Whether a block is the first or the last one of a page.
const fn is_at_end(number: u32) -> bool {
    let place = number % (4096 / BLOCK);
    place == 0 || place == 4096 / BLOCK - 1
}

/// All of the memory.
pub fn image(rng: &mut Rng, may: &May) -> Vec<u32> {
    let blocks = Blocks {
        t32: (0..BLOCKS)
            .map(|number| may.t32 && (rng.once_in(2) || is_at_end(number) && !rng.once_in(4)))
            .collect(),
    };
    let mut parts = vec![
        (RAM, vectors(rng, may).words()),
        (ENTRY, begin(may).words()),
        (RECOVER, recover(may).words()),
        (TABLE, table(rng, &blocks, may)),
    ];
    for number in 0..BLOCKS {
        parts.push((blocks.begin(number), block(rng, number, &blocks, may)));
    }
    tables(rng, &mut parts);
    let parts: Vec<(u32, &[u32])> = parts.iter().map(|(at, words)| (*at, &words[..])).collect();
    memory(&parts)
}
