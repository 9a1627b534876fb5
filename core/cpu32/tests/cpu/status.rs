//! CPS, MRS, MSR, SETEND, hints, and what the Virtualization Extensions would have.

use crate::board::{Board, HERE};
use hanok_cpu32::{Conduit, Mode, Outcome, Vector, Wait};

const UNDEFINED: Outcome = Outcome::Taken(Vector::Undefined);

#[test]
fn cps_masks_and_unmasks_what_it_names() {
    let mut board = Board::in_mode(Mode::System);
    // CPSIE I; CPSIE AF; CPSID F.
    for (word, masked) in [(0xf108_0080, 0x140), (0xf108_0140, 0), (0xf10c_0040, 0x40)] {
        assert_eq!(board.a32(word), Outcome::Changed);
        assert_eq!(board.psr().into_bits() & 0x1c0, masked, "{word:#x}");
    }
    assert_eq!(board.registers.pc, HERE + 12);
}

#[test]
fn cps_does_nothing_for_a_program() {
    let mut board = Board::in_mode(Mode::User);
    let before = board.psr();
    // CPSIE AIF, #svc.
    assert_eq!(board.a32(0xf10a_01d3), Outcome::Done);
    assert_eq!(board.psr(), before);
    assert_eq!(board.registers.pc, HERE + 4);
}

#[test]
fn a_mode_that_does_not_exist_is_not_entered() {
    // Monitor, Hyp, and codes of no mode.
    for mode in [0x16, 0x1a, 0x00, 0x14, 0x1e] {
        let mut board = Board::in_mode(Mode::Supervisor);
        let before = board.registers.general;
        let _ = board.a32(0xf102_0000 | mode);
        board.registers.general[0] = 0x40 | mode;
        let _ = board.a32(0xe121_f000);
        assert_eq!(board.psr().into_bits() & 0xff, 0x53, "{mode:#x}");
        assert_eq!(board.registers.general[1..], before[1..]);
    }
}

#[test]
fn every_mode_has_the_registers_of_its_own() {
    let mut board = Board::in_mode(Mode::System);
    for mode in Mode::ALL.into_iter().rev() {
        let mut there = board.clone();
        there.go(mode);
        let own = match mode {
            Mode::User | Mode::System => 0x1000,
            _ => u32::from(mode.into_bits()) << 8,
        };
        let high = if mode == Mode::Fiq { own } else { 0x1000 };
        for number in 0..15 {
            let from = match number {
                13 | 14 => own,
                8..=12 => high,
                _ => 0x1000,
            };
            assert_eq!(
                there.r(number as usize),
                from | number,
                "R{number} {mode:?}"
            );
        }
    }
    board.go(Mode::System);
}

#[test]
fn mrs_of_cpsr_leaves_the_execution_state_out() {
    let mut board = Board::in_mode(Mode::Supervisor);
    // T32, in the last place of an IT block that always executes.
    board.registers.psr = board
        .registers
        .psr
        .with_it_high(0xe8 >> 2)
        .with_q(true)
        .with_ge(0xa)
        .with_big_endian(true);
    // MRS R1, CPSR.
    assert_eq!(board.t32(0xf3ef_8100), Outcome::Done);
    assert_eq!(board.r(1), 0x080a_03d3);
    assert_eq!(board.psr().it(), 0);
}

#[test]
fn an_spsr_exists_only_where_exceptions_go() {
    for mode in [Mode::User, Mode::System] {
        let mut board = Board::in_mode(mode);
        assert_eq!(board.a32(0xe14f_1000), UNDEFINED);
        let mut board = Board::in_mode(mode);
        assert_eq!(board.a32(0xe16f_f001), UNDEFINED);
        assert_eq!(board.r(14), HERE + 4);
    }
}

#[test]
fn msr_writes_only_the_bytes_it_names() {
    for mask in 1..16 {
        let mut board = Board::in_mode(Mode::Irq);
        board.registers.general[0] = u32::MAX;
        assert_eq!(board.a32(0xe160_f000 | mask << 16), Outcome::Done);
        let bytes = [0xff, 0xff00, 0xf_0000, 0xff00_0000];
        let wanted: u32 = bytes
            .iter()
            .enumerate()
            .map(|(bit, byte)| byte * (mask >> bit & 1))
            .sum();
        assert_eq!(board.spsr(), Some(wanted), "{mask:#x}");
    }
}

#[test]
fn a_program_writes_its_flags_alone() {
    let mut board = Board::in_mode(Mode::User);
    board.registers.general[0] = u32::MAX;
    let _ = board.a32(0xe12f_f000);
    assert_eq!(board.psr().into_bits(), 0xf80f_03d0);
}

#[test]
fn setend_is_a_program_s_too() {
    let mut board = Board::in_mode(Mode::User);
    assert_eq!(board.a32(0xf101_0200), Outcome::Done);
    assert!(board.psr().big_endian());
    assert_eq!(board.a32(0xf101_0000), Outcome::Done);
    assert!(!board.psr().big_endian());
}

#[test]
fn an_instruction_whose_condition_fails_is_passed_over() {
    let mut board = Board::in_mode(Mode::User);
    let before = board.clone();
    // SMCNE would be undefined.
    board.registers.psr.set_z(true);
    assert_eq!(board.a32(0x1160_0070), Outcome::Done);
    assert_eq!(board.registers.pc, HERE + 4);
    assert_eq!(board.cpu, before.cpu);
    // In T32 the IT block goes on: WFI.W in a block of two with EQ, NE.
    board.registers.psr = board
        .registers
        .psr
        .with_z(false)
        .with_it_high(0x0c >> 2)
        .with_it_low(0);
    assert_eq!(board.t32(0xf3af_8003), Outcome::Done);
    assert_eq!(board.psr().it(), 0x18);
    assert_eq!(board.t32(0xf3af_8003), Outcome::Wait(Wait::Interrupt));
    assert_eq!(board.psr().it(), 0);
}

#[test]
fn hints_are_told() {
    for mode in [Mode::User, Mode::Supervisor] {
        for (number, outcome) in [
            (1, Outcome::Yield),
            (2, Outcome::Wait(Wait::Event)),
            (3, Outcome::Wait(Wait::Interrupt)),
            (4, Outcome::Event),
        ] {
            let mut board = Board::in_mode(mode);
            assert_eq!(board.a32(0xe320_f000 | number), outcome);
            assert_eq!(board.registers.pc, HERE + 4);
        }
    }
}

#[test]
fn a_kernel_calls_the_firmware_and_a_program_does_not() {
    for (word, conduit) in [
        (0xe140_1072, Conduit::Hvc(0x102)),
        (0xe160_0073, Conduit::Smc(3)),
    ] {
        let mut board = Board::in_mode(Mode::Supervisor);
        assert_eq!(board.a32(word), Outcome::Firmware(conduit));
        assert_eq!(board.registers.pc, HERE + 4);
        let mut board = Board::in_mode(Mode::User);
        assert_eq!(board.a32(word), UNDEFINED);
        assert_eq!(board.registers.pc, 4);
    }
}

#[test]
fn what_the_virtualization_extensions_add_is_undefined() {
    // MRS R0, R8_usr; MSR SP_irq, R0; ERET.
    for word in [0xe100_0200, 0xe121_f300, 0xe160_006e] {
        let mut board = Board::in_mode(Mode::Supervisor);
        let psr = board.psr();
        assert_eq!(board.a32(word), UNDEFINED, "{word:#x}");
        assert_eq!(board.spsr(), Some(psr.into_bits()));
    }
}

#[test]
fn an_instruction_that_the_manual_forbids_is_unknown() {
    // MSR CPSR without a field; MRS of R15.
    for word in [0xe120_f000, 0xe10f_f000] {
        let mut board = Board::in_mode(Mode::Supervisor);
        assert_eq!(board.a32(word), Outcome::Unknown);
        assert_eq!(board.cpu.mode(), Mode::Undefined);
        let mut board = Board::in_mode(Mode::User);
        assert_eq!(board.a32(word), UNDEFINED);
    }
}

#[test]
fn a_store_that_is_announced_is_none() {
    let mut board = Board::in_mode(Mode::User);
    // PLDW [R0].
    assert_eq!(board.a32(0xf590_f000), Outcome::Done);
    assert!(board.memory.log.is_empty());
}
