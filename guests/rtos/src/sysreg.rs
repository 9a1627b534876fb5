//! System registers of AArch64 by name.

#[cfg(target_arch = "aarch64")]
macro_rules! read_sysreg {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: a register that EL1 may read; a read has no effect but its own.
        unsafe { core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nostack)) };
        value
    }};
}

#[cfg(target_arch = "aarch64")]
macro_rules! write_sysreg {
    ($name:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: a register that EL1 may write; the image writes those of its interrupts,
        // timer and vectors alone, with values that keep it running.
        unsafe {
            core::arch::asm!(concat!("msr ", $name, ", {}"), "isb", in(reg) value, options(nostack));
        }
    }};
}
