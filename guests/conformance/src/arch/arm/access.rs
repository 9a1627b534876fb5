//! One load, store or jump that may fault.

use crate::probe::Fault;

/// The access widths, in bytes, with which the cases look at a device's registers.
pub const DEVICE_WIDTHS: &[u64] = &[1, 2, 4, 8];

/// The same widths; an access of more bytes is one exit for each word, which is one of these
/// widths.
pub const ALL_WIDTHS: &[u64] = DEVICE_WIDTHS;

/// Reads `width` bytes.
///
/// # Safety
///
/// Reading there changes nothing that matters.
pub unsafe fn load(at: u64, width: u64) -> Result<u64, Fault> {
    let (mut low, mut high) = (0_u32, 0_u32);
    let at = at as u32;
    // SAFETY: the caller's promise; an abort is caught.
    let end = unsafe {
        match width {
            1 => probe!("ldrb {value}, [{at}]"; value = inout(reg) low, at = in(reg) at),
            2 => probe!("ldrh {value}, [{at}]"; value = inout(reg) low, at = in(reg) at),
            4 => probe!("ldr {value}, [{at}]"; value = inout(reg) low, at = in(reg) at),
            _ => {
                probe!("ldrd r2, r3, [{at}]"; inout("r2") low, inout("r3") high, at = in(reg) at)
            }
        }
    };
    end.map(|()| u64::from(low) | u64::from(high) << 32)
}

/// Writes `width` bytes.
///
/// # Safety
///
/// Nothing is there, or what may be written.
pub unsafe fn store(at: u64, width: u64, value: u64) -> Result<(), Fault> {
    let (low, high) = (value as u32, (value >> 32) as u32);
    let at = at as u32;
    // SAFETY: the caller's promise; an abort is caught.
    unsafe {
        match width {
            1 => probe!("strb {value}, [{at}]"; value = in(reg) low, at = in(reg) at),
            2 => probe!("strh {value}, [{at}]"; value = in(reg) low, at = in(reg) at),
            4 => probe!("str {value}, [{at}]"; value = in(reg) low, at = in(reg) at),
            _ => probe!("strd r2, r3, [{at}]"; in("r2") low, in("r3") high, at = in(reg) at),
        }
    }
}

/// Jumps to the address, in A32.
pub unsafe fn jump(at: u64) -> Result<(), Fault> {
    // SAFETY: the caller's promise; an exception is caught.
    unsafe { probe!("blx {at}"; at = in(reg) at as u32, out("lr") _) }
}
