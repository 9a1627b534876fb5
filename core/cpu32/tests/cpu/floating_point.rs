//! VMRS and VMSR of system registers, and what enables VFP.

use crate::board::{Board, identity};
use hanok_cpu32::{Identity, Mode, Outcome, SystemRegister, Vector, VirtualCpu};

const UNDEFINED: Outcome = Outcome::Taken(Vector::Undefined);
const CPACR: (u32, u32, u32, u32) = (0, 1, 0, 2);
const FULL: u32 = 0x00f0_0000;
const PRIVILEGED: u32 = 0x0050_0000;

/// With this CPACR.
fn board(mode: Mode, access: u32) -> Board {
    let mut board = Board::in_mode(Mode::System);
    let _ = board.mcr(CPACR, access);
    board.go(mode);
    board
}

/// VMRS R1, register.
fn vmrs(number: u32) -> u32 {
    0xeef0_1a10 | number << 16
}

/// VMSR register, R1.
fn vmsr(number: u32) -> u32 {
    0xeee0_1a10 | number << 16
}

#[test]
fn a_kernel_reads_what_the_unit_is() {
    for (number, value) in [(0, 0x4103_40f0), (6, 0x1111_1111), (7, 0x1011_0222), (8, 0)] {
        let mut board = board(Mode::Supervisor, PRIVILEGED);
        assert_eq!(board.a32(vmrs(number)), Outcome::Done, "{number}");
        assert_eq!(board.r(1), value);
    }
    // FPINST and FPINST2, since no exception is trapped.
    for word in [vmrs(9), vmrs(10), vmsr(9), vmsr(10)] {
        let mut board = board(Mode::Supervisor, FULL);
        assert_eq!(board.a32(word), Outcome::Unknown);
    }
}

#[test]
fn a_kernel_enables_the_unit() {
    let mut board = board(Mode::Supervisor, FULL);
    assert!(!board.cpu.has_floating_point());
    board.registers.general[1] = u32::MAX;
    assert_eq!(board.a32(vmsr(8)), Outcome::FloatingPoint);
    assert_eq!(board.system(SystemRegister::Fpexc), 1 << 30);
    assert!(board.cpu.has_floating_point());
    assert_eq!(board.a32(vmsr(8)), Outcome::Done);
    assert_eq!(board.a32(vmsr(0)), Outcome::Done);
}

#[test]
fn cpacr_says_who_may_use_it() {
    for (access, kernel, program) in [
        (0, false, false),
        (PRIVILEGED, true, false),
        (FULL, true, true),
        // The fields of both coprocessors must be the same.
        (0x0030_0000, false, false),
        (0x00c0_0000, false, false),
    ] {
        for (mode, wanted) in [(Mode::Supervisor, kernel), (Mode::User, program)] {
            let mut board = board(Mode::System, FULL);
            board.registers.general[1] = 1 << 30;
            let _ = board.a32(vmsr(8));
            let _ = board.mcr(CPACR, access);
            board.go(mode);
            assert_eq!(
                board.cpu.has_floating_point(),
                wanted,
                "{access:#x} {mode:?}"
            );
            let read = board.a32(vmrs(8));
            let may = kernel && mode != Mode::User;
            let outcome = if may { Outcome::Done } else { UNDEFINED };
            assert_eq!(read, outcome, "{access:#x} {mode:?}");
        }
    }
}

#[test]
fn a_cpu_without_the_unit_does_not_grant_access_to_it() {
    let mut board = Board::in_mode(Mode::Supervisor);
    board.cpu = VirtualCpu::new(Identity {
        fpsid: 0,
        ..identity()
    });
    assert_eq!(board.mcr(CPACR, FULL), Outcome::Done);
    assert_eq!(board.mrc(CPACR), Some(0));
    assert_eq!(board.a32(vmrs(8)), UNDEFINED);
}
