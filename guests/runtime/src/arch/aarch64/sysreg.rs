//! System registers by name.

/// Reads a system register, named by a literal.
#[macro_export]
macro_rules! read_sysreg {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: a register that EL1 may read; a read has no effect but its own.
        unsafe { core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nostack)) };
        value
    }};
}

/// Writes a system register, named by a literal, and synchronizes.
#[macro_export]
macro_rules! write_sysreg {
    ($name:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: a register that EL1 may write; the program keeps its own translation,
        // stack and vectors working, whatever else it changes.
        unsafe {
            core::arch::asm!(concat!("msr ", $name, ", {}"), "isb", in(reg) value, options(nostack));
        }
    }};
}
