//! Accesses to devices, each one a plain instruction with a syndrome of its own.

use core::arch::asm;

/// Reads a device register.
pub fn read32(address: u64) -> u32 {
    let value: u32;
    // SAFETY: every caller passes an address of the platform's device space, mapped as such; a
    // device access changes no memory that Rust knows of.
    unsafe { asm!("ldr {}, [{}]", out(reg) value, in(reg) address as u32, options(nostack)) };
    value
}

/// Writes a device register.
pub fn write32(address: u64, value: u32) {
    // SAFETY: as for the read.
    unsafe { asm!("str {}, [{}]", in(reg) value, in(reg) address as u32, options(nostack)) };
}

/// Reads half a device register.
pub fn read16(address: u64) -> u16 {
    let value: u32;
    // SAFETY: as for the wider ones.
    unsafe { asm!("ldrh {}, [{}]", out(reg) value, in(reg) address as u32, options(nostack)) };
    value as u16
}

/// Writes half a device register.
pub fn write16(address: u64, value: u16) {
    // SAFETY: as for the wider ones.
    unsafe {
        asm!("strh {}, [{}]", in(reg) u32::from(value), in(reg) address as u32, options(nostack))
    };
}

/// Reads one byte of a device register.
pub fn read8(address: u64) -> u8 {
    let value: u32;
    // SAFETY: as for the wider ones.
    unsafe { asm!("ldrb {}, [{}]", out(reg) value, in(reg) address as u32, options(nostack)) };
    value as u8
}

/// Reads two device registers of 32 bits, the lower one first: no device has to accept 64 bits at
/// once from AArch32.
pub fn read64(address: u64) -> u64 {
    u64::from(read32(address)) | u64::from(read32(address + 4)) << 32
}

/// Writes two device registers of 32 bits, the lower one first.
pub fn write64(address: u64, value: u64) {
    write32(address, value as u32);
    write32(address + 4, (value >> 32) as u32);
}

/// Writes one byte of a device register.
pub fn write8(address: u64, value: u8) {
    // SAFETY: as for the wider ones.
    unsafe {
        asm!("strb {}, [{}]", in(reg) u32::from(value), in(reg) address as u32, options(nostack))
    };
}
