//! Makes words from the manual's diagrams of instructions.

use hanok_decode::aarch32::{Register, Registers};

/// A word made from a diagram: registers, brackets and free bits are chosen by `random`. Digits are
/// fixed bits, `I` and `O` are ones and zeros in brackets, a letter is a register's number, and a
/// dot is any bit.
pub struct Word<'a> {
    diagram: &'a str,
    pub bits: u32,
}

impl Word<'_> {
    /// Makes a word of A32 (28 bits, below the condition "always") or of T32 (32 bits).
    pub fn new<'a>(diagram: &'a str, random: &mut u64) -> Word<'a> {
        let mut next = |below: u64| {
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            (*random >> 20) % below
        };
        // Brackets have their value most of the time, and only a few registers occur, the PC and
        // the SP among them.
        let wrong = next(3) == 0;
        let letters = "ahdlnsmAMN".chars().map(|letter| {
            let number = match next(6) {
                0 => 15,
                1 => 13,
                _ => next(15),
            };
            (letter, number as u32)
        });
        let numbers: Vec<(char, u32)> = letters.collect();
        let mut bits = if diagram.len() == 28 { 0xe } else { 0 };
        let mut seen = 0;
        for (at, kind) in diagram.char_indices() {
            // A register's four letters stand together, its highest bit first.
            let before = diagram[..at].chars().rev();
            let place = before.take_while(|letter| *letter == kind).count() % 4;
            let bit = match kind {
                '0' | '1' => u32::from(kind == '1'),
                '.' => next(2) as u32,
                'I' | 'O' => {
                    seen += 1;
                    u32::from(kind == 'I') ^ u32::from(wrong && next(4) == 0)
                }
                letter => {
                    let number = numbers.iter().find(|(own, _)| *own == letter);
                    number.map_or(0, |(_, number)| number >> (3 - place) & 1)
                }
            };
            bits = bits << 1 | bit;
        }
        assert!(seen <= 8);
        Word { diagram, bits }
    }

    /// The register number in the place of `letter`.
    pub fn register(&self, letter: char) -> u32 {
        let at = self.diagram.find(letter).expect("it is in the diagram") as u32;
        self.bits >> (self.diagram.len() as u32 - 4 - at) & 0xf
    }

    /// Whether all bits in brackets have their value.
    pub fn is_fixed(&self) -> bool {
        let bit = |at: usize| self.bits >> (self.diagram.len() - 1 - at) & 1;
        let mut all = self.diagram.chars().enumerate();
        all.all(|(at, kind)| match kind {
            'I' => bit(at) == 1,
            'O' => bit(at) == 0,
            _ => true,
        })
    }

    /// The registers of these letters; a capital one that is the PC is absent.
    pub fn set(&self, letters: &str) -> Registers {
        let letters = letters
            .chars()
            .filter(|letter| letter.is_ascii_lowercase() || self.register(*letter) != 15);
        letters.fold(Registers::NONE, |all, letter| {
            all.with(Register::from_bits(self.register(letter) as u8).set())
        })
    }
}
