//! The exception vectors, which are also the context switch: the whole context goes onto the
//! stack of whoever was interrupted, and comes back from the stack that the kernel names.
//! The two need not be the same. The runtime installs this table instead of its own,
//! for its name.

use super::super::Cause;

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

exception_vectors!(
    "guest_vectors",
    SIZE,
    crate::exception::exception,
    "mov sp, x0"
);
