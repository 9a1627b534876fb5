//! The exception vectors: expected exceptions are caught, interrupts are counted, and anything else
//! ends the run with the registers on the console.

use crate::cpu;
use crate::gic;
use crate::probe::Catch;
use core::sync::atomic::Ordering::Relaxed;

/// The registers that the entry code saves, in its order.
#[repr(C)]
pub struct Frame {
    x: [u64; 31],
    elr: u64,
    spsr: u64,
}

const SIZE: usize = 272;
const _: () = assert!(SIZE >= size_of::<Frame>() && SIZE.is_multiple_of(16));

/// PSTATE of EL1 on its own stack.
const EL1H: u64 = 0b0101;
/// PSTATE.M with the stack's selection.
const MODE: u64 = 0b1111;
/// SVC of AArch64 (ESR_EL1.EC).
pub const SVC: u64 = 0x15;
/// PSTATE.D: debug exceptions masked.
const DEBUG_MASKED: u64 = 1 << 9;
/// PSTATE.SS and PSTATE.IL.
const STEP_AND_ILLEGAL: u64 = 3 << 20;

/// A table of exception vectors with this name. Every entry saves the registers on the stack in the
/// order of a `Frame` of `$size` bytes, and calls `$handler` with the frame and the index of the entry;
/// then come the registers from the stack. `$then` is an instruction in between: a handler that switches
/// contexts answers in X0 which frame that is (`mov sp, x0`).
#[macro_export]
macro_rules! exception_vectors {
    ($table:literal, $size:expr, $handler:path, $then:literal) => {
        core::arch::global_asm!(
            r#"
    .macro vector kind
    .balign 0x80
    sub     sp, sp, #{size}
    stp     x0, x1, [sp]
    mov     x1, #\kind
            "#,
            concat!("b .L", $table, "_save"),
            r#"
    .endm

    .section .text.vectors, "ax"
    .balign 0x800
            "#,
            concat!(".global ", $table),
            concat!($table, ":"),
            r#"
    .irp kind, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vector  \kind
    .endr
    .purgem vector

    .balign 0x80
            "#,
            concat!(".L", $table, "_save:"),
            r#"
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
    bl      {handle}
            "#,
            $then,
            r#"
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
            size = const $size,
            handle = sym $handler,
        );
    };
}

unsafe extern "C" {
    /// `runtime_vectors` below, or the image's own table.
    fn guest_vectors();
}

/// Where the table that is used lies, for VBAR_EL1.
pub fn address() -> u64 {
    guest_vectors as *const () as u64
}

exception_vectors!("runtime_vectors", SIZE, handle, "");

/// `kind` is the index of the table's entry: the low two bits mean synchronous, IRQ, FIQ, SError.
extern "C" fn handle(frame: &mut Frame, kind: u64) {
    match kind & 3 {
        0 if catch(frame) == Catch::Expected => {}
        1 => gic::take_interrupt(),
        _ => unexpected(frame, kind),
    }
}

/// Notes an expected exception, and continues at the probe's address.
fn catch(frame: &mut Frame) -> Catch {
    let cpu = cpu::this();
    let recover = cpu.recover.swap(0, Relaxed);
    if recover == 0 {
        return Catch::Unexpected;
    }
    cpu.note(read_sysreg!("esr_el1"), read_sysreg!("far_el1"), frame.elr);
    cpu.state.store(frame.spsr as usize, Relaxed);
    frame.elr = recover as u64;
    frame.spsr = frame.spsr & !(MODE | STEP_AND_ILLEGAL) | EL1H | DEBUG_MASKED;
    Catch::Expected
}

fn unexpected(frame: &Frame, kind: u64) -> ! {
    panic!(
        "exception: entry {kind}, esr {:#x}, far {:#x}, elr {:#x} (+{:#x}), lr {:#x}, spsr {:#x}, cpu {}",
        read_sysreg!("esr_el1"),
        read_sysreg!("far_el1"),
        frame.elr,
        frame.elr.wrapping_sub(crate::boot::load_address()),
        frame.x[30].wrapping_sub(crate::boot::load_address()),
        frame.spsr,
        cpu::this().index(),
    )
}
