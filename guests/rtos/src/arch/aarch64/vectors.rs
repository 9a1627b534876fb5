//! The exception vectors, which are also the context switch: the whole context goes onto the
//! stack of whoever was interrupted, and comes back from the stack that the kernel names.
//! The two need not be the same. The runtime installs this table instead of its own,
//! for its name.

use super::super::Cause;
use core::arch::global_asm;

/// A context: the registers in the order of the entry code.
#[repr(C)]
pub struct Frame {
    x: [u64; 31],
    elr: u64,
    spsr: u64,
    padding: u64,
}

const SIZE: usize = size_of::<Frame>();
const _: () = assert!(SIZE == 0x110 && SIZE.is_multiple_of(16));

/// PSTATE: EL1 on its own stack; debug exceptions, SErrors and FIQs masked, IRQs not.
const TASK_STATE: u64 = 0b0101 | 1 << 9 | 1 << 8 | 1 << 6;

impl Frame {
    /// The context of a task before its first instruction.
    pub fn new(entry: extern "C" fn(usize) -> !, argument: usize) -> Self {
        let mut x = [0; 31];
        x[0] = argument as u64;
        Self {
            x,
            elr: entry as usize as u64,
            spsr: TASK_STATE,
            padding: 0,
        }
    }

    /// The arguments of a call.
    pub const fn arguments(&self) -> [usize; 3] {
        [self.x[0] as usize, self.x[1] as usize, self.x[2] as usize]
    }

    /// The address of the next instruction.
    pub const fn pc(&self) -> usize {
        self.elr as usize
    }
}

/// The meaning of the table's entry `kind`: 4 and 5 are synchronous exceptions and IRQs from EL1 on
/// its own stack (D1.4.2).
pub fn cause(kind: usize) -> Cause {
    const SVC: u64 = 0x15;
    match kind {
        4 if read_sysreg!("esr_el1") >> 26 == SVC => Cause::Call,
        5 => Cause::Interrupt,
        _ => Cause::Fault,
    }
}

/// Prints what the CPU knows about a fault.
pub fn explain() {
    println!(
        "rtos: esr {:#x} far {:#x}",
        read_sysreg!("esr_el1"),
        read_sysreg!("far_el1")
    );
}

global_asm!(
    r#"
    .macro vector kind
    .balign 0x80
    sub     sp, sp, #{size}
    stp     x0, x1, [sp]
    mov     x1, #\kind
    b       save_and_switch
    .endm

    .section .text.vectors, "ax"
    .balign 0x800
    .global guest_vectors
guest_vectors:
    .irp kind, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vector  \kind
    .endr
    .purgem vector

    .balign 0x80
save_and_switch:
    stp     x2, x3, [sp, #0x10]
    stp     x4, x5, [sp, #0x20]
    stp     x6, x7, [sp, #0x30]
    stp     x8, x9, [sp, #0x40]
    stp     x10, x11, [sp, #0x50]
    stp     x12, x13, [sp, #0x60]
    stp     x14, x15, [sp, #0x70]
    stp     x16, x17, [sp, #0x80]
    stp     x18, x19, [sp, #0x90]
    stp     x20, x21, [sp, #0xa0]
    stp     x22, x23, [sp, #0xb0]
    stp     x24, x25, [sp, #0xc0]
    stp     x26, x27, [sp, #0xd0]
    stp     x28, x29, [sp, #0xe0]
    mrs     x2, elr_el1
    mrs     x3, spsr_el1
    stp     x30, x2, [sp, #0xf0]
    str     x3, [sp, #0x100]
    mov     x0, sp
    bl      {exception}
    mov     sp, x0
    ldp     x30, x2, [sp, #0xf0]
    ldr     x3, [sp, #0x100]
    msr     elr_el1, x2
    msr     spsr_el1, x3
    ldp     x28, x29, [sp, #0xe0]
    ldp     x26, x27, [sp, #0xd0]
    ldp     x24, x25, [sp, #0xc0]
    ldp     x22, x23, [sp, #0xb0]
    ldp     x20, x21, [sp, #0xa0]
    ldp     x18, x19, [sp, #0x90]
    ldp     x16, x17, [sp, #0x80]
    ldp     x14, x15, [sp, #0x70]
    ldp     x12, x13, [sp, #0x60]
    ldp     x10, x11, [sp, #0x50]
    ldp     x8, x9, [sp, #0x40]
    ldp     x6, x7, [sp, #0x30]
    ldp     x4, x5, [sp, #0x20]
    ldp     x2, x3, [sp, #0x10]
    ldp     x0, x1, [sp]
    add     sp, sp, #{size}
    eret
    "#,
    size = const SIZE,
    exception = sym crate::exception::exception,
);
