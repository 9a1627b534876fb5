//! Power, by PSCI (DEN 0022).

use crate::arch::cpu;
use crate::state::Once;

const SYSTEM_OFF: u32 = 0x8400_0008;

static BY_SMC: Once<bool> = Once::new();

/// Sets how PSCI is called; until then, it is by HVC.
pub fn install(by_smc: bool) {
    BY_SMC.set(by_smc);
}

/// Ends the machine.
pub fn system_off() -> ! {
    cpu::firmware(SYSTEM_OFF, BY_SMC.get().copied().unwrap_or(false));
    loop {
        cpu::mask();
        cpu::wait();
    }
}
