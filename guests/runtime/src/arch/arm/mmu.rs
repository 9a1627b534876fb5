//! The translation of ARMv7-A by long descriptors (DDI 0406C, B3.6): level 1 has four entries. The
//! first two gigabytes are mapped to themselves. The third maps whichever gigabyte was last asked
//! for, since physical addresses have 40 bits and pointers 32. The last has the window. A CPU
//! without them, or one whose command line says `runtime.tables=short`, translates by [`short`].

pub use super::flush::flush;
use super::short;
pub use super::short::WINDOW;
use crate::long::{self, ACCESS, BLOCK, DEVICE, EXECUTE_NEVER, GIGABYTE, INNER_SHAREABLE};
use crate::long::{TABLE, Table};
use crate::page::Kind;
use crate::tree::{self, Area};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// TTBCR: long descriptors, 32 bits of VA by TTBR0 alone, walks cacheable and inner shareable.
pub const TCR: u64 = 1 << 31 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23;

/// Whether short descriptors are used. The entry code reads it.
pub(super) static SHORT: AtomicBool = AtomicBool::new(false);

/// Whether the translation is by short descriptors.
pub fn is_short() -> bool {
    SHORT.load(Relaxed)
}

/// Whether the CPU has long descriptors (ID_MMFR0.VMSA).
pub fn has_long() -> bool {
    read_sysreg!("id_mmfr0_el1") & 0xf >= 5
}

/// Level 1.
pub static ROOT: Table = Table::new();

/// The address at which the gigabyte is mapped that was last asked for.
const EVERYTHING: u64 = 2 << 30;
/// The number of gigabytes that are mapped to themselves.
const IDENTITY: u64 = 2;

/// Writes a descriptor in one access: STRD does that (DDI 0406C, A3.5.3), and also works before the
/// caches are on, which an exclusive access would need.
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

/// The end of physical addresses: 40 bits, which long descriptors have (DDI 0406C, B3.6), or 32.
pub fn address_limit() -> u64 {
    if is_short() { 1 << 32 } else { 1 << 40 }
}

/// What a table of the window maps.
pub fn reach() -> u64 {
    if is_short() {
        short::REACH
    } else {
        long::REACH
    }
}

/// Makes the window's first part translate by the window's own pages.
pub fn lead_home() {
    if is_short() {
        short::lead_home();
    } else {
        long::lead_home();
    }
}

/// Makes part `index` of the window translate by the table at `physical`, or by none.
pub fn lead(index: usize, physical: Option<u64>) {
    if is_short() {
        short::lead(index, physical);
    } else {
        long::lead(index, physical);
    }
}

/// Maps page `slot` of the window.
pub fn set_page(slot: usize, mapping: Option<(u64, Kind)>) {
    if is_short() {
        short::set_page(slot, mapping);
    } else {
        long::set_page(slot, mapping);
    }
}

/// Prepares for [`everywhere`]: nothing has to be done, as long as memory is in gigabytes that are
/// mapped to themselves.
pub fn map_everything(memory: Area) {
    let end = memory.end();
    assert!(
        end <= IDENTITY * GIGABYTE,
        "memory up to {end:#x} is more than is seen at once"
    );
}

/// The virtual address of `physical`, which is below [`address_limit`], until the next call. Memory
/// keeps its address.
pub fn everywhere(physical: u64) -> u64 {
    let gigabyte = physical / GIGABYTE;
    if gigabyte < IDENTITY {
        return physical;
    }
    if is_short() {
        let address = EVERYTHING + physical % GIGABYTE;
        short::map_device(address, physical);
        return address;
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
pub extern "C" fn build_tables(tree: u32) {
    if !has_long() || wants_short(tree) {
        SHORT.store(true, Relaxed);
        return short::build();
    }
    ROOT.set(0, BLOCK | ACCESS | DEVICE | EXECUTE_NEVER);
    ROOT.set(1, GIGABYTE | BLOCK | ACCESS | INNER_SHAREABLE);
    ROOT.set(3, long::window() | TABLE);
}

/// Whether the command line asks for short descriptors: so they can be tried on any CPU.
fn wants_short(tree: u32) -> bool {
    // SAFETY: the boot protocol passes the tree's address, and nobody writes there. The code for
    // this target makes aligned accesses only, as it must before the MMU is on.
    let arguments = unsafe { tree::bootargs(tree.into()) };
    let mut words = arguments.unwrap_or_default().split_ascii_whitespace();
    words.any(|word| word == "runtime.tables=short")
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
