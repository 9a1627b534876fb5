//! LDRT, STRT and their kin.

use crate::board::Board;
use hanok_cpu32::{Mode, Outcome, Rights, SystemRegister, Vector, sctlr};

fn board() -> Board {
    let mut board = Board::in_mode(Mode::Supervisor);
    board.registers.general[0] = 0x2000;
    board.memory.set_word(0x2000, 0x8182_8384);
    board
}

#[test]
fn a_load_extends_what_it_loads_with_a_program_s_rights() {
    // LDRT, LDRBT, LDRHT, LDRSBT, LDRSHT R1, [R0], #4.
    for (word, value) in [
        (0xe4b0_1004, 0x8182_8384),
        (0xe4f0_1004, 0x84),
        (0xe0f0_10b4, 0x8384),
        (0xe0f0_10d4, 0xffff_ff84),
        (0xe0f0_10f4, 0xffff_8384),
    ] {
        let mut board = board();
        assert_eq!(board.a32(word), Outcome::Done);
        assert_eq!((board.r(1), board.r(0)), (value, 0x2004), "{word:#x}");
        assert_eq!(board.memory.rights(), Some(Rights::User));
    }
}

#[test]
fn a_store_writes_as_many_bytes_as_it_has() {
    // STRT, STRBT, STRHT R1, [R0], #-4.
    for (word, value) in [
        (0xe420_1004, 0x1122_3344),
        (0xe460_1004, 0x8182_8344),
        (0xe060_10b4, 0x8182_3344),
    ] {
        let mut board = board();
        board.registers.general[1] = 0x1122_3344;
        assert_eq!(board.a32(word), Outcome::Done);
        assert_eq!(board.memory.word(0x2000), value, "{word:#x}");
        assert_eq!(board.r(0), 0x1ffc);
        assert_eq!(board.memory.rights(), Some(Rights::User));
    }
}

#[test]
fn the_index_may_be_a_shifted_register() {
    let mut board = board();
    board.registers.general[2] = 3;
    // LDRT R1, [R0], R2, LSL #4.
    assert_eq!(board.a32(0xe6b0_1202), Outcome::Done);
    assert_eq!((board.r(1), board.r(0)), (0x8182_8384, 0x2030));
}

#[test]
fn in_t32_the_offset_is_of_the_address() {
    let mut board = board();
    board.registers.general[0] = 0x1ff0;
    // LDRT R1, [R0, #16].
    assert_eq!(board.t32(0xf850_1e10), Outcome::Done);
    assert_eq!((board.r(1), board.r(0)), (0x8182_8384, 0x1ff0));
}

#[test]
fn the_byte_order_is_the_guest_s() {
    let mut board = board();
    board.registers.psr.set_big_endian(true);
    assert_eq!(board.a32(0xe4b0_1000), Outcome::Done);
    assert_eq!(board.r(1), 0x8483_8281);
}

#[test]
fn an_abort_moves_no_base() {
    for (word, write) in [(0xe4b0_1004, 0), (0xe420_1004, 1 << 11)] {
        let mut board = board();
        board.registers.general[0] = 0x1300;
        let before = board.registers.general;
        assert_eq!(board.a32(word), Outcome::Taken(Vector::DataAbort));
        assert_eq!(board.registers.general[..13], before[..13]);
        assert_eq!(board.system(SystemRegister::Dfar), 0x1300);
        assert_eq!(board.system(SystemRegister::Dfsr), 0x5f | write);
    }
}

#[test]
fn alignment_is_asked_for_by_sctlr() {
    let mut board = board();
    board.registers.general[0] = 0x2001;
    assert_eq!(board.a32(0xe4b0_1000), Outcome::Done);
    let _ = board.mcr((0, 1, 0, 0), sctlr::A);
    board.registers.general[0] = 0x2001;
    assert_eq!(board.a32(0xe4b0_1000), Outcome::Taken(Vector::DataAbort));
    assert_eq!(board.system(SystemRegister::Dfsr), 1);
}
