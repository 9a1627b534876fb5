//! PSCI (DEN 0022F) and the SMC calling convention (DEN 0028). [`call`] and [`call_all`] are by HVC;
//! the functions that have names go the way that the device tree says ([`install`]).

use crate::arch::calls::{NATIVE, hvc, smc};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub use crate::arch::calls::hvc as call_all;

/// By which instruction PSCI is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduit {
    /// HVC.
    Hvc,
    /// SMC.
    Smc,
}

static BY_SMC: AtomicBool = AtomicBool::new(false);

/// PSCI is called so from now on; before, it is by HVC.
pub fn install(conduit: Conduit) {
    BY_SMC.store(conduit == Conduit::Smc, Relaxed);
}

/// PSCI_VERSION.
pub const VERSION: u64 = 0x8400_0000;
/// CPU_SUSPEND, as wide as the CPU.
pub const CPU_SUSPEND: u64 = 0x8400_0001 | NATIVE;
/// CPU_OFF.
pub const CPU_OFF: u64 = 0x8400_0002;
/// CPU_ON, as wide as the CPU.
pub const CPU_ON: u64 = 0x8400_0003 | NATIVE;
/// CPU_ON, 32-bit.
pub const CPU_ON_32: u64 = 0x8400_0003;
/// AFFINITY_INFO, as wide as the CPU.
pub const AFFINITY_INFO: u64 = 0x8400_0004 | NATIVE;
/// MIGRATE_INFO_TYPE.
pub const MIGRATE_INFO_TYPE: u64 = 0x8400_0006;
/// SYSTEM_OFF.
pub const SYSTEM_OFF: u64 = 0x8400_0008;
/// SYSTEM_RESET.
pub const SYSTEM_RESET: u64 = 0x8400_0009;
/// PSCI_FEATURES.
pub const FEATURES: u64 = 0x8400_000a;
/// SMCCC_VERSION.
pub const SMCCC_VERSION: u64 = 0x8000_0000;
/// SMCCC_ARCH_FEATURES.
pub const SMCCC_ARCH_FEATURES: u64 = 0x8000_0001;

/// The call succeeded.
pub const SUCCESS: i64 = 0;
/// The call is not implemented.
pub const NOT_SUPPORTED: i64 = -1;
/// An argument is invalid.
pub const INVALID_PARAMETERS: i64 = -2;
/// The CPU is on already.
pub const ALREADY_ON: i64 = -4;
/// The address is not RAM.
pub const INVALID_ADDRESS: i64 = -9;

/// AFFINITY_INFO: the CPU is on.
pub const ON: i64 = 0;
/// AFFINITY_INFO: the CPU is off.
pub const OFF: i64 = 1;
/// AFFINITY_INFO: the CPU was started and is not on yet.
pub const ON_PENDING: i64 = 2;

/// HVC with these values in the first four registers; returns the first.
pub fn call(function: u64, a: u64, b: u64, c: u64) -> u64 {
    let mut x = [function, a, b, c, 0, 0, 0, 0];
    hvc(&mut x);
    x[0]
}

/// [`call`], by HVC or SMC.
fn firmware(function: u64, a: u64, b: u64, c: u64) -> u64 {
    let mut x = [function, a, b, c, 0, 0, 0, 0];
    if BY_SMC.load(Relaxed) {
        smc(&mut x);
    } else {
        hvc(&mut x);
    }
    x[0]
}

/// The 32-bit result of a call, with its sign.
pub fn status(result: u64) -> i64 {
    i64::from(result as u32 as i32)
}

/// Starts CPU `index` at `entry`.
pub fn cpu_on(index: u64, entry: u64, context: u64) -> i64 {
    status(firmware(CPU_ON, index, entry, context))
}

/// Whether CPU `index` is on, off, or about to be on.
pub fn affinity_info(index: u64) -> i64 {
    status(firmware(AFFINITY_INFO, index, 0, 0))
}

/// Ends this CPU.
pub fn cpu_off() -> ! {
    firmware(CPU_OFF, 0, 0, 0);
    panic!("CPU_OFF returned");
}

/// Ends the machine.
pub fn system_off() -> ! {
    firmware(SYSTEM_OFF, 0, 0, 0);
    loop {
        core::hint::spin_loop();
    }
}

/// Restarts the machine.
pub fn system_reset() -> ! {
    firmware(SYSTEM_RESET, 0, 0, 0);
    panic!("SYSTEM_RESET returned");
}
