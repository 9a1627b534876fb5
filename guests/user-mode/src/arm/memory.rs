//! The rewritten program and its virtual CPU, in memory.

use super::mmu::{AREA, PROGRAM, VIRTUAL_CPU, map_area};
use hanok_abi::trampoline::model::Page;
use hanok_abi::trampoline::{Field, PAGE};

/// The file, as `hanok previrt patch` wrote it.
static FILE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rewritten.elf"));
const MEGABYTE: u32 = 1 << 20;
const PT_LOAD: u32 = 1;

/// The word at `address`, in the program, its trampolines or the virtual CPU's page.
pub fn read(address: u32) -> Option<u32> {
    let known = [PROGRAM, AREA, VIRTUAL_CPU].contains(&(address & !(MEGABYTE - 1)));
    // SAFETY: all of these megabytes is RAM, and mapped; what User mode wrote there are numbers.
    (known && address & 3 == 0).then(|| unsafe { (address as *const u32).read_volatile() })
}

/// Writes a word there.
pub fn write(address: u32, value: u32) {
    if read(address).is_some() {
        // SAFETY: as above; nothing of this program's own is there.
        unsafe { (address as *mut u32).write_volatile(value) };
    }
}

/// The word at `address` of a code page of the area.
pub fn fetch(address: u32) -> Option<u32> {
    let inside = is_area(address) && (address - AREA) / PAGE % 3 == 1;
    read(address & !3).filter(|_| inside)
}

/// Returns whether `address` is in the area.
pub const fn is_area(address: u32) -> bool {
    address & !(MEGABYTE - 1) == AREA
}

fn word(at: usize) -> Option<u32> {
    let bytes = FILE.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

/// Loads the file's segments to their addresses; returns how many there were.
pub fn load() -> Option<u32> {
    map_area(true);
    let (table, count) = (word(28)? as usize, word(44)? & 0xffff);
    let mut loaded = 0;
    for number in 0..count as usize {
        let header = table + 32 * number;
        if word(header)? != PT_LOAD {
            continue;
        }
        let (offset, address) = (word(header + 4)?, word(header + 8)?);
        for at in (0..word(header + 16)?).step_by(4) {
            write(address + at, word((offset + at) as usize)?);
        }
        loaded += 1;
    }
    Some(loaded)
}

/// The virtual CPU's page.
pub fn page() -> Page {
    let mut page = Page::default();
    for field in Field::all() {
        page.put(field, read(VIRTUAL_CPU + field.offset()).unwrap_or(0));
    }
    page
}

/// Writes the virtual CPU's page.
pub fn set_page(page: &Page) {
    for field in Field::all() {
        write(VIRTUAL_CPU + field.offset(), page.get(field));
    }
}
