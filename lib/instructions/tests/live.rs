//! Tests which registers are live, in code of a few instructions.

use hanok_decode::aarch32::{Isa, Register, Registers};
use hanok_instructions::{Calls, CodePosition, Flags, Live, Reach, decode_a32, live};
use proptest::prelude::*;

fn at(words: &[u32], calls: Calls) -> Live {
    let reach = Reach {
        instructions: 32,
        calls,
    };
    live(CodePosition::new(0, Isa::A32), reach, |address| {
        let word = *words.get(address as usize / 4)?;
        Some(if address & 2 == 0 {
            word as u16
        } else {
            (word >> 16) as u16
        })
    })
}

fn t32(halves: &[u16], calls: Calls) -> Live {
    let reach = Reach {
        instructions: 32,
        calls,
    };
    live(CodePosition::new(0, Isa::T32), reach, |address| {
        halves.get(address as usize / 2).copied()
    })
}

fn dead(live: Live) -> Vec<u8> {
    live.dead().iter().map(Register::number).collect()
}

fn all_but(registers: &[u8]) -> Vec<u8> {
    let named = registers.iter().fold(Registers::NONE, |all, number| {
        all.with(Register::from_bits(*number).set())
    });
    Registers::ALL
        .without(named)
        .iter()
        .map(Register::number)
        .collect()
}

#[test]
fn a_straight_line() {
    // mov r0, r1; cmp r0, #0; ldr r2, [r3]; unknown
    let found = at(&[0xe1a0_0001, 0xe350_0000, 0xe593_2000], Calls::Unknown);
    assert_eq!(dead(found), [0, 2]);
    assert_eq!(found.flags, Flags::new().with_q(true).with_ge(true));
}

#[test]
fn what_is_written_on_condition_may_live() {
    // moveq r0, #0; movs r1, #0
    let found = at(&[0x03a0_0000, 0xe3b0_1000], Calls::Unknown);
    assert_eq!(dead(found), [1]);
    // Z is read; N is written by MOVS, C and V are not written.
    assert!(found.flags.z() && !found.flags.n() && found.flags.c() && found.flags.v());
}

#[test]
fn both_ways_of_a_branch_count() {
    // beq 2f; mov r0, #0; mov r1, #0; b 3f; 2: mov r0, #1; mov r2, #0; 3: bx lr
    let code = [
        0x0a00_0002,
        0xe3a0_0000,
        0xe3a0_1000,
        0xea00_0001,
        0xe3a0_0001,
        0xe3a0_2000,
        0xe12f_ff1e,
    ];
    assert_eq!(dead(at(&code, Calls::Unknown)), [0]);
    assert_eq!(dead(at(&code, Calls::Standard)), [0, 12]);
}

#[test]
fn a_loop_ends() {
    // 1: subs r0, r0, #1; bne 1b; mov r3, #0; bx lr
    let code = [0xe250_0001, 0x1aff_fffd, 0xe3a0_3000, 0xe12f_ff1e];
    let found = at(&code, Calls::Standard);
    assert_eq!(dead(found), [3, 12]);
    assert!(!found.flags.z() && !found.flags.v() && !found.flags.q());
}

#[test]
fn a_loop_without_end_reads_nothing_more() {
    // 1: cmp r0, #1; b 1b
    let found = at(&[0xe350_0001, 0xeaff_fffd], Calls::Unknown);
    assert_eq!(dead(found), all_but(&[0, 13, 15]));
}

#[test]
fn calls_keep_the_standard_or_nothing_is_known() {
    // mov r0, #0; bl elsewhere; mov r1, r4; pop {r4, pc}
    let code = [0xe3a0_0000, 0xeb00_1000, 0xe1a0_1004, 0xe8bd_8010];
    assert_eq!(dead(at(&code, Calls::Unknown)), [0, 14]);
    let found = at(&code, Calls::Standard);
    assert_eq!(dead(found), [0, 12, 14]);
    assert_eq!(found.flags, Flags::NONE);
}

#[test]
fn a_call_on_condition_destroys_nothing_for_sure() {
    // blne elsewhere; mov r4, r12; b .
    let code = [0x1b00_1000, 0xe1a0_400c, 0xeaff_fffe];
    let found = at(&code, Calls::Standard);
    assert!(found.registers.contains(Register::from_bits(12)));
    assert!(found.flags.z());
}

#[test]
fn an_it_block_writes_no_flags() {
    // it eq; addeq r0, #1; adds r1, r1, #1 (sets all); bx lr
    let found = t32(&[0xbf08, 0x3001, 0x3101, 0x4770], Calls::Standard);
    assert!(found.flags.z() && !found.flags.n() && !found.flags.c());
    assert_eq!(dead(found), [12]);
}

#[test]
fn compare_and_branch_goes_both_ways() {
    // cbz r0, 2f; movs r1, #0; bx lr; 2: movs r1, #1; movs r2, #0; bx lr
    let code = [0xb108, 0x2100, 0x4770, 0x2101, 0x2200, 0x4770];
    let found = t32(&code, Calls::Standard);
    assert_eq!(dead(found), [1, 12]);
    assert!(found.flags.is_empty());
}

#[test]
fn unknown_code_and_exhausted_reach_leave_all_live() {
    assert_eq!(dead(at(&[], Calls::Standard)), Vec::<u8>::new());
    // udf; svc
    assert_eq!(dead(at(&[0xe7f0_00f0], Calls::Standard)), Vec::<u8>::new());
    assert_eq!(dead(at(&[0xef00_0000], Calls::Standard)), Vec::<u8>::new());
    let nops = [0xe320_f000; 40];
    assert_eq!(dead(at(&nops, Calls::Standard)), Vec::<u8>::new());
}

#[test]
fn more_ways_than_there_is_room_for_are_live() {
    // Conditional branches, each to a place that writes R0, except the last.
    let mut code = vec![0x0a00_0020u32; 30];
    code.resize(80, 0xe3a0_0000);
    let found = at(&code, Calls::Unknown);
    assert!(found.registers.contains(Register::from_bits(5)));
    assert_eq!(dead(found), all_but(&(0..16).collect::<Vec<_>>()));
}

/// What is live at each instruction, by the textbook: equations are solved backwards until nothing
/// changes. Behind the last one everything is live.
fn textbook(words: &[u32]) -> Vec<Live> {
    let none = Live {
        registers: Registers::NONE,
        flags: Flags::NONE,
    };
    let all = Live {
        registers: Registers::ALL,
        flags: Flags::APPLICATION,
    };
    let mut states = vec![none; words.len()];
    loop {
        let before = states.clone();
        for (index, word) in words.iter().enumerate().rev() {
            let found = decode_a32(*word);
            let at = |address: Option<u32>| {
                let index = address.map(|address| address as usize / 4);
                index.map_or(all, |index| states.get(index).copied().unwrap_or(all))
            };
            let address = index as u32 * 4;
            let next = found
                .falls_through()
                .then_some(address + 4)
                .map(|next| at(Some(next)));
            let target = found.target(address).map(|target| at(Some(target)));
            let after = match (next, target) {
                (None, None) => all,
                (one, other) => union(one.unwrap_or(none), other.unwrap_or(none)),
            };
            let kept = Live {
                registers: after.registers.without(found.kills()),
                flags: after.flags.without(found.kills_flags()),
            };
            let reads = found.effects.flags_read.common(Flags::APPLICATION);
            states[index] = union(
                kept,
                Live {
                    registers: found.effects.reads,
                    flags: reads,
                },
            );
        }
        if states == before {
            return states;
        }
    }
}

fn union(one: Live, other: Live) -> Live {
    Live {
        registers: one.registers.with(other.registers),
        flags: one.flags.and(other.flags),
    }
}

/// An instruction of one of a few kinds, some of them branches within `length`.
fn word(length: usize) -> impl Strategy<Value = u32> {
    let condition = prop_oneof![3 => Just(14u32), 1 => 0u32..14];
    let registers = (0u32..13, 0u32..13, 0u32..13);
    (condition, registers, 0u32..8, -4i32..length as i32).prop_map(
        |(condition, (d, n, m), kind, distance)| {
            condition << 28
                | match kind {
                    0 => 0x03a0_0000 | d << 12,                           // mov d, #0
                    1 => 0x01a0_0000 | d << 12 | m,                       // mov d, m
                    2 => 0x0090_0000 | n << 16 | d << 12 | m,             // adds d, n, m
                    3 => 0x00a0_0000 | n << 16 | d << 12 | m,             // adc d, n, m
                    4 => 0x0150_0000 | n << 16 | m,                       // cmp n, m
                    5 => 0x0590_0000 | n << 16 | d << 12,                 // ldr d, [n]
                    6 => 0x0580_0000 | n << 16 | d << 12,                 // str d, [n]
                    _ => 0x0a00_0000 | (distance - 2) as u32 & 0xff_ffff, // b
                }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    /// The result is never less than the textbook's, and equal where there are few branches.
    #[test]
    fn it_is_the_textbook_s(words in proptest::collection::vec(word(10), 1..14)) {
        // A branch to before the beginning is left out.
        let inside = |(index, word): (usize, &u32)| {
            decode_a32(*word).target(index as u32 * 4).is_none_or(|target| target < 0x1000)
        };
        prop_assume!(words.iter().enumerate().all(inside));
        let expected = textbook(&words)[0];
        let reach = Reach { instructions: 2_000, calls: Calls::Unknown };
        let found = live(CodePosition::new(0, Isa::A32), reach, |address| {
            let word = *words.get(address as usize / 4)?;
            Some(if address & 2 == 0 { word as u16 } else { (word >> 16) as u16 })
        });
        let expected = union(expected, Live { registers: fixed(), flags: Flags::NONE });
        prop_assert_eq!(union(found, expected), found);
        let branches = words.iter().filter(|word| *word >> 25 & 7 == 5).count();
        if branches <= 8 {
            prop_assert_eq!(found, expected);
        }
    }
}

fn fixed() -> Registers {
    Register::SP.set().with(Register::PC.set())
}
