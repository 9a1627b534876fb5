//! Markers around a stretch of instructions, for a tool that counts what runs between them.

use core::arch::asm;

/// The marker before a stretch: a hint that the architecture gives no meaning, and that executes
/// as NOP (DDI 0487, C6.2 "HINT"; DDI 0406C, A5.2.11).
pub fn begin() {
    // SAFETY: a NOP; it is no memory access that the compiler could move.
    unsafe { asm!("hint #0x40") };
}

/// The marker behind it.
pub fn end() {
    // SAFETY: as above.
    unsafe { asm!("hint #0x41") };
}
