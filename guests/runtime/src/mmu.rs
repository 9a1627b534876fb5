//! The program's own translation: devices and RAM at their physical addresses, and a window of
//! pages that can be mapped anywhere. Descriptors are those of VMSAv8-64 and of ARMv7's long
//! format, which are equal in everything that is used (DDI 0406C, B3.6.1).

pub use crate::arch::mmu::{ROOT, WINDOW, address_limit, build_tables, everywhere, map_everything};
use crate::arch::mmu::{flush, store};
use core::sync::atomic::AtomicU64;

/// Attribute 0: Normal, write-back. Attribute 1: Device-nGnRE.
pub const MAIR: u64 = 0x04ff;
const PAGE: u64 = 4096;
pub(crate) const GIGABYTE: u64 = 1 << 30;

/// A translation table.
#[repr(C, align(4096))]
pub struct Table(pub(crate) [AtomicU64; 512]);

impl Table {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 512])
    }

    pub(crate) fn address(&'static self) -> u64 {
        core::ptr::from_ref(self).addr() as u64
    }

    pub(crate) fn set(&self, index: usize, descriptor: u64) {
        store(&self.0[index], descriptor);
    }
}

static WINDOW_2: Table = Table::new();
static WINDOW_3: Table = Table::new();

pub(crate) const TABLE: u64 = 3;
pub(crate) const BLOCK: u64 = 1;
pub(crate) const ACCESS: u64 = 1 << 10;
pub(crate) const INNER_SHAREABLE: u64 = 3 << 8;
pub(crate) const DEVICE: u64 = 1 << 2;
const READ_ONLY: u64 = 1 << 7;
pub(crate) const EXECUTE_NEVER: u64 = 3 << 53;

/// How a page of the window is mapped.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Device memory.
    Device,
    /// Normal memory that may be executed.
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

/// The window's level 2, which points to its level 3.
pub(crate) fn window() -> u64 {
    WINDOW_2.set(0, WINDOW_3.address() | TABLE);
    WINDOW_2.address()
}

/// Maps page `slot` of the window to `physical` (rounded down to a page), and returns the virtual
/// address of `physical`.
pub fn map(slot: usize, physical: u64, kind: Kind) -> u64 {
    set_page(slot, physical & !(PAGE - 1) | ACCESS | TABLE | kind.bits());
    page(slot) + physical % PAGE
}

/// Unmaps page `slot` of the window.
pub fn unmap(slot: usize) -> u64 {
    set_page(slot, 0);
    page(slot)
}

/// Makes a table at `physical` translate the 2 MiB after the window's first, and returns their
/// address.
pub fn map_table_at(physical: u64) -> u64 {
    WINDOW_2.set(1, 0);
    flush();
    WINDOW_2.set(1, physical | TABLE);
    flush();
    WINDOW + (2 << 20)
}

/// Makes the tables name a table at `physical` for the window's first 2 MiB, without invalidating
/// what CPUs have cached of them.
pub fn lead_window_to(physical: u64) {
    WINDOW_2.set(0, physical | TABLE);
}

/// Undoes [`lead_window_to`].
pub fn restore_window() {
    WINDOW_2.set(0, 0);
    flush();
    window();
    flush();
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
