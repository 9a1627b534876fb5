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

/// The forms of an operation: for the unified TLB, for the inner shareable domain, and for both TLBs one after the other.
pub const FORMS: usize = 3;

macro_rules! in_form {
    ($opc2:literal, $value:expr, $form:expr) => {
        match $form {
            0 => operation!("c7", $opc2, $value),
            1 => operation!("c3", $opc2, $value),
            _ => {
                operation!("c5", $opc2, $value);
                operation!("c6", $opc2, $value);
            }
        }
    };
}

fn any_form(random: &mut Random) -> usize {
    random.below(FORMS as u64) as usize
}

/// What was written to tables comes before, and what follows uses them.
pub fn barrier() {
    // SAFETY: barriers.
    unsafe { asm!("dsb", "isb", options(nostack)) };
}

/// TLBIALL in one of its forms.
pub fn all_by(form: usize) {
    in_form!("0", 0, form);
}

/// TLBIASID in one of its forms.
pub fn asid_by(form: usize, asid: u32) {
    in_form!("2", asid, form);
}

/// TLBIMVA in one of its forms; `page` has the ASID in its lowest bits.
pub fn page_by(form: usize, page: u32) {
    in_form!("1", page, form);
}

/// TLBIMVAA in the first or the second form.
pub fn page_of_all_by(form: usize, page: u32) {
    if form == 0 {
        operation!("c7", "3", page);
    } else {
        operation!("c3", "3", page);
    }
}

/// TLBIALL, and what makes it take effect.
pub fn all(random: &mut Random) {
    barrier();
    all_by(any_form(random));
    barrier();
}

/// TLBIASID.
pub fn asid(asid: u32, random: &mut Random) {
    asid_by(any_form(random), asid);
}

/// TLBIMVA of so many pages; `first` has the ASID in its lowest bits.
pub fn pages(first: u32, count: u32, random: &mut Random) {
    let end = first.wrapping_add((count - 1) << 12);
    if random.once_in(2) {
        return by_loop(first, end);
    }
    for page in 0..count {
        page_by(any_form(random), first + (page << 12));
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
        page_of_all_by(random.below(2) as usize, first + (page << 12));
    }
}
