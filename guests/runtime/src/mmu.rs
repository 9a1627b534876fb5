//! The program's own translation: devices and RAM at their physical addresses, and a window of
//! pages that it points wherever it wants to look.

use crate::tree::Area;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Attribute 0: Normal, write-back. Attribute 1: Device-nGnRE.
pub const MAIR: u64 = 0x04ff;
/// 48 bits of VA, 4 KiB pages, walks cacheable and inner shareable; TTBR1 off.
pub const TCR: u64 = 16 | 1 << 8 | 1 << 10 | 3 << 12 | 16 << 16 | 1 << 23;
/// RES1 bits, MMU, caches, stack alignment check.
pub const SCTLR: u64 = 0x30d0_0800 | 1 | 1 << 2 | 1 << 3 | 1 << 12;

/// Where the window begins.
pub const WINDOW: u64 = 1 << 39;
const PAGE: u64 = 4096;

/// A translation table.
#[repr(C, align(4096))]
pub struct Table([AtomicU64; 512]);

impl Table {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 512])
    }

    fn address(&'static self) -> u64 {
        core::ptr::from_ref(self) as u64
    }

    fn set(&self, index: usize, descriptor: u64) {
        self.0[index].store(descriptor, Relaxed);
    }
}

/// Level 0.
pub static ROOT: Table = Table::new();
static IDENTITY: Table = Table::new();
static WINDOW_1: Table = Table::new();
static WINDOW_2: Table = Table::new();
static WINDOW_3: Table = Table::new();

const TABLE: u64 = 3;
const BLOCK: u64 = 1;
const ACCESS: u64 = 1 << 10;
const INNER_SHAREABLE: u64 = 3 << 8;
const DEVICE: u64 = 1 << 2;
const READ_ONLY: u64 = 1 << 7;
const EXECUTE_NEVER: u64 = 3 << 53;

/// How a page of the window is mapped.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Device memory.
    Device,
    /// Normal memory that may be run.
    Code,
    /// Normal memory that may only be read.
    ReadOnly,
}

impl Kind {
    fn bits(self) -> u64 {
        match self {
            Self::Device => DEVICE | EXECUTE_NEVER,
            Self::Code => INNER_SHAREABLE,
            Self::ReadOnly => INNER_SHAREABLE | READ_ONLY | EXECUTE_NEVER,
        }
    }
}

/// Where every address is seen, once [`map_everything`] ran.
const EVERYTHING: u64 = 2 << 39;
static EVERYTHING_1: [Table; 2] = [Table::new(), Table::new()];
const GIGABYTE: u64 = 1 << 30;

/// Addresses end here: at 40 bits, or where this CPU's end.
pub fn address_limit() -> u64 {
    match read_sysreg!("id_aa64mmfr0_el1") & 0xf {
        0 => 1 << 32,
        1 => 1 << 36,
        _ => 1 << 40,
    }
}

/// Maps all addresses, as devices; a gigabyte that has some of `memory` as memory.
pub fn map_everything(memory: Area) {
    for (at, table) in (2..).zip(&EVERYTHING_1) {
        ROOT.set(at, table.address() | TABLE);
    }
    let blocks = EVERYTHING_1.iter().flat_map(|table| &table.0);
    let starts = (0..address_limit()).step_by(GIGABYTE as usize);
    for (block, start) in blocks.zip(starts) {
        let has_memory = memory.start < start + GIGABYTE && start < memory.end();
        let kind = if has_memory { INNER_SHAREABLE } else { DEVICE };
        block.store(start | BLOCK | ACCESS | EXECUTE_NEVER | kind, Relaxed);
    }
    flush();
}

/// Where `physical`, below [`address_limit`], is seen.
pub const fn everywhere(physical: u64) -> u64 {
    EVERYTHING + physical
}

/// Fills the tables; runs once, before the MMU is on. Beside the first gigabyte of the platform's
/// RAM, those in which the image and the device tree lie are memory: Xen may choose others.
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
    WINDOW_1.set(0, WINDOW_2.address() | TABLE);
    WINDOW_2.set(0, WINDOW_3.address() | TABLE);
}

/// Maps page `slot` of the window to `physical` (rounded down to a page), and gives where
/// `physical` is seen.
pub fn map(slot: usize, physical: u64, kind: Kind) -> u64 {
    set_page(slot, physical & !(PAGE - 1) | ACCESS | TABLE | kind.bits());
    page(slot) + physical % PAGE
}

/// Takes page `slot` of the window away.
pub fn unmap(slot: usize) -> u64 {
    set_page(slot, 0);
    page(slot)
}

/// Makes the 2 MiB after the window's first be translated by a table at `physical`, and
/// gives where they begin.
pub fn map_table_at(physical: u64) -> u64 {
    WINDOW_2.set(1, 0);
    flush();
    WINDOW_2.set(1, physical | TABLE);
    flush();
    WINDOW + (2 << 20)
}

fn page(slot: usize) -> u64 {
    WINDOW + slot as u64 * PAGE
}

/// Break before make (DDI 0487, D8.16.1).
fn set_page(slot: usize, descriptor: u64) {
    WINDOW_3.set(slot, 0);
    flush();
    WINDOW_3.set(slot, descriptor);
    flush();
}

fn flush() {
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
