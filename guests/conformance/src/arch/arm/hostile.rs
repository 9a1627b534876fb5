//! Attacks on other VMs that need instructions of the architecture.

use core::arch::asm;
use hanok_guest_runtime::arch::mmu;

/// Masks every interrupt that can be masked, and loops for ever.
pub fn mask() -> ! {
    // SAFETY: nothing is awaited any more.
    unsafe { asm!("cpsid aif", "2: b 2b", options(noreturn)) }
}

/// Invalidates all that the CPUs cache of instructions, and cleans a line of data by its set. (TLBs are left alone: an
/// emulator that counts instructions takes minutes for that.)
pub fn empty_caches() {
    // SAFETY: nothing that is in memory is lost.
    unsafe {
        asm!(
            "mcr p15, 0, {zero}, c7, c1, 0",  // ICIALLUIS
            "mcr p15, 0, {zero}, c7, c14, 2", // DCCISW
            "dsb",
            "isb",
            zero = in(reg) 0,
            options(nostack)
        )
    }
}

/// Jumps to `nowhere`, and sets the vectors to the same address. The MMU is off, so that the
/// guest's own translation does not stop the access.
pub fn crash(nowhere: u64) -> ! {
    // SAFETY: there is no way back.
    unsafe {
        asm!(
            "mcr p15, 0, {nowhere}, c12, c0, 0", // VBAR
            "mrc p15, 0, r0, c1, c0, 0",         // SCTLR
            "bic r0, r0, #1",
            "mcr p15, 0, r0, c1, c0, 0",
            "isb",
            "bx {nowhere}",
            nowhere = in(reg) nowhere as u32,
            options(noreturn)
        )
    }
}

/// Sets the root of the guest's translation to `root`, and continues as far as that translation
/// leads.
pub fn garble(root: u64) -> ! {
    // SAFETY: there is no way back.
    unsafe {
        asm!(
            "cpsid aif",
            "cmp {wide}, #0",
            "mcrrne p15, 0, {low}, {high}, c2", // TTBR0
            "mcreq p15, 0, {low}, c2, c0, 0",
            "isb",
            "mcr p15, 0, {low}, c8, c7, 0",     // TLBIALL
            "dsb",
            "isb",
            "2: b 2b",
            low = in(reg) root as u32,
            high = in(reg) (root >> 32) as u32,
            wide = in(reg) u32::from(mmu::has_long()),
            options(noreturn)
        )
    }
}
