//! TLB maintenance (DDI 0406C, B4.2.2), each operation in the forms that it has: for the unified TLB, for those of
//! instructions and of data, and for the inner shareable domain.

use crate::fuzz::random::Random;
use core::arch::asm;

macro_rules! operation {
    ($crm:literal, $opc2:literal, $value:expr) => {
        // SAFETY: what the translation of used memory says did not change.
        unsafe {
            asm!(concat!("mcr p15, 0, {}, c8, ", $crm, ", ", $opc2), in(reg) $value, options(nostack))
        }
    };
}

/// One of the three forms of an operation.
macro_rules! in_any_form {
    ($opc2:literal, $value:expr, $random:expr) => {
        match $random.below(3) {
            0 => operation!("c7", $opc2, $value),
            1 => operation!("c3", $opc2, $value),
            _ => {
                operation!("c5", $opc2, $value);
                operation!("c6", $opc2, $value);
            }
        }
    };
}

/// What was written to tables comes before, and what follows uses them.
pub fn barrier() {
    // SAFETY: barriers.
    unsafe { asm!("dsb", "isb", options(nostack)) };
}

/// TLBIALL.
pub fn all(random: &mut Random) {
    barrier();
    in_any_form!("0", 0, random);
    barrier();
}

/// TLBIASID.
pub fn asid(asid: u32, random: &mut Random) {
    in_any_form!("2", asid, random);
}

/// TLBIMVA of so many pages; `first` has the ASID in its lowest bits.
pub fn pages(first: u32, count: u32, random: &mut Random) {
    let end = first.wrapping_add((count - 1) << 12);
    if random.once_in(2) {
        return by_loop(first, end);
    }
    for page in 0..count {
        in_any_form!("1", first + (page << 12), random);
    }
}

/// The loop by which kernels do it: four instructions.
fn by_loop(first: u32, end: u32) {
    // SAFETY: as above.
    unsafe {
        asm!(
            "2: mcr p15, 0, {at}, c8, c7, 1",
            "add {at}, {at}, #4096",
            "cmp {at}, {end}",
            "bls 2b",
            at = inout(reg) first => _,
            end = in(reg) end,
            options(nostack)
        );
    }
}

/// TLBIMVAA of so many pages.
pub fn pages_of_all(first: u32, count: u32, random: &mut Random) {
    for page in 0..count {
        let at = first + (page << 12);
        if random.once_in(2) {
            operation!("c7", "3", at);
        } else {
            operation!("c3", "3", at);
        }
    }
}
