//! The CPU's counter, timer, interrupt mask and calls; plain accesses to devices.

use core::arch::asm;

/// The virtual counter (DDI 0406C, B8.1.2).
pub fn now() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: a read; the barrier keeps it from coming too early.
    unsafe {
        asm!("isb", "mrrc p15, 1, {}, {}, c14", out(reg) low, out(reg) high, options(nostack))
    };
    u64::from(high) << 32 | u64::from(low)
}

/// Ticks of the counter in a second.
pub fn frequency() -> u64 {
    let value: u32;
    // SAFETY: CNTFRQ, a read.
    unsafe { asm!("mrc p15, 0, {}, c14, c0, 0", out(reg) value, options(nostack)) };
    value.into()
}

/// Sets the virtual timer to fire when the counter reaches `at`.
pub fn set_timer(at: u64) {
    let (low, high) = (at as u32, (at >> 32) as u32);
    // SAFETY: CNTV_CVAL.
    unsafe { asm!("mcrr p15, 3, {}, {}, c14", in(reg) low, in(reg) high, options(nostack)) };
    set_timer_control(1);
}

/// Stops the virtual timer.
pub fn stop_timer() {
    set_timer_control(0);
}

fn set_timer_control(value: u32) {
    // SAFETY: CNTV_CTL.
    unsafe { asm!("mcr p15, 0, {}, c14, c3, 1", "isb", in(reg) value, options(nostack)) };
}

/// Masks interrupts; returns the former state for [`restore`].
pub fn mask() -> usize {
    let before: usize;
    // SAFETY: masking interrupts changes nothing else.
    unsafe { asm!("mrs {}, cpsr", "cpsid i", out(reg) before, options(nostack)) };
    before
}

/// Restores the state that [`mask`] returned.
pub fn restore(before: usize) {
    // SAFETY: the control field of the same mode.
    unsafe { asm!("msr cpsr_c, {}", in(reg) before, options(nostack)) };
}

/// Lets interrupts in.
pub fn unmask() {
    // SAFETY: the vectors are installed, and keep all registers.
    unsafe { asm!("cpsie i", options(nostack)) };
}

/// Waits for an interrupt.
pub fn wait() {
    // SAFETY: WFI changes no state.
    unsafe { asm!("dsb", "wfi", options(nostack)) };
}

/// Makes `turns` turns of a loop of two instructions.
pub fn spin(turns: usize) {
    // SAFETY: counts a register down to zero.
    unsafe {
        asm!("2:", "subs {0}, {0}, #1", "bhi 2b", inout(reg) turns => _, options(nomem, nostack))
    };
}

/// Calls the kernel, which may run other tasks before it returns.
pub fn call(number: usize, argument: usize, more: usize) {
    // SAFETY: the vectors keep all registers; the kernel touches no memory of the task's,
    // other tasks do as other threads would.
    unsafe { asm!("svc #0", in("r0") number, in("r1") argument, in("r2") more) };
}

/// Calls firmware by HVC, or by SMC (DEN 0028).
pub fn firmware(function: u32, by_smc: bool) {
    // SAFETY: a function without arguments; what it may change is given up.
    unsafe {
        if by_smc {
            asm!(".inst 0xe1600070", inout("r0") function => _, out("r1") _, out("r2") _, out("r3") _);
        } else {
            asm!(".inst 0xe1400070", inout("r0") function => _, out("r1") _, out("r2") _, out("r3") _);
        }
    }
}

/// The affinity fields of MPIDR in the form of GICR_TYPER\[63:32\] (IHI 0069H, 12.10).
pub fn affinity() -> u32 {
    let mpidr: u32;
    // SAFETY: MPIDR, a read.
    unsafe { asm!("mrc p15, 0, {}, c0, c0, 5", out(reg) mpidr, options(nostack)) };
    mpidr & 0x00ff_ffff
}

/// Reads a device register.
///
/// # Safety
///
/// A device register is there.
pub unsafe fn read32(address: usize) -> u32 {
    let value: u32;
    // SAFETY: the caller's promise. One plain load, of which a hypervisor gets a syndrome.
    unsafe { asm!("ldr {}, [{}]", out(reg) value, in(reg) address, options(nostack)) };
    value
}

/// Writes a device register.
///
/// # Safety
///
/// A device register is there, and what the write does is wanted.
pub unsafe fn write32(address: usize, value: u32) {
    // SAFETY: the caller's promise.
    unsafe { asm!("str {}, [{}]", in(reg) value, in(reg) address, options(nostack)) };
}
