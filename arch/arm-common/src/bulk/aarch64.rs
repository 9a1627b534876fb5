//! Operations on large memory: zeroing and cleaning by cache lines, and maintenance of the instruction
//! cache.

use crate::read;
use core::arch::asm;
use core::ptr;

/// The number of bytes that are summed and copied before interrupts are checked: less than four thousand
/// instructions.
pub const COPIED: u64 = 8 * 1024;

/// The number of bytes that are zeroed and cleaned before interrupts are checked: three thousand
/// instructions if a line has 64 bytes.
pub const LINES: u64 = 64 * 1024;

/// Executes these instructions for each block of `$block` bytes from `$from` to `$until`, both multiples of
/// it. Eight blocks are done in each turn of the loop, so that the loop itself costs little, whatever the
/// crate is optimized for.
macro_rules! each_block {
    ($($instruction:literal)+, $from:expr, $until:expr, $block:expr) => {{
        let (mut at, until, block): (u64, u64, u64) = ($from, $until, $block);
        while until - at >= 8 * block {
            asm!(
                ".rept 8",
                $(concat!($instruction, ", {at}"),)+
                "add {at}, {at}, {block}",
                ".endr",
                at = inout(reg) at,
                block = in(reg) block,
                options(nostack, preserves_flags)
            );
        }
        while at < until {
            asm!(
                $(concat!($instruction, ", {at}"),)+
                at = in(reg) at,
                options(nostack, preserves_flags)
            );
            at += block;
        }
    }};
}

/// Sets `len` bytes at `to` to zero, and cleans and invalidates them to the point of coherency.
///
/// Where DC ZVA clears one line, its line is cleaned at once, with one step of the address for both. That
/// needs no barrier between: DC ZVA is a set of stores to its block, and DC CIVAC comes after the stores
/// to its line that are before it in program order (DDI 0487, D7.5.9, "Ordering and completion of data
/// and instruction cache instructions").
///
/// No line can be left out. A guest begins with MMU and caches off, as after a reset (Linux,
/// Documentation/arch/arm64/booting.rst), so that its accesses go past the caches to memory ("The effects
/// of disabling a stage of address translation"). It may read zero anywhere, and it may write anywhere: a
/// dirty line of zeroes that is evicted later would undo that write. Which RAM it touches so is not known
/// beforehand; a kernel's own boot maintains what it uses, but no code maintains the stack of a bare-metal
/// program. A mapping without caches instead would spare no instruction, as the lines that the former
/// boot's guest left dirty are to be cleaned as well; and to let stage 2 force write-back takes FEAT_S2FWB,
/// which most of the CPUs do not have.
///
/// # Safety
/// They are mapped as normal memory, and the caller's own.
pub unsafe fn zero_and_clean(to: *mut u8, len: u64) {
    // DCZID_EL0: log2 of the words that DC ZVA clears, unless it is prohibited (D24.2.36).
    let id = read!("dczid_el0");
    let block = 4u64 << (id & 0xf);
    let (start, end) = (to as u64, to as u64 + len);
    let (from, until) = (start.next_multiple_of(block), end & !(block - 1));
    if id & 1 << 4 != 0 || from >= until {
        // SAFETY: by this function's contract.
        unsafe { ptr::write_bytes(to, 0, len as usize) };
        return clean_to_coherency(start, len);
    }
    // SAFETY: by this function's contract; all three parts are inside.
    unsafe {
        ptr::write_bytes(to, 0, (from - start) as usize);
        ptr::write_bytes(until as *mut u8, 0, (end - until) as usize);
    }
    if block != line() {
        // SAFETY: as above.
        unsafe { each_block!("dc zva", from, until, block) };
        return clean_to_coherency(start, len);
    }
    // SAFETY: as above; cleaning changes no value.
    unsafe { each_block!("dc zva" "dc civac", from, until, block) };
    clean_to_coherency(start, from - start);
    clean_to_coherency(until, end - until);
}

/// Copies `len` bytes from `from` to `to`, which do not overlap, by words that need not be aligned: 32 bytes take six instructions.
///
/// Another CPU, or a device, may change the bytes meanwhile: each is read once, and what is read is written.
///
/// # Safety
/// Both are mapped as normal memory, without checks of alignment (SCTLR_EL2.A), and no Rust reference to `to` exists but the caller's.
#[inline(never)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: by this function's contract. After the loop the low five bits of the count, which is less than zero, are what is left.
    unsafe {
        asm!(
            "subs {n}, {n}, #32",
            "b.lo 3f",
            "2:",
            "ldp {a}, {b}, [{from}], #16",
            "ldp {c}, {d}, [{from}], #16",
            "stp {a}, {b}, [{to}], #16",
            "stp {c}, {d}, [{to}], #16",
            "subs {n}, {n}, #32",
            "b.hs 2b",
            "3:",
            "tbz {n}, #4, 4f",
            "ldp {a}, {b}, [{from}], #16",
            "stp {a}, {b}, [{to}], #16",
            "4:",
            "tbz {n}, #3, 5f",
            "ldr {a}, [{from}], #8",
            "str {a}, [{to}], #8",
            "5:",
            "tbz {n}, #2, 6f",
            "ldr {a:w}, [{from}], #4",
            "str {a:w}, [{to}], #4",
            "6:",
            "tbz {n}, #1, 7f",
            "ldrh {a:w}, [{from}], #2",
            "strh {a:w}, [{to}], #2",
            "7:",
            "tbz {n}, #0, 8f",
            "ldrb {a:w}, [{from}]",
            "strb {a:w}, [{to}]",
            "8:",
            n = inout(reg) len => _,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _,
            options(nostack)
        );
    }
}

/// Bytes of the smallest line of the data caches: CTR_EL0.DminLine has the log2 of its words.
fn line() -> u64 {
    4u64 << (read!("ctr_el0") >> 16 & 0xf)
}

/// Cleans and invalidates `len` bytes from `start` on to the point of coherency.
pub fn clean_to_coherency(start: u64, len: u64) {
    let line = line();
    let (from, until) = (start & !(line - 1), (start + len).next_multiple_of(line));
    // SAFETY: cache maintenance changes no value; a line that is not mapped faults, and every caller
    // gives mapped memory.
    unsafe { each_block!("dc civac", from, until, line) };
    crate::sysreg::dsb_sy();
}

/// Invalidates the instruction caches of all CPUs after code may have been written.
pub fn invalidate_instruction_caches() {
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
