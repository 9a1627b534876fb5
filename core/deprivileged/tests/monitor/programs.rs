//! Programs for single cases.

use crate::board::RAM;
use crate::lockstep::{Both, End, STOP, Setup, memory};

/// Runs A32 words from the begin of RAM on.
fn run(words: &[u32]) -> Both<4, 8> {
    let mut both = Both::new(
        memory(&[(RAM, words), (STOP, &[0xeaff_fffe])]),
        RAM,
        &Setup::default(),
    );
    assert_eq!(both.run(2000), End::Ran);
    assert_eq!(both.native.registers.pc, STOP);
    both
}

/// B from `from` to `to`, in A32.
pub const fn b(from: u32, to: u32) -> u32 {
    0xea00_0000 | (to.wrapping_sub(from).wrapping_sub(8) >> 2) & 0xff_ffff
}

#[test]
fn a_program_without_sensitive_instructions_runs() {
    let both = run(&[0xe3a0_0001, 0xe280_0002, b(RAM + 8, STOP)]);
    assert_eq!(both.guest.monitor.registers.general[0], 3);
}

#[test]
fn sensitive_instructions_do_what_they_do_in_a_kernel() {
    let words = [
        0xe10f_0000, // mrs r0, cpsr
        0xf10c_0080, // cpsid i
        0xe10f_1000, // mrs r1, cpsr
        0xe3a0_201f, // mov r2, #0x1f
        0xe121_f002, // msr cpsr_c, r2
        0xe10f_3000, // mrs r3, cpsr
        b(RAM + 24, STOP),
    ];
    let both = run(&words);
    assert_eq!(both.guest.monitor.registers.general[3] & 0x1f, 0x1f);
}
