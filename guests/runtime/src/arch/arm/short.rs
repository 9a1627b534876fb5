//! The translation of ARMv7-A by short descriptors (DDI 0406C, B3.5), for CPUs that have no others:
//! the same memory with the same rights as by long ones, in sections of a megabyte; the window has
//! a table of pages.

use super::flush::flush;
use crate::page::Kind;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The address of the window.
pub const WINDOW: u64 = 3 << 30;
/// Attributes of TTBR0: walks are write-back and shareable (B4.1.154).
pub const WALKS: u32 = 1 << 6 | 1 << 3 | 1 << 1;
/// What a table of the window maps.
pub const REACH: u64 = 1 << MEGABYTE;

const MEGABYTE: u32 = 20;

/// First-level descriptors: a table, and a section that PL1 may read and write.
const TABLE: u32 = 1;
const SECTION: u32 = 2 | 1 << 10;
const SECTION_DEVICE: u32 = SECTION | SECTION_NEVER | 1 << 2;
const SECTION_NORMAL: u32 = SECTION | 1 << 12 | 1 << 3 | 1 << 2 | 1 << 16;
const SECTION_NEVER: u32 = 1 << 4;

/// Second-level descriptors: a small page that PL1 may read, and write unless it is read-only.
const PAGE: u32 = 2 | 1 << 4;
const PAGE_DEVICE: u32 = PAGE | PAGE_NEVER | 1 << 2;
const PAGE_NORMAL: u32 = PAGE | 1 << 6 | 1 << 3 | 1 << 2 | 1 << 10;
const PAGE_READ_ONLY: u32 = 1 << 9;
const PAGE_NEVER: u32 = 1;

/// A first-level table.
#[repr(C, align(16384))]
pub struct Root([AtomicU32; 4096]);

/// A second-level table.
#[repr(C, align(1024))]
struct Pages([AtomicU32; 256]);

/// The first level.
pub static ROOT: Root = Root([const { AtomicU32::new(0) }; 4096]);
static PAGES: Pages = Pages([const { AtomicU32::new(0) }; 256]);

fn at(address: u64) -> &'static AtomicU32 {
    &ROOT.0[(address >> MEGABYTE) as usize]
}

/// Maps a gigabyte of devices and one of memory to themselves; runs once, before the MMU is on.
pub fn build() {
    for (index, entry) in (0..2048).zip(&ROOT.0) {
        let kind = if index < 1024 {
            SECTION_DEVICE
        } else {
            SECTION_NORMAL
        };
        entry.store(index << MEGABYTE | kind, Relaxed);
    }
    lead_home();
}

/// Maps the megabyte of `physical`, which is a device's, to the one at `address`.
pub fn map_device(address: u64, physical: u64) {
    let section = (physical >> MEGABYTE << MEGABYTE) as u32 | SECTION_DEVICE;
    if at(address).load(Relaxed) != section {
        at(address).store(0, Relaxed);
        flush();
        at(address).store(section, Relaxed);
        flush();
    }
}

/// Makes the window's first part translate by the window's own pages.
pub fn lead_home() {
    lead(0, Some(core::ptr::from_ref(&PAGES).addr() as u64));
}

/// Makes part `index` of the window translate by the table at `physical`, or by none.
pub fn lead(index: usize, physical: Option<u64>) {
    let descriptor = physical.map_or(0, |physical| physical as u32 | TABLE);
    at(WINDOW + index as u64 * REACH).store(descriptor, Relaxed);
}

/// Maps page `slot` of the window. Break before make (B3.10.1).
pub fn set_page(slot: usize, mapping: Option<(u64, Kind)>) {
    let page = |(physical, kind)| physical as u32 | bits(kind);
    PAGES.0[slot].store(0, Relaxed);
    flush();
    PAGES.0[slot].store(mapping.map_or(0, page), Relaxed);
    flush();
}

fn bits(kind: Kind) -> u32 {
    match kind {
        Kind::Device => PAGE_DEVICE,
        Kind::Code => PAGE_NORMAL,
        Kind::ReadOnly => PAGE_NORMAL | PAGE_READ_ONLY | PAGE_NEVER,
    }
}

/// The status code that ESR_EL1 and the long format have for the one that the short format has
/// (B3.13.3). A fault of the first level is level 1, a page's level 3.
pub fn long_status(short: u64) -> Option<u64> {
    Some(match short {
        0b00001 => 0x21,
        0b00010 => 0x22,
        0b00011 => 0x09,
        0b00101 => 0x05,
        0b00110 => 0x0b,
        0b00111 => 0x07,
        0b01000 => 0x10,
        0b01001 => 0x3d,
        0b01011 => 0x3e,
        0b01100 => 0x15,
        0b01101 => 0x0d,
        0b01110 => 0x17,
        0b01111 => 0x0f,
        0b10101 => 0x35,
        0b10110 => 0x11,
        _ => return None,
    })
}
