//! Megabytes at a time: zeroing and cleaning, by the cache line; and the instruction cache.

use crate::read;
use core::arch::asm;
use core::ptr;

/// Bytes that are summed and copied before interrupts are looked for: less than four thousand instructions.
pub const COPIED: u64 = 8 * 1024;

/// One instruction for each block of `$block` bytes from `$from` to `$until`, both multiples of it. Eight
/// at a time, so that the loop costs little beside what is done, whatever the crate is optimized for.
macro_rules! each_block {
    ($instruction:literal, $from:expr, $until:expr, $block:expr) => {{
        let (mut at, until, block): (u64, u64, u64) = ($from, $until, $block);
        while until - at >= 8 * block {
            asm!(
                ".rept 8",
                concat!($instruction, ", {at}"),
                "add {at}, {at}, {block}",
                ".endr",
                at = inout(reg) at,
                block = in(reg) block,
                options(nostack, preserves_flags)
            );
        }
        while at < until {
            asm!(concat!($instruction, ", {}"), in(reg) at, options(nostack, preserves_flags));
            at += block;
        }
    }};
}

/// Sets `len` bytes at `to` to zero.
///
/// # Safety
/// They are mapped as normal memory, and the caller's own.
pub unsafe fn zero(to: *mut u8, len: u64) {
    // DCZID_EL0: log2 of the words that DC ZVA clears, unless it is prohibited (D24.2.36).
    let id = read!("dczid_el0");
    let block = 4u64 << (id & 0xf);
    let start = to as u64;
    let end = start + len;
    let (from, until) = (start.next_multiple_of(block), end & !(block - 1));
    if id & 1 << 4 != 0 || from >= until {
        // SAFETY: by this function's contract.
        return unsafe { ptr::write_bytes(to, 0, len as usize) };
    }
    // SAFETY: by this function's contract; all three parts are inside.
    unsafe {
        ptr::write_bytes(to, 0, (from - start) as usize);
        each_block!("dc zva", from, until, block);
        ptr::write_bytes(until as *mut u8, 0, (end - until) as usize);
    }
}

/// Cleans and invalidates `len` bytes from `start` on to the point of coherency.
pub fn clean_to_coherency(start: u64, len: u64) {
    // CTR_EL0.DminLine: log2 of the words in the smallest line.
    let line = 4u64 << (read!("ctr_el0") >> 16 & 0xf);
    let (from, until) = (start & !(line - 1), (start + len).next_multiple_of(line));
    // SAFETY: cache maintenance changes no value; a line that is not mapped faults, and every caller
    // gives mapped memory.
    unsafe { each_block!("dc civac", from, until, line) };
    crate::sysreg::dsb_sy();
}

/// Code may have been written: no CPU fetches what was there before.
pub fn forget_instructions() {
    // SAFETY: instruction cache maintenance changes no value.
    unsafe {
        asm!(
            "ic ialluis",
            "dsb sy",
            "isb",
            options(nostack, preserves_flags)
        )
    };
}
