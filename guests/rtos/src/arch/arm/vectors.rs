//! The exception vectors, which are also the context switch: the whole context is put onto the
//! stack of the interrupted task, and taken from the stack that the kernel names. Tasks and kernel
//! use System mode's stack, so that the other modes need none.

use super::super::Cause;
use core::arch::{asm, global_asm};

/// A context: the registers in the order of the entry code.
#[repr(C)]
pub struct Frame {
    r: [u32; 13],
    lr: u32,
    pc: u32,
    cpsr: u32,
}

const _: () = assert!(size_of::<Frame>() == 64);

/// CPSR: System mode, A32, FIQs masked, IRQs not.
const TASK_STATE: u32 = 0x1f | 1 << 6;

impl Frame {
    /// The context of a task before its first instruction.
    pub fn new(entry: extern "C" fn(usize) -> !, argument: usize) -> Self {
        let mut r = [0; 13];
        r[0] = argument as u32;
        Self {
            r,
            lr: 0,
            pc: entry as usize as u32,
            cpsr: TASK_STATE,
        }
    }

    /// The arguments of a call.
    pub const fn arguments(&self) -> [usize; 3] {
        [self.r[0] as usize, self.r[1] as usize, self.r[2] as usize]
    }

    /// The address of the next instruction, or one near it after a fault.
    pub const fn pc(&self) -> usize {
        self.pc as usize
    }
}

/// The meaning of the table's entry `kind` (DDI 0406C, B1.8.1).
pub fn cause(kind: usize) -> Cause {
    match kind {
        2 => Cause::Call,
        6 => Cause::Interrupt,
        _ => Cause::Fault,
    }
}

/// Prints what the CPU knows about a fault.
pub fn explain() {
    let (dfsr, dfar, ifsr, ifar): (u32, u32, u32, u32);
    // SAFETY: registers that may be read at any time.
    unsafe {
        asm!("mrc p15, 0, {}, c5, c0, 0", out(reg) dfsr, options(nostack));
        asm!("mrc p15, 0, {}, c6, c0, 0", out(reg) dfar, options(nostack));
        asm!("mrc p15, 0, {}, c5, c0, 1", out(reg) ifsr, options(nostack));
        asm!("mrc p15, 0, {}, c6, c0, 2", out(reg) ifar, options(nostack));
    }
    println!("rtos: dfsr {dfsr:#x} dfar {dfar:#x} ifsr {ifsr:#x} ifar {ifar:#x}");
}

/// Installs the table.
pub fn install() {
    unsafe extern "C" {
        fn vector_table();
    }
    let table = vector_table as *const () as usize;
    // SAFETY: VBAR; the table is one.
    unsafe { asm!("mcr p15, 0, {}, c12, c0, 0", "isb", in(reg) table, options(nostack)) };
}

global_asm!(
    r#"
    .arm
    .macro vector kind, after
    .if \after
    sub     lr, lr, #\after         // LR is that much behind where to go on
    .endif
    srsdb   sp!, #0x1f
    cps     #0x1f
    push    {{r0-r12, lr}}
    mov     r1, #\kind
    b       switch
    .endm

    .section .text.vectors, "ax"
    .balign 32
    .global vector_table
vector_table:
    b       .
    b       undefined
    b       call
    b       fetch
    b       data
    b       .
    b       interrupt
    b       .
undefined:
    vector  1, 0
call:
    vector  2, 0
fetch:
    vector  3, 4
data:
    vector  4, 8
interrupt:
    vector  6, 4
switch:
    mov     r0, sp
    bic     sp, sp, #7              // as the procedure call standard has it
    bl      {exception}
    mov     sp, r0
    clrex                           // what another context began it must not end
    pop     {{r0-r12, lr}}
    rfeia   sp!
    "#,
    exception = sym crate::exception::exception,
);
