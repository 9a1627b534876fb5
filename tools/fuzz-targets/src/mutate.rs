//! Damages inputs by a generator with a fixed seed, for runs without a fuzzer.

/// SplitMix64: small, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence of numbers that depends on `seed` alone.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `limit`; 0 where that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.next_number() as usize % limit.max(1)
    }

    /// `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next_number() as u8).collect()
    }
}

/// Bytes without structure, for targets that take a program of operations.
pub fn noise() -> Vec<Vec<u8>> {
    let mut random = Random::new(1);
    let mut inputs = vec![vec![]];
    inputs.extend((0..16).map(|n| random.bytes(32 << (n % 5))));
    inputs
}

/// Values that are often a limit.
const EDGES: [u32; 8] = [0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x7fff_ffff, u32::MAX];

/// One of `seeds`, damaged in up to eight places; sometimes random bytes instead.
pub fn damaged(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    if random.below(16) == 0 {
        let len = random.below(512);
        return random.bytes(len);
    }
    let mut input = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(8) {
        damage(&mut input, seeds, random);
    }
    input
}

fn damage(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    if input.is_empty() {
        *input = random.bytes(16);
    }
    let at = random.below(input.len());
    match random.below(16) {
        0..=3 => input[at] ^= 1 << random.below(8),
        4..=6 => input[at] = random.next_number() as u8,
        7..=9 => {
            let edge = EDGES[random.below(EDGES.len())];
            let edge = [edge.to_be_bytes(), edge.to_le_bytes()][random.below(2)];
            let at = at & !3;
            input
                .iter_mut()
                .skip(at)
                .zip(edge)
                .for_each(|(to, from)| *to = from);
        }
        10 => input.truncate(at),
        11 => {
            let len = random.below(16);
            let bytes = random.bytes(len);
            input.splice(at..at, bytes);
        }
        12 => {
            let end = (at + random.below(32)).min(input.len());
            input.drain(at..end);
        }
        13 => {
            let end = (at + random.below(64)).min(input.len());
            let again = input[at..end].to_vec();
            input.splice(at..at, again);
        }
        _ => {
            let other = &seeds[random.below(seeds.len())];
            let from = random.below(other.len());
            let piece = other.iter().skip(from).take(random.below(128));
            let piece: Vec<u8> = piece.copied().collect();
            let end = (at + piece.len()).min(input.len());
            input.splice(at..end, piece);
        }
    }
}
