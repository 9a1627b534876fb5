//! Data processing of two halfwords, compared with the manual's diagrams (DDI 0406C A6.3.1, A6.3.3,
//! A6.3.12 to A6.3.17, and each instruction's own section in A8.8).

mod diagrams;

use diagrams::Word;
use hanok_decode::aarch32::ItState;
use hanok_instructions::{Definition, Instruction, decode_t32};

/// A diagram of both halfwords, and three lists of letters. A capital letter in the diagram is a
/// register that is absent if it is the PC. The lists have the registers that are UNPREDICTABLE if
/// they are the PC or the SP (a capital one: the SP), those that are read, and those that are
/// written. Two results must differ, and a register that occurs twice must be the same.
type Diagram = (&'static str, &'static str, &'static str, &'static str);

const DIAGRAMS: [Diagram; 46] = [
    // LSL, LSR, ASR and ROR by a register.
    ("11111010000.nnnn1111dddd0000mmmm", "dnm", "nm", "d"),
    ("11111010001.nnnn1111dddd0000mmmm", "dnm", "nm", "d"),
    ("11111010010.nnnn1111dddd0000mmmm", "dnm", "nm", "d"),
    ("11111010011.nnnn1111dddd0000mmmm", "dnm", "nm", "d"),
    // SXTAH, UXTAH, SXTAB16, UXTAB16, SXTAB, UXTAB, and without an addition.
    ("111110100000NNNN1111dddd1O..mmmm", "dNm", "Nm", "d"),
    ("111110100001NNNN1111dddd1O..mmmm", "dNm", "Nm", "d"),
    ("111110100010NNNN1111dddd1O..mmmm", "dNm", "Nm", "d"),
    ("111110100011NNNN1111dddd1O..mmmm", "dNm", "Nm", "d"),
    ("111110100100NNNN1111dddd1O..mmmm", "dNm", "Nm", "d"),
    ("111110100101NNNN1111dddd1O..mmmm", "dNm", "Nm", "d"),
    // Parallel addition and subtraction, signed and unsigned.
    ("111110101000nnnn1111dddd0.00mmmm", "dnm", "nm", "d"),
    ("111110101000nnnn1111dddd0.01mmmm", "dnm", "nm", "d"),
    ("111110101000nnnn1111dddd0.10mmmm", "dnm", "nm", "d"),
    ("111110101001nnnn1111dddd0.00mmmm", "dnm", "nm", "d"),
    ("111110101010nnnn1111dddd0.01mmmm", "dnm", "nm", "d"),
    ("111110101110nnnn1111dddd0.10mmmm", "dnm", "nm", "d"),
    ("111110101101nnnn1111dddd0.00mmmm", "dnm", "nm", "d"),
    ("111110101100nnnn1111dddd0.01mmmm", "dnm", "nm", "d"),
    // QADD, QDADD, QSUB, QDSUB; REV, REV16, RBIT, REVSH; SEL; CLZ.
    ("111110101000nnnn1111dddd10..mmmm", "dnm", "nm", "d"),
    ("111110101001mmmm1111dddd10..mmmm", "dm", "m", "d"),
    ("111110101010nnnn1111dddd1000mmmm", "dnm", "nm", "d"),
    ("111110101011mmmm1111dddd1000mmmm", "dm", "m", "d"),
    // MUL and MLA, MLS, SMLAxy, SMLAD, SMLAWy, SMLSD, SMMLA, SMMLS, USADA8, and without an addition.
    ("111110110000nnnnAAAAdddd0000mmmm", "dnmA", "nmA", "d"),
    ("111110110000nnnnaaaadddd0001mmmm", "dnma", "nma", "d"),
    ("111110110001nnnnAAAAdddd00..mmmm", "dnmA", "nmA", "d"),
    ("111110110010nnnnAAAAdddd000.mmmm", "dnmA", "nmA", "d"),
    ("111110110011nnnnAAAAdddd000.mmmm", "dnmA", "nmA", "d"),
    ("111110110100nnnnAAAAdddd000.mmmm", "dnmA", "nmA", "d"),
    ("111110110101nnnnAAAAdddd000.mmmm", "dnmA", "nmA", "d"),
    ("111110110110nnnnaaaadddd000.mmmm", "dnma", "nma", "d"),
    ("111110110111nnnnAAAAdddd0000mmmm", "dnmA", "nmA", "d"),
    // SMULL, UMULL, SDIV, UDIV.
    ("111110111000nnnnllllhhhh0000mmmm", "lhnm", "nm", "lh"),
    ("111110111010nnnnllllhhhh0000mmmm", "lhnm", "nm", "lh"),
    ("111110111001nnnnIIIIdddd1111mmmm", "dnm", "nm", "d"),
    ("111110111011nnnnIIIIdddd1111mmmm", "dnm", "nm", "d"),
    // SMLAL, SMLALxy, SMLALD, SMLSLD, UMLAL, UMAAL.
    ("111110111100nnnnllllhhhh0000mmmm", "lhnm", "lhnm", "lh"),
    ("111110111100nnnnllllhhhh10..mmmm", "lhnm", "lhnm", "lh"),
    ("111110111100nnnnllllhhhh110.mmmm", "lhnm", "lhnm", "lh"),
    ("111110111101nnnnllllhhhh110.mmmm", "lhnm", "lhnm", "lh"),
    ("111110111110nnnnllllhhhh0000mmmm", "lhnm", "lhnm", "lh"),
    ("111110111110nnnnllllhhhh0110mmmm", "lhnm", "lhnm", "lh"),
    // MOVW, MOVT, UBFX and SBFX of the lowest bits, PKHBT and PKHTB.
    ("11110.100100....0...dddd........", "d", "", "d"),
    ("11110.101100....0...dddd........", "d", "d", "d"),
    ("11110O110100nnnn0000dddd00O.....", "dn", "n", "d"),
    ("11110O111100nnnn0000dddd00O.....", "dn", "n", "d"),
    ("111010101100nnnnO...dddd...0mmmm", "dnm", "nm", "d"),
];

/// Encodings beside those above that are no instruction.
const NONE: [&str; 14] = [
    "111110100110nnnn1111dddd1000mmmm",
    "111110100111nnnn1111dddd1000mmmm",
    "111110101011nnnn1111dddd0.00mmmm",
    "111110101111nnnn1111dddd0.01mmmm",
    "111110101000nnnn1111dddd0.11mmmm",
    "111110101010nnnn1111dddd1001mmmm",
    "111110101011nnnn1111dddd1010mmmm",
    "111110110000nnnnaaaadddd0010mmmm",
    "111110110111nnnnaaaadddd0001mmmm",
    "111110111000nnnnllllhhhh0001mmmm",
    "111110111001nnnn1111dddd0000mmmm",
    "111110111101nnnnllllhhhh0000mmmm",
    "111110111111nnnnllllhhhh0000mmmm",
    "111010101101nnnn0...dddd...0mmmm",
];

/// Whether the register is one that T32 instructions do not take.
fn is_bad(word: &Word, letter: char) -> bool {
    let number = word.register(letter);
    number == 13 || number == 15 && letter.is_ascii_lowercase()
}

fn decode(word: &Word) -> Instruction {
    decode_t32((word.bits >> 16) as u16, word.bits as u16, ItState::NONE)
}

#[test]
fn instructions_are_as_their_diagrams_say() {
    let mut random = 0x5eed_0f32;
    let mut counts = [0; 2];
    for (diagram, not_bad, reads, writes) in DIAGRAMS {
        for _ in 0..1_000 {
            let word = Word::new(diagram, &mut random);
            let found = decode(&word);
            let different = !diagram.contains('h') || word.register('h') != word.register('l');
            let good = !not_bad.chars().any(|letter| is_bad(&word, letter));
            let wanted = if good && different && word.is_fixed() {
                Definition::Defined
            } else {
                Definition::Unpredictable
            };
            let at = format!("{:x} {diagram}", word.bits);
            assert_eq!(found.definition, wanted, "{at}");
            counts[usize::from(wanted == Definition::Defined)] += 1;
            if wanted == Definition::Defined {
                assert_eq!(found.effects.reads, word.set(reads), "{at}");
                assert_eq!(found.effects.writes, word.set(writes), "{at}");
                assert!(found.falls_through(), "{at}");
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 5_000), "{counts:?}");
    for diagram in NONE {
        for _ in 0..200 {
            let word = Word::new(diagram, &mut random);
            let found = decode(&word);
            assert_eq!(
                found.definition,
                Definition::Undefined,
                "{:x} {diagram}",
                word.bits
            );
        }
    }
}
