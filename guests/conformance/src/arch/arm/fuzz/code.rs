//! Code that the fuzzer writes for one step.

use crate::fuzz::Call;
use crate::fuzz::memory::CODE;

pub use crate::fuzz::memory::put_code as put;

/// WFI.
pub const WFI: u32 = 0xe320_f003;
/// WFE.
pub const WFE: u32 = 0xe320_f002;
/// YIELD.
pub const YIELD: u32 = 0xe320_f001;

/// HVC, SMC, SVC or BKPT with the bits of this immediate that the instruction holds.
pub fn call(way: Call, immediate: u32) -> u32 {
    let split = (immediate & 0xfff0) << 4 | immediate & 0xf;
    match way {
        Call::Hypervisor => 0xe140_0070 | split,
        Call::Monitor => 0xe160_0070 | immediate & 0xf,
        Call::Supervisor => 0xef00_0000 | immediate,
        Call::Breakpoint => 0xe120_0070 | split,
    }
}

/// Makes new instructions visible (DDI 0406C, A3.9.3): DCCMVAU by line, as long as CTR.DminLine says, ICIALLUIS, BPIALLIS.
pub fn synchronize_all() {
    let line = 4 << (read_sysreg!("ctr_el0") >> 16 & 0xf);
    for line in (CODE.address()..CODE.address() + 4096).step_by(line) {
        // SAFETY: cleaning loses nothing.
        unsafe {
            core::arch::asm!("mcr p15, 0, {0}, c7, c11, 1", in(reg) line as u32, options(nostack));
        }
    }
    // SAFETY: maintenance changes no instruction.
    unsafe {
        core::arch::asm!(
            "dsb",
            "mcr p15, 0, {0}, c7, c1, 0",
            "mcr p15, 0, {0}, c7, c1, 6",
            "dsb",
            "isb",
            in(reg) 0,
            options(nostack)
        );
    }
}

/// The same for the line at `address`: DCCMVAU, ICIMVAU, BPIALL.
pub fn synchronize(address: u32) {
    crate::arch::code::synchronize(address);
}
