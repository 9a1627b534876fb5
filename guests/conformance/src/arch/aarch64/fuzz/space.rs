//! The stage-1 translation under which the fuzzer runs.

pub use crate::fuzz::memory::{CODE, DATA, GARBAGE, ZEROS};
use crate::mmu::MAIR;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PAGE: u64 = 4096;
const GIGABYTE: u64 = 1 << 30;

/// TCR_EL1: as the runtime's, 40 bits of physical addresses, TTBR1_EL1 off.
pub const TCR: u64 = LOWER | 16 << 16 | 1 << 23 | 2 << 30;
/// What TTBR0_EL1's half needs, whatever a step does to the other half: 48 bits, 4 KiB pages,
/// walks cacheable and inner shareable; IPS 40 bits.
pub const LOWER: u64 = 16 | 1 << 8 | 1 << 10 | 3 << 12 | 2 << 32;
/// SCTLR_EL1: the runtime's, and what lets EL0 do more: CP15 barriers, DC ZVA, CTR_EL0, WFI, WFE
/// and cache maintenance.
pub const SCTLR: u64 = hanok_guest_runtime::arch::mmu::SCTLR
    | 1 << 5
    | 1 << 14
    | 1 << 15
    | 1 << 16
    | 1 << 18
    | 1 << 26;
/// Attribute 0 is Normal memory, attribute 1 a device.
pub const MEMORY_KINDS: u64 = MAIR;

/// Where EL0 sees its code.
pub const USER_CODE: u64 = 2 << 30;
/// Where EL0 sees its data.
pub const USER_DATA: u64 = USER_CODE + PAGE;
/// Where EL0 sees physical address 0; a gigabyte follows.
pub const USER_DEVICES: u64 = 3 << 30;
/// Where EL1 sees physical address 0; all 40 bits follow.
const EVERYTHING: u64 = 2 << 39;

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
        core::ptr::from_ref(self) as u64
    }
}

/// Level 0.
pub static ROOT: Table = Table::new();
static LOW: Table = Table::new();
static USER_2: Table = Table::new();
static USER_3: Table = Table::new();
static EVERYTHING_1: [Table; 2] = [Table::new(), Table::new()];

const VALID: u64 = 1;
const TABLE: u64 = 3;
const BLOCK: u64 = 1;
const ACCESS: u64 = 1 << 10;
const SHARED: u64 = 3 << 8;
const DEVICE: u64 = 1 << 2;
const FOR_EL0: u64 = 1 << 6;
const READ_ONLY: u64 = 1 << 7;
const NOT_AT_EL1: u64 = 1 << 53;
const NOT_AT_EL0: u64 = 1 << 54;
const NOT_CODE: u64 = NOT_AT_EL0 | NOT_AT_EL1;

/// The root's address, for TTBR0_EL1.
pub fn root() -> u64 {
    ROOT.address()
}

/// Fills the tables and switches to them.
pub fn install(ram: crate::tree::Area) {
    let device = BLOCK | ACCESS | DEVICE;
    ROOT.set(0, LOW.address() | TABLE);
    LOW.set(0, device | NOT_CODE);
    LOW.set(1, GIGABYTE | BLOCK | ACCESS | SHARED);
    LOW.set(2, USER_2.address() | TABLE);
    LOW.set(3, device | FOR_EL0 | NOT_CODE);
    USER_2.set(0, USER_3.address() | TABLE);
    let page = ACCESS | SHARED | TABLE | FOR_EL0;
    USER_3.set(0, CODE.address() | page | READ_ONLY | NOT_AT_EL1);
    USER_3.set(1, DATA.address() | page | NOT_CODE);
    for (at, table) in (2..).zip(&EVERYTHING_1) {
        ROOT.set(at, table.address() | TABLE);
    }
    let blocks = EVERYTHING_1.iter().flat_map(|table| &table.0);
    for (block, start) in blocks.zip((0..).step_by(GIGABYTE as usize)) {
        let has_ram = ram.start < start + GIGABYTE && start < ram.end();
        let kind = if has_ram { SHARED } else { DEVICE };
        block.store(start | BLOCK | ACCESS | NOT_CODE | kind, Relaxed);
    }
    switch();
}

/// Sets the registers that the fuzzer and the runtime need: the vectors' address, and `this`, which
/// goes to TPIDR_EL1.
pub fn own_registers(vectors: u64, this: u64) {
    write_sysreg!("vbar_el1", vectors);
    write_sysreg!("tpidr_el1", this);
    write_sysreg!("cpacr_el1", 3 << 20);
    write_sysreg!("cntkctl_el1", 3);
}

/// Lets EL1 or EL0 fetch from the page of `physical`, and returns the virtual address of it.
pub fn window(physical: u64, for_el0: bool) -> u64 {
    const EL1: usize = 2;
    const EL0: usize = 3;
    let page = physical & !(PAGE - 1) | ACCESS | TABLE;
    let (slot, descriptor) = if for_el0 {
        (EL0, page | SHARED | FOR_EL0 | READ_ONLY | NOT_AT_EL1)
    } else {
        (EL1, page | SHARED | READ_ONLY | NOT_AT_EL0)
    };
    // Break before make (DDI 0487, D8.16.1).
    USER_3.set(slot, 0);
    flush();
    USER_3.set(slot, descriptor);
    flush();
    USER_CODE + slot as u64 * PAGE
}

fn flush() {
    // SAFETY: what the translation of used memory says did not change.
    unsafe {
        core::arch::asm!(
            "dsb ishst",
            "tlbi vmalle1",
            "dsb nsh",
            "isb",
            options(nostack)
        )
    };
}

/// The virtual address by which EL1 sees `physical`, an address of 40 bits.
pub const fn everywhere(physical: u64) -> u64 {
    EVERYTHING + physical
}

fn switch() {
    // SAFETY: the tables map all that is in use at its own address, as those before did.
    unsafe {
        core::arch::asm!(
            "dsb ishst",
            "msr ttbr0_el1, {root}",
            "msr tcr_el1, {tcr}",
            "isb",
            "tlbi vmalle1",
            "dsb nsh",
            "isb",
            "msr sctlr_el1, {sctlr}",
            "isb",
            root = in(reg) root(),
            tcr = in(reg) TCR,
            sctlr = in(reg) SCTLR,
            options(nostack)
        );
    }
}

/// Runs `work` with TTBR1_EL1 and its half of TCR_EL1 as the step says.
pub fn with_upper<T>(ttbr1: u64, tcr: u64, work: impl FnOnce() -> T) -> T {
    set_upper(ttbr1, LOWER | tcr & UPPER);
    let result = work();
    set_upper(0, TCR);
    result
}

/// The fields of TCR_EL1 that are about TTBR1_EL1 (DDI 0487, D24.2.183): T1SZ, IRGN1, ORGN1, SH1,
/// TG1, TBI1, HA, HD, HPD1. Not A1, nor EPD1, which stays clear.
const UPPER: u64 = 0x3f << 16 | 0xff << 24 | 1 << 38 | 3 << 39 | 1 << 42;

fn set_upper(ttbr1: u64, tcr: u64) {
    // SAFETY: nothing of ours is in the upper half.
    unsafe {
        core::arch::asm!(
            "msr ttbr1_el1, {ttbr1}",
            "msr tcr_el1, {tcr}",
            "isb",
            "tlbi vmalle1",
            "dsb nsh",
            "isb",
            ttbr1 = in(reg) ttbr1,
            tcr = in(reg) tcr,
            options(nostack)
        );
    }
}

/// A descriptor of a non-executable page or block at `address`, with these low and high attributes.
pub fn descriptor(address: u64, attributes: u64) -> u64 {
    const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
    address & ADDRESS | attributes & !ADDRESS & !FOR_EL0 | VALID | NOT_CODE
}
