//! Whatever a guest executes: an answer, and a virtual CPU that can go on.

use crate::board::{Board, identity};
use crate::memory::Memory;
use hanok_cpu32::{Exception, Mode, Outcome, Registers, Vector, VirtualCpu};
use hanok_decode::Psr;
use hanok_decode::aarch32::{Encoding, ItState, Sensitive, sensitive};
use proptest::prelude::*;

/// Words that are often sensitive: any word, or one with the upper bits of a group that is.
fn encoding() -> impl Strategy<Value = Encoding> {
    let groups = vec![
        0x0100_0000_u32, // MRS, MSR
        0x0210_f000,     // data processing to the PC
        0x0420_0000,     // LDRT, STRT
        0x0840_0000,     // LDM, STM with a caret
        0x0c40_0000,     // MRRC, MCRR
        0x0e00_0010,     // MRC, MCR
    ];
    let grouped = (proptest::sample::select(groups), any::<u32>(), 0u32..15)
        .prop_map(|(group, word, condition)| group | word & 0x01bf_ffff | condition << 28);
    prop_oneof![
        2 => grouped.prop_map(Encoding::A32),
        1 => any::<u32>().prop_map(|word| Encoding::A32(word | 0xf000_0000)),
        1 => any::<u16>().prop_map(|half| Encoding::t32(half, half)),
        1 => (0xe800u16.., any::<u16>()).prop_map(|(first, second)| Encoding::t32(first, second)),
    ]
}

fn board(mode: Mode, general: [u32; 15], psr: u32) -> Board {
    let mut board = Board {
        cpu: VirtualCpu::new(identity()),
        registers: Registers::default(),
        memory: Memory::default(),
    };
    board.go(mode);
    board.registers.general = general;
    board.registers.pc = 0x8000;
    board.registers.psr = Psr::from_bits(psr);
    board
}

fn run(board: &mut Board, instruction: &Sensitive) -> Outcome {
    board
        .cpu
        .execute(&mut board.registers, instruction, &mut board.memory)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn every_instruction_has_an_outcome(
        encoding in encoding(),
        mode in proptest::sample::select(Mode::ALL.to_vec()),
        general in any::<[u32; 15]>(),
        psr in any::<u32>(),
        later in any::<bool>(),
    ) {
        let psr = Psr::from_bits(psr).with_thumb(!matches!(encoding, Encoding::A32(_)));
        let mut board = board(mode, general, psr.into_bits());
        board.memory.later = later;
        let Some(instruction) = sensitive(encoding, ItState::from_bits(psr.it())) else {
            return Ok(());
        };
        let before = board.clone();
        let outcome = run(&mut board, &instruction);
        let mut wanted = before.clone();
        match outcome {
            Outcome::Again => prop_assert!(later),
            Outcome::Unknown | Outcome::Taken(Vector::Undefined) => {
                wanted.cpu.take(&mut wanted.registers, Exception::Undefined);
            }
            Outcome::Branched => prop_assert!(mode.is_privileged()),
            Outcome::Taken(_) => prop_assert_eq!(board.cpu.mode(), Mode::Abort),
            _ => {
                let behind = 0x8000 + encoding.bytes();
                prop_assert_eq!(board.registers.pc, behind);
                if !mode.is_privileged() {
                    prop_assert_eq!(board.cpu.mode(), mode);
                    prop_assert_eq!(board.cpu.masks(), before.cpu.masks());
                }
            }
        }
        if matches!(outcome, Outcome::Again | Outcome::Unknown | Outcome::Taken(Vector::Undefined)) {
            prop_assert_eq!(board.cpu, wanted.cpu);
            prop_assert_eq!(board.registers, wanted.registers);
        }
    }
}
