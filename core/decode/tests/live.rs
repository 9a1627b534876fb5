//! What is live, in code of a few lines.

use hanok_decode::aarch32::{Calls, Flags, Isa, Live, Place, Reach, Register, Registers, live};

fn at(words: &[u32], calls: Calls) -> Live {
    let reach = Reach {
        instructions: 32,
        calls,
    };
    live(Place::new(0, Isa::A32), reach, |address| {
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
    live(Place::new(0, Isa::T32), reach, |address| {
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
    // Z is read; N is written by MOVS, C and V by nobody.
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
    // Branches on condition, each to a place that writes R0, but the last.
    let mut code = vec![0x0a00_0020u32; 30];
    code.resize(80, 0xe3a0_0000);
    let found = at(&code, Calls::Unknown);
    assert!(found.registers.contains(Register::from_bits(5)));
    assert_eq!(dead(found), all_but(&(0..16).collect::<Vec<_>>()));
}
