//! Megabytes at a time: zeroing and cleaning; and the instruction cache.

use crate::{maintain, read};
use core::ptr;

/// Sets `len` bytes at `to` to zero.
///
/// # Safety
/// They are mapped as normal memory, and the caller's own.
pub unsafe fn zero(to: *mut u8, len: u64) {
    // SAFETY: by this function's contract.
    unsafe { ptr::write_bytes(to, 0, len as usize) };
}

/// Cleans and invalidates `len` bytes from `start` on to the point of coherency.
pub fn clean_to_coherency(start: u64, len: u64) {
    // CTR.DminLine: log2 of the words in the smallest line.
    let line = 4u64 << (read!("ctr_el0") >> 16 & 0xf);
    let until = start + len;
    let mut at = start & !(line - 1);
    while at < until {
        // DCCIMVAC. A line that is not mapped faults, and every caller gives mapped memory.
        maintain!(0 7 14 1, at as u32);
        at += line;
    }
    crate::sysreg::dsb_sy();
}

/// Code may have been written: no CPU fetches what was there before.
pub fn forget_instructions() {
    // ICIALLUIS, BPIALLIS.
    maintain!(0 7 1 0, 0);
    maintain!(0 7 1 6, 0);
    crate::sysreg::dsb_sy();
    crate::sysreg::isb();
}
