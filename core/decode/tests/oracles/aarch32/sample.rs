//! Which encodings are compared in every run.

use hanok_decode::aarch32::Encoding;

/// Numbers that are the same on every run (Knuth's MMIX generator).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u32 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }
}

/// Every combination of the bits of A32 that select an instruction (27 to 20 and 7 to 4, A5.1),
/// conditional and not, each with `choices` of the rest: ones, zeros, and by chance.
pub fn a32(choices: usize, seed: u64) -> Vec<Encoding> {
    const SELECTING: u32 = 0x0ff0_00f0;
    let mut random = Random(seed);
    let mut all = Vec::new();
    for high in 0..1u32 << 8 {
        for low in 0..1u32 << 4 {
            let selected = high << 20 | low << 4;
            for choice in 0..choices {
                let rest = chosen(choice, &mut random) & !SELECTING & 0x0fff_ffff;
                let condition = random.next() % 15;
                all.push(Encoding::A32(condition << 28 | selected | rest));
                all.push(Encoding::A32(0xf << 28 | selected | rest));
            }
        }
    }
    all
}

fn chosen(choice: usize, random: &mut Random) -> u32 {
    match choice {
        0 => !0,
        1 => 0,
        // As fields that should be are: many of the last are, in half of the bits.
        2 => random.next() | 0xf000,
        3 => random.next() & !0x0f00,
        4 => random.next() & !0xf000 | 0x0f00,
        _ => random.next(),
    }
}

/// Every T32 instruction of one halfword but IT, which changes what comes after it.
pub fn narrow() -> Vec<Encoding> {
    let all = (0..0xe800u16).filter(|half| half >> 8 != 0xbf || half & 0xf == 0);
    all.map(Encoding::Narrow).collect()
}

/// Every first halfword of T32's longer instructions, each with `choices` of the second.
pub fn wide(choices: usize, seed: u64) -> Vec<Encoding> {
    let mut random = Random(seed);
    let mut all = Vec::new();
    for first in 0xe800u32..0x1_0000 {
        for choice in 0..choices {
            all.push(Encoding::Wide(
                first << 16 | chosen(choice, &mut random) & 0xffff,
            ));
        }
    }
    all
}
