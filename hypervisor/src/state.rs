//! Checks that the CPUs support the Execution states that the VMs need.

use crate::Board;
use crate::fatal::refuse;
#[cfg(target_arch = "aarch64")]
use hanok_arch::traps;
use hanok_types::CpuId;

/// Refuses a VM whose Execution state one of its CPUs does not support. To be called on each CPU:
/// in a system with several kinds of CPUs, only some may support AArch32 at EL1.
#[cfg(target_arch = "aarch64")]
pub fn check(board: &Board, cpu: CpuId) {
    if traps::has_aarch32_guests() {
        return;
    }
    let mut configs = board.vms.iter().map(|unit| unit.vm.config());
    if let Some(config) = configs.find(|config| config.aarch32 && config.cpus.contains(&cpu)) {
        refuse(format_args!(
            "vm {}: its kernel is a 32-bit one, and this CPU has no AArch32 at EL1 \
             (ID_AA64PFR0_EL1 of CPU {cpu}): give it a 64-bit kernel, or other CPUs",
            config.name
        ));
    }
}

/// Refuses a VM whose Execution state one of its CPUs does not support.
#[cfg(target_arch = "arm")]
pub fn check(board: &Board, _: CpuId) {
    let mut configs = board.vms.iter().map(|unit| unit.vm.config());
    if let Some(config) = configs.find(|config| !config.aarch32) {
        refuse(format_args!(
            "vm {}: its kernel is a 64-bit one, and this CPU is a 32-bit one: give it a 32-bit \
             kernel",
            config.name
        ));
    }
}
