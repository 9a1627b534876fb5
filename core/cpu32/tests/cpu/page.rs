//! The page that trampolines use.

use crate::board::Board;
use hanok_abi::trampoline::model::{Cpu, FLAGS, Page};
use hanok_abi::trampoline::{Field, MASKED};
use hanok_cpu32::{Domains, Mode, SystemRegister};
use hanok_decode::Psr;
use proptest::prelude::*;

/// The page as the guest's kernel finds it.
fn filled(board: &Board) -> Page {
    let mut page = Page::default();
    for field in Field::all() {
        page.put(field, board.cpu.page_word(&board.registers, field));
    }
    page
}

fn take(board: &mut Board, page: &Page) -> Domains {
    board.cpu.take_page(|field| page.get(field))
}

#[test]
fn the_page_tells_what_the_virtual_cpu_has() {
    let mut board = Board::in_mode(Mode::Irq);
    for (name, field) in [
        ((0, 1, 0, 0), Field::SCTLR),
        ((0, 1, 0, 1), Field::ACTLR),
        ((0, 1, 0, 2), Field::CPACR),
        ((0, 2, 0, 0), Field::TTBR0),
        ((0, 2, 0, 1), Field::TTBR1),
        ((0, 2, 0, 2), Field::TTBCR),
        ((0, 3, 0, 0), Field::DACR),
        ((0, 5, 0, 0), Field::DFSR),
        ((0, 5, 0, 1), Field::IFSR),
        ((0, 6, 0, 0), Field::DFAR),
        ((0, 6, 0, 2), Field::IFAR),
        ((0, 7, 4, 0), Field::PAR),
        ((0, 13, 0, 1), Field::CONTEXTIDR),
        ((0, 13, 0, 2), Field::TPIDRURW),
        ((0, 0, 0, 0), Field::MIDR),
        ((0, 0, 0, 1), Field::CTR),
        ((0, 0, 0, 5), Field::MPIDR),
    ] {
        if !matches!(name, (0, 0, ..)) {
            let _ = board.mcr(name, 0x1234_5677 ^ field.offset() << 8);
        }
        let value = board.mrc(name);
        assert_eq!(Some(filled(&board).get(field)), value, "{field:?}");
    }
    board.set_spsr(0x8000_0010);
    assert_eq!(filled(&board).get(Field::SPSR), 0x8000_0010);
    board.registers.psr.set_big_endian(true);
    // E, A, F and the mode; I is in the mask.
    assert_eq!(filled(&board).get(Field::PSR), 0x352);
    assert_eq!(filled(&board).get(Field::MASK), MASKED);
    let _ = board.a32(0xf108_0080);
    assert_eq!(filled(&board).get(Field::MASK) & MASKED, 0);
    board.go(Mode::System);
    assert_eq!(filled(&board).get(Field::SPSR), 0);
}

#[test]
fn only_what_trampolines_write_counts() {
    for field in Field::all() {
        let mut board = Board::in_mode(Mode::Irq);
        let _ = board.a32(0xf108_0080);
        let before = board.cpu.clone();
        let mut page = filled(&board);
        page.put(field, !page.get(field));
        let domains = take(&mut board, &page);
        let written = [
            Field::DACR,
            Field::TPIDRURW,
            Field::TPIDRURO,
            Field::USER_SP,
            Field::USER_LR,
            Field::SPSR,
            Field::MASK,
        ];
        let counts = written.contains(&field);
        assert_eq!(board.cpu != before, counts, "{field:?}");
        assert_eq!(domains == Domains::Changed, field == Field::DACR);
    }
}

#[test]
fn a_page_that_nobody_wrote_changes_nothing() {
    for mode in Mode::ALL {
        let mut board = Board::in_mode(mode);
        let before = board.cpu.clone();
        let page = filled(&board);
        assert_eq!(take(&mut board, &page), Domains::Same);
        assert_eq!(board.cpu, before, "{mode:?}");
    }
}

#[test]
fn while_a_program_runs_the_page_is_not_looked_at() {
    let mut board = Board::in_mode(Mode::User);
    let before = board.cpu.clone();
    let domains = board.cpu.take_page(|_| u32::MAX);
    assert_eq!(domains, Domains::Same);
    assert_eq!(board.cpu, before);
}

#[test]
fn system_mode_has_no_spsr_to_take() {
    let mut board = Board::in_mode(Mode::System);
    let _ = board.cpu.take_page(|_| u32::MAX);
    for mode in [
        Mode::Irq,
        Mode::Fiq,
        Mode::Supervisor,
        Mode::Abort,
        Mode::Undefined,
    ] {
        board.go(mode);
        assert_eq!(board.spsr(), Some(0));
    }
    assert_eq!(board.system(SystemRegister::Dacr), u32::MAX);
}

/// The instructions that trampolines stand for, with R1: CPSID I, CPSIE I, MRS and MSR of CPSR_c and
/// SPSR, reads and writes of registers.
const WORDS: [u32; 11] = [
    0xf10c_0080,
    0xf108_0080,
    0xe10f_1000,
    0xe121_f001,
    0xe14f_1000,
    0xe16f_f001,
    0xee03_1f10,
    0xee13_1f10,
    0xee0d_1f50,
    0xee1d_1f50,
    0xee11_1f10,
];

/// A word for MSR of CPSR_c that a trampoline does not leave to a trap: mode and F stay.
fn control(board: &Board, value: u32) -> u32 {
    value & 0x80 | board.psr().into_bits() & 0x5f
}

proptest! {
    /// What trampolines do, by their own model, and what the virtual CPU does are the same.
    #[test]
    fn trampolines_and_the_virtual_cpu_agree(
        steps in proptest::collection::vec((0..WORDS.len(), any::<u32>()), 1..40)
    ) {
        let mut board = Board::in_mode(Mode::Supervisor);
        let mut other = board.clone();
        for (word, value) in steps {
            let word = WORDS[word];
            let value = match word {
                0xe121_f001 => control(&board, value),
                // The reserved bits of an SPSR should be zero.
                _ => value & 0xff0f_ffff,
            };
            board.registers.general[1] = value;
            other.registers.general[1] = value;
            let _ = board.a32(word);
            trampoline(&mut other, word);
            prop_assert_eq!(&board.cpu, &other.cpu, "{:#x}", word);
            prop_assert_eq!(board.registers.general, other.registers.general, "{:#x}", word);
            prop_assert_eq!(board.registers.psr, other.registers.psr, "{:#x}", word);
        }
    }
}

fn trampoline(board: &mut Board, word: u32) {
    let mut cpu = Cpu {
        registers: board.registers.general,
        flags: board.registers.psr.into_bits() & FLAGS,
        page: filled(board),
    };
    cpu.emulate(word).expect("a trampoline stands for it");
    board.registers.general = cpu.registers;
    let psr = board.registers.psr.into_bits() & !FLAGS | cpu.flags;
    board.registers.psr = Psr::from_bits(psr);
    let _ = take(board, &cpu.page);
}
