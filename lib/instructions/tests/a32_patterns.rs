//! Media instructions, multiplications and saturating additions of A32, compared with the manual's
//! diagrams (DDI 0406C A5.2.5 to A5.2.7, A5.2.12, A5.4, and each instruction's own section in
//! A8.8).

mod diagrams;

use diagrams::Word;
use hanok_instructions::{Definition, decode_a32};

/// A diagram without the condition, and three lists of letters. Digits are fixed bits, `I` and `O`
/// are ones and zeros in brackets, a letter is a register's number, and a dot is any bit. A capital
/// letter is a register that is absent if it is the PC. The lists have the registers that are
/// UNPREDICTABLE if they are the PC, those that are read, and those that are written; two results
/// must differ.
type Diagram = (&'static str, &'static str, &'static str, &'static str);

const DIAGRAMS: [Diagram; 45] = [
    // Parallel addition and subtraction, signed and unsigned.
    ("01100.01aaaaddddIIII0..1mmmm", "adm", "am", "d"),
    ("01100.01aaaaddddIIII1001mmmm", "adm", "am", "d"),
    ("01100.01aaaaddddIIII1111mmmm", "adm", "am", "d"),
    ("01100.1.aaaaddddIIII0..1mmmm", "adm", "am", "d"),
    ("01100.1.aaaaddddIIII1001mmmm", "adm", "am", "d"),
    ("01100.1.aaaaddddIIII1111mmmm", "adm", "am", "d"),
    // PKH, SEL, SSAT and USAT, SSAT16 and USAT16.
    ("01101000aaaadddd......01mmmm", "adm", "am", "d"),
    ("01101000aaaaddddIIII1011mmmm", "adm", "am", "d"),
    ("0110101.....dddd......01mmmm", "dm", "m", "d"),
    ("0110111.....dddd......01mmmm", "dm", "m", "d"),
    ("01101010....ddddIIII0011mmmm", "dm", "m", "d"),
    ("01101110....ddddIIII0011mmmm", "dm", "m", "d"),
    // Extension, with an addition or without.
    ("01101000AAAAdddd..OO0111mmmm", "dm", "Am", "d"),
    ("01101010AAAAdddd..OO0111mmmm", "dm", "Am", "d"),
    ("01101011AAAAdddd..OO0111mmmm", "dm", "Am", "d"),
    ("01101100AAAAdddd..OO0111mmmm", "dm", "Am", "d"),
    ("01101110AAAAdddd..OO0111mmmm", "dm", "Am", "d"),
    ("01101111AAAAdddd..OO0111mmmm", "dm", "Am", "d"),
    // REV, REV16, RBIT, REVSH.
    ("01101.11IIIIddddIIII.011mmmm", "dm", "m", "d"),
    // SMLAD, SMLSD and without the addition, SDIV and UDIV, SMLALD and SMLSLD, SMMLA, SMMLS.
    ("01110000ddddAAAAssss0..1mmmm", "dsm", "Asm", "d"),
    ("011100.1ddddIIIIssss0001mmmm", "dsm", "sm", "d"),
    ("01110100hhhhllllssss0..1mmmm", "hlsm", "hlsm", "hl"),
    ("01110101ddddAAAAssss00.1mmmm", "dsm", "Asm", "d"),
    ("01110101ddddaaaassss11.1mmmm", "dasm", "asm", "d"),
    // USAD8 and USADA8, SBFX, UBFX, BFI and BFC.
    ("01111000ddddAAAAssss0001mmmm", "dsm", "Asm", "d"),
    ("0111101.....dddd.....101mmmm", "dm", "m", "d"),
    ("0111111.....dddd.....101mmmm", "dm", "m", "d"),
    ("0111110.....dddd.....001MMMM", "d", "dM", "d"),
    // MUL, MLA, UMAAL, MLS, and those with two results.
    ("0000000.ddddOOOOssss1001mmmm", "dsm", "sm", "d"),
    ("0000001.ddddaaaassss1001mmmm", "dasm", "asm", "d"),
    ("00000100hhhhllllssss1001mmmm", "hlsm", "hlsm", "hl"),
    ("00000110ddddaaaassss1001mmmm", "dasm", "asm", "d"),
    ("0000100.hhhhllllssss1001mmmm", "hlsm", "sm", "hl"),
    ("0000101.hhhhllllssss1001mmmm", "hlsm", "hlsm", "hl"),
    ("0000110.hhhhllllssss1001mmmm", "hlsm", "sm", "hl"),
    ("0000111.hhhhllllssss1001mmmm", "hlsm", "hlsm", "hl"),
    // Halfwords: SMLA, SMLAW, SMULW, SMLAL, SMUL.
    ("00010000ddddaaaassss1..0mmmm", "dasm", "asm", "d"),
    ("00010010ddddaaaassss1.00mmmm", "dasm", "asm", "d"),
    ("00010010ddddOOOOssss1.10mmmm", "dsm", "sm", "d"),
    ("00010100hhhhllllssss1..0mmmm", "hlsm", "hlsm", "hl"),
    ("00010110ddddOOOOssss1..0mmmm", "dsm", "sm", "d"),
    // CLZ, and QADD and its kind.
    ("00010110IIIIddddIIII0001mmmm", "dm", "m", "d"),
    ("00010..0aaaaddddOOOO0101mmmm", "adm", "am", "d"),
    // MOVW and MOVT.
    ("00110000....dddd............", "d", "", "d"),
    ("00110100....dddd............", "d", "d", "d"),
];

/// Encodings beside those above that are no instruction.
const NONE: [&str; 11] = [
    "01100.00aaaadddd.......1mmmm",
    "01100...aaaadddd....1011mmmm",
    "01100...aaaadddd....1101mmmm",
    "01101001aaaadddd.......1mmmm",
    "01101101aaaadddd.......1mmmm",
    "01110.10aaaadddd.......1mmmm",
    "01110111aaaadddd.......1mmmm",
    "01110000aaaadddd....1..1mmmm",
    "00000101aaaadddd....1001mmmm",
    "00000111aaaadddd....1001mmmm",
    "01111001aaaadddd.......1mmmm",
];

#[test]
fn instructions_are_as_their_diagrams_say() {
    let mut random = 0x5eed_d1a6;
    let mut counts = [0; 2];
    for (diagram, not_pc, reads, writes) in DIAGRAMS {
        for _ in 0..1_000 {
            let word = Word::new(diagram, &mut random);
            let found = decode_a32(word.bits);
            let no_pc = not_pc.chars().all(|letter| word.register(letter) != 15);
            let different = !diagram.contains('h') || word.register('h') != word.register('l');
            if !different {
                continue;
            }
            let wanted = if no_pc && word.is_fixed() {
                Definition::Defined
            } else {
                Definition::Unpredictable
            };
            assert_eq!(found.definition, wanted, "{:x} {diagram}", word.bits);
            counts[usize::from(wanted == Definition::Defined)] += 1;
            if wanted == Definition::Defined {
                assert_eq!(
                    found.effects.reads,
                    word.set(reads),
                    "{:x} {diagram}",
                    word.bits
                );
                assert_eq!(
                    found.effects.writes,
                    word.set(writes),
                    "{:x} {diagram}",
                    word.bits
                );
                assert!(found.falls_through(), "{:x} {diagram}", word.bits);
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 5_000), "{counts:?}");
    for diagram in NONE {
        for _ in 0..200 {
            let word = Word::new(diagram, &mut random);
            let found = decode_a32(word.bits).definition;
            assert_eq!(found, Definition::Undefined, "{:x} {diagram}", word.bits);
        }
    }
}
