//! The window: the one megabyte of the hypervisor's that is in every translation, its own and the
//! shadows, with the vectors, the code that enters and leaves guests, and a record for each pCPU.
//!
//! The code is position-independent, and is executed where the window is, not where it is linked: an
//! exit begins in the guest's shadow, in which nothing else of the hypervisor is mapped, and only its
//! last instructions run in the hypervisor's own translation.
//!
//! While a guest runs, the stack pointer of each privileged mode is the pCPU's record. The guest is in
//! User mode, so that its R13 and R14 are the User bank. An exception from any other mode is the
//! hypervisor's own fault, and goes on to the vectors of such.
//!
//! Between the two translations stands ASID 0, which neither has, so that no entry of one is cached
//! under the ASID of the other (DDI 0406C, B3.10.4).

use crate::{maintain, read, write, write_own};
use core::arch::asm;
use core::mem::offset_of;
use hanok_arm_common::cpu;
use hanok_arm_common::sysreg::{dsb_sy, isb};
use hanok_deprivileged::Place;
use hanok_paging::shadow::AsidPool;
use hanok_types::PAGE_SIZE;

/// The offset of the records in the window.
const RECORDS: u64 = PAGE_SIZE;
/// The ASID of the hypervisor's own translation. ASID 0 is in use between two translations.
const OWN_ASID: u8 = 255;
/// The bytes from one record to the next, one for each CPU of a GICv2.
const STRIDE: u64 = 0x100;

/// The registers of a guest in User mode, as they are stored and loaded.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct UserRegisters {
    /// R0 to R14.
    pub general: [u32; 15],
    /// The return address of the exception; at an entry, where the guest goes on.
    pub pc: u32,
    /// CPSR.
    pub psr: u32,
}

impl UserRegisters {
    /// Takes over R0 to R14, by single words: the compiler's function for a copy takes four times as many instructions.
    pub fn set_general(&mut self, general: &[u32; 15]) {
        let [r0, r1, r2, r3, r4, r5, r6, r7, rest @ ..] = *general;
        let [r8, r9, r10, r11, r12, r13, r14] = rest;
        self.general = [
            r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13, r14,
        ];
    }
}

/// One pCPU's record.
#[derive(Debug)]
#[repr(C)]
pub struct Record {
    /// The guest's registers.
    pub guest: UserRegisters,
    /// TTBR0 of the hypervisor's own translation.
    pub own_table: u32,
    /// TTBR0 of the guest.
    pub guest_table: u32,
    /// CONTEXTIDR of the guest: its ASID.
    pub guest_asid: u32,
    /// The top of the pCPU's stack.
    pub stack: u32,
    /// The function that handles exits.
    pub handler: u32,
    /// The vectors for the hypervisor's own faults.
    pub faults: u32,
    /// Which of them is taken.
    pub fault: u32,
    /// The A32 word that was undefined, or an SVC.
    pub word: u32,
    /// The ASIDs of this CPU.
    pub asids: AsidPool,
}

const _: () = assert!(size_of::<Record>() as u64 <= STRIDE && 8 * STRIDE <= PAGE_SIZE);

core::arch::global_asm!(
    r#"
    .section .text.window, "ax"
    .arm
    // It is less, and so lies in one page.
    .balign 512
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

window_undefined:
    leave_guest 1
window_call:
    leave_guest 2
window_prefetch:
    leave_guest 3
window_data:
    leave_guest 4
window_irq:
    leave_guest 6
window_fiq:
    leave_guest 7

window_leave:
    mrs     r2, spsr
    tst     r2, #0xf
    bne     window_fault
    str     lr, [r0, #{pc}]
    str     r2, [r0, #{psr}]
    add     r3, r0, #52
    stmia   r3, {{sp, lr}}^
    clrex
    // The word that was undefined, or SVC: the guest has just executed it, so that it can be read.
    cmp     r1, #2
    tstls   r2, #0x20               // T
    ldreq   r3, [lr, #-4]
    streq   r3, [r0, #{word}]
    clrex
    cpsid   aif, #0x13
    ldr     r4, [r0, #{own}]
    mov     r5, #0
    mcr     p15, 0, r5, c13, c0, 1  // CONTEXTIDR
    isb
    mcr     p15, 0, r4, c2, c0, 0   // TTBR0
    isb
    mov     r5, #{own_asid}
    mcr     p15, 0, r5, c13, c0, 1
    isb
    ldr     sp, [r0, #{stack}]
    mov     r11, #0
    mov     lr, #0
    ldr     pc, [r0, #{handler}]

    // The hypervisor's own exception: as if its own vector had been taken.
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
    add     r3, r0, #52
    ldmia   r3, {{sp, lr}}^
    nop
    ldr     r4, [r0, #{table}]
    ldr     r5, [r0, #{asid}]
    mov     r6, #0
    mcr     p15, 0, r6, c13, c0, 1
    isb
    mcr     p15, 0, r4, c2, c0, 0   // TTBR0
    isb
    mcr     p15, 0, r5, c13, c0, 1  // CONTEXTIDR
    isb
    ldmia   r0, {{r0-r12}}
    movs    pc, lr
    dsb     nsh
    isb
    .global hanok_window_end
hanok_window_end:

    .section .bss.window, "aw", %nobits
    .balign 4096
    .global hanok_window_records
hanok_window_records:
    .space  4096
    .text
"#,
    own_asid = const OWN_ASID,
    pc = const offset_of!(Record, guest) + offset_of!(UserRegisters, pc),
    psr = const offset_of!(Record, guest) + offset_of!(UserRegisters, psr),
    own = const offset_of!(Record, own_table),
    table = const offset_of!(Record, guest_table),
    asid = const offset_of!(Record, guest_asid),
    stack = const offset_of!(Record, stack),
    handler = const offset_of!(Record, handler),
    faults = const offset_of!(Record, faults),
    fault = const offset_of!(Record, fault),
    word = const offset_of!(Record, word),
);

unsafe extern "C" {
    static hanok_window: u8;
    static hanok_window_enter: u8;
    static hanok_window_records: u8;
}

/// A page that the window shows, by its linked address, and its offset in the window.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The linked address.
    pub linked: u64,
    /// The offset in the window.
    pub offset: u64,
}

/// The page with the code.
pub fn code() -> Part {
    Part {
        linked: &raw const hanok_window as u64 & !(PAGE_SIZE - 1),
        offset: 0,
    }
}

/// The page with the records.
pub fn records() -> Part {
    Part {
        linked: &raw const hanok_window_records as u64,
        offset: RECORDS,
    }
}

/// This CPU's record, in the window.
pub fn record() -> *mut Record {
    let window = read!("vbar_pl1") & !(PAGE_SIZE - 1);
    (window + RECORDS + cpu::own_id().index() as u64 * STRIDE) as *mut Record
}

/// Sets up this CPU's record in the window, and points its exceptions there. `stack` is the top of its
/// stack; `handler` takes the guest's exits.
pub fn install(stack: u64, handler: extern "C" fn(*mut Record, u32) -> !) {
    let own_table = read!("ttbr0_pl1") as u32;
    move_to(Place::FIRST);
    let record = record();
    // SAFETY: a place in the window's frames that is this CPU's alone, and aligned.
    unsafe {
        record.write(Record {
            guest: UserRegisters::default(),
            own_table,
            guest_table: own_table,
            guest_asid: 0,
            stack: stack as u32,
            handler: handler as *const () as u32,
            faults: crate::supervisor::vectors(),
            fault: 0,
            word: 0,
            asids: AsidPool::with_last(cpu::own_id().index() as u8, OWN_ASID - 1),
        });
    }
    write!("contextidr_el1", OWN_ASID.into());
    isb();
    maintain!(0 8 7 0, 0); // TLBIALL
    dsb_sy();
    isb();
}

/// Points this CPU's exceptions at the window in this place, if they are not yet.
pub fn move_to(place: Place) {
    let vectors = u64::from(place.address()) | &raw const hanok_window as u64 & (PAGE_SIZE - 1);
    if read!("vbar_pl1") == vectors {
        return;
    }
    // SAFETY: the window is mapped at this address, and its vectors are 32-byte aligned.
    unsafe { write_own!("vbar_pl1", vectors) };
    isb();
    // SAFETY: the stack pointers of the modes that exceptions are taken to, which nothing else uses.
    unsafe {
        asm!(
            "cps #0x11", "mov sp, {record}",
            "cps #0x12", "mov sp, {record}",
            "cps #0x17", "mov sp, {record}",
            "cps #0x1b", "mov sp, {record}",
            "cps #0x13",
            record = in(reg) record(),
            options(nostack, preserves_flags)
        );
    }
}

/// Enters the guest whose registers are in `record`.
///
/// # Safety
/// The record is this CPU's and complete; no data on the caller's stack is needed again.
pub unsafe fn go(record: &mut Record) -> ! {
    let distance = (&raw const hanok_window_enter) as usize - (&raw const hanok_window) as usize;
    let enter = read!("vbar_pl1") as usize + distance;
    // SAFETY: the window's own code; the rest is by this function's contract.
    unsafe { asm!("bx {enter}", enter = in(reg) enter, in("r0") record, options(noreturn)) }
}
