//! A kernel with trampolines ends as the same kernel does on a CPU of its own, wherever it is interrupted.

use crate::board::{Board, RAM, word_of};
use crate::guest::{Guest, Outcomes};
use crate::lockstep::{STOP, memory};
use crate::native::{Event, Native};
use crate::programs::b;
use hanok_abi::trampoline::{
    CODE, Free, HEADER, PAGE, Room, TO_CODE, TRIPLE, Template, ThreadWrite, enter,
};
use hanok_cpu32::{Lines, Mode, SystemRegister};
use hanok_deprivileged::{Answer, Trap};
use hanok_types::{Ipa, Span};

/// The trampolines: in the second megabyte.
pub const ADDED: u32 = RAM + 0x10_0000;
pub const VECTORS: u32 = RAM + 0x800;
pub const TABLE: u32 = RAM + 0x4000;
/// What the handler counts, where it came from, R0 and R12.
pub const COUNT: u32 = RAM + 0x2000;

/// MRC p15, 0, R0, c13, c0, 4, and what it becomes.
const READS_TPIDRPRW: u32 = 0xee1d_0f90;
const READS_TPIDRURW: u32 = 0xee1d_0f50;

/// The place of the handler of interrupts: the vector of IRQs.
const HANDLER_AT: u32 = VECTORS + 0x18;
/// The handler. It has a trampoline, too.
pub const HANDLER: [u32; 15] = [
    0xe3a0_d101, // mov sp, #0x40000000
    0xe38d_da02, // orr sp, #0x2000
    0xe58d_0008, // str r0, [sp, #8]
    0xe58d_c00c, // str ip, [sp, #12]
    0xe3a0_c05a, // mov ip, #0x5a
    0xe10f_0000, // mrs r0, cpsr
    0xe59d_c00c, // ldr ip, [sp, #12]
    0xe24e_0004, // sub r0, lr, #4
    0xe58d_0004, // str r0, [sp, #4]
    0xe59d_0000, // ldr r0, [sp]
    0xe280_0001, // add r0, #1
    0xe58d_0000, // str r0, [sp]
    0xe59d_0008, // ldr r0, [sp, #8]
    0xe25e_f004, // subs pc, lr, #4
    0xe7f0_00f0,
];

/// What a kernel does to its CPU; R11 and R12 may be free. It ends at [`STOP`] with interrupts unmasked.
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
        0xe3a0_b0ab, // mov r11, #0xab
        0xe3a0_c0cd, // mov ip, #0xcd
        0xe3a0_1077, // mov r1, #0x77
        0xee0d_1f90, // mcr p15, 0, r1, c13, c0, 4: TPIDRPRW
        0xe3a0_1088, // mov r1, #0x88
        0xee0d_1f50, // mcr p15, 0, r1, c13, c0, 2: TPIDRURW
        0xf108_0080, // cpsie i
        0xe10f_2000, // mrs r2, cpsr
        0xf10c_0080, // cpsid i
        0xe10f_3000, // mrs r3, cpsr
        READS_TPIDRPRW | 0xa000,
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

/// A kernel with trampolines.
pub struct Rewritten {
    pub program: Vec<u32>,
    pub handler: Vec<u32>,
    /// The words of the trampolines' page.
    pub code: Vec<u32>,
    /// Where the next trampoline may begin.
    next: u32,
    /// How many trampolines there are.
    count: usize,
    /// Whether the first write of TPIDRURO in a call, of R8, is foreseen, and the last one, of R11, is deferred.
    foresees: bool,
}

impl Rewritten {
    /// The handler is at `handler_at`, and `registers` are free in the program.
    pub fn new(program: &[u32], handler_at: u32, registers: u16) -> Self {
        Self::with(program, handler_at, registers, false)
    }

    /// The same for one that [`Room::foresees`].
    pub fn foreseeing(program: &[u32], handler_at: u32, registers: u16) -> Self {
        Self::with(program, handler_at, registers, true)
    }

    fn with(program: &[u32], handler_at: u32, registers: u16, foresees: bool) -> Self {
        let room = Room {
            triples: 1,
            doorbells: 1,
            foresees,
        };
        let mut code = vec![0; (PAGE / 4) as usize];
        code[..3].copy_from_slice(&HEADER);
        code[3..5].copy_from_slice(&room.words());
        let mut it = Self {
            program: Vec::new(),
            handler: Vec::new(),
            code,
            next: ADDED + TO_CODE + CODE.start,
            count: 0,
            foresees,
        };
        let free = |registers| Free {
            registers,
            flags: false,
        };
        it.program = it.rewrite(program, RAM, free(registers));
        it.handler = it.rewrite(&HANDLER, handler_at, free(0));
        it
    }

    fn rewrite(&mut self, words: &[u32], start: u32, free: Free) -> Vec<u32> {
        let sites = (start..).step_by(4).zip(words);
        sites
            .map(|(site, word)| self.site(*word, site, free))
            .collect()
    }

    fn site(&mut self, word: u32, site: u32, free: Free) -> u32 {
        if word & !0xf000 == READS_TPIDRPRW {
            // TPIDRURW has it.
            return READS_TPIDRURW | word & 0xf000;
        }
        let Some(template) = Template::of(word, free).or_else(|| self.thread_write(word)) else {
            return word;
        };
        let at = template.start(self.next);
        for part in 0..template.len() {
            let index = (at - ADDED - TO_CODE) as usize / 4 + part;
            self.code[index] = template.word(part, at, site).expect("in reach");
        }
        self.next = at + 4 * template.len() as u32;
        self.count += 1;
        enter(word, site, at).expect("in reach")
    }

    fn thread_write(&self, word: u32) -> Option<Template> {
        let how = match word {
            _ if !self.foresees => ThreadWrite::Traps,
            0xee0d_8f70 => ThreadWrite::Foreseen,
            _ => ThreadWrite::Deferred,
        };
        let free = Free {
            registers: 1 << 11,
            flags: true,
        };
        Template::of_thread_write(word, how, free)
    }

    fn parts(&self) -> Vec<u32> {
        parts(&self.program, &self.handler, &self.code)
    }
}

pub fn sections() -> [u32; 2] {
    // For the kernel alone, the second one execute-never.
    [RAM | 0x40e, (RAM + 0x10_0000) | 0x41e]
}

fn parts(words: &[u32], handler: &[u32], code: &[u32]) -> Vec<u32> {
    memory(&[
        (RAM, words),
        (HANDLER_AT, handler),
        (STOP, &[b(STOP, STOP)]),
        (TABLE + 0x1000, &sections()),
        (ADDED + TO_CODE, code),
    ])
}

pub fn read<const ROOTS: usize, const TABLES: usize>(guest: &Guest<ROOTS, TABLES>, at: u32) -> u32 {
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

/// Runs the rewritten program with an interrupt before instruction `when`; and with an exit at each instruction, if it
/// `exits`.
fn interrupted(rewritten: &Rewritten, exits: bool, when: u32) -> Ended {
    let mut guest = Guest::new(Board::new(rewritten.parts(), true), 8, 255);
    guest.add_trampolines(Span::new(Ipa::new(ADDED.into()), TRIPLE.into()).expect("below"));
    guest.monitor.boot(RAM, [0; 3]);
    let (mut served, mut last, mut at) = (0, 0, 0);
    for step in 0..4000 {
        let number = (guest.monitor.registers.pc.wrapping_sub(RAM) / 4) as usize;
        if number < rewritten.program.len() {
            last = number;
        }
        if step == when {
            at = last;
        }
        let count = read(&guest, COUNT);
        let irq = step >= when && count == 0;
        let lines = Lines { irq, fiq: false };
        if exits || step == when || count != served {
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
        if guest.exceptions != before && !guest.entered {
            let _taken = guest.deliver(lines);
        }
    }
    panic!(
        "it never stops, {when}: {:x?} {:x?}",
        guest.monitor.registers,
        guest.monitor.cpu.mode()
    );
}

/// Checks all runs where these registers are free for trampolines.
fn check(mmu: bool, free: u16, exits: bool) {
    check_with(mmu, free, exits, 1);
}

/// The same where so many triples have doorbells that are opened.
fn check_with(mmu: bool, free: u16, exits: bool, doorbells: u32) {
    let program = program(mmu);
    let mut rewritten = Rewritten::new(&program, HANDLER_AT, free);
    rewritten.code[4] = doorbells;
    assert_eq!(rewritten.count, 23);
    let memory = || parts(&program, &HANDLER, &rewritten.code);
    let empty = Guest::<4, 8>::new(Board::new(memory(), true), 8, 255);
    let mut cpu = empty.monitor;
    cpu.boot(RAM, [0; 3]);
    let mut native = Native::new(cpu.cpu, cpu.registers, memory());
    // Whether interrupts are masked before each instruction.
    let mut masked = Vec::new();
    while native.registers.pc != STOP {
        masked.push(native.cpu.masks().irqs);
        assert_eq!(native.step(), Event::Retired);
    }
    masked.push(native.cpu.masks().irqs);
    let unmasked = |from: usize| (from..masked.len()).find(|number| !masked[*number]);
    let kept = |general: &[u32; 15]| {
        let all = general[..13].iter().zip(0..);
        let kept = all.filter(|(_, number)| free >> number & 1 == 0);
        kept.map(|(value, _)| *value).collect::<Vec<_>>()
    };
    let steps = interrupted(&rewritten, exits, 3999).steps;
    for when in 0..steps {
        let Ended { mut guest, at, .. } = interrupted(&rewritten, exits, when);
        guest.leave();
        let (mine, its) = (&guest.monitor.registers, &native.registers);
        assert_eq!(kept(&mine.general), kept(&its.general), "{when}");
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

/// R11 and R12.
const TWO: u16 = 1 << 11 | 1 << 12;

#[test]
fn an_interrupt_anywhere_changes_nothing() {
    check(false, TWO, false);
}

#[test]
fn an_interrupt_anywhere_changes_nothing_with_the_mmu_on() {
    check(true, TWO, false);
}

#[test]
fn an_interrupt_anywhere_restores_what_was_spilled() {
    check(false, 0, false);
    check(true, 0, false);
}

/// A header may say that no trampoline writes through its doorbell: one that does then is slow.
#[test]
fn a_doorbell_that_is_always_closed_does_the_same() {
    check_with(false, TWO, false, 0);
    check_with(true, 0, true, 0);
}

#[test]
fn an_exit_anywhere_keeps_what_was_spilled() {
    check(true, 0, true);
}

/// An abort that comes late is taken as an interrupt is.
#[test]
fn an_abort_that_comes_late_restores_what_was_spilled() {
    let rewritten = Rewritten::new(&program(false), HANDLER_AT, 0);
    let mut guest = Guest::<4, 8>::new(Board::new(rewritten.parts(), true), 8, 255);
    guest.add_trampolines(Span::new(Ipa::new(ADDED.into()), TRIPLE.into()).expect("below"));
    guest.monitor.boot(RAM, [0; 3]);
    let spilled = |guest: &Guest<4, 8>| {
        let general = &guest.monitor.registers.general;
        guest.monitor.registers.pc > ADDED && general[12] != 0xcd && general[11] == 0xab
    };
    for _ in 0..200 {
        let _retired = guest.step();
        if spilled(&guest) {
            break;
        }
    }
    assert!(spilled(&guest));
    let asynchronous = Trap::DataAbort {
        status: 0x406,
        address: 0,
    };
    assert_eq!(guest.serve_any(asynchronous), Answer::SystemError);
    let registers = &guest.monitor.registers;
    assert!(registers.pc < ADDED);
    assert_eq!(registers.general[12], 0xcd);
}

/// kexec copies another kernel to where this one has its trampolines, with the MMU off.
#[test]
fn with_the_mmu_off_again_the_trampolines_memory_is_plain() {
    let program = [
        0xe3a0_0101, // mov r0, #0x40000000
        0xe380_0901, // orr r0, #0x4000
        0xee02_0f10, // mcr p15, 0, r0, c2, c0, 0: TTBR0
        0xe3a0_0055, // mov r0, #0x55
        0xee03_0f10, // mcr p15, 0, r0, c3, c0, 0: DACR
        0xee11_0f10, // mrc p15, 0, r0, c1, c0, 0: SCTLR
        0xe1a0_6000, // mov r6, r0
        0xe380_0001, // orr r0, #1
        0xee01_0f10, // mcr p15, 0, r0, c1, c0, 0
        0xe28f_f602, // add pc, pc, #0x200000: the same, mapped elsewhere
        0xe1a0_0000, // nop
        0xe10f_2000, // mrs r2, cpsr: a trampoline
        0xe24f_f602, // sub pc, pc, #0x200000
        0xe1a0_0000, // nop
        0xe1a0_0006, // mov r0, r6: no trampoline from here on
        0xee08_0f17, // mcr p15, 0, r0, c8, c7, 0: TLBIALL, as Linux does before
        0xee01_0f10, // mcr p15, 0, r0, c1, c0, 0
        0xe3a0_1101, // mov r1, #0x40000000
        0xe381_1601, // orr r1, #0x100000
        0xe3a0_30ab, // mov r3, #0xab
        0xe581_3000, // str r3, [r1]: the doorbell
        0xe281_4a02, // add r4, r1, #0x2000
        0xe584_3004, // str r3, [r4, #4]: the plain page
        b(RAM + 4 * 23, STOP),
    ];
    let rewritten = Rewritten::new(&program, HANDLER_AT, TWO);
    let [kernel, added] = sections();
    let parts = memory(&[
        (RAM, &rewritten.program),
        (STOP, &[b(STOP, STOP)]),
        (TABLE + 0x1000, &[kernel, added, kernel, added]),
        (ADDED + TO_CODE, &rewritten.code),
    ]);
    let mut guest = Guest::<4, 8>::new(Board::new(parts, true), 8, 255);
    guest.add_trampolines(Span::new(Ipa::new(ADDED.into()), TRIPLE.into()).expect("below"));
    guest.monitor.boot(RAM, [0; 3]);
    for _ in 0..400 {
        if guest.monitor.registers.pc == STOP {
            break;
        }
        let outcome = guest.step();
        let fine = matches!(outcome, Outcomes::Event(Event::Retired));
        assert!(fine, "{outcome:?} {:x?}", guest.monitor.registers);
    }
    assert_eq!(guest.monitor.registers.pc, STOP);
    assert_eq!(read(&guest, ADDED), 0xab);
    assert_eq!(read(&guest, ADDED + 2 * PAGE + 4), 0xab);
}
