//! A flat translation by sections (DDI 0406C B3.5.1): User mode has two megabytes, one to run in
//! and one for data; all others are for privileged modes, so that no access of chance reaches a
//! device.

use bitfield_struct::bitfield;
use core::arch::asm;

/// A megabyte of RAM that User mode cannot reach.
pub const PRIVILEGED: u32 = 0x6100_0000;
/// One that it can.
pub const OPEN: u32 = 0x6120_0000;

/// One for the instruction that is run.
pub const CODE: u32 = 0x6140_0000;

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

const PRIVILEGED_ONLY: u8 = 0b01;
const EVERYBODY: u8 = 0b11;

#[repr(align(16384))]
struct Table([u32; 4096]);

static mut TABLE: Table = Table([0; 4096]);

/// Turns the MMU on. All memory is strongly ordered: nothing here is about caches.
pub extern "C" fn enable() {
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
