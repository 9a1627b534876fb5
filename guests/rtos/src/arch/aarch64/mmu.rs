//! The translation table: blocks of 1 GiB, devices below 1 GiB, Normal memory where the image and
//! the tree are. Without it all memory would be Device memory: slow, and without unaligned
//! accesses.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Attribute 0: Normal, write-back. Attribute 1: Device-nGnRE.
pub const MAIR: u64 = 0x04ff;
/// 39 bits of VA, so that walks begin at level 1; 4 KiB granule; walks cacheable and inner
/// shareable; TTBR1 off (D24.2, TCR_EL1).
pub const TCR: u64 = 25 | 1 << 8 | 1 << 10 | 3 << 12 | 25 << 16 | 1 << 23;
/// RES1 bits, MMU, caches, stack alignment check (D24.2, SCTLR_EL1).
pub const SCTLR: u64 = 0x30d0_0800 | 1 | 1 << 2 | 1 << 3 | 1 << 12;

/// The level-1 table.
#[repr(C, align(4096))]
pub struct Table([AtomicU64; 512]);

/// The table.
pub static TABLE: Table = Table([const { AtomicU64::new(0) }; 512]);

const GIB: u64 = 1 << 30;
const BLOCK: u64 = 1;
const DEVICE: u64 = 1 << 2;
const INNER_SHAREABLE: u64 = 3 << 8;
const ACCESS: u64 = 1 << 10;
const EXECUTE_NEVER: u64 = 3 << 53;

/// Fills the table; runs once, before the MMU is on.
pub extern "C" fn build_table(image: u64, tree: u64) {
    TABLE.0[0].store(BLOCK | ACCESS | DEVICE | EXECUTE_NEVER, Relaxed);
    for address in [image, tree] {
        let block = address / GIB * GIB;
        if let Some(entry) = TABLE.0.get((address / GIB) as usize) {
            entry.store(block | BLOCK | ACCESS | INNER_SHAREABLE, Relaxed);
        }
    }
}
