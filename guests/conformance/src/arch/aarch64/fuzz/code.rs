//! Code that the fuzzer writes for one step.

use super::space::CODE;
use crate::fuzz::Call;

pub use crate::fuzz::memory::put_code as put;

/// WFI.
pub const WFI: u32 = 0xd503_207f;
/// WFE.
pub const WFE: u32 = 0xd503_205f;
/// YIELD.
pub const YIELD: u32 = 0xd503_203f;

/// HVC, SMC, SVC or BRK with this immediate.
pub fn call(way: Call, immediate: u32) -> u32 {
    let word = match way {
        Call::Hypervisor => 0xd400_0002,
        Call::Monitor => 0xd400_0003,
        Call::Supervisor => 0xd400_0001,
        Call::Breakpoint => 0xd420_0000,
    };
    word | immediate << 5
}

/// Makes new instructions visible to fetches (DDI 0487, B2.4.4), whatever CTR_EL0 says of the cache
/// lines: it works on every word of a short piece of code.
pub fn synchronize_all() {
    for line in (CODE.address()..CODE.address() + 4096).step_by(64) {
        // SAFETY: cleaning loses nothing.
        unsafe { core::arch::asm!("dc cvau, {0}", in(reg) line, options(nostack)) };
    }
    // SAFETY: maintenance changes no instruction.
    unsafe { core::arch::asm!("dsb ish", "ic ialluis", "dsb ish", "isb", options(nostack)) };
}
