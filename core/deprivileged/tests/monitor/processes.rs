//! A kernel that changes between processes, and takes their aborts, ends as on a CPU of its own, whether it does what it can do
//! without the monitor or not, and wherever it is interrupted.

use crate::board::{Board, RAM, word_of};
use crate::crossings::compare_but;
use crate::guest::{Guest, Outcomes};
use crate::lockstep::{STOP, memory};
use crate::native::{Event, Kind, Native};
use crate::programs::b;
use crate::trampolines::{ADDED, COUNT, HANDLER, Rewritten, TABLE, VECTORS, read, sections};
use hanok_abi::trampoline::{TO_CODE, TRIPLE};
use hanok_abi::trap::trap_a32;
use hanok_cpu32::Lines;
use hanok_types::{Ipa, Span};

/// The processes' first-level tables, and one without a process.
const TABLES: [u32; 2] = [TABLE, RAM + 0xc000];
const RESERVED: u32 = RAM + 0x1_0000;
/// Their second-level tables, for the third megabyte; the frame of their code, and those of their stacks.
const PAGES: [u32; 2] = [RAM + 0x9000, RAM + 0x1_4000];
const PROGRAM_AT: u32 = RAM + 0xa000;
const STACKS: [u32; 2] = [RAM + 0xb000, RAM + 0x1_5000];
/// A page of a process's, which is not global.
const PAGE: u32 = 0x83e;
/// Where the stacks are mapped.
const STACK: u32 = 0x4020_1f00;
/// The handler of interrupts.
const HANDLER_AT: u32 = RAM + 0x8000;
/// Where SVC and data aborts lead.
const CALL: u32 = RAM + 0xa4;
const ABORTED: u32 = RAM + 0x18c;
/// Where the kernel unmasks interrupts, and where it has ended.
const UNMASKS: u32 = RAM + 0xd8;
const END: u32 = RAM + 0x184;

/// The kernel: it begins two processes, and serves the calls of each, and changes to the other one. It ends at the label `stop`.
const KERNEL: [u32; 141] = [
    0xe3a0_0101, // mov r0, #1073741824
    0xe380_0b02, // orr r0, r0, #2048
    0xee0c_0f10, // mcr 15, 0, r0, cr12, cr0, {0}
    0xe3a0_0101, // mov r0, #1073741824
    0xe380_0901, // orr r0, r0, #16384
    0xee02_0f10, // mcr 15, 0, r0, cr2, cr0, {0}
    0xe3a0_1001, // mov r1, #1
    0xee0d_1f30, // mcr 15, 0, r1, cr13, cr0, {1}
    0xe3a0_0055, // mov r0, #85
    0xee03_0f10, // mcr 15, 0, r0, cr3, cr0, {0}
    0xee11_0f10, // mrc 15, 0, r0, cr1, cr0, {0}
    0xe380_0001, // orr r0, r0, #1
    0xee01_0f10, // mcr 15, 0, r0, cr1, cr0, {0}
    0xe3a0_1077, // mov r1, #119
    0xee0d_1f90, // mcr 15, 0, r1, cr13, cr0, {4}
    0xe321_f0d7, // msr CPSR_c, #215
    0xe3a0_d101, // mov sp, #1073741824
    0xe38d_dc23, // orr sp, sp, #8960
    0xe321_f0d3, // msr CPSR_c, #211
    0xe3a0_6002, // mov r6, #2
    0xe3a0_3101, // mov r3, #1073741824
    0xe383_3602, // orr r3, r3, #2097152
    0xe283_4c1f, // add r4, r3, #7936
    0xe3a0_5010, // mov r5, #16
    0xe3a0_d101, // mov sp, #1073741824
    0xe38d_da03, // orr sp, sp, #12288
    0xe24d_d048, // sub sp, sp, #72: `first`
    0xe58d_4034, // str r4, [sp, #52]
    0xe58d_303c, // str r3, [sp, #60]
    0xe58d_5040, // str r5, [sp, #64]
    0xe58d_6010, // str r6, [sp, #16]
    0xe256_6001, // subs r6, r6, #1
    0x03a0_a101, // moveq sl, #1073741824
    0x038a_ac21, // orreq sl, sl, #8448
    0x058a_d010, // streq sp, [sl, #16]
    0x0a00_0034, // beq 164 back
    0xe3a0_a101, // mov sl, #1073741824
    0xe38a_ac21, // orr sl, sl, #8448
    0xe58a_d014, // str sp, [sl, #20]
    0xe24d_dc01, // sub sp, sp, #256
    0xeaff_fff0, // b 68 first
    0xe24d_d048, // sub sp, sp, #72: `call`
    0xe88d_1fff, // stm sp, {r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, sl, fp, ip}
    0xe28d_803c, // add r8, sp, #60
    0xe948_6000, // stmdb r8, {sp, lr}^
    0xe14f_8000, // mrs r8, SPSR
    0xe58d_e03c, // str lr, [sp, #60]
    0xe58d_8040, // str r8, [sp, #64]
    0xe58d_0044, // str r0, [sp, #68]
    0xe3a0_a101, // mov sl, #1073741824
    0xe38a_ac21, // orr sl, sl, #8448
    0xe59a_9000, // ldr r9, [sl]
    0xe289_9001, // add r9, r9, #1
    0xe58a_9000, // str r9, [sl]
    0xf108_0080, // cpsie i
    0xf10c_0080, // cpsid i
    0xe357_0006, // cmp r7, #6
    0x0a00_0026, // beq 184 stop
    0xee1d_1f30, // mrc 15, 0, r1, cr13, cr0, {1}
    0xe261_2003, // rsb r2, r1, #3
    0xe28a_300c, // add r3, sl, #12
    0xe783_d101, // str sp, [r3, r1, lsl #2]
    0xe793_d102, // ldr sp, [r3, r2, lsl #2]
    0xe3a0_4101, // mov r4, #1073741824
    0xe384_4801, // orr r4, r4, #65536
    0xee02_4f10, // mcr 15, 0, r4, cr2, cr0, {0}
    0xee0d_2f30, // mcr 15, 0, r2, cr13, cr0, {1}
    0xe352_0001, // cmp r2, #1
    0xe3a0_4101, // mov r4, #1073741824
    0x0384_4901, // orreq r4, r4, #16384
    0x1384_4903, // orrne r4, r4, #49152
    0xee02_4f10, // mcr 15, 0, r4, cr2, cr0, {0}
    0xee12_5f10, // mrc 15, 0, r5, cr2, cr0, {0}
    0xe3a0_6101, // mov r6, #1073741824
    0xe386_6602, // orr r6, r6, #2097152
    0xe286_6c1f, // add r6, r6, #7936
    0xe596_6000, // ldr r6, [r6]
    0xe59a_9018, // ldr r9, [sl, #24]
    0xe085_9189, // add r9, r5, r9, lsl #3
    0xe089_9006, // add r9, r9, r6
    0xe58a_9018, // str r9, [sl, #24]
    0xe3a0_8101, // mov r8, #1073741824
    0xe388_8602, // orr r8, r8, #2097152
    0xe288_8c1f, // add r8, r8, #7936
    0xe4e8_9004, // strbt r9, [r8], #4
    0xe4a8_9000, // strt r9, [r8], #0
    0xe59d_9000, // ldr r9, [sp]
    0xe089_9001, // add r9, r9, r1
    0xe58d_9000, // str r9, [sp]
    0xe1a0_200d, // mov r2, sp: `back`
    0xe592_1040, // ldr r1, [r2, #64]
    0xe5b2_e03c, // ldr lr, [r2, #60]!
    0xe16f_f001, // msr SPSR_fsxc, r1
    0xe952_7fff, // ldmdb r2, {r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, sl, fp, ip, sp, lr}^
    0xe1a0_0000, // nop
    0xe28d_d048, // add sp, sp, #72
    0xe1b0_f00e, // movs pc, lr
    0xf108_0080, // cpsie i: `stop`
    0xeaff_fffd, // b 184 stop
    0xe24e_e008, // sub lr, lr, #8: `aborted`
    0xe88d_4001, // stm sp, {r0, lr}
    0xe14f_e000, // mrs lr, SPSR
    0xe58d_e008, // str lr, [sp, #8]
    0xe10f_0000, // mrs r0, CPSR
    0xe220_0004, // eor r0, r0, #4
    0xe16f_f000, // msr SPSR_fsxc, r0
    0xe1a0_000d, // mov r0, sp
    0xe28f_e000, // add lr, pc, #0
    0xe1b0_f00e, // movs pc, lr
    0xe24d_d048, // sub sp, sp, #72
    0xe88d_1fff, // stm sp, {r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, sl, fp, ip}
    0xe890_0038, // ldm r0, {r3, r4, r5}
    0xe58d_3000, // str r3, [sp]
    0xe28d_803c, // add r8, sp, #60
    0xe948_6000, // stmdb r8, {sp, lr}^
    0xe284_4004, // add r4, r4, #4
    0xe58d_403c, // str r4, [sp, #60]
    0xe58d_5040, // str r5, [sp, #64]
    0xee15_1f10, // mrc 15, 0, r1, cr5, cr0, {0}
    0xee16_2f10, // mrc 15, 0, r2, cr6, cr0, {0}
    0xee15_6f30, // mrc 15, 0, r6, cr5, cr0, {1}
    0xee08_bf77, // mcr 15, 0, fp, cr8, cr7, {3}: TLBIMVAA
    0xee10_9ff1, // mrc 15, 0, r9, cr0, cr1, {7}
    0xe3a0_3051, // mov r3, #81
    0xee03_3f10, // mcr 15, 0, r3, cr3, cr0, {0}
    0xe3a0_3055, // mov r3, #85
    0xee03_3f10, // mcr 15, 0, r3, cr3, cr0, {0}
    0xe10f_b000, // mrs fp, CPSR
    0xe3a0_a101, // mov sl, #1073741824
    0xe38a_ac21, // orr sl, sl, #8448
    0xe59a_c01c, // ldr ip, [sl, #28]
    0xe081_c08c, // add ip, r1, ip, lsl #1
    0xe08c_c002, // add ip, ip, r2
    0xe08c_c006, // add ip, ip, r6
    0xe08c_c007, // add ip, ip, r7
    0xe08c_c009, // add ip, ip, r9
    0xe08c_c00b, // add ip, ip, fp
    0xe58a_c01c, // str ip, [sl, #28]
    0xf108_0080, // cpsie i
    0xf10c_0080, // cpsid i
    0xeaff_ffcb, // b 164 back
];

/// What both processes execute: it calls, and then reads what it may not.
const PROGRAM: [u32; 15] = [
    0xe3a0_0010, // mov r0, #16
    0xe3a0_c101, // mov ip, #1073741824
    0xe38c_c602, // orr ip, ip, #2097152
    0xe28c_bc1f, // add fp, ip, #7936
    0xe58b_4000, // str r4, [fp]
    0xe3a0_7001, // mov r7, #1
    0xef00_0000, // svc 0x00000000
    0xe52d_0004, // push {r0}
    0xe59b_1000, // ldr r1, [fp]
    0xe52d_1004, // push {r1}
    0xe59c_1800, // ldr r1, [ip, #2048]
    0xe51c_1004, // ldr r1, [ip, #-4]
    0xe52d_1004, // push {r1}
    0xe287_7001, // add r7, r7, #1
    0xeaff_fff6, // b 18 again
];

/// The kernel with traps in what Linux has as stubs of its vectors, and in what follows no trampolines but of CPS.
fn rewritten() -> Rewritten {
    let mut it = Rewritten::new(&KERNEL, HANDLER_AT, 0);
    for (number, word) in KERNEL.iter().enumerate() {
        // STRT and STRBT.
        if word & 0x0f30_0000 == 0x0420_0000 || word & 0x0fb0_0000 == 0x04a0_0000 {
            it.program[number] = trap_a32(*word).expect("there is one");
        }
    }
    let first = ((ABORTED - RAM) / 4) as usize;
    for (number, word) in KERNEL.iter().enumerate().skip(first) {
        let status = matches!(word & 0x0fb0_0000, 0x0100_0000 | 0x0120_0000) && word & 0xf0 == 0;
        let masks = word & 0xfff1_fe20 == 0xf100_0000;
        if !masks {
            let trap = trap_a32(*word).filter(|_| status);
            it.program[number] = trap.unwrap_or(*word);
        }
    }
    it
}

fn parts(kernel: &[u32], handler: &[u32], code: &[u32]) -> Vec<u32> {
    let [own, added] = sections();
    let tables = [0, 1].map(|number| [own, added, PAGES[number] | 1]);
    let pages = STACKS.map(|stack| [PROGRAM_AT | PAGE, stack | PAGE]);
    memory(&[
        (RAM, kernel),
        (VECTORS + 4, &[b(VECTORS + 4, VECTORS + 4)]),
        (VECTORS + 8, &[b(VECTORS + 8, CALL)]),
        (VECTORS + 0x10, &[b(VECTORS + 0x10, ABORTED)]),
        (VECTORS + 0x18, &[b(VECTORS + 0x18, HANDLER_AT)]),
        (HANDLER_AT, handler),
        (STOP, &[b(STOP, STOP)]),
        (TABLES[0] + 0x1000, &tables[0]),
        (TABLES[1] + 0x1000, &tables[1]),
        (RESERVED + 0x1000, &[own, added]),
        (PAGES[0], &pages[0]),
        (PAGES[1], &pages[1]),
        (PROGRAM_AT, &PROGRAM),
        (ADDED + TO_CODE, code),
    ])
}

#[derive(Clone, Copy, Debug)]
struct Run {
    crosses: bool,
    /// An exit comes after each so many instructions; 0: none.
    exits: u32,
    /// Before which instruction the interrupt comes.
    interrupt: Option<u32>,
    /// The last ASID of the hardware's.
    asids: u8,
}

fn begin<const ROOTS: usize, const TABLES: usize>(
    rewritten: &Rewritten,
    how: Run,
) -> Guest<ROOTS, TABLES> {
    let words = parts(&rewritten.program, &rewritten.handler, &rewritten.code);
    let mut guest = Guest::new(Board::new(words, true), 8, how.asids);
    guest.add_trampolines(Span::new(Ipa::new(ADDED.into()), TRIPLE.into()).expect("below"));
    guest.monitor.boot(RAM, [0; 3]);
    guest.crosses = how.crosses;
    guest
}

fn run<const ROOTS: usize, const TABLES: usize>(
    rewritten: &Rewritten,
    how: Run,
) -> (Guest<ROOTS, TABLES>, u32) {
    let mut guest = begin(rewritten, how);
    let mut served = 0;
    for step in 0..4000 {
        let count = read(&guest, COUNT);
        let irq = how.interrupt.is_some_and(|when| step >= when) && count == 0;
        let lines = Lines { irq, fiq: false };
        let exits = how.exits != 0 && step % how.exits == 0;
        if exits || how.interrupt == Some(step) || count != served {
            served = count;
            let _taken = guest.deliver(lines);
        }
        let pc = guest.monitor.registers.pc;
        let masked = (CALL..UNMASKS).contains(&pc) || (ABORTED..ABORTED + 0x28).contains(&pc);
        assert!(
            !masked || read(&guest, COUNT) == count,
            "{pc:#x} is interrupted"
        );
        if pc == END + 4 && !irq {
            guest.leave();
            return (guest, step);
        }
        let before = guest.exceptions;
        let outcome = guest.step();
        let fine = matches!(outcome, Outcomes::Event(Event::Retired));
        assert!(fine, "{how:?} {outcome:?} {:x?}", guest.monitor.registers);
        if guest.exceptions != before && !guest.entered {
            let _taken = guest.deliver(lines);
        }
    }
    panic!("it never stops, {how:?}: {:x?}", guest.monitor.registers);
}

fn native(rewritten: &Rewritten) -> Native {
    let words = parts(&KERNEL, &HANDLER, &rewritten.code);
    let mut monitor = Guest::<8, 16>::new(Board::new(words.clone(), true), 8, 255).monitor;
    monitor.boot(RAM, [0; 3]);
    let mut native = Native::new(monitor.cpu, monitor.registers, words);
    while native.registers.pc != END + 4 {
        assert_eq!(native.step(), Event::Retired);
    }
    native
}

fn check<const ROOTS: usize, const TABLES: usize>(
    rewritten: &Rewritten,
    native: &Native,
    how: Run,
) -> Guest<ROOTS, TABLES> {
    let (guest, _) = run::<ROOTS, TABLES>(rewritten, how);
    let count = guest.board.original(word_of(COUNT.into()).expect("memory"));
    assert_eq!(count, how.interrupt.is_some().into(), "{how:?}");
    let others = [(RAM, KERNEL.len()), (HANDLER_AT, HANDLER.len())];
    compare_but(&guest, native, &others, &how);
    guest
}

const RUN: Run = Run {
    crosses: true,
    exits: 0,
    interrupt: None,
    asids: 255,
};

#[test]
fn processes_change_without_the_monitor() {
    let rewritten = rewritten();
    let native = native(&rewritten);
    let guest = check::<24, 32>(&rewritten, &native, RUN);
    let crossed = &guest.crossed;
    // Ten calls, each with three steps to the other process, of which the first ones make the spaces known.
    assert!(crossed.spaces >= 15, "{crossed:?}");
    assert!(crossed.arrivals >= 8 && crossed.status >= 24, "{crossed:?}");
    assert!(crossed.reads >= 36 && crossed.domains >= 18, "{crossed:?}");
    assert!(crossed.returns >= 12, "{crossed:?}");
    let [filled, taken, gone_on] = crossed.at_once;
    assert!(filled >= 1 && taken >= 4 && gone_on >= 20, "{crossed:?}");
    assert!(crossed.invalidated[0] >= 8, "{crossed:?}");
}

#[test]
fn a_page_that_is_invalidated_at_once_is_in_no_table_and_no_tlb() {
    let mut guest = begin::<24, 32>(&rewritten(), RUN);
    // The CPU walks whenever it likes, and its model finds what was not invalidated.
    let is_mapped = |guest: &mut Guest<24, 32>| {
        let Guest {
            mmu, tables, root, ..
        } = guest;
        guest.entered && mmu.find(tables, root, STACK, Kind::Read).is_some()
    };
    let mut gone = 0;
    while guest.monitor.registers.pc != END + 4 {
        let before = (is_mapped(&mut guest), guest.crossed.invalidated[0]);
        assert_eq!(guest.step(), Outcomes::Event(Event::Retired));
        if guest.crossed.invalidated[0] != before.1 {
            assert!(!is_mapped(&mut guest));
            gone += u32::from(before.0);
        }
    }
    assert!(gone >= 4, "{gone} of {:?}", guest.crossed);
}

#[test]
fn processes_change_with_exits_anywhere_and_few_roots_tables_and_asids() {
    let rewritten = rewritten();
    let native = native(&rewritten);
    for crosses in [false, true] {
        for exits in [0, 1, 2, 3, 5, 7, 11, 17, 29, 43] {
            for asids in [2, 5, 255] {
                let how = Run {
                    crosses,
                    exits,
                    asids,
                    ..RUN
                };
                check::<24, 32>(&rewritten, &native, how);
                check::<5, 32>(&rewritten, &native, how);
                check::<24, 4>(&rewritten, &native, how);
                check::<24, 8>(&rewritten, &native, how);
            }
        }
    }
}

#[test]
fn processes_change_with_an_interrupt_anywhere() {
    let rewritten = rewritten();
    let native = native(&rewritten);
    let (_, steps) = run::<24, 32>(&rewritten, RUN);
    for when in 0..steps {
        let how = Run {
            interrupt: Some(when),
            exits: if when % 5 == 0 { 19 } else { 0 },
            ..RUN
        };
        check::<24, 32>(&rewritten, &native, how);
    }
}
