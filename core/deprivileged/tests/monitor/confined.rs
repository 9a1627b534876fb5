//! Pages in which the kernel is confined, by programs that leave them in unusual ways.

use crate::board::RAM;
use crate::lockstep::{Both, End, STOP, Setup, memory};
use crate::programs::b;
use hanok_cpu32::Lines;

/// Looks like CPSID i, and is reached by nothing: its page stays doubtful.
pub const DOUBTFUL: u32 = 0xf10c_0080;

fn both(words: &[u32]) -> Both<4, 8> {
    Both::new(
        memory(&[(RAM, words), (STOP, &[0xeaff_fffe])]),
        RAM,
        &Setup::default(),
    )
}

fn ends(mut both: Both<4, 8>, steps: u64) -> Both<4, 8> {
    assert_eq!(both.run(steps), End::Ran);
    assert_eq!(both.native.registers.pc, STOP);
    both
}

/// An interrupt goes to a place of the confined page that nothing has reached yet.
#[test]
fn an_interrupt_goes_to_what_is_not_proven() {
    let mut words = vec![0; 0x100];
    words[..6].copy_from_slice(&[b(RAM, RAM + 0x40), 0, 0, 0, DOUBTFUL, 0]);
    // VBAR is the page; the vector of IRQs reads CPSR.
    words[6] = 0xe10f_0000; // mrs r0, cpsr
    words[7] = b(RAM + 28, STOP);
    words[16..].iter_mut().for_each(|word| *word = DOUBTFUL);
    words[16] = 0xe3a0_0101; // mov r0, #0x40000000
    words[17] = 0xee0c_0f10; // mcr p15, 0, r0, c12, c0, 0
    words[18] = 0xf108_0080; // cpsie i
    words[19] = 0xe3a0_1001; // mov r1, #1
    words[20] = 0xe3a0_1002;
    words[21] = b(RAM + 84, RAM + 76);
    let mut both = both(&words);
    for _ in 0..8 {
        assert_eq!(both.step(), None);
    }
    let irq = Lines {
        irq: true,
        fiq: false,
    };
    both.interrupt(irq);
    ends(both, 10);
}

/// The last halfword of a doubtful page begins an instruction of T32 that nobody executes, as the branch in front of it
/// is always taken.
#[test]
fn the_flow_ends_in_front_of_what_ends_in_the_next_page() {
    let mut words = vec![DOUBTFUL; 1024];
    words[0] = b(RAM, RAM + 0xff0);
    // bx pc; nop, then A32.
    words[0xfe0 / 4] = 0xbf00_4778;
    words[0xfe4 / 4] = b(RAM + 0xfe4, STOP);
    words[0xff0 / 4] = 0xe28f_0001; // add r0, pc, #1: T32 at 0xff8
    words[0xff4 / 4] = 0xe12f_ff10; // bx r0
    words[0xff8 / 4] = 0xd0f1_4280; // cmp r0, r0; beq.n 0xfe0
    words[0xffc / 4] = 0xf3ef_bf00; // nop; the first half of mrs
    ends(both(&words), 10);
}

/// The guest returns from an exception into an IT block where none is, as far as was proven: the
/// branch there is not executed, and what is behind it is.
#[test]
fn a_return_into_an_it_block_is_no_return_to_the_same_place() {
    let words = [
        0xe28f_e019, // add lr, pc, #25: the T32 code at 0x20, by 0x21
        0xe10f_0000, // mrs r0, cpsr
        0xe169_f000, // msr spsr_fc, r0
        0xe12f_ff1e, // bx lr
        DOUBTFUL,
        DOUBTFUL,
        DOUBTFUL,
        DOUBTFUL,
        // 0x20: b.n 0x40, and behind it cpsid i; nop.
        0xb672_e00e,
        0xe7fe_bf00,
        DOUBTFUL,
        DOUBTFUL,
        DOUBTFUL,
        DOUBTFUL,
        DOUBTFUL,
        DOUBTFUL,
        // 0x40: bx pc; nop, then A32 at 0x44.
        0xbf00_4778,
        0xe3a0_0010, // mov r0, #0x10, so that Z is clear
        0xe10f_1000, // mrs r1, cpsr
        0xe3c1_1080, // bic r1, #0x80
        0xe121_f001, // msr cpsr_c, r1
        // Back to 0x20 with IT in its last place, for "equal".
        0xe381_1020, // orr r1, #0x20
        0xe381_1b02, // orr r1, #0x800: IT<7:2> is CPSR<15:10>, IT is 0b0000_1000
        0xe3c1_1101, // bic r1, #0x40000000: Z
        0xe16f_f001, // msr spsr_fsxc, r1
        0xe24f_e04c, // sub lr, pc, #0x4c: 0x20
        0xe1b0_f00e, // movs pc, lr
    ];
    let mut both = both(&words);
    assert!(matches!(both.run(30), End::Stopped(_)));
}

/// What is undefined in an IT block may be skipped, and then what is behind it runs.
#[test]
fn what_is_undefined_is_skipped_in_an_it_block() {
    let words = [
        0xe3b0_0001, // movs r0, #1
        0xe28f_1001, // add r1, pc, #1: T32 at 0xc
        0xe12f_ff11, // bx r1
        // it eq; udfeq #0; cpsid i; nop; bx pc; nop
        0xde00_bf08,
        0xbf00_b672,
        0xbf00_4778,
        b(RAM + 24, STOP),
        DOUBTFUL,
    ];
    ends(both(&words), 20);
}

/// A page holds the code and what it stores to.
#[test]
fn code_stores_to_its_own_page() {
    let words = [
        0xe3a0_1005, // mov r1, #5
        0xe58f_1fe0, // str r1, [pc, #0xfe0]
        0xe59f_2fdc, // ldr r2, [pc, #0xfdc]
        0xe10f_0000, // mrs r0, cpsr
        b(RAM + 16, STOP),
    ];
    let both = ends(both(&words), 10);
    assert_eq!(both.native.registers.general[2], 5);
}

/// The same by an instruction that is carried out.
#[test]
fn a_sensitive_instruction_stores_to_its_own_page() {
    let words = [
        0xe28f_de7d, // add sp, pc, #2000
        0xf96d_0513, // srsdb sp!, #0x13
        0xe24d_0008, // sub r0, sp, #8
        0xe4a0_1004, // strt r1, [r0], #4
        0xe10f_0000, // mrs r0, cpsr
        b(RAM + 20, STOP),
    ];
    ends(both(&words), 10);
}

/// Breakpoints and undefined instructions raise their own exceptions in a confined page, too.
#[test]
fn breakpoints_are_what_they_are() {
    let mut words = vec![DOUBTFUL; 0x80];
    words[0] = b(RAM, RAM + 0x40);
    words[1] = b(RAM + 4, STOP); // undefined
    words[3] = 0xe1b0_f00e; // prefetch abort: movs pc, lr
    words[16] = 0xe3a0_0101; // mov r0, #0x40000000
    words[17] = 0xee0c_0f10; // mcr p15, 0, r0, c12, c0, 0
    words[18] = 0xe28f_e000; // add lr, pc, #0: 0x50
    words[19] = 0xe120_0070; // bkpt #0
    words[20] = b(RAM + 80, STOP);
    let mut both = both(&words);
    for _ in 0..5 {
        assert_eq!(both.step(), None);
    }
    assert_eq!(both.native.registers.pc, RAM + 12);
}

/// SMC is undefined, in an IT block as outside.
#[test]
fn smc_is_undefined_in_an_it_block() {
    let words = [
        0xe28f_0001, // add r0, pc, #1: T32 at 8
        0xe12f_ff10, // bx r0
        // cmp r0, r0; it eq; smceq #0
        0xbf08_4280,
        0x8000_f7f0,
    ];
    let mut both = both(&words);
    for _ in 0..5 {
        assert_eq!(both.step(), None);
    }
    assert_eq!(both.native.registers.pc, 4);
}

/// What is undefined or UNPREDICTABLE does nothing if its condition fails, as on a CPU that looks at
/// the condition first.
#[test]
fn what_nobody_defines_is_skipped_if_its_condition_fails() {
    let words = [
        0xe3b0_0001, // movs r0, #1
        0x0690_0010, // undefined if equal
        0x0110_0090, // and so is this
        b(RAM + 12, STOP),
        DOUBTFUL,
    ];
    ends(both(&words), 10);
}

/// A handler of undefined instructions goes on in an IT block without its next place: the block is
/// longer then than was proven, and what is behind it may be skipped.
#[test]
fn an_it_block_grows() {
    let mut words = vec![DOUBTFUL; 0x1c];
    words[0] = b(RAM, RAM + 0x40);
    words[1] = 0xe1b0_f00e; // undefined: movs pc, lr
    words[16..22].copy_from_slice(&[
        0xe3a0_0101, // mov r0, #0x40000000
        0xee0c_0f10, // mcr p15, 0, r0, c12, c0, 0
        0xe3a0_0000, // mov r0, #0
        0xe3a0_1001, // mov r1, #1
        0xe28f_2009, // add r2, pc, #9: T32 at 0x60
        0xe12f_ff12, // bx r2
    ]);
    // ittt pl; udfpl; cmppl r0, r1; addpl r0, #1; udf; cpsid i; nop; b .
    words[24..].copy_from_slice(&[0xde00_bf5e, 0x3001_4288, 0xb672_de01, 0xe7fe_bf00]);
    let end = both(&words).run(40);
    assert!(matches!(end, End::Ran | End::Stopped(_)), "{end:?}");
}

/// A block that is always executed is returned into with another condition.
#[test]
fn a_block_has_another_condition() {
    let words = [
        0xe28f_e019, // add lr, pc, #25: T32 at 0x20
        0xe10f_0000, // mrs r0, cpsr
        0xe3a0_0000, // mov r0, #0
        0xe12f_ff1e, // bx lr
        DOUBTFUL,
        DOUBTFUL,
        DOUBTFUL,
        DOUBTFUL,
        // 0x20: it al; b 0x40; cpsid i; b .
        0xe00d_bfe8,
        0xe7fe_b672,
        DOUBTFUL,
        DOUBTFUL,
        DOUBTFUL,
        DOUBTFUL,
        DOUBTFUL,
        DOUBTFUL,
        // 0x40: bx pc; nop, then A32.
        0xbf00_4778,
        0xe10f_1000, // mrs r1, cpsr
        0xe381_1020, // orr r1, #0x20
        0xe381_1b02, // orr r1, #0x800: the last place of a block, for "equal"
        0xe3c1_1101, // bic r1, #0x40000000: Z
        0xe16f_f001, // msr spsr_fsxc, r1
        0xe24f_e03e, // sub lr, pc, #0x3e: 0x22
        0xe1b0_f00e, // movs pc, lr
    ];
    let mut both = both(&words);
    assert_eq!(both.run(40), End::Ran);
    assert_eq!(both.native.registers.pc, RAM + 0x26);
}
