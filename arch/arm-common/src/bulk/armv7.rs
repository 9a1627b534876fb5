//! Operations on large memory: zeroing and cleaning in unrolled loops, and maintenance of the instruction
//! cache.

use crate::privilege::has_multiprocessing;
use crate::{maintain, read};
use core::arch::asm;
use core::ptr;

/// The number of bytes that are summed and copied before interrupts are checked: less than four thousand
/// instructions.
pub const COPIED: u64 = 2 * 1024;

/// The number of bytes that are zeroed and cleaned before interrupts are checked: less than three thousand
/// instructions if a line has 64 bytes.
pub const LINES: u64 = 32 * 1024;

/// Bytes that [`zero_blocks`] clears in one turn: eight times eight registers.
const BLOCK: usize = 256;
/// The number of lines that are cleaned in one turn.
const UNROLLED: u32 = 8;

/// Sets `len` bytes at `to` to zero, and cleans and invalidates them to the point of coherency: all of
/// them, as a guest begins with its caches off.
///
/// # Safety
/// They are mapped as normal memory, and the caller's own.
pub unsafe fn zero_and_clean(to: *mut u8, len: u64) {
    // SAFETY: by this function's contract.
    unsafe { zero(to, len) };
    clean_to_coherency(to as u64, len);
}

/// Sets `len` bytes at `to` to zero.
///
/// # Safety
/// As for [`zero_and_clean`].
unsafe fn zero(to: *mut u8, len: u64) {
    let len = len as usize;
    let head = to.align_offset(BLOCK).min(len);
    let whole = (len - head) & !(BLOCK - 1);
    // SAFETY: by this function's contract; all three parts are inside, and the middle one is
    // whole blocks.
    unsafe {
        ptr::write_bytes(to, 0, head);
        zero_blocks(to.add(head), whole);
        ptr::write_bytes(to.add(head + whole), 0, len - head - whole);
    }
}

/// Sets `len` bytes at `to`, both multiples of [`BLOCK`], to zero. An STM stores eight words at
/// once; the compiler's own loop, one.
///
/// # Safety
/// As for [`zero`].
unsafe fn zero_blocks(to: *mut u8, len: usize) {
    if len == 0 {
        return;
    }
    // SAFETY: by this function's contract; the loop ends with the last block.
    unsafe {
        asm!(
            "2:",
            ".rept 8",
            "stmia {at}!, {{r1, r2, r3, r4, r5, r8, r10, r12}}",
            ".endr",
            "cmp {at}, {until}",
            "blo 2b",
            at = inout(reg) to => _,
            until = in(reg) to.wrapping_add(len),
            in("r1") 0, in("r2") 0, in("r3") 0, in("r4") 0,
            in("r5") 0, in("r8") 0, in("r10") 0, in("r12") 0,
            options(nostack)
        );
    }
}

/// Copies `len` bytes from `from` to `to`, which do not overlap, by words that need not be aligned: 16 bytes take ten instructions.
///
/// Another CPU, or a device, may change the bytes meanwhile: each is read once, and what is read is written.
///
/// # Safety
/// Both are mapped as normal memory, without checks of alignment (SCTLR.A, HSCTLR.A), and no Rust reference to `to` exists but the
/// caller's.
#[inline(never)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: by this function's contract. After the loop the low four bits of the count, which is less than zero, are what is left.
    // A load or store of one word bears any alignment, one of several does not (DDI 0406C, A3.2.1).
    unsafe {
        asm!(
            "subs {n}, {n}, #16",
            "blo 3f",
            "2:",
            "ldr {a}, [{from}], #4",
            "ldr {b}, [{from}], #4",
            "ldr {c}, [{from}], #4",
            "ldr {d}, [{from}], #4",
            "str {a}, [{to}], #4",
            "str {b}, [{to}], #4",
            "str {c}, [{to}], #4",
            "str {d}, [{to}], #4",
            "subs {n}, {n}, #16",
            "bhs 2b",
            "3:",
            "tst {n}, #8",
            "beq 4f",
            "ldr {a}, [{from}], #4",
            "ldr {b}, [{from}], #4",
            "str {a}, [{to}], #4",
            "str {b}, [{to}], #4",
            "4:",
            "tst {n}, #4",
            "beq 5f",
            "ldr {a}, [{from}], #4",
            "str {a}, [{to}], #4",
            "5:",
            "tst {n}, #2",
            "beq 6f",
            "ldrh {a}, [{from}], #2",
            "strh {a}, [{to}], #2",
            "6:",
            "tst {n}, #1",
            "beq 7f",
            "ldrb {a}, [{from}]",
            "strb {a}, [{to}]",
            "7:",
            n = inout(reg) len => _,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _,
            options(nostack)
        );
    }
}

/// Cleans and invalidates `len` bytes from `start` on to the point of coherency.
pub fn clean_to_coherency(start: u64, len: u64) {
    // CTR.DminLine: log2 of the words in the smallest line.
    let line = 4u32 << (read!("ctr_el0") >> 16 & 0xf);
    let mut at = start as u32 & !(line - 1);
    // Addresses of Hyp mode have 32 bits, and its last page is not used.
    let until = (start + len) as u32;
    // DCCIMVAC. A line that is not mapped faults, and every caller gives mapped memory.
    while until.saturating_sub(at) >= UNROLLED * line {
        at = clean_lines(at, line);
    }
    while at < until {
        maintain!(0 7 14 1, at);
        at += line;
    }
    crate::sysreg::dsb_sy();
}

/// Cleans and invalidates [`UNROLLED`] lines from `at` on, without a loop. The answer is the address of the
/// next line.
#[inline(always)]
fn clean_lines(at: u32, line: u32) -> u32 {
    let next;
    // SAFETY: cache maintenance changes no value.
    unsafe {
        asm!(
            ".rept {lines}",
            "mcr p15, 0, {at}, c7, c14, 1",
            "add {at}, {at}, {line}",
            ".endr",
            at = inout(reg) at => next,
            line = in(reg) line,
            lines = const UNROLLED,
            options(nostack)
        );
    }
    next
}

/// Invalidates the instruction caches of all CPUs after code may have been written.
pub fn invalidate_instruction_caches() {
    if has_multiprocessing() {
        // ICIALLUIS, BPIALLIS.
        maintain!(0 7 1 0, 0);
        maintain!(0 7 1 6, 0);
    } else {
        // ICIALLU, BPIALL.
        maintain!(0 7 5 0, 0);
        maintain!(0 7 5 6, 0);
    }
    crate::sysreg::dsb_sy();
    crate::sysreg::isb();
}
