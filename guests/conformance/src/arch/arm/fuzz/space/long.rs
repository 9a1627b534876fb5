//! The translation by long descriptors (DDI 0406C, B3.6).

use super::{CODE, DATA, PAGE, USER_CODE, USER_REACH, flush};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

const MEGABYTES_2: u64 = 2 << 20;
const GIGABYTE: u64 = 1 << 30;

/// TTBCR with the runtime's value.
pub const TCR: u64 = hanok_guest_runtime::arch::mmu::TCR;
/// TTBCR with TTBR0's half alone: half of the addresses are mapped.
const LOWER: u64 = TCR & !(1 << 23) | 1;
/// Where the gigabyte of physical addresses is mapped that was asked for last.
const EVERYTHING: u64 = 3 << 30;

#[repr(C, align(4096))]
pub struct Table([AtomicU64; 512]);

impl Table {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 512])
    }

    fn set(&self, index: usize, descriptor: u64) {
        self.0[index].store(descriptor, Relaxed);
    }

    fn address(&self) -> u64 {
        core::ptr::from_ref(self).addr() as u64
    }
}

/// Level 1.
pub static ROOT: Table = Table::new();
static USER_2: Table = Table::new();
static USER_3: Table = Table::new();

const VALID: u64 = 1;
const TABLE: u64 = 3;
const BLOCK: u64 = 1;
const ACCESS: u64 = 1 << 10;
const SHARED: u64 = 3 << 8;
const DEVICE: u64 = 1 << 2;
const FOR_USER: u64 = 1 << 6;
const READ_ONLY: u64 = 1 << 7;
const NOT_AT_PL1: u64 = 1 << 53;
const NOT_CODE: u64 = 1 << 54;

/// Fills the tables.
pub fn build() {
    let device = BLOCK | ACCESS | DEVICE | NOT_CODE;
    ROOT.set(0, device);
    ROOT.set(1, GIGABYTE | BLOCK | ACCESS | SHARED);
    ROOT.set(2, USER_2.address() | TABLE);
    USER_2.set(0, USER_3.address() | TABLE);
    let page = ACCESS | SHARED | TABLE | FOR_USER;
    USER_3.set(0, CODE.address() | page | READ_ONLY | NOT_AT_PL1);
    USER_3.set(1, DATA.address() | page | NOT_CODE);
    for (index, start) in (128..).zip((0..USER_REACH).step_by(MEGABYTES_2 as usize)) {
        USER_2.set(index, start | device | FOR_USER);
    }
}

/// Lets PL1 or User mode fetch from the page of `physical`, and returns the virtual address of it.
pub fn window(physical: u64, for_user: bool) -> u32 {
    const PL1: usize = 2;
    const USER: usize = 3;
    let page = physical & !(PAGE - 1) | ACCESS | TABLE | SHARED | READ_ONLY;
    let (slot, descriptor) = if for_user {
        (USER, page | FOR_USER | NOT_AT_PL1)
    } else {
        (PL1, page)
    };
    replace(&USER_3, slot, descriptor);
    USER_CODE + slot as u32 * PAGE as u32
}

/// Break before make (DDI 0406C, B3.10.1).
fn replace(table: &Table, slot: usize, descriptor: u64) {
    table.set(slot, 0);
    flush();
    table.set(slot, descriptor);
    flush();
}

/// The virtual address by which PL1 sees `physical`, an address of 40 bits, until the next call.
pub fn everywhere(physical: u64) -> u32 {
    let block = physical / GIGABYTE * GIGABYTE;
    if block == GIGABYTE {
        return physical as u32;
    }
    let descriptor = block | BLOCK | ACCESS | DEVICE | NOT_CODE;
    if ROOT.0[3].load(Relaxed) != descriptor {
        replace(&ROOT, 3, descriptor);
    }
    (EVERYTHING + physical % GIGABYTE) as u32
}

/// Switches to the tables.
pub fn switch() {
    write_sysreg!("ttbr0_el1", ROOT.address());
    write_sysreg!("tcr_el1", TCR);
    flush();
}

/// Lets the upper half translate by tables at `ttbr1`, with these fields of TTBCR.
pub fn lead_upper(ttbr1: u64, control: u64) {
    set_upper(ttbr1, LOWER | control & UPPER);
}

/// Undoes [`lead_upper`].
pub fn restore_upper() {
    set_upper(0, TCR);
}

/// The fields of TTBCR that are about TTBR1 (DDI 0406C, B4.1.153): T1SZ, IRGN1, ORGN1, SH1. Not
/// A1, nor EPD1, which stays clear.
const UPPER: u64 = 7 << 16 | 0x3f << 24;

fn set_upper(ttbr1: u64, control: u64) {
    write_sysreg!("ttbr1_el1", ttbr1);
    write_sysreg!("tcr_el1", control);
    flush();
}

/// A descriptor of a non-executable page or block at `address`, with these low and high attributes.
pub fn descriptor(address: u64, attributes: u64) -> u64 {
    const ADDRESS: u64 = 0x00ff_ffff_f000;
    address & ADDRESS | attributes & !ADDRESS & !FOR_USER | VALID | NOT_CODE | NOT_AT_PL1
}
