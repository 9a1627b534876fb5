//! System registers by the names of their AArch64 counterparts, and the few instructions that
//! have no name in Rust.
//!
//! A register of 32 bits reads with its upper half zero, and drops it when written. Encodings:
//! DDI 0406C, B3.17 and B8.1 for the generic timer.

/// Passes the encoding of a register to another macro: `one` (32 bits) by opc1, CRn, CRm and opc2; `pair`
/// (64 bits) by opc1 and CRm; `banked` by its name in an MRS.
#[doc(hidden)]
#[macro_export]
macro_rules! encoding {
    ("midr_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 0 0 0 $($more)*) };
    ("ctr_el0", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 0 0 1 $($more)*) };
    ("mpidr_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 0 0 5 $($more)*) };
    ("id_pfr0_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 0 1 0 $($more)*) };
    ("id_pfr1_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 0 1 1 $($more)*) };
    ("id_dfr0_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 0 1 2 $($more)*) };
    ("csselr_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 2 0 0 0 $($more)*) };
    ("vpidr_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 4 0 0 0 $($more)*) };
    ("vmpidr_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 4 0 0 5 $($more)*) };
    ("sctlr_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 1 0 0 $($more)*) };
    ("cpacr_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 1 0 2 $($more)*) };
    ("sctlr_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 4 1 0 0 $($more)*) };
    ("hcr_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 4 1 1 0 $($more)*) };
    ("mdcr_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 4 1 1 1 $($more)*) };
    ("cptr_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 4 1 1 2 $($more)*) };
    ("hstr_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 4 1 1 3 $($more)*) };
    ("tcr_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 2 0 2 $($more)*) };
    ("tcr_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 4 2 0 2 $($more)*) };
    ("vtcr_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 4 2 1 2 $($more)*) };
    ("dacr32_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 3 0 0 $($more)*) };
    ("esr_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 5 0 0 $($more)*) };
    ("ifsr32_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 5 0 1 $($more)*) };
    ("afsr0_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 5 1 0 $($more)*) };
    ("afsr1_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 5 1 1 $($more)*) };
    ("esr_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 4 5 2 0 $($more)*) };
    // FAR_EL1[31:0] and FAR_EL1[63:32]: the addresses of data and of prefetch aborts.
    ("dfar_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 6 0 0 $($more)*) };
    ("ifar_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 6 0 2 $($more)*) };
    ("far_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 4 6 0 0 $($more)*) };
    ("ifar_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 4 6 0 2 $($more)*) };
    ("hpfar_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 4 6 0 4 $($more)*) };
    ("pmcr_el0", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 9 12 0 $($more)*) };
    ("pmcntenset_el0", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 9 12 1 $($more)*) };
    ("pmselr_el0", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 9 12 5 $($more)*) };
    ("pmxevtyper_el0", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 9 13 1 $($more)*) };
    ("pmxevcntr_el0", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 9 13 2 $($more)*) };
    ("pmintenclr_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 9 14 2 $($more)*) };
    // MAIR_EL1[31:0] and [63:32]; with short descriptors PRRR and NMRR.
    ("mair0_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 10 2 0 $($more)*) };
    ("mair1_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 10 2 1 $($more)*) };
    ("amair0_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 10 3 0 $($more)*) };
    ("amair1_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 10 3 1 $($more)*) };
    ("vbar_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 12 0 0 $($more)*) };
    ("vbar_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 4 12 0 0 $($more)*) };
    ("isr_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 12 1 0 $($more)*) };
    ("fcseidr", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 13 0 0 $($more)*) };
    ("contextidr_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 13 0 1 $($more)*) };
    ("tpidr_el0", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 13 0 2 $($more)*) };
    ("tpidrro_el0", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 13 0 3 $($more)*) };
    ("tpidr_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 13 0 4 $($more)*) };
    ("tpidr_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 4 13 0 2 $($more)*) };
    // The hypervisor's own at PL1, where those of the same encoding above are a guest's.
    ("ttbr0_pl1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 2 0 0 $($more)*) };
    ("vbar_pl1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 12 0 0 $($more)*) };
    ("tpidr_pl1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 13 0 4 $($more)*) };
    ("cntfrq_el0", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 14 0 0 $($more)*) };
    ("cntkctl_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 14 1 0 $($more)*) };
    ("cnthctl_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 4 14 1 0 $($more)*) };
    ("cnthp_ctl_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 4 14 2 1 $($more)*) };
    ("cntp_ctl_el0", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 14 2 1 $($more)*) };
    ("cntv_ctl_el0", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 14 3 1 $($more)*) };
    ("ttbr0_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(pair 0 2 $($more)*) };
    ("ttbr1_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(pair 1 2 $($more)*) };
    ("ttbr0_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(pair 4 2 $($more)*) };
    ("vttbr_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(pair 6 2 $($more)*) };
    ("par_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(pair 0 7 $($more)*) };
    ("cntpct_el0", [$($do:tt)*] $($more:tt)*) => { $($do)*!(pair 0 14 $($more)*) };
    ("cntvct_el0", [$($do:tt)*] $($more:tt)*) => { $($do)*!(pair 1 14 $($more)*) };
    ("cntp_cval_el0", [$($do:tt)*] $($more:tt)*) => { $($do)*!(pair 2 14 $($more)*) };
    ("cntv_cval_el0", [$($do:tt)*] $($more:tt)*) => { $($do)*!(pair 3 14 $($more)*) };
    ("cntvoff_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(pair 4 14 $($more)*) };
    ("cnthp_cval_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(pair 6 14 $($more)*) };
    ("pmuserenr_el0", [$($do:tt)*] $($more:tt)*) => { $($do)*!(one 0 9 14 0 $($more)*) };
    // Jazelle's and ThumbEE's, of coprocessor 14.
    ("joscr", [$($do:tt)*] $($more:tt)*) => { $($do)*!(fourteen 7 1 0 0 $($more)*) };
    ("teecr32_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(fourteen 6 0 0 0 $($more)*) };
    ("teehbr32_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(fourteen 6 1 0 0 $($more)*) };
    // X13, X15 to X17 and so on in AArch64: the banked registers of each mode.
    ("elr_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "ELR_hyp" $($more)*) };
    ("spsr_el2", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "SPSR_hyp" $($more)*) };
    ("sp_usr", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "SP_usr" $($more)*) };
    ("lr_irq", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "LR_irq" $($more)*) };
    ("sp_irq", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "SP_irq" $($more)*) };
    ("lr_svc", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "LR_svc" $($more)*) };
    ("sp_svc", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "SP_svc" $($more)*) };
    ("lr_abt", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "LR_abt" $($more)*) };
    ("sp_abt", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "SP_abt" $($more)*) };
    ("lr_und", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "LR_und" $($more)*) };
    ("sp_und", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "SP_und" $($more)*) };
    ("r8_fiq", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "R8_fiq" $($more)*) };
    ("r9_fiq", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "R9_fiq" $($more)*) };
    ("r10_fiq", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "R10_fiq" $($more)*) };
    ("r11_fiq", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "R11_fiq" $($more)*) };
    ("r12_fiq", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "R12_fiq" $($more)*) };
    ("sp_fiq", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "SP_fiq" $($more)*) };
    ("lr_fiq", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "LR_fiq" $($more)*) };
    ("spsr_svc", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "SPSR_svc" $($more)*) };
    ("spsr_abt", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "SPSR_abt" $($more)*) };
    ("spsr_und", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "SPSR_und" $($more)*) };
    ("spsr_irq", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "SPSR_irq" $($more)*) };
    ("spsr_fiq", [$($do:tt)*] $($more:tt)*) => { $($do)*!(banked "SPSR_fiq" $($more)*) };
    // An AArch64 guest's stack pointers, which are never read or written for an AArch32 guest.
    ("sp_el0", [$($do:tt)*] $($more:tt)*) => { $($do)*!(none $($more)*) };
    ("sp_el1", [$($do:tt)*] $($more:tt)*) => { $($do)*!(none $($more)*) };
}

/// HTPIDR, the pointer to this CPU's own data, which is written once. The compiler may read it once for several uses.
#[inline(always)]
pub fn own_pointer() -> usize {
    let value: usize;
    // SAFETY: reading this register changes nothing.
    unsafe {
        core::arch::asm!("mrc p15, 4, {}, c13, c0, 2", out(reg) value, options(pure, readonly, nostack, preserves_flags));
    }
    value
}

/// The same pointer at PL1: TPIDRPRW, which User mode cannot read.
#[inline(always)]
pub fn own_pointer_at_pl1() -> usize {
    let value: usize;
    // SAFETY: reading this register changes nothing.
    unsafe {
        core::arch::asm!("mrc p15, 0, {}, c13, c0, 4", out(reg) value, options(pure, readonly, nostack, preserves_flags));
    }
    value
}

#[doc(hidden)]
#[macro_export]
macro_rules! read_encoded {
    (one $opc1:literal $crn:literal $crm:literal $opc2:literal) => {{
        let value: u32;
        // SAFETY: reading this register changes no memory that Rust knows of.
        unsafe { core::arch::asm!(concat!("mrc p15, ", $opc1, ", {}, c", $crn, ", c", $crm, ", ", $opc2), out(reg) value, options(nostack, preserves_flags)) };
        u64::from(value)
    }};
    (pair $opc1:literal $crm:literal) => {{
        let (low, high): (u32, u32);
        // SAFETY: as above.
        unsafe { core::arch::asm!(concat!("mrrc p15, ", $opc1, ", {}, {}, c", $crm), out(reg) low, out(reg) high, options(nostack, preserves_flags)) };
        u64::from(low) | u64::from(high) << 32
    }};
    (fourteen $opc1:literal $crn:literal $crm:literal $opc2:literal) => {{
        let value: u32;
        // SAFETY: as above.
        unsafe { core::arch::asm!(concat!("mrc p14, ", $opc1, ", {}, c", $crn, ", c", $crm, ", ", $opc2), out(reg) value, options(nostack, preserves_flags)) };
        u64::from(value)
    }};
    (banked $name:literal) => {{
        let value: u32;
        // SAFETY: as above.
        unsafe { core::arch::asm!(".arch_extension virt", concat!("mrs {}, ", $name), out(reg) value, options(nostack, preserves_flags)) };
        u64::from(value)
    }};
    (none) => { 0u64 };
}

#[doc(hidden)]
#[macro_export]
macro_rules! write_encoded {
    (one $opc1:literal $crn:literal $crm:literal $opc2:literal $value:ident) => {
        core::arch::asm!(concat!("mcr p15, ", $opc1, ", {}, c", $crn, ", c", $crm, ", ", $opc2), in(reg) $value as u32, options(nostack, preserves_flags))
    };
    (pair $opc1:literal $crm:literal $value:ident) => {
        core::arch::asm!(concat!("mcrr p15, ", $opc1, ", {}, {}, c", $crm), in(reg) $value as u32, in(reg) ($value >> 32) as u32, options(nostack, preserves_flags))
    };
    (fourteen $opc1:literal $crn:literal $crm:literal $opc2:literal $value:ident) => {
        core::arch::asm!(concat!("mcr p14, ", $opc1, ", {}, c", $crn, ", c", $crm, ", ", $opc2), in(reg) $value as u32, options(nostack, preserves_flags))
    };
    // None of them is Hyp mode's own stack pointer.
    (banked $name:literal $value:ident) => {
        core::arch::asm!(".arch_extension virt", concat!("msr ", $name, ", {}"), in(reg) $value as u32, options(nostack, preserves_flags))
    };
    (none $value:ident) => {{ let _ = $value; }};
}

/// Reads a system register: `read!("esr_el2")`. The register must be one whose reading
/// has no effect beyond its value.
#[macro_export]
macro_rules! read {
    ($register:tt) => {
        $crate::encoding!($register, [$crate::read_encoded])
    };
}

/// Writes a system register that governs a guest: `write!("cntvoff_el2", value)`. One of the hypervisor's
/// own is refused when this is compiled ([`is_own`](crate::sysreg::is_own) has the rule):
/// [`write_own!`](crate::write_own) writes those.
#[macro_export]
macro_rules! write {
    ($register:tt, $value:expr) => {{
        const { assert!(!$crate::sysreg::is_own($register), "write_own! is for this register") };
        let value: u64 = $value;
        // SAFETY: no register of the hypervisor's own; the compiler is told that memory may change.
        unsafe { $crate::encoding!($register, [$crate::write_encoded] value) };
    }};
}

/// Writes one of the hypervisor's own registers: `unsafe { write_own!("vbar_el2", value) }`. It is unsafe:
/// each place that writes one says why all code that runs afterwards stays sound.
#[macro_export]
macro_rules! write_own {
    ($register:tt, $value:expr) => {{
        const { assert!($crate::sysreg::is_own($register), "write! is for this register") };
        let value: u64 = $value;
        $crate::encoding!($register, [$crate::write_encoded] value);
    }};
}

/// An operation on caches or TLBs, by its encoding in coprocessor 15, with a word (which most
/// ignore).
#[doc(hidden)]
#[macro_export]
macro_rules! maintain {
    ($opc1:literal $crn:literal $crm:literal $opc2:literal, $value:expr) => {{
        let value: u32 = $value;
        // SAFETY: cache and TLB maintenance changes no value and no translation.
        unsafe { core::arch::asm!(concat!("mcr p15, ", $opc1, ", {}, c", $crn, ", c", $crm, ", ", $opc2), in(reg) value, options(nostack, preserves_flags)) }
    }};
}

/// Clears the local monitor that a load-exclusive set, since a store of another context must not succeed by
/// it (DDI 0406C, A3.4.4; unlike AArch64's, an exception return does not do it).
#[inline(always)]
pub fn clear_exclusive() {
    // SAFETY: the local monitor alone is changed.
    unsafe { core::arch::asm!("clrex", options(nostack, preserves_flags)) };
}
