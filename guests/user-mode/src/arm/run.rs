//! Runs one instruction in a given mode, up to the exception that ends it.

use super::mmu::CODE;
use core::arch::global_asm;
use core::mem::offset_of;
use core::ptr::addr_of_mut;

use hanok_decode::aarch32::Encoding;

/// CPSR: User mode, and System mode, which is privileged.
pub const USER: u32 = 0x10;
/// As above.
pub const SYSTEM: u32 = 0x1f;
/// CPSR: A, I and F.
pub const MASKS: u32 = 0x1c0;
const THUMB: u32 = 1 << 5;

/// The exception that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exception {
    /// Undefined Instruction.
    Undefined,
    /// The SVC behind the instruction: the instruction was executed.
    Supervisor,
    /// The instruction could not be fetched.
    PrefetchAbort,
    /// A Data Abort.
    DataAbort,
    /// Another exception.
    Other(u32),
}

/// Registers before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct State {
    /// R0 to R12, SP and LR.
    pub registers: [u32; 15],
    /// CPSR.
    pub status: u32,
}

/// What Rust and the assembly share: the state before, and the state after.
#[repr(C)]
struct Frame {
    after: State,
    lr: u32,
    kind: u32,
    before: State,
    pc: u32,
}

static mut FRAME: Frame = Frame {
    after: State {
        registers: [0; 15],
        status: 0,
    },
    lr: 0,
    kind: 0,
    before: State {
        registers: [0; 15],
        status: 0,
    },
    pc: 0,
};

const SVC_T32: u16 = 0xdf00;
const SVC_A32: [u16; 2] = [0x0000, 0xef00];

fn code(encoding: Encoding) -> [u16; 8] {
    let mut code = [SVC_T32; 8];
    match encoding {
        Encoding::A32(word) => {
            code = [0; 8];
            code[..2].copy_from_slice(&[word as u16, (word >> 16) as u16]);
            code[2..4].copy_from_slice(&SVC_A32);
        }
        Encoding::Narrow(half) => code[0] = half,
        Encoding::Wide(both) => code[..2].copy_from_slice(&[(both >> 16) as u16, both as u16]),
    }
    code
}

/// Runs `encoding` in the state `before`, whose status gives the mode; the encoding gives the
/// instruction set.
pub fn run(encoding: Encoding, mut before: State) -> (Exception, State) {
    if !matches!(encoding, Encoding::A32(_)) {
        before.status |= THUMB;
    }
    // SAFETY: one CPU runs, and nothing else uses the frame and the memory for code; both are written whole
    // before the assembly reads them, and it gives the CPU back in the mode it was in.
    unsafe {
        (CODE as *mut [u16; 8]).write_volatile(code(encoding));
        let frame = addr_of_mut!(FRAME);
        (*frame).before = before;
        (*frame).pc = CODE;
        enter(frame);
        ((*frame).exception(), (*frame).after)
    }
}

/// The result of running existing code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The exception that ended it.
    pub exception: Exception,
    /// The state at that exception.
    pub after: State,
    /// The address of the instruction that caused it; of an SVC, of the one behind.
    pub at: u32,
}

/// Runs the code at `entry`, whose bit 0 is set for T32, up to an exception.
pub fn run_at(entry: u32, mut before: State) -> Outcome {
    if entry & 1 == 1 {
        before.status |= THUMB;
    }
    // SAFETY: as in `run`; whatever is at `entry`, User mode reaches nothing but its own pages.
    unsafe {
        let frame = addr_of_mut!(FRAME);
        (*frame).before = before;
        (*frame).pc = entry & !1;
        enter(frame);
        let (exception, after) = ((*frame).exception(), (*frame).after);
        let at = (*frame).lr.wrapping_sub(exception.offset(after.is_thumb()));
        Outcome {
            exception,
            after,
            at,
        }
    }
}

impl State {
    /// Whether the code is T32.
    pub const fn is_thumb(&self) -> bool {
        self.status & THUMB != 0
    }
}

impl Exception {
    /// The distance from the instruction to the address in LR (DDI 0406C B1.8.3).
    const fn offset(self, thumb: bool) -> u32 {
        match self {
            Self::Undefined if thumb => 2,
            Self::Undefined | Self::PrefetchAbort => 4,
            Self::DataAbort => 8,
            Self::Supervisor | Self::Other(_) => 0,
        }
    }
}

impl Frame {
    fn exception(&self) -> Exception {
        match self.kind {
            1 => Exception::Undefined,
            2 => Exception::Supervisor,
            3 => Exception::PrefetchAbort,
            4 => Exception::DataAbort,
            other => Exception::Other(other),
        }
    }
}

unsafe extern "C" {
    /// # Safety
    ///
    /// `frame` is [`FRAME`], whole.
    fn enter(frame: *mut Frame);
}

global_asm!(
    r#"
    .arm
    .section .text.enter, "ax"
enter:
    push    {{r4-r12, lr}}
    mov     r4, r0
    mov     r5, #0
    mcr     p15, 0, r5, c7, c5, 0       // ICIALLU: the code is new
    mcr     p15, 0, r5, c7, c5, 6       // BPIALL
    dsb
    isb
    cps     #0x1b                       // Undefined, Abort and IRQ find the frame in SP
    mov     sp, r4
    cps     #0x17
    mov     sp, r4
    cps     #0x12
    mov     sp, r4
    cps     #0x1f
    ldr     sp, [r4, #{sp_before}]
    ldr     lr, [r4, #{lr_before}]
    cps     #0x13
    ldr     r0, [r4, #{status_before}]
    msr     spsr_cxsf, r0
    ldr     lr, [r4, #{pc}]
    add     r4, r4, #{before}
    ldm     r4, {{r0-r12}}
    movs    pc, lr

    .macro  banked kind
    stm     sp, {{r0-r12}}
    mov     r2, #\kind
    mov     r3, sp
    b       common
    .endm

undefined:
    banked  1
prefetch:
    banked  3
data:
    banked  4
interrupt:
    banked  5
supervisor:
    push    {{r0}}
    ldr     r0, ={frame}
    stm     r0, {{r0-r12}}
    pop     {{r1}}
    str     r1, [r0]
    mov     r2, #2
    mov     r3, r0
common:
    mrs     r0, spsr
    str     r0, [r3, #{status_after}]
    str     lr, [r3, #{lr_offset}]
    str     r2, [r3, #{kind}]
    cps     #0x1f
    str     sp, [r3, #{sp_after}]
    str     lr, [r3, #{lr_after}]
    cps     #0x13
    clrex
    pop     {{r4-r12, pc}}
    .ltorg

    .balign 32
    .global guest_vectors
guest_vectors:
    b       .
    b       undefined
    b       supervisor
    b       prefetch
    b       data
    b       .
    b       interrupt
    b       .
    "#,
    frame = sym FRAME,
    before = const offset_of!(Frame, before),
    sp_before = const offset_of!(Frame, before.registers) + 13 * 4,
    lr_before = const offset_of!(Frame, before.registers) + 14 * 4,
    status_before = const offset_of!(Frame, before.status),
    pc = const offset_of!(Frame, pc),
    sp_after = const offset_of!(Frame, after.registers) + 13 * 4,
    lr_after = const offset_of!(Frame, after.registers) + 14 * 4,
    status_after = const offset_of!(Frame, after.status),
    lr_offset = const offset_of!(Frame, lr),
    kind = const offset_of!(Frame, kind),
);

// The handlers store R0 to R12 where the frame begins.
const _: () = assert!(offset_of!(Frame, after) == 0 && offset_of!(State, registers) == 0);
