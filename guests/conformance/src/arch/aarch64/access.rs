//! One load, store or jump that may fault.

use crate::probe::Fault;

/// The widths in which a device's registers are looked at.
pub const DEVICE_WIDTHS: &[u64] = &[1, 2, 4, 8];

/// Reads `width` bytes.
///
/// # Safety
///
/// Reading there changes nothing that matters.
pub unsafe fn load(at: u64, width: u64) -> Result<u64, Fault> {
    let value: u64;
    // SAFETY: the caller's promise; an abort is caught.
    let end = unsafe {
        match width {
            1 => probe!("ldrb {value:w}, [{at}]"; value = out(reg) value, at = in(reg) at),
            2 => probe!("ldrh {value:w}, [{at}]"; value = out(reg) value, at = in(reg) at),
            4 => probe!("ldr {value:w}, [{at}]"; value = out(reg) value, at = in(reg) at),
            _ => probe!("ldr {value:x}, [{at}]"; value = out(reg) value, at = in(reg) at),
        }
    };
    end.map(|()| value)
}

/// Writes `width` bytes.
///
/// # Safety
///
/// Nothing is there, or what may be written.
pub unsafe fn store(at: u64, width: u64, value: u64) -> Result<(), Fault> {
    // SAFETY: the caller's promise; an abort is caught.
    unsafe {
        match width {
            1 => probe!("strb {value:w}, [{at}]"; value = in(reg) value, at = in(reg) at),
            2 => probe!("strh {value:w}, [{at}]"; value = in(reg) value, at = in(reg) at),
            4 => probe!("str {value:w}, [{at}]"; value = in(reg) value, at = in(reg) at),
            _ => probe!("str {value:x}, [{at}]"; value = in(reg) value, at = in(reg) at),
        }
    }
}

/// Jumps there.
///
/// # Safety
///
/// No instruction is there that does more than return.
pub unsafe fn jump(at: u64) -> Result<(), Fault> {
    // SAFETY: the caller's promise; an exception is caught.
    unsafe { probe!("blr {at}"; at = in(reg) at, out("x30") _) }
}
