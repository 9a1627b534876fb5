//! LDM and STM with a caret, RFE, SRS, returns by data processing.

use crate::board::{Board, HERE};
use crate::memory::FAULT;
use hanok_cpu32::{Mode, Outcome, Rights, SystemRegister, Vector};
use hanok_decode::aarch32::Register;

const ABORT: Outcome = Outcome::Taken(Vector::DataAbort);
/// Two words before a hole.
const EDGE: u32 = 0x12f8;

/// That nothing has changed but what a data abort changes: it undoes the abort, and compares.
fn unchanged(board: &Board, before: &Board, address: u32, write: bool) {
    let mut wanted = before.clone();
    wanted.cpu.take(
        &mut wanted.registers,
        hanok_cpu32::Exception::DataAbort {
            address,
            fault: FAULT,
            write,
        },
    );
    assert_eq!(board.cpu, wanted.cpu);
    assert_eq!(board.registers, wanted.registers);
}

fn with_base(mode: Mode, base: u32) -> Board {
    let mut board = Board::in_mode(mode);
    board.registers.general[0] = base;
    board
}

/// A32 words with R0 (SRS: SP of the current mode) as base that ascends from it, with three words or
/// two, and whether they store.
const MOVERS: [(u32, bool); 6] = [
    (0xe8d0_6002, false), // LDM R0, {R1, SP, LR}^
    (0xe8c0_6002, true),  // STM R0, {R1, SP, LR}^
    (0xe8f0_8006, false), // LDM R0!, {R1, R2, PC}^
    (0xe8d0_c002, false), // LDM R0, {R1, LR, PC}^
    (0xf8b0_0a00, false), // RFEIA R0!
    (0xf8ed_0512, true),  // SRSIA SP!, #irq
];

/// Where the block begins so that its last word is the first one of a hole.
fn start(word: u32) -> u32 {
    if word >> 28 == 0xf { EDGE + 4 } else { EDGE }
}

fn at_the_edge(word: u32) -> Board {
    let mut board = Board::in_mode(Mode::Irq);
    board.registers.general[0] = start(word);
    board.registers.general[13] = start(word);
    board
}

#[test]
fn an_abort_in_the_middle_changes_nothing() {
    for (word, write) in MOVERS {
        let mut board = at_the_edge(word);
        let before = board.clone();
        assert_eq!(board.a32(word), ABORT, "{word:#x}");
        unchanged(&board, &before, 0x1300, write);
    }
}

#[test]
fn memory_that_has_to_wait_changes_nothing_at_all() {
    for (word, _) in MOVERS {
        let mut board = at_the_edge(word);
        board.memory.later = true;
        let before = board.clone();
        assert_eq!(board.a32(word), Outcome::Again, "{word:#x}");
        assert_eq!(board.cpu, before.cpu);
        assert_eq!(board.registers, before.registers);
        // Done again, it is done.
        board.memory.later = false;
        board.registers.general[0] = 0x2000;
        board.registers.general[13] = 0x2000;
        assert!(matches!(board.a32(word), Outcome::Done | Outcome::Branched));
    }
}

#[test]
fn an_address_that_is_not_aligned_faults_before_any_access() {
    for (word, write) in MOVERS {
        let mut board = Board::in_mode(Mode::Irq);
        board.registers.general[0] = 0x2002;
        board.registers.general[13] = 0x2002;
        assert_eq!(board.a32(word), ABORT, "{word:#x}");
        let wanted = 1 | u32::from(write) << 11;
        assert_eq!(board.system(SystemRegister::Dfsr), wanted);
        assert_eq!(board.system(SystemRegister::Dfar), 0x2002);
        assert!(board.memory.log.is_empty());
    }
}

#[test]
fn a_block_of_user_registers_is_theirs_whatever_the_mode_has() {
    for mode in Mode::ALL.into_iter().filter(|mode| mode.has_spsr()) {
        let mut board = with_base(mode, 0x2000);
        // STM R0, {R7-LR}^.
        assert_eq!(board.a32(0xe8c0_7f80), Outcome::Done);
        for (at, number) in (7u32..15).enumerate() {
            let stored = board.memory.word(0x2000 + 4 * at as u32);
            assert_eq!(stored, 0x1000 | number, "{mode:?}");
        }
        for at in 0..8 {
            board.memory.set_word(0x2000 + 4 * at, 0xa0 + at);
        }
        // LDM R0, {R7-LR}^.
        let before = board.registers.general;
        assert_eq!(board.a32(0xe8d0_7f80), Outcome::Done);
        let own = if mode == Mode::Fiq { 8 } else { 13 };
        assert_eq!(board.registers.general[own..], before[own..], "{mode:?}");
        board.go(Mode::System);
        assert_eq!(
            board.registers.general[7..],
            [0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7]
        );
    }
}

#[test]
fn the_four_directions_reach_the_words_that_the_manual_names() {
    // P and U, and where two words with base 0x2100 are (A8.8, LDM: IA, IB, DA, DB).
    for (bits, first, back) in [
        (0x0080_0000, 0x2100, 0x2108),
        (0x0180_0000, 0x2104, 0x2108),
        (0x0000_0000, 0x20fc, 0x20f8),
        (0x0100_0000, 0x20f8, 0x20f8),
    ] {
        let mut board = Board::in_mode(Mode::Supervisor);
        board.set_spsr(0x6000_0010);
        board.registers.general[13] = 0x2100;
        // SRS SP!, #svc.
        assert_eq!(board.a32(0xf86d_0513 | bits), Outcome::Done);
        assert_eq!(board.memory.word(first), 0x130e);
        assert_eq!(board.memory.word(first + 4), 0x6000_0010);
        assert_eq!(board.r(13), back);
        // RFE R1!.
        board.memory.set_word(first, 0x9001);
        board.memory.set_word(first + 4, 0x6000_0030);
        board.registers.general[1] = 0x2100;
        assert_eq!(board.a32(0xf831_0a00 | bits), Outcome::Branched);
        assert_eq!(board.r(1), back);
        assert_eq!(board.psr().into_bits(), 0x6000_0030);
        assert_eq!(board.registers.pc, 0x9000);
    }
}

#[test]
fn srs_moves_the_stack_of_the_mode_it_names() {
    let mut board = Board::in_mode(Mode::Supervisor);
    board.registers.general[13] = 0x2100;
    board.go(Mode::Irq);
    // SRSDB SP!, #svc.
    assert_eq!(board.a32(0xf96d_0513), Outcome::Done);
    assert_eq!(board.memory.word(0x20f8), 0x120e);
    assert_eq!(board.r(13), 0x120d);
    board.go(Mode::Supervisor);
    assert_eq!(board.r(13), 0x20f8);
}

#[test]
fn a_block_uses_the_mode_s_rights_and_byte_order() {
    let mut board = with_base(Mode::Supervisor, 0x2000);
    board.registers.psr.set_big_endian(true);
    assert_eq!(board.a32(0xe8c0_0002), Outcome::Done);
    assert_eq!(board.memory.word(0x2000).swap_bytes(), 0x1001);
    assert_eq!(board.memory.rights(), Some(Rights::Kernel));
}

#[test]
fn programs_have_none_of_these() {
    for (word, _) in MOVERS {
        let mut board = with_base(Mode::User, 0x2000);
        assert_eq!(board.a32(word), Outcome::Taken(Vector::Undefined));
        assert!(board.memory.log.is_empty());
    }
    // System mode has no SPSR, which only RFE can do without.
    for (word, _) in MOVERS {
        let mut board = with_base(Mode::System, 0x2000);
        let undefined = board.a32(word) == Outcome::Taken(Vector::Undefined);
        assert_eq!(undefined, word != 0xf8b0_0a00, "{word:#x}");
    }
}

#[test]
fn a_return_restores_the_interrupted_guest() {
    // MOVS PC, LR; SUBS PC, LR, #4.
    for (word, back) in [(0xe1b0_f00e, 0), (0xe25e_f004, 4)] {
        let mut board = Board::in_mode(Mode::Irq);
        board.set_spsr(0x2000_0030);
        board.registers.general[14] = 0x9007;
        assert_eq!(board.a32(word), Outcome::Branched);
        assert_eq!(board.psr().into_bits(), 0x2000_0030);
        assert_eq!(board.registers.pc, (0x9007 - back) & !1);
        assert_eq!(board.r(13), 0x100d);
    }
    // SUBS PC, LR, #8 of T32, to A32.
    let mut board = Board::in_mode(Mode::Abort);
    board.set_spsr(0x8000_0010);
    board.registers.general[14] = 0x900b;
    assert_eq!(board.t32(0xf3de_8f08), Outcome::Branched);
    assert_eq!(board.psr().into_bits(), 0x8000_0010);
    assert_eq!(board.registers.pc, 0x9000);
}

#[test]
fn a_return_to_a_mode_that_does_not_exist_stays_in_its_own() {
    let mut board = Board::in_mode(Mode::Irq);
    board.set_spsr(0x2000_001a);
    assert_eq!(board.a32(0xe1b0_f00e), Outcome::Branched);
    assert_eq!(board.psr().into_bits(), 0x2000_0012);
    assert_eq!(board.registers.pc, 0x120e & !3);
}

#[test]
fn the_pc_reads_as_two_instructions_ahead() {
    let mut registers = Board::new().registers;
    assert_eq!(registers.read(Register::PC), HERE + 8);
    registers.psr.set_thumb(true);
    assert_eq!(registers.read(Register::PC), HERE + 4);
}

#[test]
fn the_stored_pc_is_eight_ahead() {
    let mut board = with_base(Mode::Supervisor, 0x2000);
    // STM R0, {PC}^.
    assert_eq!(board.a32(0xe8c0_8000), Outcome::Done);
    assert_eq!(board.memory.word(0x2000), HERE + 8);
}
