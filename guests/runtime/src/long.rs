//! Long descriptors: those of VMSAv8-64 and of ARMv7's long format are equal in everything that is
//! used (DDI 0406C, B3.6.1).

use crate::arch::mmu::{flush, store};
use crate::page::Kind;
use core::sync::atomic::AtomicU64;

/// Attribute 0: Normal, write-back. Attribute 1: Device-nGnRE.
pub const MAIR: u64 = 0x04ff;
pub(crate) const GIGABYTE: u64 = 1 << 30;

pub(crate) const TABLE: u64 = 3;
pub(crate) const BLOCK: u64 = 1;
pub(crate) const ACCESS: u64 = 1 << 10;
pub(crate) const INNER_SHAREABLE: u64 = 3 << 8;
pub(crate) const DEVICE: u64 = 1 << 2;
const READ_ONLY: u64 = 1 << 7;
pub(crate) const EXECUTE_NEVER: u64 = 3 << 53;

/// What a table of the window maps.
pub const REACH: u64 = 2 << 20;

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

fn bits(kind: Kind) -> u64 {
    match kind {
        Kind::Device => DEVICE | EXECUTE_NEVER,
        Kind::Code => INNER_SHAREABLE,
        Kind::ReadOnly => INNER_SHAREABLE | READ_ONLY | EXECUTE_NEVER,
    }
}

/// The window's level 2, which points to its level 3.
pub(crate) fn window() -> u64 {
    lead_home();
    WINDOW_2.address()
}

/// Makes the window's first part translate by the window's own pages.
pub fn lead_home() {
    lead(0, Some(WINDOW_3.address()));
}

/// Makes part `index` of the window translate by the table at `physical`, or by none.
pub fn lead(index: usize, physical: Option<u64>) {
    WINDOW_2.set(index, physical.map_or(0, |physical| physical | TABLE));
}

/// Maps page `slot` of the window. Break before make (DDI 0487, D8.16.1).
pub fn set_page(slot: usize, mapping: Option<(u64, Kind)>) {
    let page = |(physical, kind)| physical | ACCESS | TABLE | bits(kind);
    WINDOW_3.set(slot, 0);
    flush();
    WINDOW_3.set(slot, mapping.map_or(0, page));
    flush();
}
