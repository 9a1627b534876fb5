//! T32 instructions across two pages, of which one or both, or none, have doubtful words.

use crate::board::{Board, RAM};
use crate::confined::DOUBTFUL;
use crate::guest::Guest;
use crate::lockstep::{Both, End, STOP, Setup, memory};
use crate::programs::b;
use hanok_cpu32::Lines;
use proptest::prelude::*;

const FIRST: u32 = RAM + 0x1000;
const SECOND: u32 = RAM + 0x2000;
const DATA: u32 = RAM + 0x4000;
const IRQ: Lines = Lines {
    irq: true,
    fiq: false,
};

/// Where the instruction is, and what is in front of it: up to four halfwords.
#[derive(Clone, Debug)]
struct Program {
    before: Vec<u16>,
    both: u32,
    /// Whether the two pages have doubtful words that nobody reaches.
    doubtful: [bool; 2],
}

impl Program {
    fn words(&self) -> Vec<u32> {
        // Undefined instructions and aborts end it; IRQs go on.
        let end = 0xe59f_f018; // ldr pc, [pc, #24]
        let vectors = [
            0,
            end,
            0,
            end,
            end,
            0,
            0xe25e_f004,
            0,
            0,
            STOP,
            0,
            STOP,
            STOP,
        ];
        let mut entry = vec![0xf102_001f]; // cps #31: it has a stack of its own
        for (register, value) in [
            (1, 0x8000_0001),
            (2, 3),
            (3, SECOND - 4),
            (4, DATA),
            (5, SECOND),
            (6, 0x1234_5678),
            (13, DATA + 0x100),
            (14, RAM + 0x80),
            (0, FIRST + 0xff1),
        ] {
            for (opcode, half) in [(0xe300_0000, value & 0xffff), (0xe340_0000, value >> 16)] {
                entry.push(opcode | (half & 0xf000) << 4 | register << 12 | half & 0xfff);
            }
        }
        entry.extend([0xf108_0080, 0xe12f_ff10]); // cpsie i; bx r0
        let mut first = vec![if self.doubtful[0] { DOUBTFUL } else { 0x40 }; 1024];
        let mut halves = vec![0xbf00; 7 - self.before.len()];
        halves.extend(&self.before);
        halves.push((self.both >> 16) as u16);
        for (word, pair) in first[0xff0 / 4..].iter_mut().zip(halves.chunks(2)) {
            *word = u32::from(pair[0]) | u32::from(pair[1]) << 16;
        }
        // adds r2, #1; bx pc, then A32.
        let mut second = vec![
            0x3201_0000 | self.both & 0xffff,
            0xbf00_4778,
            b(SECOND + 8, STOP),
        ];
        if self.doubtful[1] {
            second.resize(1024, DOUBTFUL);
        }
        let data: Vec<u32> = (0..64).map(|number| 0x0102_0304 * number).collect();
        memory(&[
            (0, &vectors),
            (RAM, &entry),
            // Where a load of several registers and the like may lead.
            (RAM + 0x80, &[b(RAM + 0x80, STOP)]),
            (FIRST, &first),
            (SECOND, &second),
            (DATA, &data),
            (STOP, &[0xeaff_fffe]),
        ])
    }

    fn both(&self) -> Both<4, 8> {
        Both::new(self.words(), RAM, &Setup::default())
    }

    /// Runs it, with an interrupt after so many instructions; answers how many were executed in the slot.
    fn run(&self, interrupt: Option<u64>) -> u64 {
        let mut both = self.both();
        while both.steps < 60 && both.native.registers.pc != STOP {
            if interrupt == Some(both.steps) {
                both.interrupt(IRQ);
                both.interrupt(Lines::default());
            }
            match both.step() {
                None => {}
                Some(End::Ran | End::Unknown) => break,
                Some(end) => panic!("{end:x?} {self:x?}"),
            }
            if interrupt.is_some_and(|number| number % 2 == 0) {
                // The host's interrupts.
                both.guest.leave();
            }
        }
        both.end(End::Ran);
        both.guest.displaced
    }
}

const DOUBTS: [[bool; 2]; 4] = [[false, false], [true, false], [false, true], [true, true]];

/// Instructions that are executed in the slot, or end there.
const PLAIN: [u32; 28] = [
    0xf241_2034, // movw r0, #0x1234
    0xf6c5_6178, // movt r1, #0x5e78
    0xeb11_0002, // adds r0, r1, r2
    0xf1b2_0001, // subs r0, r2, #1
    0xea41_0002, // orr r0, r1, r2
    0xf8d4_0010, // ldr r0, [r4, #16]
    0xf854_0b04, // ldr r0, [r4], #4
    0xf8c4_1020, // str r1, [r4, #32]
    0xf8c5_1040, // str r1, [r5, #64], in the second page
    0xf843_1c10, // str r1, [r3, #-16], in the first
    // What the instruction itself is in, and what is behind it.
    0xf8d5_0000, // ldr r0, [r5]
    0xf8d3_0000, // ldr r0, [r3]
    0xe9d3_0100, // ldrd r0, r1, [r3]
    0xe893_0003, // ldm r3, {r0, r1}
    0xe884_0007, // stm r4, {r0-r2}
    0xe92d_4003, // push {r0, r1, lr}
    // Relative to the PC.
    0xf8df_0008, // ldr r0, [pc, #8]
    0xf85f_1020, // ldr r1, [pc, #-32]
    0xf81f_0011, // ldrb r0, [pc, #-17]
    0xf9bf_0006, // ldrsh r0, [pc, #6]
    0xf93f_0006, // ldrsh r0, [pc, #-6]
    0xe9df_0102, // ldrd r0, r1, [pc, #8]
    0xe95f_0104, // ldrd r0, r1, [pc, #-16]
    0xf20f_0011, // add r0, pc, #17
    0xf2af_0111, // sub r1, pc, #17
    0xf8d1_0003, // ldr r0, [r1, #3]: an abort
    0xf7f0_a000, // udf
    0xf3af_8000, // nop
];

/// Instructions that the monitor carries out.
const CARRIED_OUT: [u32; 14] = [
    0xf000_b801, // b.w 6 behind
    0xf7ff_bffa, // b.w 8 back
    0xf000_8001, // beq.w
    0xf47f_affa, // bne.w back
    0xf000_f801, // bl
    0xf000_e802, // blx
    0xf3ef_8000, // mrs r0, cpsr
    0xf38f_8a00, // UNPREDICTABLE
    0xf854_0e04, // ldrt r0, [r4, #4]
    0xf3af_8600, // cpsid i, in the wide form
    0xe8d5_f001, // tbb [r5, r1]
    0xe8bd_8001, // pop {r0, pc}
    0xf8d4_f010, // ldr pc, [r4, #16]
    0xee1d_0f90, // mrc tpidrprw
];

#[test]
fn an_instruction_lies_across_two_pages() {
    for both in PLAIN {
        for doubtful in DOUBTS {
            let before = Vec::new();
            let program = Program {
                before,
                both,
                doubtful,
            };
            let displaced = program.run(None);
            assert!(displaced > 0 || doubtful == DOUBTS[0], "{program:x?}");
        }
    }
}

#[test]
fn a_branch_or_a_sensitive_instruction_lies_across_two_pages() {
    for both in CARRIED_OUT {
        for doubtful in DOUBTS {
            let before = Vec::new();
            let program = Program {
                before,
                both,
                doubtful,
            };
            assert_eq!(program.run(None), 0, "{program:x?}");
        }
    }
}

/// In an IT block as the last one, or with one more behind it; skipped or not; and with an interrupt at each place.
#[test]
fn it_stands_in_an_it_block() {
    for both in PLAIN.into_iter().chain(CARRIED_OUT) {
        for before in [
            vec![0x4280, 0xbf08],         // cmp r0, r0; it eq
            vec![0x4280, 0xbf18],         // it ne
            vec![0x4280, 0xbf04],         // itt eq
            vec![0x4280, 0xbf14],         // ite ne
            vec![0x4280, 0xbf0a, 0x2007], // itet eq; moveq r0, #7
            vec![0x4280, 0xbf01, 0x2007, 0x2109],
        ] {
            let program = Program {
                before,
                both,
                doubtful: [true, both % 2 == 0],
            };
            program.run(None);
            for interrupt in 27..31 {
                program.run(Some(interrupt));
            }
        }
    }
}

/// The instruction changes its own second half, and is executed again.
#[test]
fn it_changes_itself() {
    for doubtful in DOUBTS {
        // strh r0, [r5], which becomes strh r1, [r5, #16]; a branch goes back there.
        let program = Program {
            before: vec![0xf241, 0x0010], // movw r0, #0x1010
            both: 0xf8a5_0000,
            doubtful,
        };
        let mut words = program.words();
        let second = crate::board::word_of(SECOND.into()).expect("memory");
        // b 4 back
        words[second] = 0xe7fc_0000;
        let mut both = Both::<4, 8>::new(words, RAM, &Setup::default());
        let end = both.run(60);
        assert!(matches!(end, End::Ran | End::Unknown), "{end:?}");
        assert!(both.steps > 30);
        assert_eq!(both.native.memory.words[second + 4] & 0xffff, 1);
    }
}

/// A guest after it has come to code of which so many halfwords are in the second page, and has run it, and its memory before.
fn from_load(program: &Program, code: &[u32], behind: u32) -> (Guest<4, 8>, Vec<u32>) {
    let mut words = program.words();
    let start = SECOND - 2 * (code.len() as u32 - behind);
    let end = [0x3001, 0xbf00, 0xe7fe];
    for (half, at) in code.iter().chain(&end).zip((start..).step_by(2)) {
        let word = &mut words[crate::board::word_of(at.into()).expect("memory")];
        let shift = at % 4 * 8;
        *word = *word & !(0xffff << shift) | half << shift;
    }
    let mut guest = Guest::new(Board::new(words.clone(), true), 8, 255);
    guest.monitor.boot(RAM, [0; 3]);
    while guest.monitor.registers.pc != FIRST + 0xff0 {
        let _event = guest.step();
    }
    guest.monitor.registers.pc = start;
    for _ in 0..code.len() + 2 {
        let _event = guest.step();
    }
    (guest, words)
}

/// What is not the same in User mode or elsewhere does not go to the slot with a load-exclusive.
#[test]
fn only_what_means_the_same_there_is_between_an_exclusive_pair() {
    for between in [
        0xb672u32,   // cpsid i
        0xa001,      // add r0, pc, #4
        0x4679,      // mov r1, pc
        0x4478,      // add r0, pc
        0x4801,      // ldr r0, [pc, #4]
        0xe000,      // b
        0xb108,      // cbz
        0x4770,      // bx lr
        0xf3ef_8000, // mrs r0, cpsr
        0xf20f_0004, // add r0, pc, #4
        0xf8df_0004, // ldr r0, [pc, #4]
        0xf000_b800, // b
    ] {
        let mut code = vec![0xe854, 0x1f02];
        code.extend(Some(between >> 16).filter(|first| *first != 0));
        code.extend([between & 0xffff, 0xe844, 0x1202]);
        for doubtful in DOUBTS {
            let program = Program {
                before: Vec::new(),
                both: 0,
                doubtful,
            };
            let (guest, words) = from_load(&program, &code, 2);
            let data = crate::board::word_of(DATA.into()).expect("memory") + 2;
            assert_eq!(guest.displaced, 0, "{between:x}");
            assert_eq!(guest.board.original(data), words[data]);
        }
    }
}

/// A load-exclusive in the first page, its store in the second one: no exit is between them.
#[test]
fn an_exclusive_pair_lies_across_two_pages() {
    // ldrex r1, [r4, #8]; adds r1, #3; strex r2, r1, [r4, #8]; with what fills a page up.
    for (code, displaced) in [
        (&[0xe854, 0x1f02, 0x3103, 0xe844, 0x1202][..], 3),
        (&[0xe854, 0x1f02, 0x3103, 0xbf00, 0xe844, 0x1202], 4),
        (
            &[
                0xe854, 0x1f02, 0x4299, 0xbf18, 0x3103, 0xbf00, 0xe844, 0x1202,
            ],
            6,
        ),
    ] {
        for (behind, doubtful) in
            (1..code.len() as u32).flat_map(|behind| DOUBTS.map(|doubtful| (behind, doubtful)))
        {
            let program = Program {
                before: Vec::new(),
                both: 0,
                doubtful,
            };
            let (guest, words) = from_load(&program, code, behind);
            let data = crate::board::word_of(DATA.into()).expect("memory") + 2;
            let what = format!("{code:x?}, {behind}, {doubtful:?}");
            assert_eq!(guest.board.original(data), words[data] + 3, "{what}");
            assert_eq!(guest.monitor.registers.general[2], 0, "{what}");
            // The load alone was tried before its page was there.
            assert_eq!(guest.displaced, displaced + 1, "{what}");
        }
    }
}

proptest! {
    #![proptest_config(crate::random::config())]

    /// Whatever lies across two pages, nothing runs that User mode executes differently, and an interrupt may come at any
    /// place.
    #[test]
    fn anything_lies_across_two_pages(
        first in 0xe800u32..=0xffff,
        second in any::<u16>(),
        before in proptest::collection::vec(prop_oneof![
            Just(0xbf08), Just(0xbf18), Just(0xbf14), Just(0xbf0a), Just(0x4280), Just(0x2007), any::<u16>(),
        ], 0..4),
        doubtful in any::<[bool; 2]>(),
        interrupt in 24u64..34,
    ) {
        let program = Program { before, both: first << 16 | u32::from(second), doubtful };
        let mut both = program.both();
        while both.steps < 60 {
            if both.steps == interrupt {
                both.interrupt(IRQ);
                both.interrupt(Lines::default());
            }
            if both.step().is_some() {
                break;
            }
        }
    }
}
