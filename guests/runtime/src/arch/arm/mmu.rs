//! The translation of ARMv7-A by long descriptors (DDI 0406C, B3.6): the level 1 has four
//! entries. The first two gigabytes are seen where they are; the third is whichever gigabyte was
//! last asked for, since addresses have 40 bits and pointers 32; the last has the window.

use crate::mmu::{ACCESS, BLOCK, DEVICE, EXECUTE_NEVER, GIGABYTE, INNER_SHAREABLE, TABLE, Table};
use crate::tree::Area;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// TTBCR: long descriptors, 32 bits of VA by TTBR0 alone, walks cacheable and inner shareable.
pub const TCR: u64 = 1 << 31 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23;

/// Where the window begins.
pub const WINDOW: u64 = 3 << 30;

/// Level 1.
pub static ROOT: Table = Table::new();

/// Where the gigabyte that was last asked for is seen.
const EVERYTHING: u64 = 2 << 30;
/// Gigabytes that are seen where they are.
const IDENTITY: u64 = 2;

/// Writes a descriptor at once: STRD does (DDI 0406C, A3.5.3), also before there are caches,
/// which an exclusive access would want.
pub fn store(cell: &AtomicU64, descriptor: u64) {
    let (low, high) = (descriptor as u32, (descriptor >> 32) as u32);
    // SAFETY: the cell is whole, aligned, and may be written by anybody.
    unsafe {
        core::arch::asm!(
            "strd r2, r3, [{}]",
            in(reg) cell.as_ptr(),
            in("r2") low,
            in("r3") high,
            options(nostack)
        );
    }
}

/// Addresses end here: at 40 bits, which long descriptors have (DDI 0406C, B3.6).
pub fn address_limit() -> u64 {
    1 << 40
}

/// Before [`everywhere`] is asked: nothing is to be done, as long as memory is in gigabytes that
/// are seen where they are.
pub fn map_everything(memory: Area) {
    let end = memory.end();
    assert!(
        end <= IDENTITY * GIGABYTE,
        "memory up to {end:#x} is more than is seen at once"
    );
}

/// Where `physical`, below [`address_limit`], is seen, until the next one is asked for. Memory
/// stays where it is.
pub fn everywhere(physical: u64) -> u64 {
    let gigabyte = physical / GIGABYTE;
    if gigabyte < IDENTITY {
        return physical;
    }
    let block = (gigabyte * GIGABYTE) | BLOCK | ACCESS | EXECUTE_NEVER | DEVICE;
    let at = (EVERYTHING / GIGABYTE) as usize;
    if ROOT.0[at].load(Relaxed) != block {
        ROOT.set(at, 0);
        flush();
        ROOT.set(at, block);
        flush();
    }
    EVERYTHING + physical % GIGABYTE
}

/// Fills the tables; runs once, before the MMU is on.
pub extern "C" fn build_tables(_tree: u32) {
    ROOT.set(0, BLOCK | ACCESS | DEVICE | EXECUTE_NEVER);
    ROOT.set(1, GIGABYTE | BLOCK | ACCESS | INNER_SHAREABLE);
    ROOT.set(3, crate::mmu::window() | TABLE);
}

/// Turns the MMU on, for an image that starts by another run time.
///
/// # Safety
///
/// The MMU is off, the image is where it was linked, and its memory is zeroed.
pub unsafe fn turn_on() {
    unsafe extern "C" {
        fn runtime_translation(tree: u32);
    }
    // SAFETY: the caller's promise; devices and RAM are seen where they are.
    unsafe { runtime_translation(crate::boot::tree() as u32) };
}

/// Makes what was written to tables true.
pub fn flush() {
    // SAFETY: what the translation of used memory says did not change. TLBIALLIS.
    unsafe {
        core::arch::asm!(
            "dsb ishst",
            "mcr p15, 0, {zero}, c8, c3, 0",
            "dsb ish",
            "isb",
            zero = in(reg) 0,
            options(nostack)
        )
    };
}
