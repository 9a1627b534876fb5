//! System registers by name, and the few instructions that have no name in Rust.

/// Reads a system register: `read!("esr_el2")`. The register must be one whose reading
/// has no effect beyond its value, or whose effect the caller wants (ICC_IAR1_EL1).
#[macro_export]
macro_rules! read {
    ($register:expr) => {{
        let value: u64;
        // SAFETY: reading this register at EL2 changes no memory that Rust knows of.
        unsafe { core::arch::asm!(concat!("mrs {}, ", $register), out(reg) value, options(nostack, preserves_flags)) };
        value
    }};
}

/// TPIDR_EL2, the pointer to this CPU's own data, which is written once. The compiler may read it once for several
/// uses.
#[inline(always)]
pub fn own_pointer() -> usize {
    let value: usize;
    // SAFETY: reading this register changes nothing.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el2", out(reg) value, options(pure, readonly, nostack, preserves_flags));
    }
    value
}

/// Writes a system register that governs a guest: `write!("cntvoff_el2", value)`. One of the hypervisor's
/// own is refused when this is compiled ([`is_own`](crate::sysreg::is_own) has the rule):
/// [`write_own!`](crate::write_own) writes those.
#[macro_export]
macro_rules! write {
    ($register:expr, $value:expr) => {{
        const { assert!(!$crate::sysreg::is_own($register), "write_own! is for this register") };
        let value: u64 = $value;
        // SAFETY: no register of the hypervisor's own; the compiler is told that memory may change.
        unsafe { core::arch::asm!(concat!("msr ", $register, ", {}"), in(reg) value, options(nostack, preserves_flags)) };
    }};
}

/// Writes one of the hypervisor's own registers: `unsafe { write_own!("vbar_el2", value) }`. It is unsafe:
/// each place that writes one says why all code that runs afterwards stays sound.
#[macro_export]
macro_rules! write_own {
    ($register:expr, $value:expr) => {{
        const { assert!($crate::sysreg::is_own($register), "write! is for this register") };
        let value: u64 = $value;
        core::arch::asm!(concat!("msr ", $register, ", {}"), in(reg) value, options(nostack, preserves_flags));
    }};
}

/// Goes on at `next`, on another stack.
///
/// # Safety
/// `stack` is the top of a mapped stack, and this CPU's; no data on the caller's stack is needed again.
pub unsafe fn go_on_stack<T>(stack: u64, argument: *mut T, next: extern "C" fn(*mut T) -> !) -> ! {
    // SAFETY: by this function's contract.
    unsafe {
        core::arch::asm!(
            "mov sp, {stack}",
            "mov x29, xzr",
            "mov x30, xzr",
            "br {next}",
            stack = in(reg) stack,
            next = in(reg) next,
            in("x0") argument,
            options(noreturn)
        )
    }
}
