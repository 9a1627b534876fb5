//! Tests forms of A32 over all values of the fields that decide, against the manual's text (DDI
//! 0406C).

use hanok_decode::aarch32::Register;
use hanok_instructions::{Definition, Flow, Instruction, TableKind, decode_a32};

fn register(number: u32) -> Register {
    Register::from_bits(number as u8)
}

fn is_defined(word: u32) -> bool {
    decode_a32(word).definition == Definition::Defined
}

const SOME: [u32; 6] = [0, 1, 2, 13, 14, 15];

/// LDREX and STREX, and those of less and more (A8.8.75 to A8.8.78, A8.8.212 to A8.8.215): no
/// register is the PC, bits in brackets have their value, and a pair begins with an even register.
#[test]
fn exclusives_are_held_to_their_rules() {
    let (mut defined, mut all) = (0, 0);
    for (size, load) in (0..4u32).flat_map(|size| [(size, 0u32), (size, 1)]) {
        for (n, d) in SOME.iter().flat_map(|n| SOME.map(|d| (*n, d))) {
            for (ones, t) in [0, 1, 7, 14, 15].iter().flat_map(|o| SOME.map(|t| (*o, t))) {
                let word = 0xe180_0090 | size << 21 | load << 20 | n << 16;
                let word = word | d << 12 | ones << 8 | t;
                // A load has Rt where a store has Rd, and its lowest four bits are ones.
                let first = if load == 1 { d } else { t };
                let none_is_pc = n != 15 && d != 15 && (load == 1 || t != 15);
                let brackets = ones == 15 && (load == 0 || t == 15);
                let pair = size != 1 || first % 2 == 0 && first != 14;
                let wanted = none_is_pc && brackets && pair;
                assert_eq!(is_defined(word), wanted, "{word:x}");
                defined += usize::from(wanted);
                all += 1;
            }
        }
    }
    assert!(defined > 200 && defined < all / 4, "{defined} of {all}");
}

/// SWP and SWPB (A8.8.229), and the unallocated encodings beside them.
#[test]
fn swaps_are_held_to_their_rules() {
    for (high, n) in (0..8u32).flat_map(|high| SOME.map(|n| (high, n))) {
        for (zeros, t) in [0, 1, 15].iter().flat_map(|z| SOME.map(|t| (*z, t))) {
            // Rt2 differs from all the others.
            let word = 0xe100_0093 | high << 20 | n << 16 | t << 12 | zeros << 8;
            let swap = high & 0b011 == 0;
            let wanted = swap && zeros == 0 && n != 15 && t != 15;
            assert_eq!(is_defined(word), wanted, "{word:x}");
            if !swap {
                assert_eq!(
                    decode_a32(word).definition,
                    Definition::Undefined,
                    "{word:x}"
                );
            }
        }
    }
    assert!(!is_defined(0xe101_009f), "Rt2 is the PC");
}

/// Data processing that writes the PC: MOV of a register goes to that register's address, PC + Rm
/// << n goes into a table of branches, and everything else goes anywhere.
#[test]
fn data_processing_into_the_pc_goes_where_it_says() {
    let mut tables = 0;
    for operation in (0..16u32).filter(|operation| !(8..12).contains(operation)) {
        let moves = matches!(operation, 0b1101 | 0b1111);
        for (n, m) in [0, 1, 14, 15].iter().flat_map(|n| SOME.map(|m| (*n, m))) {
            let n = if moves { 0 } else { n };
            // A shift by a constant has a kind and an amount; a shift by a register has it above
            // bit 4.
            let constants = (0..4u32).flat_map(|kind| [0, 1, 2, 31].map(|by| by << 7 | kind << 5));
            let registers = (0..4u32).map(|kind| 3 << 8 | kind << 5 | 1 << 4);
            for shift in constants.chain(registers) {
                let word = 0xe000_f000 | operation << 21 | n << 16 | shift | m;
                let found: Instruction = decode_a32(word);
                let by_constant = shift >> 4 & 1 == 0;
                let left = by_constant && shift >> 5 & 3 == 0;
                match found.flow {
                    Flow::Register(to) => {
                        assert!(operation == 0b1101 && shift == 0, "{word:x}");
                        assert_eq!(to, register(m), "{word:x}");
                    }
                    Flow::Table(table) => {
                        assert!(operation == 0b0100 && n == 15 && left, "{word:x}");
                        assert_eq!(table.kind, TableKind::Code);
                        assert_eq!(table.base, Register::PC);
                        assert_eq!(table.index, register(m));
                        assert_eq!(u32::from(table.shift), shift >> 7, "{word:x}");
                        assert_eq!(table.at.map(|at| at.from(0x1000)), Some(0x1008));
                        tables += 1;
                    }
                    Flow::Computed => {
                        let known = operation == 0b1101 && shift == 0
                            || operation == 0b0100 && n == 15 && left;
                        assert!(!known, "{word:x}");
                    }
                    other => panic!("{word:x}: {other:?}"),
                }
                assert!(!found.falls_through(), "{word:x}");
            }
        }
        // With a constant, the result is known only for the PC.
        for n in [0, 14, 15] {
            let n = if moves { 0 } else { n };
            let word = 0xe200_f000 | operation << 21 | n << 16 | 0x10;
            let found = decode_a32(word);
            let wanted = match (operation, n) {
                (0b0100, 15) => Some(0x1018),
                (0b0010, 15) => Some(0x0ff8),
                _ => None,
            };
            assert_eq!(found.target(0x1000), wanted, "{word:x}");
        }
    }
    assert_eq!(tables, 6 * 4);
}
