//! Accesses to devices, each one a plain instruction with a syndrome of its own.

use core::arch::asm;

macro_rules! access {
    ($read:ident, $write:ident, $type:ty, $load:literal, $store:literal) => {
        /// Reads a device register.
        pub fn $read(address: u64) -> $type {
            let value: $type;
            // SAFETY: every caller passes an address of the platform's device space, mapped
            // as such; a device access changes no memory that Rust knows of.
            unsafe { asm!($load, out(reg) value, in(reg) address, options(nostack)) };
            value
        }

        /// Writes a device register.
        pub fn $write(address: u64, value: $type) {
            // SAFETY: as for the read.
            unsafe { asm!($store, in(reg) value, in(reg) address, options(nostack)) };
        }
    };
}

access!(
    read16,
    write16,
    u16,
    "ldrh {0:w}, [{1}]",
    "strh {0:w}, [{1}]"
);
access!(read32, write32, u32, "ldr {0:w}, [{1}]", "str {0:w}, [{1}]");
access!(read64, write64, u64, "ldr {0:x}, [{1}]", "str {0:x}, [{1}]");

/// Reads one byte of a device register.
pub fn read8(address: u64) -> u8 {
    let value: u32;
    // SAFETY: as for the wider ones.
    unsafe { asm!("ldrb {0:w}, [{1}]", out(reg) value, in(reg) address, options(nostack)) };
    value as u8
}

/// Writes one byte of a device register.
pub fn write8(address: u64, value: u8) {
    // SAFETY: as for the wider ones.
    unsafe {
        asm!("strb {0:w}, [{1}]", in(reg) u32::from(value), in(reg) address, options(nostack))
    };
}
