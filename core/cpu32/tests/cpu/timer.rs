//! The generic timer's registers.

use crate::board::Board;
use hanok_cpu32::{Destination, Mode, Movement, Outcome, TimerAccess, TimerRegister, Vector};
use hanok_decode::aarch32::Register;

const UNDEFINED: Outcome = Outcome::Taken(Vector::Undefined);
/// CRm and opc2 of the registers of 32 bits, whether they can be written, and the bits of CNTKCTL
/// that open them (DDI 0406C, B8.1).
const WORDS: [(u32, u32, TimerRegister, bool, u32); 5] = [
    (0, 0, TimerRegister::Cntfrq, false, 0b11),
    (2, 0, TimerRegister::CntpTval, true, 1 << 9),
    (2, 1, TimerRegister::CntpCtl, true, 1 << 9),
    (3, 0, TimerRegister::CntvTval, true, 1 << 8),
    (3, 1, TimerRegister::CntvCtl, true, 1 << 8),
];
/// Opc1 of those of 64 bits.
const PAIRS: [(u32, TimerRegister, bool, u32); 4] = [
    (0, TimerRegister::Cntpct, false, 1),
    (1, TimerRegister::Cntvct, false, 2),
    (2, TimerRegister::CntpCval, true, 1 << 9),
    (3, TimerRegister::CntvCval, true, 1 << 8),
];

fn read(register: TimerRegister, to: Destination) -> Outcome {
    Outcome::Timer(TimerAccess {
        register,
        movement: Movement::Read(to),
    })
}

fn write(register: TimerRegister, value: u64) -> Outcome {
    Outcome::Timer(TimerAccess {
        register,
        movement: Movement::Write(value),
    })
}

/// All accesses with what they are: the word, the outcome, the right.
fn accesses() -> Vec<(u32, Outcome, u32)> {
    let [r1, r2] = [1, 2].map(Register::from_bits);
    let mut all = Vec::new();
    for (crm, opc2, register, writable, right) in WORDS {
        let name = 0xee0e_1f10 | crm | opc2 << 5;
        all.push((name | 1 << 20, read(register, Destination::Word(r1)), right));
        let stored = if writable {
            write(register, 0x11)
        } else {
            UNDEFINED
        };
        all.push((name, stored, right));
    }
    for (opc1, register, writable, right) in PAIRS {
        let name = 0xec42_1f0e | opc1 << 4;
        let to = Destination::Pair([r1, r2]);
        all.push((name | 1 << 20, read(register, to), right));
        let stored = if writable {
            write(register, 0x22_0000_0011)
        } else {
            UNDEFINED
        };
        all.push((name, stored, right));
    }
    all
}

fn board(mode: Mode, control: u32) -> Board {
    let mut board = Board::in_mode(Mode::System);
    let _ = board.mcr((0, 14, 1, 0), control);
    board.go(mode);
    board.registers.general[1] = 0x11;
    board.registers.general[2] = 0x22;
    board
}

#[test]
fn a_kernel_may_use_all_of_them() {
    for (word, outcome, _) in accesses() {
        assert_eq!(board(Mode::Irq, 0).a32(word), outcome, "{word:#x}");
    }
}

#[test]
fn a_program_may_use_what_cntkctl_opens() {
    for (word, outcome, right) in accesses() {
        for bit in [1 << 0, 1 << 1, 1 << 2, 1 << 8, 1 << 9] {
            let found = board(Mode::User, bit).a32(word);
            let wanted = if right & bit != 0 { outcome } else { UNDEFINED };
            assert_eq!(found, wanted, "{word:#x} with {bit:#x}");
        }
    }
}

#[test]
fn what_is_read_goes_where_the_instruction_says() {
    let mut board = board(Mode::System, 0);
    let [r1, r2] = [1, 2].map(Register::from_bits);
    board.registers.fill(Destination::Word(r1), 0x1_0000_0005);
    assert_eq!((board.r(1), board.r(2)), (5, 0x22));
    board
        .registers
        .fill(Destination::Pair([r2, r1]), 0x1_0000_0005);
    assert_eq!((board.r(1), board.r(2)), (1, 5));
}

#[test]
fn hyp_mode_s_timer_does_not_exist() {
    // CNTVOFF; CNTHP_CVAL; CNTHP_TVAL.
    for word in [0xec52_1f4e, 0xec52_1f6e, 0xee9e_1f12] {
        assert_eq!(board(Mode::Supervisor, 0).a32(word), Outcome::Unknown);
    }
}
