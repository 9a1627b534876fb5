//! The translation of AArch64: four levels of tables, with 48 bits from level 0 on.

use crate::long::{ACCESS, BLOCK, DEVICE, EXECUTE_NEVER, GIGABYTE, INNER_SHAREABLE, TABLE, Table};
pub use crate::long::{lead, lead_home, set_page};
use crate::tree::Area;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// 48 bits of VA, 4 KiB pages, walks cacheable and inner shareable; TTBR1 off.
pub const TCR: u64 = 16 | 1 << 8 | 1 << 10 | 3 << 12 | 16 << 16 | 1 << 23;
/// RES1 bits, MMU, caches, stack alignment check.
pub const SCTLR: u64 = 0x30d0_0800 | 1 | 1 << 2 | 1 << 3 | 1 << 12;

/// The address of the window.
pub const WINDOW: u64 = 1 << 39;

/// What a table of the window maps.
pub fn reach() -> u64 {
    crate::long::REACH
}

/// Level 0.
pub static ROOT: Table = Table::new();
static IDENTITY: Table = Table::new();
static WINDOW_1: Table = Table::new();

/// The address at which every physical address can be accessed, once [`map_everything`] ran.
const EVERYTHING: u64 = 2 << 39;
static EVERYTHING_1: [Table; 2] = [Table::new(), Table::new()];

/// Writes a descriptor in one access.
pub fn store(cell: &AtomicU64, descriptor: u64) {
    cell.store(descriptor, Relaxed);
}

/// The end of physical addresses: 40 bits, or what this CPU has.
pub fn address_limit() -> u64 {
    match read_sysreg!("id_aa64mmfr0_el1") & 0xf {
        0 => 1 << 32,
        1 => 1 << 36,
        _ => 1 << 40,
    }
}

/// Maps all addresses as devices, except that gigabytes with a part of `memory` are mapped as
/// memory.
pub fn map_everything(memory: Area) {
    for (at, table) in (2..).zip(&EVERYTHING_1) {
        ROOT.set(at, table.address() | TABLE);
    }
    let blocks = EVERYTHING_1.iter().flat_map(|table| &table.0);
    let starts = (0..address_limit()).step_by(GIGABYTE as usize);
    for (block, start) in blocks.zip(starts) {
        let has_memory = memory.start < start + GIGABYTE && start < memory.end();
        let kind = if has_memory { INNER_SHAREABLE } else { DEVICE };
        store(block, start | BLOCK | ACCESS | EXECUTE_NEVER | kind);
    }
    flush();
}

/// The virtual address of `physical`, which is below [`address_limit`].
pub fn everywhere(physical: u64) -> u64 {
    EVERYTHING + physical
}

/// Fills the tables; runs once, before the MMU is on. Memory is the first gigabyte of the
/// platform's RAM, and the gigabytes in which the image and the device tree are: Xen may choose
/// others.
pub extern "C" fn build_tables(tree: u64) {
    ROOT.set(0, IDENTITY.address() | TABLE);
    IDENTITY.set(0, BLOCK | ACCESS | DEVICE | EXECUTE_NEVER);
    for address in [GIGABYTE, crate::boot::load_address(), tree] {
        let gigabyte = address / GIGABYTE;
        if (1..512).contains(&gigabyte) {
            let block = (gigabyte * GIGABYTE) | BLOCK | ACCESS | INNER_SHAREABLE;
            IDENTITY.set(gigabyte as usize, block);
        }
    }
    ROOT.set(1, WINDOW_1.address() | TABLE);
    WINDOW_1.set(0, crate::long::window() | TABLE);
}

/// Makes written descriptors effective.
pub fn flush() {
    // SAFETY: what the translation of used memory says did not change.
    unsafe {
        core::arch::asm!(
            "dsb ishst",
            "tlbi vmalle1is",
            "dsb ish",
            "isb",
            options(nostack)
        )
    };
}
