//! The window's code: what enters and leaves guests, and what it does for a kernel without leaving.

use super::record::{OWN_ASID, RECORD_PAGES, Record};
use core::mem::offset_of;
use hanok_abi::crossing::{CROSSING_TRAP, CROSSING_TRAPS};
use hanok_abi::trampoline::Field;
use hanok_deprivileged::Crossing;
use hanok_types::PAGE_SIZE;

core::arch::global_asm!(
    r#"
    .section .text.window, "ax"
    .arm
    // Vectors are so aligned; and all of it lies in one page.
    .balign 32
    .global hanok_window
hanok_window:
    b       .                       // no reset comes here
    b       window_undefined
    b       window_call
    b       window_prefetch
    b       window_data
    b       .
    b       window_irq
    b       window_fiq

    // From the guest: R0 = the record, R1 = the vector's number.
    .macro  leave_guest number
    stmia   sp, {{r0-r12}}
    mov     r0, sp
    mov     r1, #\number
    b       window_leave
    .endm

    // To another root: its table and ASID. R0 is lost. What follows uses it from the next ISB or exception return on.
    .macro  begin_root table, asid
    mov     r0, #0
    mcr     p15, 0, r0, c13, c0, 1  // CONTEXTIDR
    isb
    mcr     p15, 0, \table, c2, c0, 0 // TTBR0
    isb
    mcr     p15, 0, \asid, c13, c0, 1
    .endm

    .macro  change_root table, asid
    begin_root \table, \asid
    isb
    .endm

    // R4 = Rt of the instruction in R0, one of R0 to R12, whose lower half is the given one without it; R2 and R3 are lost.
    .macro  operand lower
    uxth    r3, r0
    ubfx    r4, r0, #12, #4
    bic     r3, r3, #0xf000
    cmp     r4, #12
    movwls  r2, #\lower
    cmpls   r3, r2
    bne     window_left_by_undefined
    ldr     r4, [sp, r4, lsl #2]
    .endm

window_prefetch:
    leave_guest 3
window_irq:
    leave_guest 6
window_fiq:
    leave_guest 7

window_data:
    str     r0, [sp, #{spare}]
    mrs     r0, spsr
    tst     r0, #0xf
    bne     window_own_data
    ldr     r0, [sp, #{spare}]
window_left_by_data:
    stmia   sp, {{r0-r12}}
    // The word that could not make its access by its tables (DFSR: FS is 0b0x1x1), in A32: it can be read, too.
    mrc     p15, 0, r3, c5, c0, 0
    mrs     r2, spsr
    eor     r3, r3, #5
    tst     r3, #5
    tsteq   r3, #0x400
    tsteq   r2, #0x20               // T
    ldreq   r3, [lr, #-8]
    streq   r3, [sp, #{word}]
    mov     r0, sp
    mov     r1, #4
    b       window_leave

    // An access for the guest in the window has failed, to where an instruction that was undefined was to load or store: it
    // leaves by that, whose word is known.
window_own_data:
    // Of Supervisor mode, 0x13, where SVC stood for the instruction, or of Undefined mode, 0x1b.
    orr     r0, r0, #8
    and     r0, r0, #0x1f
    cmp     r0, #0x1b
    eoreq   r0, lr, pc
    lsreq   r0, r0, #12
    cmpeq   r0, #0
    bne     window_own_fault
    // DFSR: FS is not 0b10110, an asynchronous external abort.
    mrc     p15, 0, r0, c5, c0, 0
    eor     r0, r0, #0x400
    tst     r0, #0x400
    andeq   r0, r0, #0xf
    cmpeq   r0, #6
    beq     window_late
    mrs     r0, spsr
    tst     r0, #8
    mov     r0, sp
    mov     r1, #1
    beq     1f
    cps     #0x1b
    mrs     r2, spsr
    b       window_known
1:  cps     #0x13
    mov     r1, #2
    mrs     r2, spsr
    b       window_known

    // An access of the guest's before has failed late, in the first two instructions of an exception of its, which it did not mask: as
    // if it had come before that one, whose LR is behind the instruction.
window_late:
    ldr     r0, [sp, #{spare}]
    stmia   sp, {{r0-r12}}
    mov     r0, sp
    mrs     r1, spsr
    tst     r1, #8
    bne     1f
    cps     #0x13
    b       2f
1:  cps     #0x1b
2:  mrs     r2, spsr
    tst     r2, #0x20               // T
    addeq   lr, lr, #8 - 4
    addne   lr, lr, #8 - 2
    mov     r1, #4
    b       window_known

    // The hypervisor's own data abort, which it may expect, and go on behind: the record keeps the guest's registers.
window_own_fault:
    ldr     r0, [sp, #{faults}]
    add     r0, r0, #4 << 2
    str     r0, [sp, #{fault}]
    ldr     r0, [sp, #{spare}]
    ldr     pc, [sp, #{fault}]

window_leave:
    mrs     r2, spsr
    tst     r2, #0xf
    bne     window_fault
    // The word that was undefined, or SVC: the guest has just executed it, so that it can be read.
    cmp     r1, #2
    tstls   r2, #0x20               // T
    ldreq   r3, [lr, #-4]
    streq   r3, [r0, #{word}]
window_known:
    str     lr, [r0, #{pc}]
    str     r2, [r0, #{psr}]
    add     r3, r0, #{banked}
    stmia   r3, {{sp, lr}}^
    clrex
    cpsid   aif, #0x13
    mov     r6, r0
    ldr     r4, [r6, #{own}]
    mov     r5, #{own_asid}
    change_root r4, r5
    mov     r0, r6
    ldr     sp, [r0, #{stack}]
    mov     r11, #0
    mov     lr, #0
    ldr     pc, [r0, #{handler}]

    // Another exception of the hypervisor's own: as if its own vector had been taken.
window_fault:
    ldr     r2, [r0, #{faults}]
    add     r2, r2, r1, lsl #2
    str     r2, [r0, #{fault}]
    ldmia   r0, {{r0-r12}}
    ldr     pc, [sp, #{fault}]

    // To the guest: R0 = the record, in Supervisor mode.
    .global hanok_window_enter
hanok_window_enter:
    mov     sp, r0
    ldr     lr, [r0, #{pc}]
    ldr     r2, [r0, #{psr}]
    msr     spsr_fsxc, r2
    add     r3, r0, #{banked}
    ldmia   r3, {{sp, lr}}^
    nop
    ldr     r4, [r0, #{table}]
    ldr     r5, [r0, #{asid}]
    begin_root r4, r5
    ldmia   sp, {{r0-r12}}
    movs    pc, lr

    // SVC: of a program that may go to its kernel at once, or of anybody else.
window_call:
    cpsid   af
    stmia   sp, {{r0-r4}}
    ldr     r0, [sp, #{status}]
    mrs     r1, spsr
    cmp     r0, #0x10
    tsteq   r1, #0xf
    bne     window_status
    ldr     r2, [sp, #{page}]
    ldr     r0, [sp, #{kernel_psr}]
    strd    r0, r1, [r2, #{page_psr}] // and SPSR
    mov     r3, #0x80               // I
    str     r3, [r2, #{page_mask}]
    mrc     p15, 0, r3, c13, c0, 2  // TPIDRURW
    str     r3, [r2, #{page_tpidrurw}]
    ldr     r3, [sp, #{tpidrprw}]
    mcr     p15, 0, r3, c13, c0, 2
    ldr     r3, [sp, #{foreseen}]
    mcr     p15, 0, r3, c13, c0, 3  // TPIDRURO
    // User mode's SP and LR go to the page, those of Supervisor mode come in.
    stmia   r2, {{sp, lr}}^
    add     r3, sp, #{supervisor}
    str     lr, [r3, #4]
    ldmia   r3, {{sp, lr}}^
    // The flags and GE stay; J and IT do not.
    ldr     r3, [sp, #{kernel_psr} + 4]
    bic     r1, r1, #0x07000000
    pkhbt   r1, r3, r1
    msr     spsr_fsxc, r1
    ldr     lr, [sp, #{vector}]
    mov     r2, #0x13
    strd    r2, r3, [sp, #{status}] // and that it has crossed, as R3 is not 0
    ldrd    r2, r3, [sp, #{kernel}]
    begin_root r2, r3
    ldmia   sp, {{r0-r4}}
    movs    pc, lr
window_left_by_call:
    ldmia   sp, {{r0-r4}}
    leave_guest 2

    // SVC of a kernel that may cross, in the place of MRS or MSR of a status register; or one of the hypervisor's own.
window_status:
    lsl     r3, r1, #22
    cmp     r3, #0x04000000         // of User mode, in A32, not big-endian
    bne     window_left_by_call
    tst     r0, #0xf                // none, or User mode
    beq     window_left_by_call
    ldr     r0, [lr, #-4]
    ldr     r2, [sp, #{page}]
    ubfx    r3, r0, #8, #16
    movw    r4, #{reads_status}
    cmp     r3, r4
    beq     window_reads_status
    movw    r4, #{writes_status}
    cmp     r3, r4
    bne     window_stores
    // MSR SPSR_fsxc, Rm, one of R0 to R4
    uxtb    r3, r0
    sub     r3, r3, #0xf0
    cmp     r3, #4
    bhi     window_left_by_call
    ldr     r3, [sp, r3, lsl #2]
    str     r3, [r2, #{page_spsr}]
    ldmia   sp, {{r0-r4}}
    movs    pc, lr
    // STRT or STRBT, whose constant is added: by the programs' table. R2 = the page.
window_stores:
    ubfx    r3, r0, #17, #7
    bic     r4, r3, #2
    cmp     r4, #{stores}
    bne     window_left_by_call
    ldr     r1, [r2, #{page_dacr}]
    ldr     r2, [sp, #{domains}]
    ldr     r4, [sp, #{user_root}]
    cmp     r1, r2
    bne     window_left_by_call
    cmp     r4, #0
    beq     window_left_by_call
    add     r1, sp, #20
    stmia   r1, {{r5-r12}}
    str     r0, [sp, #{word}]
    ubfx    r5, r0, #13, #4         // Rn
    ubfx    r6, r0, #9, #4          // Rt
    cmp     r5, #12
    cmpls   r6, #12
    bhi     window_stores_nothing
    ldr     r7, [sp, r5, lsl #2]
    ldr     r8, [sp, r6, lsl #2]
    tst     r3, #2                  // B
    bne     2f
    tst     r7, #3
    bne     window_stores_nothing
2:  ldr     r9, [sp, #{user_root} + 4]
    change_root r4, r9
    tst     r3, #2
    strbtne r8, [r7]
    strteq  r8, [r7]
    ldr     r0, [sp, #{word}]
    ldr     r4, [sp, #{kernel}]
    ldr     r9, [sp, #{kernel} + 4]
    ubfx    r0, r0, #0, #9
    add     r7, r7, r0
    str     r7, [sp, r5, lsl #2]
    begin_root r4, r9
    ldmia   sp, {{r0-r12}}
    movs    pc, lr
window_stores_nothing:
    add     r1, sp, #20
    ldmia   r1, {{r5-r12}}
    b       window_left_by_call
    // MRS Rd, SPSR if bit 4 is set, or CPSR; Rd is one of R0 to R4, or LR.
window_reads_status:
    tst     r0, #0xe0
    bne     window_left_by_call
    tst     r0, #0x10
    ldrne   r4, [r2, #{page_spsr}]
    ldreq   r4, [r2, #{page_psr}]
    ldreq   r3, [r2, #{page_mask}]
    andeq   r3, r3, #0x80
    orreq   r4, r4, r3
    // N, Z, C, V, Q and GE
    lsreq   r3, r1, #16
    biceq   r3, r3, #0x7f0
    orreq   r4, r4, r3, lsl #16
    and     r3, r0, #0xf
    cmp     r3, #4
    strls   r4, [sp, r3, lsl #2]
    bls     window_has_status
    cmp     r3, #14
    bne     window_left_by_call
    str     r4, [sp, #{spare}]
    add     r3, sp, #{spare}
    ldmia   r3, {{lr}}^
    nop
window_has_status:
    ldmia   sp, {{r0-r4}}
    movs    pc, lr

    // An undefined instruction: one of a kernel's that may cross, or any other.
window_undefined:
    cpsid   af
    stmia   sp, {{r0-r12}}
    mrs     r1, spsr
    lsl     r3, r1, #22
    cmp     r3, #0x04000000         // of User mode, in A32, not big-endian
    bne     window_left_by_undefined
    ldr     r0, [lr, #-4]
    ldr     r3, window_goes_back
    ldr     r2, [sp, #{status}]
    cmp     r0, r3
    cmpeq   r2, #0x13
    beq     window_return
    tst     r2, #0xf                // none, or User mode
    beq     window_left_by_undefined
    movw    r3, #{trap}
    lsr     r1, r0, #16
    cmp     r3, r1
    bne     window_thread_register
    uxth    r3, r0
    sub     r3, r3, #0xf0
    cmp     r3, #{traps}
    bhs     window_left_by_undefined
    tst     r3, #0xf0
    bne     window_left_by_undefined
    and     r4, r3, #0xf
    lsrs    r3, r3, #8
    bne     window_to_supervisor

    // STMDB R4, {{SP, LR}}^
    cmp     r4, #12
    bhi     window_left_by_undefined
    ldr     r4, [sp, r4, lsl #2]
    tst     r4, #3
    bne     window_left_by_undefined
    sub     r4, r4, #8
    ldr     r5, [sp, #{page}]
    str     r0, [sp, #{word}]
    ldmia   r5, {{r5, r6}}
    strt    r5, [r4], #4
    strt    r6, [r4]
    ldmia   sp, {{r0-r6}}
    movs    pc, lr

    // MCR p15, 0, Rt, c13, c0, 3: TPIDRURO; or 1: CONTEXTIDR
window_thread_register:
    movw    r3, #0xee0d
    cmp     r3, r1
    bne     window_floating_point
    tst     r0, #0x40
    beq     window_context
    operand 0x0f70
    ldr     r2, [sp, #{page}]
    mcr     p15, 0, r4, c13, c0, 3
    str     r4, [r2, #{page_tpidruro}]
    ldmia   sp, {{r0-r4}}
    movs    pc, lr

    // VMSR FPEXC, Rt: nothing is to be done if it has that value.
window_floating_point:
    movw    r3, #0xeee8
    cmp     r3, r1
    bne     window_instruction_caches
    operand 0x0a10
    ldr     r3, [sp, #{fpexc}]
    cmp     r3, r4
    bne     window_left_by_undefined
    ldmia   sp, {{r0-r4}}
    movs    pc, lr

    // MCR p15, 0, Rt, c7, c1 or c5, 0 or 6, or c5, 1 or 7: ICIALLUIS, ICIALLU, BPIALLIS, BPIALL, ICIMVAU and BPIMVA. The first does
    // what all of them do; without the Multiprocessing Extensions (MPIDR, bit 31) the second. The guest's own barriers complete it.
window_instruction_caches:
    movw    r3, #0xee07
    cmp     r3, r1
    bne     window_domains
    ubfx    r3, r0, #8, #4
    cmp     r3, #0xf
    bne     window_left_by_undefined
    uxtb    r2, r0
    teq     r2, #0x35
    teqne   r2, #0xf5
    beq     1f
    teq     r2, #0x3a
    teqne   r2, #0x3b
    teqne   r2, #0x3e
    beq     window_data_caches
    // DCISW, DCCSW and DCCISW: nothing, as data caches are coherent with all that a guest has.
    teq     r2, #0x56
    teqne   r2, #0x5a
    teqne   r2, #0x5e
    beq     2f
    bic     r2, r2, #0x04
    teq     r2, #0x11
    teqne   r2, #0xd1
    bne     window_left_by_undefined
1:  mrc     p15, 0, r4, c0, c0, 5
    cmp     r4, #0
    mcrmi   p15, 0, r4, c7, c1, 0
    mcrpl   p15, 0, r4, c7, c5, 0
2:  ldmia   sp, {{r0-r4}}
    movs    pc, lr

    // DCCMVAC, DCCMVAU and DCCIMVAC of a kernel: the guest's lines are as long as a page. All of the page of Rt is cleaned and invalidated,
    // by the guest's own address, at which its root has what it may reach. An abort leaves by the instruction.
window_data_caches:
    ubfx    r4, r0, #12, #4
    cmp     r4, #13
    bhs     window_left_by_undefined
    ldr     r4, [sp, r4, lsl #2]
    str     r0, [sp, #{word}]
    mrc     p15, 0, r2, c0, c0, 1   // CTR.DminLine
    ubfx    r2, r2, #16, #4
    mov     r3, #4
    lsl     r3, r3, r2
    lsr     r4, r4, #12
    lsl     r4, r4, #12
2:  mcr     p15, 0, r4, c7, c14, 1
    add     r4, r4, r3
    mcr     p15, 0, r4, c7, c14, 1
    add     r4, r4, r3
    lsls    r2, r4, #20
    bne     2b
    ldmia   sp, {{r0-r4}}
    movs    pc, lr

window_left_by_undefined:
    mov     r0, sp
    mov     r1, #1
    b       window_leave

    // MCR p15, 0, Rt, c3, c0, 0: DACR
window_domains:
    movw    r3, #0xee03
    cmp     r3, r1
    bne     window_tables
    operand 0x0f10
    ldr     r2, [sp, #{page}]
    str     r4, [r2, #{page_dacr}]
    ldmia   sp, {{r0-r4}}
    movs    pc, lr

    // MCR p15, 0, Rt, c2, c0, 0: TTBR0
window_tables:
    movw    r3, #0xee02
    cmp     r3, r1
    bne     window_system_register
    operand 0x0f10
    ldr     r5, [sp, #{space} + 4]
    b       window_space
window_context:
    operand 0x0f30
    mov     r5, r4
    ldr     r4, [sp, #{space}]
    // To the space with TTBR0 = R4 and CONTEXTIDR = R5, if it is known.
window_space:
    ldr     r0, [sp, #{stamp}]
    and     r3, r5, #0x3f
    add     r3, sp, r3, lsl #6
    add     r3, r3, #{known}
    cmp     r0, #0
    beq     window_left_by_undefined
    ldmia   r3, {{r1, r2, r6}}
    cmp     r1, r0
    cmpeq   r2, r4
    cmpeq   r6, r5
    beq     window_known_space
    add     r3, r3, #32
    ldmia   r3, {{r1, r2, r6}}
    cmp     r1, r0
    cmpeq   r2, r4
    cmpeq   r6, r5
    bne     window_left_by_undefined
window_known_space:
    ldr     r2, [sp, #{page}]
    str     r4, [sp, #{space}]
    str     r5, [sp, #{space} + 4]
    str     r4, [r2, #{page_ttbr0}]
    str     r5, [r2, #{page_contextidr}]
    add     r3, r3, #12
    ldmia   r3, {{r1, r2, r4, r5, r6}}
    add     r0, sp, #{kernel}
    stmia   r0, {{r1, r2, r4, r5, r6}}
    str     sp, [sp, #{crossed}]
    begin_root r1, r2
    ldmia   sp, {{r0-r6}}
    movs    pc, lr

    // MRC of one of these registers: the instruction with R0, and where the value is on the page, or with bit 0 set in the
    // record.
window_system_registers:
    .word   0xee150f10, {page_dfsr}
    .word   0xee160f10, {page_dfar}
    .word   0xee150f30, {page_ifsr}
    .word   0xee160f50, {page_ifar}
    .word   0xee100ff1, {mmfr3} + 1
    .word   0, 0
window_system_register:
    adr     r1, window_system_registers
    bic     r3, r0, #0xf000
    ubfx    r0, r0, #12, #4
1:  ldmia   r1!, {{r4, r5}}
    cmp     r4, #0
    cmpne   r0, #13
    bhs     window_left_by_undefined
    cmp     r4, r3
    bne     1b
    tst     r5, #1
    ldreq   r2, [sp, #{page}]
    subne   r2, sp, #1
    ldr     r4, [r2, r5]
    str     r4, [sp, r0, lsl #2]
    ldmia   sp, {{r0-r12}}
    movs    pc, lr

    // MOVS PC, LR of Supervisor mode.
window_return:
    ldr     r2, [sp, #{page}]
    ldr     r3, [sp, #{domains}]
    ldr     r0, [r2, #{page_spsr}]
    ldr     r1, [r2, #{page_dacr}]
    ldrd    r4, r5, [sp, #{user_root}]
    // To User mode with nothing masked, little-endian, in no IT block, neither Jazelle nor ThumbEE.
    ldr     r6, window_not_free
    and     r6, r6, r0
    cmp     r4, #1                  // a root
    cmpcs   r1, r3
    cmpeq   r6, #0x10
    bne     window_left_by_undefined
    add     r3, sp, #{supervisor}
    stmia   r3, {{sp, lr}}^
    str     r0, [r3, #8]
    ldr     lr, [r3, #4]
    ldr     r1, [r2, #{page_tpidrurw}]
    mcr     p15, 0, r1, c13, c0, 2
    mrc     p15, 0, r3, c13, c0, 3  // TPIDRURO
    ldr     r1, [r2, #{page_tpidruro}]
    str     r3, [sp, #{foreseen}]
    mcr     p15, 0, r1, c13, c0, 3
    ldmia   r2, {{sp, lr}}^
    msr     spsr_fsxc, r0
    str     r6, [sp, #{status}]     // 0x10
    str     r6, [sp, #{crossed}]
    begin_root r4, r5
    ldmia   sp, {{r0-r6}}
    movs    pc, lr
window_goes_back:
    .word   {goes_back}
window_not_free:
    .word   0x0700ffdf

    // MOVS PC, LR from the mode of another exception: to Supervisor mode in A32, not big-endian, in no IT block; R2 = the status.
window_to_supervisor:
    and     r1, r2, #0x1f
    ldr     r2, [sp, #{page}]
    cmp     r1, #0x13
    ldr     r0, [r2, #{page_spsr}]
    and     r1, r0, #0x1f
    beq     window_return           // with A or F set
    cmp     r1, #0x13
    bne     window_left_by_undefined
    tst     r0, #0x07000000
    tsteq   r0, #0xfc00
    tsteq   r0, #0x220
    bne     window_left_by_undefined
    // What waits stays masked.
    ldr     r3, [sp, #{waits}]
    bics    r3, r3, r0
    bne     window_left_by_undefined
    add     r5, sp, #{banked}
    stmia   r5, {{sp, lr}}^
    nop
    ldmia   r5, {{r3, r4}}
    add     r5, sp, #{other}
    stmia   r5, {{r3, r4}}
    str     r0, [r5, #8]
    ldr     r3, [sp, #{supervisor_spsr}]
    str     r3, [r2, #{page_spsr}]
    and     r3, r0, #0x80
    str     r3, [r2, #{page_mask}]
    // The mode, A and F
    ubfx    r3, r0, #0, #9
    bic     r3, r3, #0xa0
    str     r3, [r2, #{page_psr}]
    str     r3, [sp, #{status}]
    str     r3, [sp, #{crossed}]
    add     r5, sp, #{supervisor}
    ldmia   r5, {{sp, lr}}^
    // N, Z, C, V, Q and GE
    lsr     r0, r0, #16
    bic     r0, r0, #0x7f0
    mov     r3, #0x10
    orr     r0, r3, r0, lsl #16
    msr     spsr_fsxc, r0
    mov     lr, r4
    ldmia   sp, {{r0-r5}}
    movs    pc, lr
    dsb     nsh
    isb
    .global hanok_window_end
hanok_window_end:

    .section .bss.window, "aw", %nobits
    .balign 4096
    .global hanok_window_records
hanok_window_records:
    .space  {records}
    .text
"#,
    records = const RECORD_PAGES * PAGE_SIZE,
    own_asid = const OWN_ASID,
    banked = const offset_of!(Record, guest.general) + 13 * 4,
    pc = const offset_of!(Record, guest.pc),
    psr = const offset_of!(Record, guest.psr),
    own = const offset_of!(Record, own_table),
    table = const offset_of!(Record, guest_table),
    asid = const offset_of!(Record, guest_asid),
    stack = const offset_of!(Record, stack),
    handler = const offset_of!(Record, handler),
    faults = const offset_of!(Record, faults),
    fault = const offset_of!(Record, fault),
    word = const offset_of!(Record, word),
    spare = const offset_of!(Record, spare),
    page = const offset_of!(Record, page),
    status = const offset_of!(Record, crossing.status),
    crossed = const offset_of!(Record, crossing.crossed),
    supervisor = const offset_of!(Record, crossing.banks.supervisor),
    supervisor_spsr = const offset_of!(Record, crossing.banks.spsr),
    vector = const offset_of!(Record, crossing.vector),
    kernel_psr = const offset_of!(Record, crossing.kernel_psr),
    tpidrprw = const offset_of!(Record, crossing.tpidrprw),
    foreseen = const offset_of!(Record, crossing.foreseen),
    other = const offset_of!(Record, crossing.banks.other),
    space = const offset_of!(Record, crossing.space),
    kernel = const offset_of!(Record, crossing.roots.kernel),
    user_root = const offset_of!(Record, crossing.roots.user),
    domains = const offset_of!(Record, crossing.roots.domains),
    stamp = const offset_of!(Record, crossing.stamp),
    waits = const offset_of!(Record, crossing.waits),
    mmfr3 = const offset_of!(Record, crossing.mmfr3),
    known = const offset_of!(Record, known),
    fpexc = const offset_of!(Record, crossing.fpexc),
    page_psr = const Field::PSR.offset(),
    page_spsr = const Field::SPSR.offset(),
    page_dacr = const Field::DACR.offset(),
    page_ttbr0 = const Field::TTBR0.offset(),
    page_contextidr = const Field::CONTEXTIDR.offset(),
    page_dfsr = const Field::DFSR.offset(),
    page_dfar = const Field::DFAR.offset(),
    page_ifsr = const Field::IFSR.offset(),
    page_ifar = const Field::IFAR.offset(),
    page_tpidrurw = const Field::TPIDRURW.offset(),
    page_tpidruro = const Field::TPIDRURO.offset(),
    page_mask = const Field::MASK.offset(),
    trap = const CROSSING_TRAP >> 16,
    goes_back = const CROSSING_TRAP | 1 << 8,
    traps = const CROSSING_TRAPS << 8,
    reads_status = const READS_STATUS,
    writes_status = const WRITES_STATUS,
    stores = const STORES,
);

/// Bits 23 to 8 of SVC in the place of MRS, and of MSR of a whole SPSR (`hanok_abi::trap`).
const READS_STATUS: u32 = 0xf020;
const WRITES_STATUS: u32 = 0xf011;
/// Bits 23 to 17 of SVC in the place of STRT whose constant is added; of STRBT, bit 1 is set, too.
const STORES: u32 = 0b101_1100;

// User mode's SP and LR are stored and loaded without an offset, PSR and SPSR together.
const _: () = assert!(Field::USER_SP.offset() == 0 && Field::USER_LR.offset() == 4);
const _: () = assert!(Field::SPSR.offset() == Field::PSR.offset() + 4);
const _: () = assert!(offset_of!(Crossing, crossed) == offset_of!(Crossing, status) + 4);

unsafe extern "C" {
    pub static hanok_window: u8;
    pub static hanok_window_enter: u8;
    pub static hanok_window_records: u8;
}
