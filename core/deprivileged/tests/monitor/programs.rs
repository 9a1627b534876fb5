//! Programs for single cases.

use crate::board::RAM;
use crate::guest::Outcomes;
use crate::lockstep::{Both, End, STOP, Setup, memory};
use hanok_cpu32::{Mode, SystemRegister};
use hanok_deprivileged::Trap;

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

/// A page of nothing but sensitive instructions of one halfword: proven, run, written, run again.
#[test]
fn a_page_of_sensitive_instructions_is_bounded_work() {
    let page = RAM + 0x1000;
    let mut text = vec![0xb662_b672; 1023]; // cpsid i; cpsie i
    text.push(0x4770_bf00); // nop; bx lr
    let words = [
        0xe3a0_4101, // mov r4, #0x40000000
        0xe284_4a01, // add r4, #0x1000
        0xe384_5001, // orr r5, r4, #1
        0xe12f_ff35, // blx r5
        0xe594_0000, // ldr r0, [r4]
        0xe584_0000, // str r0, [r4]
        0xe12f_ff35, // blx r5
        b(RAM + 28, STOP),
    ];
    let parts: [(u32, &[u32]); 3] = [(RAM, &words), (page, &text), (STOP, &[b(STOP, STOP)])];
    let mut both = Both::<4, 8>::new(memory(&parts), RAM, &Setup::default());
    assert_eq!(both.run(5000), End::Ran);
    assert_eq!(both.native.registers.pc, STOP);
}

/// A page rewrites a function in another one, by its alias, and calls it, again and again.
#[test]
fn code_is_rewritten_and_called() {
    let function = RAM + 0x1000;
    let versions = [
        0xe10f_0000, // mrs r0, cpsr
        0xe280_0001, // add r0, #1
        0xf10c_0080, // cpsid i
        0xe14f_0000, // mrs r0, spsr
        0xf108_0080, // cpsie i
        0xee10_0f10, // mrc p15, 0, r0, c0, c0, 0
        0xe321_f0d3, // msr cpsr_c, #0xd3
        0xf102_0013, // cps #19
    ];
    let words = [
        0xe3a0_4101, // mov r4, #0x40000000
        0xe284_4a01, // add r4, #0x1000
        0xe3a0_6020, // mov r6, #32
        0xe246_6001, // loop: sub r6, #1
        0xe206_7007, // and r7, r6, #7
        0xe28f_8d05, // add r8, pc, #0x140: 0x15c
        0xe798_0107, // ldr r0, [r8, r7, lsl #2]
        0xe584_0000, // str r0, [r4]
        0xee07_0f15, // mcr p15, 0, r0, c7, c5, 0
        0xe12f_ff34, // blx r4
        0xe356_0000, // cmp r6, #0
        0x1aff_fff6, // bne loop
        b(RAM + 48, STOP),
    ];
    let parts: [(u32, &[u32]); 4] = [
        (RAM, &words),
        (RAM + 0x15c, &versions),
        (function, &[0, 0xe12f_ff1e]),
        (STOP, &[b(STOP, STOP)]),
    ];
    for slots in [1, 4] {
        let setup = Setup {
            slots,
            ..Setup::default()
        };
        let mut both = Both::<4, 8>::new(memory(&parts), RAM, &setup);
        assert_eq!(both.run(2000), End::Ran);
        assert_eq!(both.native.registers.pc, STOP);
        assert!(both.steps > 300);
    }
}

/// A literal that looks like a sensitive instruction is loaded as it is, and what is in its place
/// in the other instruction set is none.
#[test]
fn literals_stay_what_they_are() {
    let words = [
        0xe59f_0010, // ldr r0, [pc, #16]: 0x18
        0xe59f_1010, // ldr r1, [pc, #16]: 0x1c
        0xe1d0_20b0, // ldrh r2, [r0], which aborts
        b(RAM + 12, STOP),
        0,
        0xe10f_0000,
        0xf10c_0080,
        0xe1b0_f00e,
    ];
    let mut both = Both::<4, 8>::new(memory(&[(RAM, &words)]), RAM, &Setup::default());
    for _ in 0..3 {
        assert_eq!(both.step(), None);
    }
    assert_eq!(
        both.guest.monitor.registers.general[..2],
        [0xf10c_0080, 0xe1b0_f00e]
    );
}

/// An instruction of two halfwords begins in a page without doubtful words and ends in one with them,
/// where a literal is at the offset at which the instruction begins.
#[test]
fn an_instruction_ends_in_a_doubtful_page() {
    let words = [
        0xe3a0_0101, // mov r0, #0x40000000
        0xe280_0efe, // add r0, #0xfe0
        0xe280_0001, // add r0, #1
        0xe12f_ff10, // bx r0
    ];
    // Nops, and the first half of mov.w r1, #0, which is one of an MRS, too.
    let mut first = vec![0xbf00_bf00; 8];
    first[7] = 0xf04f_bf00;
    let mut second = vec![0xbf00_bf00; 1024];
    second[0] = 0x4800_0100; // ldr r0, [pc, #0]
    second[1] = 0xf000_e002; // b over the literal
    second[2] = 0xf10c_0080;
    second[3] = 0xe7fe_e7fe; // b .
    second[1023] = 0xb672_bf00; // cpsid i, never reached
    let parts: [(u32, &[u32]); 3] = [
        (RAM, &words),
        (RAM + 0xfe0, &first),
        (RAM + 0x1000, &second),
    ];
    let mut both = Both::<4, 8>::new(memory(&parts), RAM, &Setup::default());
    let end = both.run(60);
    assert!(matches!(end, End::Ran | End::Stopped(_)), "{end:?}");
    let changed = both.guest.board.changed_in_page(1024 + 1023);
    assert!(
        !changed.contains(&2047),
        "a word that was never fetched is code"
    );
}

/// Firmware that nobody can write is executed, rewritten, and written in vain.
#[test]
fn firmware_runs_and_is_not_written() {
    let words = [
        b(0, 0x40),
        b(4, 4),
        b(8, 8),
        b(12, 12),
        0xe14f_1000, // data abort: mrs r1, spsr
        b(20, 20),
    ];
    let more = [
        0xe10f_0000, // mrs r0, cpsr
        0xe58f_0004, // str r0, [pc, #4]
        b(0x48, 0x48),
        0xf10c_0080, // doubtful
    ];
    let mut both = Both::<4, 8>::new(memory(&[(0, &words), (0x40, &more)]), 0, &Setup::default());
    assert_eq!(both.run(10), End::Ran);
    assert_eq!(both.native.registers.pc, 20);
}

/// The kernel takes its own code out of its tables and does not say so to its TLB: sooner or later it
/// takes its fault.
#[test]
fn code_without_a_page_faults() {
    let table = RAM + 0x4000;
    let section = RAM | 0xc0e; // for the kernel and for programs
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
        0xe3a0_2000, // mov r2, #0
        0xe280_0a01, // add r0, #0x1000
        0xe580_2000, // str r2, [r0]: the descriptor of RAM is at 0x5000
        0xe10f_0000, // mrs r0, cpsr
        b(RAM + 52, RAM + 52),
    ];
    let parts: [(u32, &[u32]); 2] = [(RAM, &words), (table + 0x1000, &[section])];
    let mut both = Both::<4, 8>::new(memory(&parts), RAM, &Setup::default());
    both.guest.fetches = false;
    for _ in 0..12 {
        assert_eq!(both.step(), None);
    }
    assert!(matches!(both.guest.step(), Outcomes::Event(_)));
    let monitor = &both.guest.monitor;
    assert_eq!(
        (monitor.cpu.mode(), monitor.registers.pc),
        (Mode::Abort, RAM + 12)
    );
}

/// A trap of T32 is executed as A32: the PC stays where A32 can execute.
#[test]
fn a_trap_of_the_other_instruction_set_is_none() {
    let words = [
        0xe28f_0011, // add r0, pc, #17: 0x18, T32
        0xe12f_ff10, // bx r0
        0,
        0,
        0,
        0,
        0xe001_b672, // 0x18: cpsid i; b 0x20
        0xbf00_bf00,
        0xbf00_4778, // 0x20: bx pc; nop
        b(RAM + 0x24, RAM + 0x18),
    ];
    let mut both = Both::<4, 8>::new(memory(&[(RAM, &words)]), RAM, &Setup::default());
    for _ in 0..6 {
        assert_eq!(both.step(), None);
    }
    let registers = both.guest.monitor.registers;
    assert_eq!((registers.pc, registers.psr.thumb()), (RAM + 0x18, false));
    let _answer = both.guest.serve_any(Trap::Undefined);
    assert_eq!(both.guest.monitor.registers.pc & 3, 0);
}

/// A store to the page in which the instruction ends.
#[test]
fn an_instruction_stores_to_the_page_where_it_ends() {
    let words = [
        0xe3a0_0101, // mov r0, #0x40000000
        0xe280_4b06, // add r4, r0, #0x1800
        0xe280_0efe, // add r0, #0xfe0
        0xe280_0001, // add r0, #1
        0xe12f_ff10, // bx r0
    ];
    let mut first = vec![0xbf00_bf00; 8];
    first[7] = 0xe8a4_bf00; // stm.w r4!, {r1, r2}
    let second = [0x6822_0006, 0xe7fe_e7fe]; // ldr r2, [r4]; b .
    let parts: [(u32, &[u32]); 3] = [
        (RAM, &words),
        (RAM + 0xfe0, &first),
        (RAM + 0x1000, &second),
    ];
    let mut both = Both::<4, 8>::new(memory(&parts), RAM, &Setup::default());
    assert_eq!(both.run(30), End::Ran);
    assert_eq!(both.native.registers.pc, RAM + 0x1004);
}

/// Pages that are absent are not asked for because others beside them are used.
#[test]
fn an_absent_neighbour_stays_absent() {
    let words = [
        0xe3a0_0101, // mov r0, #0x40000000
        0xe590_1000, // ldr r1, [r0]
        0xe280_0a02, // add r0, #0x2000
        0xe580_1000, // str r1, [r0]
        0xe590_2000, // ldr r2, [r0]
        b(RAM + 20, STOP),
    ];
    let parts: [(u32, &[u32]); 2] = [(RAM, &words), (STOP, &[b(STOP, STOP)])];
    let setup = Setup {
        sections: false,
        absent: vec![2, 5],
        ..Setup::default()
    };
    let mut both = Both::<4, 8>::new(memory(&parts), RAM, &setup);
    assert_eq!(both.run(10), End::Ran);
    let absent = both.guest.board.absent.borrow().clone();
    assert_eq!(
        absent.into_iter().collect::<Vec<_>>(),
        [u64::from(RAM) / 4096 + 5]
    );
}

/// An instruction that is carried out reads text as the guest wrote it.
#[test]
fn what_is_carried_out_reads_what_was_written() {
    let words = [
        0xe28f_1000, // add r1, pc, #0
        0xe10f_0000, // mrs r0, cpsr
        0xe4b1_2004, // ldrt r2, [r1], #4
        0xe411_3008, // ldr r3, [r1], #-8
        b(RAM + 16, STOP),
    ];
    let both = run(&words);
    assert_eq!(both.guest.monitor.registers.general[2], words[2]);
}

/// What is known of code is kept when data beside it are written, and so are the traps there, which a load finds.
#[test]
fn a_store_beside_code_leaves_its_traps() {
    let words = [
        0xe28f_1000, // add r1, pc, #0
        0xe10f_0000, // mrs r0, cpsr
        0xe581_0100, // str r0, [r1, #0x100]
        0xe511_2004, // ldr r2, [r1, #-4]
        b(RAM + 16, STOP),
    ];
    let both = run(&words);
    assert!(both.guest.board.is_changed(1));
}

/// A guest's own UDF with the number of a trap is that trap (docs/differences.md).
#[test]
fn a_number_of_a_trap_is_a_trap() {
    let words = [
        0xe28f_0001, // add r0, pc, #1
        0xe12f_ff10, // bx r0
        0xde40_b672, // cpsid i; udf #0x40
        0xe7fe_e7fe, // b .
    ];
    let mut both = Both::<4, 8>::new(memory(&[(RAM, &words)]), RAM, &Setup::default());
    assert_eq!(both.run(8), End::Excused);
    assert_eq!(both.guest.board.get(2), 0xde40_de40);
}

/// The CPU of a guest's own knows no supersections. A program that has one, by a wild store to its tables, ends there.
#[test]
fn a_supersection_ends_a_test() {
    let words = [
        0xe3a0_0101, // mov r0, #0x40000000
        0xe280_0901, // add r0, #0x4000
        0xee02_0f10, // mcr p15, 0, r0, c2, c0, 0
        0xe3a0_0001, // mov r0, #1
        0xee03_0f10, // mcr p15, 0, r0, c3, c0, 0
        0xee11_0f10, // mrc p15, 0, r0, c1, c0, 0
        0xe380_0001, // orr r0, #1
        0xee01_0f10, // mcr p15, 0, r0, c1, c0, 0
        b(STOP, STOP),
    ];
    let parts: [(u32, &[u32]); 2] = [(RAM, &words), (RAM + 0x5000, &[RAM | 0x4_0c0e; 16])];
    let mut both = Both::<4, 8>::new(memory(&parts), RAM, &Setup::default());
    assert_eq!(both.run(20), End::Unknown);
}

/// What begins in a page of code and ends in one that is not mapped: DFAR is where the latter begins, as only there a
/// kernel can do anything about it.
#[test]
fn an_abort_in_the_second_page_names_it() {
    let begin = [
        0xe3a0_0101, // mov r0, #0x40000000
        0xe280_2901, // add r2, r0, #0x4000
        0xee02_2f10, // mcr p15, 0, r2, c2, c0, 0
        0xe3a0_1001, // mov r1, #1
        0xee03_1f10, // mcr p15, 0, r1, c3, c0, 0
        0xee11_1f10, // mrc p15, 0, r1, c1, c0, 0
        0xe381_1001, // orr r1, #1
        0xee01_1f10, // mcr p15, 0, r1, c1, c0, 0
        0xe280_0a01, // add r0, #0x1000
        0xe240_0002, // sub r0, #2
    ];
    // STR, STRH, LDRT, STRT.
    for access in [0xe580_1000, 0xe1c0_10b1, 0xe4b0_1000, 0xe4a0_1000] {
        let mut words = begin.to_vec();
        words.push(access);
        let parts: [(u32, &[u32]); 3] = [
            (RAM, &words),
            (RAM + 0x5000, &[(RAM + 0x6000) | 1]),
            (RAM + 0x6000, &[RAM | 0x32]),
        ];
        let mut both = Both::<4, 8>::new(memory(&parts), RAM, &Setup::default());
        assert_eq!(both.run(11), End::Ran);
        let cpu = &both.guest.monitor.cpu;
        let found = (cpu.mode(), cpu.system(SystemRegister::Dfar));
        assert_eq!(found, (Mode::Abort, RAM + 0x1000), "{access:x}");
    }
}

/// A block's last instruction branches to A32: nothing is left of the block.
#[test]
fn a_block_ends_with_a_branch_to_the_other_instruction_set() {
    let words = [
        0xe28f_1010, // add r1, pc, #16: 0x18
        0xe28f_0005, // add r0, pc, #5: 0x11
        0xe150_0000, // cmp r0, r0
        0xe12f_ff10, // bx r0
        0x4708_bf08, // 0x10: it eq; bx r1
        0xe7fe_e7fe, // b .
        0xe10f_2000, // 0x18: mrs r2, cpsr
        b(RAM + 0x1c, STOP),
    ];
    run(&words);
}

/// A page of code stores to itself what User mode would execute differently, beside what is known, and goes there: where
/// nothing was doubtful, and where all that was doubtful is proven.
#[test]
fn a_doubt_that_is_stored_is_one() {
    let words = [
        0xe3a0_4101, // mov r4, #0x40000000
        0xe284_4a01, // add r4, #0x1000
        0xe284_5c01, // add r5, r4, #0x100
        0xe59f_1004, // ldr r1, [pc, #4]: 0x18
        0xe12f_ff34, // blx r4
        b(RAM + 20, STOP),
        0xe10f_0000, // mrs r0, cpsr
    ];
    for first in [0xe320_f000, 0xe10f_2000] {
        let function = [
            first,       // nop, or mrs r2, cpsr
            0xe585_1000, // str r1, [r5]
            0xee07_0f15, // mcr p15, 0, r0, c7, c5, 0
            0xe12f_ff15, // bx r5
        ];
        let parts: [(u32, &[u32]); 4] = [
            (RAM, &words),
            (RAM + 0x1000, &function),
            (RAM + 0x1104, &[0xe12f_ff1e]),
            (STOP, &[b(STOP, STOP)]),
        ];
        let mut both = Both::<4, 8>::new(memory(&parts), RAM, &Setup::default());
        assert_eq!(both.run(100), End::Ran);
        assert_eq!(both.native.registers.pc, STOP);
    }
}
