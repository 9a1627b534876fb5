//! One load, store or jump that may fault.

use crate::probe::Fault;

/// The access widths, in bytes, with which the cases look at a device's registers.
pub const DEVICE_WIDTHS: &[u64] = &[1, 2, 4, 8];

/// The widths of [`WIDTHS`], of a pair of general registers (16) and of a pair of SIMD registers
/// (32; needs FP enabled): the most that one instruction moves.
pub const ALL_WIDTHS: &[u64] = &[1, 2, 4, 8, 16, 32];

/// Reads `width` bytes and returns the first eight of them; a read of 32 bytes returns 0.
pub unsafe fn load(at: u64, width: u64) -> Result<u64, Fault> {
    let value: u64;
    // SAFETY: the caller's promise; an abort is caught.
    let end = unsafe {
        match width {
            1 => probe!("ldrb {value:w}, [{at}]"; value = out(reg) value, at = in(reg) at),
            2 => probe!("ldrh {value:w}, [{at}]"; value = out(reg) value, at = in(reg) at),
            4 => probe!("ldr {value:w}, [{at}]"; value = out(reg) value, at = in(reg) at),
            16 => {
                probe!("ldp {value:x}, {other:x}, [{at}]"; value = out(reg) value, other = out(reg) _, at = in(reg) at)
            }
            // LDP Q0, Q1, [X1], which the assembler does not know in a build without FP.
            32 => {
                probe!(".inst 0xad400420", "mov {value}, #0"; value = out(reg) value, in("x1") at)
            }
            _ => probe!("ldr {value:x}, [{at}]"; value = out(reg) value, at = in(reg) at),
        }
    };
    end.map(|()| value)
}

/// Writes `width` bytes: `value`, repeated where the width is more than eight.
pub unsafe fn store(at: u64, width: u64, value: u64) -> Result<(), Fault> {
    // SAFETY: the caller's promise; an abort is caught.
    unsafe {
        match width {
            1 => probe!("strb {value:w}, [{at}]"; value = in(reg) value, at = in(reg) at),
            2 => probe!("strh {value:w}, [{at}]"; value = in(reg) value, at = in(reg) at),
            4 => probe!("str {value:w}, [{at}]"; value = in(reg) value, at = in(reg) at),
            16 => {
                probe!("stp {value:x}, {value:x}, [{at}]"; value = in(reg) value, at = in(reg) at)
            }
            // DUP V0.2D, X0; DUP V1.2D, X0; STP Q0, Q1, [X1].
            32 => probe!(".inst 0x4e080c00, 0x4e080c01, 0xad000420"; in("x0") value, in("x1") at),
            _ => probe!("str {value:x}, [{at}]"; value = in(reg) value, at = in(reg) at),
        }
    }
}

/// Jumps to the address.
pub unsafe fn jump(at: u64) -> Result<(), Fault> {
    // SAFETY: the caller's promise; an exception is caught.
    unsafe { probe!("blr {at}"; at = in(reg) at, out("x30") _) }
}
