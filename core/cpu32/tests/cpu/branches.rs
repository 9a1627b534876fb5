//! Indirect branches, beside the model, and cases by hand.

use crate::board::Board;
use crate::memory::{FAULT, HOLE};
use crate::model::Model;
use hanok_cpu32::{Mode, Outcome, Rights, SystemRegister, Vector};
use hanok_decode::Psr;
use hanok_decode::aarch32::{Encoding, IndirectBranch, ItState, indirect};
use proptest::prelude::*;

/// Words of each form, and the bits of them that are free: A32 without conditions.
const A32: [(u32, u32); 9] = [
    (0x012f_ff10, 0x2f),        // BX, and with bit 5 BLX
    (0x012f_ff20, 0x1f),        // BXJ, and with bit 4 BLX
    (0x0000_f000, 0x01ef_0fef), // data processing
    (0x0200_f000, 0x01ef_0fff), // with a constant
    (0x01a0_f000, 0xfef),       // MOV
    (0x0410_f000, 0x01af_0fff), // LDR
    (0x0610_f000, 0x01af_0fef), // LDR by register
    (0x0810_8000, 0x01af_7fff), // LDM
    (0x0450_f000, 0x01af_0fff), // LDRB, which is none
];
const NARROW: [(u32, u32); 5] = [
    (0x4487, 0x78), // ADD
    (0x4687, 0x78), // MOV
    (0x4700, 0xf8), // BX, BLX
    (0xbd00, 0xff), // POP
    (0xbd00, 0x0f),
];
const WIDE: [(u32, u32); 7] = [
    (0xf3c0_8f00, 0x000f_0000), // BXJ
    (0xe890_8000, 0x002f_5fff), // LDM
    (0xe910_8000, 0x002f_5fff), // LDMDB
    (0xe8d0_f000, 0x000f_001f), // TBB, TBH
    (0xf8d0_f000, 0x000f_0fff), // LDR
    (0xf850_f000, 0x000f_0fff), // LDR with eight bits or a register
    (0xf85f_f000, 0x0080_0fff), // LDR of a literal
];

/// A form with its free bits, and now and then a bit that should not be.
fn word(forms: &'static [(u32, u32)], bits: u32) -> impl Strategy<Value = u32> {
    let form = proptest::sample::select(forms);
    (form, any::<u32>(), proptest::option::weighted(0.1, 0..bits))
        .prop_map(|((word, free), any, wrong)| word | any & free ^ wrong.map_or(0, |bit| 1 << bit))
}

fn encoding() -> impl Strategy<Value = Encoding> {
    let condition = prop_oneof![3 => Just(14u32), 1 => 0u32..15];
    prop_oneof![
        9 => (word(&A32, 28), condition)
            .prop_map(|(word, condition)| Encoding::A32(word & 0x0fff_ffff | condition << 28)),
        5 => word(&NARROW, 16).prop_map(|half| Encoding::Narrow(half as u16)),
        7 => word(&WIDE, 32).prop_map(Encoding::Wide),
    ]
}

/// Mostly aligned addresses that are no hole.
fn value() -> impl Strategy<Value = u32> {
    prop_oneof![
        6 => (0u32..0x40).prop_map(|word| word * 4),
        1 => 0u32..HOLE.end,
        1 => any::<u32>(),
    ]
}

/// What an instruction begins with.
#[derive(Clone, Debug)]
struct State {
    registers: [u32; 15],
    /// Flags, GE and E.
    psr: u32,
    it: u8,
    pc: u32,
    user: bool,
    /// SCTLR.A.
    strict: bool,
}

fn state() -> impl Strategy<Value = State> {
    let it = prop_oneof![3 => Just(0u8), 2 => (0u8..14).prop_map(|c| c << 4 | 8), 1 => any::<u8>()];
    let registers = proptest::collection::vec(value(), 15);
    let pc = (0u32..0x80).prop_map(|half| half * 2);
    (
        registers,
        any::<u32>(),
        it,
        pc,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(registers, psr, it, pc, user, strict)| State {
            registers: registers.try_into().expect("fifteen"),
            psr: psr & 0xf80f_0200,
            it: ItState::from_bits(it).into_bits(),
            pc,
            user,
            strict,
        })
}

fn board(state: &State, thumb: bool) -> (Board, Model) {
    let (mut board, mut model) = (Board::new(), Model::new());
    let strict = u32::from(state.strict) << 1;
    let _ = board.mcr((0, 1, 0, 0), strict);
    model.sctlr = strict;
    if state.user {
        board.go(Mode::User);
        model.cpsr = model.cpsr & !0x1f | 0x10;
    }
    for (n, value) in (0..).zip(state.registers) {
        model.set_r(n, value);
    }
    board.registers.general = state.registers;
    let it = if thumb { u32::from(state.it) } else { 0 };
    let bits = state.psr | u32::from(thumb) << 5 | (it & 3) << 25 | (it >> 2) << 10;
    board.registers.psr = Psr::from_bits(bits | 0x10);
    model.cpsr = model.cpsr & 0x1df | bits;
    model.pc = if thumb { state.pc } else { state.pc & !3 };
    board.registers.pc = model.pc;
    (board, model)
}

fn branch(board: &mut Board, branch: &IndirectBranch) -> Outcome {
    board
        .cpu
        .branch(&mut board.registers, branch, &mut board.memory)
}

fn same(board: &Board, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(board.psr(), Psr::from_bits(model.cpsr), "CPSR");
    prop_assert_eq!(board.registers.pc, model.pc, "PC");
    for (number, value) in (0..).zip(board.registers.general) {
        prop_assert_eq!(value, model.r(number), "R{}", number);
    }
    let spsr = model.has_spsr().then_some(model.spsr());
    prop_assert_eq!(board.spsr(), spsr, "SPSR");
    prop_assert_eq!(board.system(SystemRegister::Dfsr), model.dfsr);
    prop_assert_eq!(board.system(SystemRegister::Dfar), model.dfar);
    prop_assert!(board.memory.same(&model.memory), "memory");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 30_000, ..ProptestConfig::default() })]

    #[test]
    fn branches_do_what_the_manual_says(encoding in encoding(), state in state()) {
        let (mut board, mut model) = board(&state, !matches!(encoding, Encoding::A32(_)));
        let it = ItState::from_bits(board.registers.psr.it());
        if let Some(found) = indirect(encoding, it) {
            let _ = branch(&mut board, &found);
            model.branch(encoding);
            same(&board, &model)?;
            let rights = if state.user { Rights::User } else { Rights::Kernel };
            prop_assert!(board.memory.log.iter().all(|access| access.rights == rights));
        }
    }

    /// If memory asks to wait, nothing has changed.
    #[test]
    fn what_waits_is_done_again(encoding in encoding(), state in state()) {
        let (mut board, _) = board(&state, !matches!(encoding, Encoding::A32(_)));
        board.memory.later = true;
        let before = board.clone();
        let it = ItState::from_bits(board.registers.psr.it());
        if let Some(found) = indirect(encoding, it)
            && branch(&mut board, &found) == Outcome::Again
        {
            prop_assert_eq!(board.registers, before.registers);
            prop_assert!(board.cpu == before.cpu);
        }
    }

    /// Whatever the operands are, and with any registers.
    #[test]
    fn anything_is_carried_out(bits: u32, registers: [u32; 15], psr: u32, pc: u32) {
        for encoding in [
            Encoding::A32(bits),
            Encoding::Narrow(bits as u16),
            Encoding::Wide(bits | 0xe800_0000),
        ] {
            let mut board = Board::new();
            board.registers.general = registers;
            board.registers.psr = Psr::from_bits(psr);
            board.registers.pc = pc;
            if let Some(found) = indirect(encoding, ItState::from_bits(board.registers.psr.it())) {
                let _ = branch(&mut board, &found);
            }
        }
    }
}

fn run(board: &mut Board, encoding: Encoding) -> Outcome {
    let it = ItState::from_bits(board.registers.psr.it());
    let found = indirect(encoding, it).expect("an indirect branch");
    branch(board, &found)
}

#[test]
fn calls_come_back_to_their_instruction_set() {
    let mut board = Board::new();
    board.registers.general[3] = 0x9001;
    // blx r3
    assert_eq!(
        run(&mut board, Encoding::A32(0xe12f_ff33)),
        Outcome::Branched
    );
    assert_eq!((board.registers.pc, board.r(14)), (0x9000, 0x8004));
    assert!(board.registers.psr.thumb());
    let back = board.r(14);
    board.registers.general[3] = back;
    assert_eq!(run(&mut board, Encoding::Narrow(0x4798)), Outcome::Branched);
    assert_eq!((board.registers.pc, board.r(14)), (0x8004, 0x9003));
    assert!(!board.registers.psr.thumb());
}

#[test]
fn a_failing_condition_goes_on_behind() {
    let mut board = Board::new();
    let before = board.registers;
    // bxeq r3, with Z clear
    assert_eq!(run(&mut board, Encoding::A32(0x012f_ff13)), Outcome::Done);
    assert_eq!(board.registers.pc, before.pc + 4);
    assert_eq!(board.registers.general, before.general);
}

#[test]
fn a_fault_changes_nothing_but_that_it_is_taken() {
    let mut board = Board::in_mode(Mode::Supervisor);
    board.registers.general[13] = HOLE.start - 4;
    let before = board.clone();
    // pop {r0, pc}, of which the second word faults
    let outcome = run(&mut board, Encoding::A32(0xe8bd_8001));
    assert_eq!(outcome, Outcome::Taken(Vector::DataAbort));
    assert_eq!(board.r(0), before.r(0));
    assert_eq!(board.system(SystemRegister::Dfar), HOLE.start);
    let status = u32::from(FAULT.status.code()) | u32::from(FAULT.domain) << 4;
    assert_eq!(board.system(SystemRegister::Dfsr), status);
    board.go(Mode::Supervisor);
    assert_eq!(board.registers.general, before.registers.general);
}
