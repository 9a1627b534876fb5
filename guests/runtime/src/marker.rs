//! Markers around a stretch of instructions, for a tool that counts the instructions between them.

use core::arch::asm;

/// The marker before a stretch: a hint without a meaning in the architecture, which executes as NOP
/// (DDI 0487, C6.2 "HINT"; DDI 0406C, A5.2.11).
pub fn begin() {
    // SAFETY: a NOP; it is no memory access that the compiler could move.
    unsafe { asm!("hint #0x40") };
}

/// The marker behind a stretch.
pub fn end() {
    // SAFETY: as above.
    unsafe { asm!("hint #0x41") };
}
