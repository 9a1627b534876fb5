//! A flat translation by sections (DDI 0406C B3.5.1): User mode has a few megabytes for code and
//! data; all others are for privileged modes, so that no random access reaches a device. One
//! megabyte is divided into pages: that of the trampolines, where pages of the virtual CPU
//! alternate with code.

use bitfield_struct::bitfield;
use core::arch::asm;

/// A megabyte of RAM that User mode cannot access.
pub const PRIVILEGED: u32 = 0x6100_0000;
/// A megabyte that User mode can access.
pub const OPEN: u32 = 0x6120_0000;

/// A megabyte for the instruction that is run.
pub const CODE: u32 = 0x6140_0000;

/// A megabyte for the rewritten program, once [`map_area`] has mapped it.
pub const PROGRAM: u32 = 0x6150_0000;

/// A megabyte for the program's trampolines, in triples of pages.
pub const AREA: u32 = 0x6160_0000;

/// The virtual CPU's page, which User mode accesses only through the pages between the trampolines.
pub const VIRTUAL_CPU: u32 = 0x6170_0000;

const PAGE: u32 = 0x1000;
/// How many pages a megabyte has.
const PAGES: usize = 256;

/// A first-level descriptor of a section.
#[bitfield(u32)]
struct Section {
    #[bits(2, default = 0b10)]
    kind: u8,
    #[bits(8)]
    __: u8,
    #[bits(2)]
    permission: u8,
    #[bits(8)]
    __: u8,
    #[bits(12)]
    base: u16,
}

/// A first-level descriptor of a table of pages.
#[bitfield(u32)]
struct Pages {
    #[bits(2, default = 0b01)]
    kind: u8,
    #[bits(8)]
    __: u8,
    #[bits(22)]
    base: u32,
}

/// A second-level descriptor of a small page.
#[bitfield(u32)]
struct Page {
    never_execute: bool,
    #[bits(default = true)]
    small: bool,
    #[bits(2)]
    __: u8,
    #[bits(2)]
    permission: u8,
    #[bits(6)]
    __: u8,
    #[bits(20)]
    base: u32,
}

const PRIVILEGED_ONLY: u8 = 0b01;
/// User mode reads.
const READ_ONLY: u8 = 0b10;
const EVERYBODY: u8 = 0b11;

#[repr(align(16384))]
struct Table([u32; 4096]);

static mut TABLE: Table = Table([0; 4096]);

#[repr(align(1024))]
struct PageTable([u32; PAGES]);

static mut ROOM_TABLE: PageTable = PageTable([0; PAGES]);

/// Turns the MMU on, in the place of the runtime's translation, which a Cortex-A9 does not have. All
/// memory is strongly ordered: nothing here is about caches.
// SAFETY: the one function of this name; the runtime calls it, on the stack, with zeroed memory.
#[unsafe(no_mangle)]
extern "C" fn guest_translation(_tree: u32) {
    let table = &raw mut TABLE;
    for base in 0..4096u16 {
        let open = [OPEN, CODE].contains(&(u32::from(base) << 20));
        let permission = if open { EVERYBODY } else { PRIVILEGED_ONLY };
        let section = Section::new().with_base(base).with_permission(permission);
        // SAFETY: one CPU runs, nobody else has the table, and the index is below its size.
        unsafe { (*table).0[usize::from(base)] = section.into_bits() };
    }
    // SAFETY: the translation is the identity, so that nothing moves; domain 0 is checked.
    unsafe {
        asm!(
            "mcr p15, 0, {zero}, c8, c7, 0",  // TLBIALL
            "mcr p15, 0, {zero}, c2, c0, 2",  // TTBCR
            "mcr p15, 0, {table}, c2, c0, 0", // TTBR0
            "mcr p15, 0, {one}, c3, c0, 0",   // DACR
            "dsb",
            "isb",
            "mrc p15, 0, {control}, c1, c0, 0",
            "bic {control}, {control}, #0x2000", // V: vectors by VBAR
            "orr {control}, {control}, #1",      // M
            "mcr p15, 0, {control}, c1, c0, 0",
            "isb",
            zero = in(reg) 0,
            one = in(reg) 1,
            table = in(reg) table,
            control = out(reg) _,
        );
    }
}

/// Maps the rewritten program and its trampolines: doorbell, code, the virtual CPU's page again,
/// and so on. The doorbells are read-only, by which the hypervisor says that an interrupt is
/// pending.
pub fn map_area(doorbell_writable: bool) {
    let doorbell = if doorbell_writable {
        EVERYBODY
    } else {
        READ_ONLY
    };
    let (table, pages) = (&raw mut TABLE, &raw mut ROOM_TABLE);
    for number in 0..PAGES {
        let code = (AREA + number as u32 * PAGE, READ_ONLY, false);
        let (at, permission, never) = match number % 3 {
            0 => (VIRTUAL_CPU, doorbell, true),
            1 => code,
            _ => (VIRTUAL_CPU, EVERYBODY, true),
        };
        let page = Page::new().with_base(at / PAGE).with_permission(permission);
        // SAFETY: one CPU runs, nobody else has the table, and the index is below its size.
        unsafe { (*pages).0[number] = page.with_never_execute(never).into_bits() };
    }
    let program = Section::new().with_base((PROGRAM >> 20) as u16);
    let room = Pages::new().with_base(pages as u32 >> 10);
    // SAFETY: as above; these megabytes hold nothing of this program's own.
    unsafe {
        (*table).0[(PROGRAM >> 20) as usize] = program.with_permission(EVERYBODY).into_bits();
        (*table).0[(AREA >> 20) as usize] = room.into_bits();
        asm!(
            "dsb",
            "mcr p15, 0, {zero}, c8, c7, 0", // TLBIALL
            "dsb",
            "isb",
            zero = in(reg) 0,
        );
    }
}
