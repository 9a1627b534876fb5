//! The exception vectors, which are also the context switch: the whole context goes onto the
//! stack of whoever was interrupted, and comes back from the stack that the kernel names.
//! Tasks and kernel use System mode's stack, so the other modes need none. The runtime installs this table
//! instead of its own, for its name.

use super::super::Cause;
use core::arch::global_asm;

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
    println!(
        "rtos: dfsr {:#x} dfar {:#x} ifsr {:#x} ifar {:#x}",
        read_sysreg!("esr_el1"),
        read_sysreg!("dfar_el1"),
        read_sysreg!("ifsr32_el2"),
        read_sysreg!("ifar_el1"),
    );
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
    .global guest_vectors
guest_vectors:
    b       .
    b       2f
    b       3f
    b       4f
    b       5f
    b       .
    b       6f
    b       .
2:  vector  1, 0                    // UNDEFINED
3:  vector  2, 0                    // SVC
4:  vector  3, 4                    // prefetch abort
5:  vector  4, 8                    // data abort
6:  vector  6, 4                    // IRQ
    .purgem vector
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
