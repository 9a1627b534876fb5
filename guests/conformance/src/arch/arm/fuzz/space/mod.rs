//! The translation under which the fuzzer runs: by long descriptors, or by short ones where the run time
//! uses those ([`mmu::is_short`]). Both map the same.

pub mod long;
pub mod short;

pub use crate::fuzz::memory::{CODE, DATA, GARBAGE, ZEROS};
use core::sync::atomic::Ordering::Relaxed;
use hanok_guest_runtime::arch::mmu;

const PAGE: u64 = 4096;
const GIGABYTE: u64 = 1 << 30;

/// SCTLR, with its bits that are one in ARMv7 and in the virtualization extensions (DDI 0406C,
/// B4.1.130): MMU, caches, branch prediction, CP15 barriers. Read at [`install`] and checked.
pub const SCTLR: u32 = 0x00c5_187d;

/// Where User mode sees its code.
pub const USER_CODE: u32 = 2 << 30;
/// Where User mode sees its data.
pub const USER_DATA: u32 = USER_CODE + PAGE as u32;
/// Where User mode sees physical address 0; [`USER_REACH`] bytes follow.
pub const USER_DEVICES: u32 = USER_CODE + (256 << 20);
/// How many bytes of devices User mode sees.
pub const USER_REACH: u64 = 256 << 20;

/// A word that is no instruction of A32, and no instruction of T32 in either halfword.
const NO_CODE: u64 = 0xe7f0_00f0_e7f0_00f0;

/// Fills the tables and switches to them.
pub fn install(ram: crate::tree::Area) {
    assert!(ram.end() <= 2 * GIGABYTE, "RAM beyond 2 GiB");
    let short = mmu::is_short();
    if short {
        short::build();
    } else {
        long::build();
    }
    ZEROS.0.iter().for_each(|word| word.store(NO_CODE, Relaxed));
    super::code::synchronize_all();
    if short {
        short::switch();
    } else {
        long::switch();
    }
    write_sysreg!("sctlr_el1", SCTLR.into());
    let found = read_sysreg!("sctlr_el1");
    assert!(found == u64::from(SCTLR), "SCTLR is {found:#x}");
}

/// Sets the registers that the fuzzer and the runtime need: the vectors' address, and `this`, which
/// goes to TPIDRPRW.
pub fn own_registers(vectors: u64, this: u64) {
    write_sysreg!("vbar_el1", vectors);
    write_sysreg!("tpidr_el1", this);
    write_sysreg!("cntkctl_el1", 3);
    crate::arch::fp::enable(true);
}

/// Returns whether the address is of User mode's code.
pub fn is_user_code(address: u32) -> bool {
    (USER_CODE..USER_DATA).contains(&address)
}

/// Lets PL1 or User mode fetch from the page of `physical`, and returns the virtual address of it.
pub fn window(physical: u64, for_user: bool) -> u32 {
    if mmu::is_short() {
        short::window(physical, for_user)
    } else {
        long::window(physical, for_user)
    }
}

/// The virtual address by which PL1 sees `physical`, which is below [`mmu::address_limit`], until the next
/// call.
pub fn everywhere(physical: u64) -> u32 {
    if mmu::is_short() {
        short::everywhere(physical)
    } else {
        long::everywhere(physical)
    }
}

/// Runs `work` with TTBR1 and its half of TTBCR as the step says.
pub fn with_upper<T>(ttbr1: u64, control: u64, work: impl FnOnce() -> T) -> T {
    let short = mmu::is_short();
    if short {
        short::lead_upper(ttbr1, control);
    } else {
        long::lead_upper(ttbr1, control);
    }
    let result = work();
    if short {
        short::restore_upper();
    } else {
        long::restore_upper();
    }
    result
}

/// TLBIALL.
pub fn flush() {
    // SAFETY: what the translation of used memory says did not change.
    unsafe {
        core::arch::asm!(
            "dsb", "mcr p15, 0, {0}, c8, c7, 0", "dsb", "isb",
            in(reg) 0, options(nostack)
        )
    };
}
