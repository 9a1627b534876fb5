//! The program's own translation: devices and RAM at their physical addresses, and a window of
//! pages that can be mapped anywhere. The descriptors are the architecture's business (`arch`).

pub use crate::arch::mmu::{WINDOW, address_limit, build_tables, everywhere, map_everything};
use crate::arch::mmu::{flush, lead, lead_home, reach, set_page};
pub use crate::long::MAIR;
pub use crate::page::Kind;

const PAGE: u64 = 4096;

/// Maps page `slot` of the window to `physical` (rounded down to a page), and returns the virtual
/// address of `physical`, which is below [`address_limit`].
pub fn map(slot: usize, physical: u64, kind: Kind) -> u64 {
    set_page(slot, Some((physical & !(PAGE - 1), kind)));
    page(slot) + physical % PAGE
}

/// Unmaps page `slot` of the window.
pub fn unmap(slot: usize) -> u64 {
    set_page(slot, None);
    page(slot)
}

/// Makes a table at `physical` translate the addresses after the window's first table, and returns
/// the first of them.
pub fn map_table_at(physical: u64) -> u64 {
    lead(1, None);
    flush();
    lead(1, Some(physical));
    flush();
    WINDOW + reach()
}

/// Makes the tables name a table at `physical` for the window's pages, without invalidating what
/// CPUs have cached of them.
pub fn lead_window_to(physical: u64) {
    lead(0, Some(physical));
}

/// Undoes [`lead_window_to`].
pub fn restore_window() {
    lead(0, None);
    flush();
    lead_home();
    flush();
}

fn page(slot: usize) -> u64 {
    WINDOW + slot as u64 * PAGE
}
