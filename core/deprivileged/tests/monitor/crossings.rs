//! A guest ends as on a CPU of its own, whether its programs and its kernel cross without the monitor or not, and
//! wherever it is interrupted.

use crate::board::{Board, RAM, word_of};
use crate::guest::{Guest, Outcomes};
use crate::lockstep::{STOP, memory};
use crate::native::{Event, Native, settled};
use crate::programs::b;
use crate::trampolines::{ADDED, COUNT, HANDLER, Rewritten, TABLE, VECTORS, read, sections};
use crate::window::Crossed;
use hanok_abi::trampoline::{TO_CODE, TRIPLE};
use hanok_cpu32::{Lines, Mode, SystemRegister};
use hanok_types::{Ipa, Span};

/// The program's code and, behind it, its stack: in the third megabyte, and where they are in memory.
const PROGRAM: u32 = RAM + 0x20_0000;
const PROGRAM_AT: u32 = RAM + 0xa000;
const PAGES: u32 = RAM + 0x9000;
/// The handler of interrupts: not in the kernel's page, which would be doubtful until the first one.
const HANDLER_AT: u32 = RAM + 0x8000;

/// Where SVC leads, where interrupts are unmasked there, and the way back.
const CALLED: u32 = RAM + 0x60;
const UNMASKS: u32 = RAM + 0xc4;
const BACK: u32 = RAM + 0x104;

/// The kernel: it begins a program, and serves its calls as Linux does. It ends at [`STOP`].
const KERNEL: [u32; 77] = [
    0xe3a0_0101, // mov r0, #0x40000000
    0xe380_0b02, // orr r0, r0, #0x800
    0xee0c_0f10, // mcr p15, 0, r0, c12, c0, 0
    0xe3a0_0101, // mov r0, #0x40000000
    0xe380_0901, // orr r0, r0, #0x4000
    0xee02_0f10, // mcr p15, 0, r0, c2, c0, 0
    0xe3a0_0055, // mov r0, #0x55
    0xee03_0f10, // mcr p15, 0, r0, c3, c0, 0
    0xee11_0f10, // mrc p15, 0, r0, c1, c0, 0
    0xe380_0001, // orr r0, r0, #1
    0xee01_0f10, // mcr p15, 0, r0, c1, c0, 0
    0xe3a0_1077, // mov r1, #0x77
    0xee0d_1f90, // mcr p15, 0, r1, c13, c0, 4
    0xe3a0_d101, // mov sp, #0x40000000
    0xe38d_da03, // orr sp, sp, #0x3000
    0xe24d_d048, // sub sp, sp, #72
    0xe3a0_3101, // mov r3, #0x40000000
    0xe383_3602, // orr r3, r3, #0x200000
    0xe283_4c1f, // add r4, r3, #0x1f00
    0xe58d_4034, // str r4, [sp, #52]
    0xe58d_303c, // str r3, [sp, #60]
    0xe3a0_5010, // mov r5, #0x10
    0xe58d_5040, // str r5, [sp, #64]
    0xea00_0029, // b back
    0xe24d_d050, // sub sp, sp, #80: `svc`; its stack moves by 8 with each call, but for the longest way
    0xe88d_1fff, // stmia sp, {r0-r12}
    0xe28d_803c, // add r8, sp, #60
    0xe948_6000, // stmdb r8, {sp, lr}^
    0xe14f_8000, // mrs r8, spsr
    0xe58d_e03c, // str lr, [sp, #60]
    0xe58d_8040, // str r8, [sp, #64]
    0xe58d_0044, // str r0, [sp, #68]
    0xe3a0_a101, // mov r10, #0x40000000
    0xe38a_ac21, // orr r10, r10, #0x2100
    0xe10f_9000, // mrs r9, cpsr
    0xe58a_9004, // str r9, [r10, #4]
    0xee0d_8f70, // mcr p15, 0, r8, c13, c0, 3: the program's status, which is not the same in each call
    0xee1d_9f70, // mrc p15, 0, r9, c13, c0, 3
    0xe58a_9014, // str r9, [r10, #20]
    0xee1d_9f90, // mrc p15, 0, r9, c13, c0, 4
    0xe58a_9008, // str r9, [r10, #8]
    0xee1d_9f50, // mrc p15, 0, r9, c13, c0, 2
    0xe58a_900c, // str r9, [r10, #12]
    0xee13_9f10, // mrc p15, 0, r9, c3, c0, 0
    0xe59a_b010, // ldr r11, [r10, #16]
    0xe089_b40b, // add r11, r9, r11, lsl #8
    0xe58a_b010, // str r11, [r10, #16]
    0xe3a0_9051, // mov r9, #0x51
    0xee03_9f10, // mcr p15, 0, r9, c3, c0, 0
    0xf108_0080, // cpsie i
    0xe59a_9000, // ldr r9, [r10]
    0xe289_9001, // add r9, r9, #1
    0xe58a_9000, // str r9, [r10]
    0xe289_ba01, // add r11, r9, #0x1000
    0xee0d_bf70, // mcr p15, 0, r11, c13, c0, 3
    0xee07_bf11, // mcr p15, 0, r11, c7, c1, 0
    0xe357_0002, // cmp r7, #2
    0x0e0d_bf50, // mcreq p15, 0, r11, c13, c0, 2
    0xe59d_0000, // ldr r0, [sp]
    0xe080_0009, // add r0, r0, r9
    0xe58d_0000, // str r0, [sp]
    0xf10c_0080, // cpsid i
    0xe357_0009, // cmp r7, #9
    0x0a00_000a, // beq stop
    0xe3a0_9055, // mov r9, #0x55
    0xee03_9f10, // mcr p15, 0, r9, c3, c0, 0
    0xe1a0_200d, // mov r2, sp: `back`
    0xe592_1040, // ldr r1, [r2, #64]
    0xe5b2_e03c, // ldr lr, [r2, #60]!
    0xe16f_f001, // msr spsr_cxsf, r1
    0xe952_7fff, // ldmdb r2, {r0-lr}^
    0xe1a0_0000, // nop
    0xe28d_d048, // add sp, sp, #72
    0xe1b0_f00e, // movs pc, lr
    0xe7f0_00f0, // udf #0
    0xf108_0080, // cpsie i: `stop`
    0xea00_0372, // b `STOP`
];

/// The program, which calls as often in A32 as in T32, and keeps what it got back on its stack.
const CALLS: [u32; 33] = [
    0xe3a0_0010, // mov r0, #0x10
    0xe3a0_1021, // mov r1, #0x21
    0xe3a0_2032, // mov r2, #0x32
    0xe3a0_3043, // mov r3, #0x43
    0xe3a0_4003, // mov r4, #3
    0xe3a0_5065, // mov r5, #0x65
    0xe3a0_6076, // mov r6, #0x76
    0xe3a0_7001, // mov r7, #1
    0xe3a0_8098, // mov r8, #0x98
    0xe3a0_90a9, // mov r9, #0xa9
    0xe3a0_a0ba, // mov r10, #0xba
    0xe3a0_b0cb, // mov r11, #0xcb
    0xe3a0_c0dc, // mov r12, #0xdc
    0xe3a0_e0ed, // mov lr, #0xed
    0xee0d_1f50, // mcr p15, 0, r1, c13, c0, 2
    0xe157_0004, // cmp r7, r4
    0xef00_0000, // svc #0
    0xe92d_5fff, // stmdb sp!, {r0-r12, lr}
    0xe10f_3000, // mrs r3, cpsr
    0xee1d_5f50, // mrc p15, 0, r5, c13, c0, 2
    0xee1d_6f70, // mrc p15, 0, r6, c13, c0, 3
    0xe92d_0068, // stmdb sp!, {r3, r5, r6}
    0xee0d_2f50, // mcr p15, 0, r2, c13, c0, 2
    0xe287_7001, // add r7, r7, #1
    0xe157_0004, // cmp r7, r4
    0xee1d_8f50, // mrc p15, 0, r8, c13, c0, 2
    0x3aff_fff2, // blo back to the other MCR
    0xe28f_c001, // add r12, pc, #1
    0xe12f_ff1c, // bx r12
    0x2f09_2705, // movs r7, #5; cmp r7, #9
    0xb5ff_df01, // svc #1; push {r0-r7, lr}
    0x3001_2709, // movs r7, #9; adds r0, #1
    0xe7fe_df01, // svc #1; b .
];

/// Where the program reads TPIDRURW again, by the offset.
const READS_AGAIN: u32 = 4 * 25;

/// How the kernel goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// LDMDB R2, {R0-LR}^.
    All,
    /// LDMDB R2, {R1-LR}^.
    ButR0,
}

fn kernel(way: Way) -> Vec<u32> {
    let change = |word| match (way, word) {
        (Way::ButR0, 0xe952_7fff) => 0xe952_7ffe,
        _ => word,
    };
    KERNEL.into_iter().map(change).collect()
}

fn parts(kernel: &[u32], handler: &[u32], code: &[u32]) -> Vec<u32> {
    let [own, added] = sections();
    memory(&[
        (RAM, kernel),
        (VECTORS + 4, &[b(VECTORS + 4, VECTORS + 4)]),
        (VECTORS + 8, &[b(VECTORS + 8, CALLED)]),
        (VECTORS + 0x18, &[b(VECTORS + 0x18, HANDLER_AT)]),
        (HANDLER_AT, handler),
        (STOP, &[b(STOP, STOP)]),
        (TABLE + 0x1000, &[own, added, PAGES | 1]),
        // For all.
        (PAGES, &[PROGRAM_AT | 0x3e, (PROGRAM_AT + 0x1000) | 0x3e]),
        (PROGRAM_AT, &CALLS),
        (ADDED + TO_CODE, code),
    ])
}

/// How a guest runs.
#[derive(Clone, Copy, Debug)]
struct Run {
    crosses: bool,
    /// An exit comes after each so many instructions; 0: none.
    exits: u32,
    /// Before which instruction one more exit comes.
    earlier: Option<u32>,
    /// Before which instruction the interrupt comes.
    interrupt: Option<u32>,
}

const fn in_program(pc: u32) -> bool {
    pc >= PROGRAM && pc < PROGRAM + 0x1000
}

/// Delivers to the guest, and checks whether that was to be.
fn deliver(guest: &mut Guest<8, 16>, irq: bool) {
    let pc = guest.monitor.registers.pc;
    let taken = guest.deliver(Lines { irq, fiq: false }).is_some();
    let masked = (CALLED..UNMASKS).contains(&pc) || (BACK..BACK + 40).contains(&pc);
    assert!(
        !irq || !in_program(pc) || taken,
        "{pc:#x} is not interrupted"
    );
    assert!(!masked || !taken, "{pc:#x} is interrupted");
}

/// Answers the guest at the end, and how many instructions it took until then and until it came to `place`, each time.
fn run_to(rewritten: &Rewritten, how: Run, place: u32) -> (Guest<8, 16>, u32, Vec<u32>) {
    let mut times = Vec::new();
    let words = parts(&rewritten.program, &rewritten.handler, &rewritten.code);
    let mut guest = Guest::new(Board::new(words, true), 8, 255);
    guest.add_trampolines(Span::new(Ipa::new(ADDED.into()), TRIPLE.into()).expect("below"));
    guest.monitor.boot(RAM, [0; 3]);
    guest.crosses = how.crosses;
    let mut served = 0;
    for step in 0..4000 {
        let count = read(&guest, COUNT);
        let irq = how.interrupt.is_some_and(|when| step >= when) && count == 0;
        let pc = guest.monitor.registers.pc;
        let waits = irq && how.interrupt != Some(step);
        assert!(!waits || !in_program(pc), "{how:?}: it waits at {pc:#x}");
        let exits = how.exits != 0 && step % how.exits == 0 || how.earlier == Some(step);
        if pc == place {
            times.push(step);
        }
        if exits || how.interrupt == Some(step) || count != served {
            served = count;
            deliver(&mut guest, irq);
        }
        if guest.monitor.registers.pc == STOP && !irq {
            guest.leave();
            return (guest, step, times);
        }
        let before = guest.exceptions;
        let outcome = guest.step();
        let fine = matches!(outcome, Outcomes::Event(Event::Retired));
        assert!(fine, "{how:?} {outcome:?} {:x?}", guest.monitor.registers);
        // A backend delivers after each exit.
        if guest.exceptions != before && !guest.entered {
            deliver(&mut guest, irq);
        }
    }
    panic!("it never stops, {how:?}: {:x?}", guest.monitor.registers);
}

fn run(rewritten: &Rewritten, how: Run) -> (Guest<8, 16>, u32) {
    let (guest, steps, _) = run_to(rewritten, how, STOP);
    (guest, steps)
}

fn native(kernel: &[u32], rewritten: &Rewritten) -> Native {
    let words = parts(kernel, &HANDLER, &rewritten.code);
    let mut monitor = Guest::<8, 16>::new(Board::new(words.clone(), true), 8, 255).monitor;
    monitor.boot(RAM, [0; 3]);
    let mut native = Native::new(monitor.cpu, monitor.registers, words);
    while native.registers.pc != STOP {
        assert_eq!(native.step(), Event::Retired);
    }
    native
}

/// Compares all that the guest can see.
fn compare(guest: &Guest<8, 16>, native: &Native, how: Run) {
    let number = |at: u32| word_of(at.into()).expect("memory");
    let count = guest.board.original(number(COUNT));
    assert_eq!(count, how.interrupt.is_some().into(), "{how:?}");
    compare_but(
        guest,
        native,
        &[(RAM, KERNEL.len()), (HANDLER_AT, HANDLER.len())],
        &how,
    );
}

/// Compares all that the guest can see, but for so many words that were rewritten, and what the handler has counted.
pub fn compare_but<const ROOTS: usize, const TABLES: usize>(
    guest: &Guest<ROOTS, TABLES>,
    native: &Native,
    others: &[(u32, usize)],
    how: &impl std::fmt::Debug,
) {
    let (mine, its) = (&guest.monitor.registers, &native.registers);
    assert_eq!(mine, its, "{how:?}");
    let mine = settled(&guest.monitor.cpu, mine);
    let its = settled(&native.cpu, its);
    assert_eq!(mine.mode(), Mode::Supervisor);
    assert_eq!(mine.masks(), its.masks(), "{how:?}");
    assert_eq!(mine.crossed_banks(), its.crossed_banks(), "{how:?}");
    for register in SystemRegister::ALL {
        let (mine, its) = (mine.system(register), its.system(register));
        assert_eq!(mine, its, "{how:?} {register:?}");
    }
    let number = |at: u32| word_of(at.into()).expect("memory");
    let (mut memory, mut its) = (guest.board.originals(), native.memory.words.clone());
    for (at, words) in others.iter().copied().chain([(COUNT, 4)]) {
        let other = number(at)..number(at) + words;
        memory[other.clone()].fill(0);
        its[other].fill(0);
    }
    let differs = || memory.iter().zip(&its).position(|(mine, its)| mine != its);
    assert!(memory == its, "{how:?}: word {:x?}", differs());
}

/// Checks that what may cross did, without an exit.
fn check_crossed(free: u16, crossed: &Crossed) {
    let Crossed {
        calls,
        stores,
        returns,
        threads,
        caches,
        ..
    } = *crossed;
    // The first return makes the program's root.
    assert!(calls >= 3, "{crossed:?}");
    // What is deferred does not trap, nor what is foreseen without an exit on the way.
    let thread_traps = if free == 0 {
        threads >= 3
    } else {
        threads <= calls
    };
    assert!(thread_traps, "{crossed:?}");
    // With two free registers STMDB has a trampoline.
    assert!(
        if free == 0 { stores >= 3 } else { stores == 0 },
        "{crossed:?}"
    );
    assert!(returns >= 2 && caches >= 3, "{crossed:?}");
}

/// R9 and R11, which nothing needs behind STMDB.
const TWO: u16 = 1 << 9 | 1 << 11;

/// Checks a kernel in which these registers are free, with exits, and with interrupts at each instruction if it is `interrupted`.
fn check(way: Way, free: u16, interrupted: bool) {
    let kernel = kernel(way);
    let rewritten = if free == 0 {
        Rewritten::new(&kernel, HANDLER_AT, 0)
    } else {
        Rewritten::foreseeing(&kernel, HANDLER_AT, free)
    };
    let native = native(&kernel, &rewritten);
    for crosses in [false, true] {
        let mut how = Run {
            crosses,
            exits: 0,
            earlier: None,
            interrupt: None,
        };
        let (guest, steps) = run(&rewritten, how);
        compare(&guest, &native, how);
        if crosses {
            check_crossed(free, &guest.crossed);
        }
        for exits in 1..60 {
            how.exits = exits;
            let (guest, _) = run(&rewritten, how);
            compare(&guest, &native, how);
            if crosses {
                check_crossed(free, &guest.crossed);
            }
        }
        let last = if interrupted { steps } else { 0 };
        for when in 0..last {
            how.interrupt = Some(when);
            for exits in [0, 23] {
                how.exits = exits;
                compare(&run(&rewritten, how).0, &native, how);
            }
        }
    }
}

#[test]
fn crossings_change_nothing() {
    check(Way::ButR0, 0, false);
}

#[test]
fn crossings_change_nothing_with_an_interrupt_anywhere() {
    check(Way::All, TWO, true);
}

#[test]
fn crossings_change_nothing_where_no_register_is_free() {
    check(Way::All, 0, true);
}

/// A program writes what TPIDRURW held at its last exit, after a call for which it wrote something else; then it is interrupted.
#[test]
fn a_thread_register_is_what_the_program_wrote_last() {
    let kernel = kernel(Way::All);
    let rewritten = Rewritten::new(&kernel, HANDLER_AT, 0);
    let native = native(&kernel, &rewritten);
    let mut how = Run {
        crosses: true,
        exits: 0,
        earlier: None,
        interrupt: None,
    };
    let (.., times) = run_to(&rewritten, how, PROGRAM + READS_AGAIN);
    let [first, second, ..] = times[..] else {
        panic!("{times:?}")
    };
    (how.earlier, how.interrupt) = (Some(first), Some(second));
    compare(&run(&rewritten, how).0, &native, how);
}
