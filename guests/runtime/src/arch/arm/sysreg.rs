//! System registers by the names of their AArch64 counterparts, so that common code serves both
//! (DDI 0406C, B3.17 and B8.1; IHI 0069H, 12.5). A 32-bit one reads with its upper half zero, which
//! is dropped when it is written.

/// Passes the encoding of a register to another macro: `one` (32 bits) by opc1, CRn, CRm and opc2,
/// `pair` (64 bits) by opc1 and CRm.
#[doc(hidden)]
#[macro_export]
macro_rules! coprocessor {
    ("midr_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 0 0 0 $($more)*) };
    ("ctr_el0", $do:ident $($more:tt)*) => { $crate::$do!(one 0 0 0 1 $($more)*) };
    ("mpidr_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 0 0 5 $($more)*) };
    ("ccsidr_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 1 0 0 0 $($more)*) };
    ("clidr_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 1 0 0 1 $($more)*) };
    ("csselr_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 2 0 0 0 $($more)*) };
    ("id_pfr0_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 0 1 0 $($more)*) };
    ("id_pfr1_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 0 1 1 $($more)*) };
    ("id_dfr0_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 0 1 2 $($more)*) };
    ("id_mmfr0_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 0 1 4 $($more)*) };
    ("id_mmfr3_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 0 1 7 $($more)*) };
    ("id_isar0_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 0 2 0 $($more)*) };
    ("id_isar5_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 0 2 5 $($more)*) };
    ("sctlr_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 1 0 0 $($more)*) };
    ("cpacr_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 1 0 2 $($more)*) };
    ("tcr_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 2 0 2 $($more)*) };
    // The lower halves of the registers below that CPUs without long descriptors have whole.
    ("ttbr0_32", $do:ident $($more:tt)*) => { $crate::$do!(one 0 2 0 0 $($more)*) };
    ("ttbr1_32", $do:ident $($more:tt)*) => { $crate::$do!(one 0 2 0 1 $($more)*) };
    ("par_32", $do:ident $($more:tt)*) => { $crate::$do!(one 0 7 4 0 $($more)*) };
    ("dacr32_el2", $do:ident $($more:tt)*) => { $crate::$do!(one 0 3 0 0 $($more)*) };
    // DFSR and IFSR, DFAR and IFAR.
    ("esr_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 5 0 0 $($more)*) };
    ("ifsr32_el2", $do:ident $($more:tt)*) => { $crate::$do!(one 0 5 0 1 $($more)*) };
    ("dfar_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 6 0 0 $($more)*) };
    ("ifar_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 6 0 2 $($more)*) };
    ("pmcr_el0", $do:ident $($more:tt)*) => { $crate::$do!(one 0 9 12 0 $($more)*) };
    ("pmcntenset_el0", $do:ident $($more:tt)*) => { $crate::$do!(one 0 9 12 1 $($more)*) };
    ("pmselr_el0", $do:ident $($more:tt)*) => { $crate::$do!(one 0 9 12 5 $($more)*) };
    ("pmxevtyper_el0", $do:ident $($more:tt)*) => { $crate::$do!(one 0 9 13 1 $($more)*) };
    ("pmxevcntr_el0", $do:ident $($more:tt)*) => { $crate::$do!(one 0 9 13 2 $($more)*) };
    ("pmuserenr_el0", $do:ident $($more:tt)*) => { $crate::$do!(one 0 9 14 0 $($more)*) };
    ("mair0_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 10 2 0 $($more)*) };
    ("mair1_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 10 2 1 $($more)*) };
    ("vbar_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 12 0 0 $($more)*) };
    ("isr_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 12 1 0 $($more)*) };
    ("contextidr_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 13 0 1 $($more)*) };
    ("tpidr_el0", $do:ident $($more:tt)*) => { $crate::$do!(one 0 13 0 2 $($more)*) };
    ("tpidrro_el0", $do:ident $($more:tt)*) => { $crate::$do!(one 0 13 0 3 $($more)*) };
    ("tpidr_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 13 0 4 $($more)*) };
    ("cntfrq_el0", $do:ident $($more:tt)*) => { $crate::$do!(one 0 14 0 0 $($more)*) };
    ("cntkctl_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 14 1 0 $($more)*) };
    ("cntp_tval_el0", $do:ident $($more:tt)*) => { $crate::$do!(one 0 14 2 0 $($more)*) };
    ("cntp_ctl_el0", $do:ident $($more:tt)*) => { $crate::$do!(one 0 14 2 1 $($more)*) };
    ("cntv_tval_el0", $do:ident $($more:tt)*) => { $crate::$do!(one 0 14 3 0 $($more)*) };
    ("cntv_ctl_el0", $do:ident $($more:tt)*) => { $crate::$do!(one 0 14 3 1 $($more)*) };
    ("icc_pmr_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 4 6 0 $($more)*) };
    ("icc_iar0_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 12 8 0 $($more)*) };
    ("icc_eoir0_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 12 8 1 $($more)*) };
    ("icc_ap0r0_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 12 8 4 $($more)*) };
    ("icc_igrpen0_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 12 12 6 $($more)*) };
    ("icc_asgi1r_el1", $do:ident $($more:tt)*) => { $crate::$do!(pair 1 12 $($more)*) };
    ("icc_sgi0r_el1", $do:ident $($more:tt)*) => { $crate::$do!(pair 2 12 $($more)*) };
    ("icc_ap1r0_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 12 9 0 $($more)*) };
    ("icc_dir_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 12 11 1 $($more)*) };
    ("icc_rpr_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 12 11 3 $($more)*) };
    ("icc_iar1_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 12 12 0 $($more)*) };
    ("icc_eoir1_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 12 12 1 $($more)*) };
    ("icc_hppir1_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 12 12 2 $($more)*) };
    ("icc_bpr1_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 12 12 3 $($more)*) };
    ("icc_ctlr_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 12 12 4 $($more)*) };
    ("icc_sre_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 12 12 5 $($more)*) };
    ("icc_igrpen1_el1", $do:ident $($more:tt)*) => { $crate::$do!(one 0 12 12 7 $($more)*) };
    ("icc_sgi1r_el1", $do:ident $($more:tt)*) => { $crate::$do!(pair 0 12 $($more)*) };
    ("ttbr0_el1", $do:ident $($more:tt)*) => { $crate::$do!(pair 0 2 $($more)*) };
    ("ttbr1_el1", $do:ident $($more:tt)*) => { $crate::$do!(pair 1 2 $($more)*) };
    ("par_el1", $do:ident $($more:tt)*) => { $crate::$do!(pair 0 7 $($more)*) };
    ("cntpct_el0", $do:ident $($more:tt)*) => { $crate::$do!(pair 0 14 $($more)*) };
    ("cntvct_el0", $do:ident $($more:tt)*) => { $crate::$do!(pair 1 14 $($more)*) };
    ("cntp_cval_el0", $do:ident $($more:tt)*) => { $crate::$do!(pair 2 14 $($more)*) };
    ("cntv_cval_el0", $do:ident $($more:tt)*) => { $crate::$do!(pair 3 14 $($more)*) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! read_coprocessor {
    (one $opc1:literal $crn:literal $crm:literal $opc2:literal) => {{
        let value: u32;
        // SAFETY: a register that PL1 may read; a read has no effect but its own.
        unsafe { core::arch::asm!(concat!("mrc p15, ", $opc1, ", {}, c", $crn, ", c", $crm, ", ", $opc2), out(reg) value, options(nostack)) };
        u64::from(value)
    }};
    (pair $opc1:literal $crm:literal) => {{
        let (low, high): (u32, u32);
        // SAFETY: as above.
        unsafe { core::arch::asm!(concat!("mrrc p15, ", $opc1, ", {}, {}, c", $crm), out(reg) low, out(reg) high, options(nostack)) };
        u64::from(low) | u64::from(high) << 32
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! write_coprocessor {
    (one $opc1:literal $crn:literal $crm:literal $opc2:literal $value:expr) => {{
        let value = $value as u32;
        // SAFETY: a register that PL1 may write; the program keeps its own translation, stack
        // and vectors working, whatever else it changes.
        unsafe { core::arch::asm!(concat!("mcr p15, ", $opc1, ", {}, c", $crn, ", c", $crm, ", ", $opc2), "isb", in(reg) value, options(nostack)) };
    }};
    (pair $opc1:literal $crm:literal $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: as above.
        unsafe { core::arch::asm!(concat!("mcrr p15, ", $opc1, ", {}, {}, c", $crm), "isb", in(reg) value as u32, in(reg) (value >> 32) as u32, options(nostack)) };
    }};
}

/// Reads a system register, named by a literal.
#[macro_export]
macro_rules! read_sysreg {
    ($name:tt) => {
        $crate::coprocessor!($name, read_coprocessor)
    };
}

/// Writes a system register, named by a literal, and synchronizes.
#[macro_export]
macro_rules! write_sysreg {
    ($name:tt, $value:expr) => {{
        let value: u64 = $value;
        $crate::coprocessor!($name, write_coprocessor value)
    }};
}
