//! One table of 1 MiB sections (DDI 0406C, B3.5.1): devices below 1 GiB, Normal memory above.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The first-level table.
#[repr(C, align(16384))]
pub struct Table([AtomicU32; 4096]);

/// The table.
pub static TABLE: Table = Table([const { AtomicU32::new(0) }; 4096]);

/// TTBR0: walks are write-back and shareable.
pub const WALKS: u32 = 1 << 6 | 1 << 3 | 1 << 1;

const SECTION: u32 = 2;
const BUFFERABLE: u32 = 1 << 2;
const CACHEABLE: u32 = 1 << 3;
const EXECUTE_NEVER: u32 = 1 << 4;
const PRIVILEGED: u32 = 1 << 10;
const ALLOCATE: u32 = 1 << 12;
const SHAREABLE: u32 = 1 << 16;

const DEVICE: u32 = SECTION | BUFFERABLE | EXECUTE_NEVER | PRIVILEGED;
const NORMAL: u32 = SECTION | BUFFERABLE | CACHEABLE | PRIVILEGED | ALLOCATE | SHAREABLE;

/// Fills the table; runs once, before the MMU is on.
pub extern "C" fn build_table() {
    for (index, entry) in (0_u32..).zip(&TABLE.0) {
        let kind = if index < 1024 { DEVICE } else { NORMAL };
        entry.store(index << 20 | kind, Relaxed);
    }
}
