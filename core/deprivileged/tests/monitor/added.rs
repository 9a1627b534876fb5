//! Code that was added to a kernel, in memory that the kernel maps execute-never.

use crate::board::{Board, RAM};
use crate::guest::{Guest, Outcomes};
use crate::lockstep::memory;
use crate::programs::b;
use hanok_cpu32::Mode;
use hanok_types::{Ipa, Span};

/// The code: in the second megabyte.
const ADDED: u32 = RAM + 0x10_0000;
const TABLE: u32 = RAM + 0x4000;
/// A section for the kernel and for programs.
const SECTION: u32 = 0xc0e;
const EXECUTE_NEVER: u32 = 1 << 4;
/// Where the added code goes back to.
const BACK: u32 = RAM + 0x100;

/// Turns the MMU on, goes to the second megabyte, and comes back. Answers the guest as it is then.
fn run(added: Option<Span<Ipa>>) -> Guest<4, 8> {
    let words = [
        0xe3a0_0101, // mov r0, #0x40000000
        0xee0c_0f10, // mcr p15, 0, r0, c12, c0, 0
        0xe280_0901, // add r0, #0x4000
        0xee02_0f10, // mcr p15, 0, r0, c2, c0, 0
        0xe3a0_1001, // mov r1, #1
        0xee03_1f10, // mcr p15, 0, r1, c3, c0, 0
        0xee11_1f10, // mrc p15, 0, r1, c1, c0, 0
        0xe381_1001, // orr r1, #1
        0xee01_1f10, // mcr p15, 0, r1, c1, c0, 0
        b(RAM + 36, ADDED + 8),
    ];
    let there = [
        0xe1a0_0000, // nop
        0xf10c_0080, // cpsid i, which nothing reaches
        0xe3a0_2007, // mov r2, #7
        0xe10f_3000, // mrs r3, cpsr
        b(ADDED + 16, BACK),
    ];
    let parts: [(u32, &[u32]); 4] = [
        (RAM, &words),
        (BACK, &[b(BACK, BACK)]),
        (
            TABLE + 0x1000,
            &[RAM | SECTION, ADDED | SECTION | EXECUTE_NEVER],
        ),
        (ADDED, &there),
    ];
    let mut guest = Guest::new(Board::new(memory(&parts), true), 8, 255);
    guest.add_code(added);
    guest.monitor.boot(RAM, [0; 3]);
    for _ in 0..14 {
        assert!(matches!(guest.step(), Outcomes::Event(_)));
    }
    guest
}

#[test]
fn added_code_is_executed_though_its_memory_is_execute_never() {
    let guest = run(Span::new(Ipa::new(ADDED.into()), 0x1000));
    let registers = guest.monitor.registers;
    assert_eq!(registers.pc, BACK);
    assert_eq!(registers.general[2], 7);
    assert_eq!(registers.general[3] & 0x1f, 0x13, "the virtual mode");
}

#[test]
fn other_memory_is_not() {
    let beside = Span::new(Ipa::new(u64::from(ADDED) + 0x1000), 0x1000);
    for added in [None, beside] {
        let guest = run(added);
        assert_eq!(guest.monitor.cpu.mode(), Mode::Abort);
        assert_eq!(guest.monitor.registers.general[2], 0);
    }
}
