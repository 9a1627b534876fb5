//! A kernel with trampolines ends as the same kernel does on a CPU of its own, wherever it is interrupted.

use crate::board::{Board, RAM, word_of};
use crate::guest::{Guest, Outcomes};
use crate::lockstep::{STOP, memory};
use crate::native::{Event, Native};
use crate::programs::b;
use hanok_abi::trampoline::{CODE, Free, HEADER, PAGE, TO_CODE, TRIPLE, Template, enter};
use hanok_cpu32::{Lines, Mode, SystemRegister};
use hanok_types::{Ipa, Span};

/// The trampolines: in the second megabyte.
const ADDED: u32 = RAM + 0x10_0000;
const VECTORS: u32 = RAM + 0x800;
const TABLE: u32 = RAM + 0x4000;
/// What the handler counts, where it came from, R0, and the PSR that was interrupted.
const COUNT: u32 = RAM + 0x2000;

const READS_TPIDRPRW: u32 = 0xee1d_af90;

/// The handler of interrupts, in the place of the vector of IRQs.
const HANDLER: [u32; 11] = [
    0xe3a0_d101, // mov sp, #0x40000000
    0xe38d_da02, // orr sp, #0x2000
    0xe58d_0008, // str r0, [sp, #8]
    0xe24e_0004, // sub r0, lr, #4
    0xe58d_0004, // str r0, [sp, #4]
    0xe59d_0000, // ldr r0, [sp]
    0xe280_0001, // add r0, #1
    0xe58d_0000, // str r0, [sp]
    0xe59d_0008, // ldr r0, [sp, #8]
    0xe25e_f004, // subs pc, lr, #4
    0xe7f0_00f0,
];

/// What a kernel does to its CPU; R11 and R12 are free. It ends at [`STOP`] with interrupts unmasked.
fn program(mmu: bool) -> Vec<u32> {
    let mut words = vec![
        0xe3a0_0101, // mov r0, #0x40000000
        0xe380_0b02, // orr r0, #0x800
        0xee0c_0f10, // mcr p15, 0, r0, c12, c0, 0: VBAR
        0xe3a0_0101, // mov r0, #0x40000000
        0xe380_0901, // orr r0, #0x4000
        0xee02_0f10, // mcr p15, 0, r0, c2, c0, 0: TTBR0
        0xe3a0_0055, // mov r0, #0x55
        0xee03_0f10, // mcr p15, 0, r0, c3, c0, 0: DACR
        0xee11_0f10, // mrc p15, 0, r0, c1, c0, 0: SCTLR
        0xe380_0001, // orr r0, #1
        if mmu { 0xee01_0f10 } else { 0xe1a0_0000 },
    ];
    words.extend([
        0xe3a0_1077, // mov r1, #0x77
        0xee0d_1f90, // mcr p15, 0, r1, c13, c0, 4: TPIDRPRW
        0xe3a0_1088, // mov r1, #0x88
        0xee0d_1f50, // mcr p15, 0, r1, c13, c0, 2: TPIDRURW
        0xf108_0080, // cpsie i
        0xe10f_2000, // mrs r2, cpsr
        0xf10c_0080, // cpsid i
        0xe10f_3000, // mrs r3, cpsr
        READS_TPIDRPRW,
        0xe121_f002, // msr cpsr_c, r2
        0xe3a0_1051, // mov r1, #0x51
        0xee03_1f10, // mcr p15, 0, r1, c3, c0, 0: DACR
        0xee13_4f10, // mrc p15, 0, r4, c3, c0, 0
        0xe121_f003, // msr cpsr_c, r3
        0xe351_0051, // cmp r1, #0x51
        0x0121_f002, // msreq cpsr_c, r2
        0x1121_f003, // msrne cpsr_c, r3
        0x010f_5000, // mrseq r5, cpsr
        0x110f_5000, // mrsne r5, cpsr
        0xee1d_6f50, // mrc p15, 0, r6, c13, c0, 2: TPIDRURW
        0xe3a0_101f, // mov r1, #0x1f
        0xe121_f001, // msr cpsr_c, r1: System mode
        0xe10f_7000, // mrs r7, cpsr
        0xe3a0_10d3, // mov r1, #0xd3
        0xe121_f001, // msr cpsr_c, r1: Supervisor mode, all masked
        0xe161_f002, // msr spsr_c, r2
        0xe14f_8000, // mrs r8, spsr
        0xee11_9f10, // mrc p15, 0, r9, c1, c0, 0
        0xe121_f002, // msr cpsr_c, r2
    ]);
    words.push(b(RAM + 4 * words.len() as u32, STOP));
    words
}

/// The program with trampolines, the words of their code page, and how many they are.
fn rewritten(program: &[u32]) -> (Vec<u32>, Vec<u32>, usize) {
    let mut words = program.to_vec();
    let mut code = vec![0; (PAGE / 4) as usize];
    code[..4].copy_from_slice(&[HEADER[0], HEADER[1], HEADER[2], 1]);
    let (mut next, mut count) = (ADDED + TO_CODE + CODE.start, 0);
    let free = Free {
        registers: 1 << 11 | 1 << 12,
        flags: false,
    };
    for (number, word) in words.iter_mut().enumerate() {
        let site = RAM + 4 * number as u32;
        if *word == READS_TPIDRPRW {
            // TPIDRURW has it.
            *word = 0xee1d_af50;
            continue;
        }
        let Some(template) = Template::of(*word, free) else {
            continue;
        };
        let at = template.start(next);
        for part in 0..template.len() {
            let index = (at - ADDED - TO_CODE) as usize / 4 + part;
            code[index] = template.word(part, at, site).expect("in reach");
        }
        next = at + 4 * template.len() as u32;
        *word = enter(*word, site, at).expect("in reach");
        count += 1;
    }
    (words, code, count)
}

fn sections() -> [u32; 2] {
    // For the kernel alone, the second one execute-never.
    [RAM | 0x40e, (RAM + 0x10_0000) | 0x41e]
}

fn parts(words: &[u32], code: &[u32]) -> Vec<u32> {
    memory(&[
        (RAM, words),
        (VECTORS + 0x18, &HANDLER),
        (STOP, &[b(STOP, STOP)]),
        (TABLE + 0x1000, &sections()),
        (ADDED + TO_CODE, code),
    ])
}

fn read(guest: &Guest<4, 8>, at: u32) -> u32 {
    guest.board.original(word_of(at.into()).expect("memory"))
}

/// How a run ended.
struct Ended {
    guest: Guest<4, 8>,
    /// After how many instructions.
    steps: u32,
    /// The number of the program's instruction before which, or in whose trampoline, the interrupt came.
    at: usize,
}

/// Runs the rewritten program with an interrupt before instruction `when`.
fn interrupted(words: &[u32], code: &[u32], when: u32) -> Ended {
    let mut guest = Guest::new(Board::new(parts(words, code), true), 8, 255);
    guest.add_trampolines(Span::new(Ipa::new(ADDED.into()), TRIPLE.into()).expect("below"));
    guest.monitor.boot(RAM, [0; 3]);
    let (mut served, mut last, mut at) = (0, 0, 0);
    for step in 0..4000 {
        let number = (guest.monitor.registers.pc.wrapping_sub(RAM) / 4) as usize;
        if number < words.len() {
            last = number;
        }
        if step == when {
            at = last;
        }
        let count = read(&guest, COUNT);
        let irq = step >= when && count == 0;
        let lines = Lines { irq, fiq: false };
        if step == when || count != served {
            served = count;
            let _taken = guest.deliver(lines);
        }
        if guest.monitor.registers.pc == STOP && (served == 1 || when > step) {
            return Ended {
                guest,
                steps: step,
                at,
            };
        }
        let before = guest.exceptions;
        let outcome = guest.step();
        let fine = matches!(outcome, Outcomes::Event(Event::Retired));
        assert!(fine, "{outcome:?} {:x?}", guest.monitor.registers);
        // A backend delivers after each exit.
        if guest.exceptions != before {
            let _taken = guest.deliver(lines);
        }
    }
    panic!(
        "it never stops, {when}: {:x?} {:x?}",
        guest.monitor.registers,
        guest.monitor.cpu.mode()
    );
}

fn check(mmu: bool) {
    let program = program(mmu);
    let (words, code, count) = rewritten(&program);
    assert_eq!(count, 22);
    let empty = Guest::<4, 8>::new(Board::new(parts(&program, &code), true), 8, 255);
    let mut cpu = empty.monitor;
    cpu.boot(RAM, [0; 3]);
    let mut native = Native::new(cpu.cpu, cpu.registers, parts(&program, &code));
    // Whether interrupts are masked before each instruction.
    let mut masked = Vec::new();
    while native.registers.pc != STOP {
        masked.push(native.cpu.masks().irqs);
        assert_eq!(native.step(), Event::Retired);
    }
    masked.push(native.cpu.masks().irqs);
    let unmasked = |from: usize| (from..masked.len()).find(|number| !masked[*number]);
    let steps = interrupted(&words, &code, 3999).steps;
    for when in 0..steps {
        let Ended { mut guest, at, .. } = interrupted(&words, &code, when);
        guest.leave();
        let (mine, its) = (&guest.monitor.registers, &native.registers);
        assert_eq!(mine.general[..11], its.general[..11], "{when}");
        assert_eq!(mine.psr, its.psr, "{when}");
        let (mine, its) = (&guest.monitor.cpu, &native.cpu);
        assert_eq!(
            (mine.mode(), mine.masks()),
            (its.mode(), its.masks()),
            "{when}"
        );
        assert_eq!(mine.mode(), Mode::Supervisor);
        for register in SystemRegister::ALL {
            assert_eq!(
                mine.system(register),
                its.system(register),
                "{when} {register:?}"
            );
        }
        let from = read(&guest, COUNT + 4);
        let before = read(&guest, COUNT);
        assert_eq!(before, 1, "{when}");
        let number = match from {
            STOP => masked.len() - 1,
            _ => (from.wrapping_sub(RAM) / 4) as usize,
        };
        let expected = [unmasked(at), unmasked(at + 1)];
        assert!(expected.contains(&Some(number)), "{when}: {from:#x}, {at}");
    }
}

#[test]
fn an_interrupt_anywhere_changes_nothing() {
    check(false);
}

#[test]
fn an_interrupt_anywhere_changes_nothing_with_the_mmu_on() {
    check(true);
}
