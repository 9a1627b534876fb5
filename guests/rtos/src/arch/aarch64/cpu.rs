//! The CPU's counter, timer, interrupt mask and calls; plain accesses to devices.

use core::arch::asm;

/// The virtual counter (D12.1.2).
pub fn now() -> u64 {
    // SAFETY: a barrier, so that the counter is not read too early.
    unsafe { asm!("isb", options(nostack)) };
    read_sysreg!("cntvct_el0")
}

/// Ticks of the counter in a second.
pub fn frequency() -> u64 {
    read_sysreg!("cntfrq_el0")
}

/// Sets the virtual timer to fire when the counter reaches `at`.
pub fn set_timer(at: u64) {
    write_sysreg!("cntv_cval_el0", at);
    write_sysreg!("cntv_ctl_el0", 1);
}

/// Stops the virtual timer.
pub fn stop_timer() {
    write_sysreg!("cntv_ctl_el0", 0);
}

/// Masks interrupts; returns the former state for [`restore`].
pub fn mask() -> usize {
    let before = read_sysreg!("daif");
    // SAFETY: masking interrupts changes nothing else.
    unsafe { asm!("msr daifset, #2", options(nostack)) };
    before as usize
}

/// Restores the state that [`mask`] returned.
pub fn restore(before: usize) {
    write_sysreg!("daif", before as u64);
}

/// Lets interrupts in.
pub fn unmask() {
    // SAFETY: the vectors are installed, and keep all registers.
    unsafe { asm!("msr daifclr, #2", options(nostack)) };
}

/// Waits for an interrupt.
pub fn wait() {
    // SAFETY: WFI changes no state.
    unsafe { asm!("dsb sy", "wfi", options(nostack)) };
}

/// Makes `turns` turns of a loop of two instructions.
pub fn spin(turns: usize) {
    // SAFETY: counts a register down to zero.
    unsafe {
        asm!("2:", "subs {0}, {0}, #1", "b.hi 2b", inout(reg) turns => _, options(nomem, nostack))
    };
}

/// Calls the kernel, which may run other tasks before it returns.
pub fn call(number: usize, argument: usize, more: usize) {
    // SAFETY: the vectors keep all registers; the kernel touches no memory of the task's,
    // other tasks do as other threads would.
    unsafe { asm!("svc #0", in("x0") number, in("x1") argument, in("x2") more) };
}

/// Calls firmware by HVC, or by SMC (DEN 0028).
pub fn firmware(function: u32, by_smc: bool) {
    // SAFETY: a function without arguments; what it may change is given up.
    unsafe {
        if by_smc {
            asm!("smc #0", inout("x0") u64::from(function) => _, clobber_abi("C"));
        } else {
            asm!("hvc #0", inout("x0") u64::from(function) => _, clobber_abi("C"));
        }
    }
}

/// The affinity fields of MPIDR in the form of GICR_TYPER\[63:32\] (IHI 0069H, 12.10).
pub fn affinity() -> u32 {
    let mpidr = read_sysreg!("mpidr_el1");
    (mpidr & 0x00ff_ffff) as u32 | ((mpidr >> 32 & 0xff) << 24) as u32
}

/// Reads a device register.
///
/// # Safety
///
/// A device register is there.
pub unsafe fn read32(address: usize) -> u32 {
    let value: u32;
    // SAFETY: the caller's promise. One plain load, of which a hypervisor gets a syndrome.
    unsafe { asm!("ldr {0:w}, [{1}]", out(reg) value, in(reg) address, options(nostack)) };
    value
}

/// Writes a device register.
///
/// # Safety
///
/// A device register is there, and what the write does is wanted.
pub unsafe fn write32(address: usize, value: u32) {
    // SAFETY: the caller's promise.
    unsafe { asm!("str {0:w}, [{1}]", in(reg) value, in(reg) address, options(nostack)) };
}
