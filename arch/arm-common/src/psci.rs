//! The firmware's PSCI (DEN0022F): starting the other CPUs, and ending the run.

use smccc::psci;
use smccc::{Call, Hvc, Smc};

/// How the firmware is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduit {
    /// SMC.
    Smc,
    /// HVC: the hypervisor itself runs under another.
    Hvc,
}

/// The firmware's calls.
#[derive(Clone, Copy, Debug)]
pub struct Firmware {
    conduit: Conduit,
}

impl Firmware {
    /// Firmware reached by this conduit.
    pub fn new(conduit: Conduit) -> Self {
        Self { conduit }
    }

    /// Starts the CPU with `mpidr` at the physical address `entry`, `argument` in X0.
    pub fn cpu_on(&self, mpidr: u64, entry: u64, argument: u64) -> Result<(), psci::error::Error> {
        match self.conduit {
            Conduit::Smc => cpu_on::<Smc>(mpidr, entry, argument),
            Conduit::Hvc => cpu_on::<Hvc>(mpidr, entry, argument),
        }
    }

    /// Turns the board off; comes back only where the firmware refuses.
    pub fn system_off(&self) {
        // A refusal leaves nothing to do but what the caller does next: stop.
        let _ = match self.conduit {
            Conduit::Smc => psci::system_off::<Smc>(),
            Conduit::Hvc => psci::system_off::<Hvc>(),
        };
    }
}

/// CPU_ON by the calling convention of the CPU's own width.
#[cfg(target_pointer_width = "64")]
fn cpu_on<C: Call>(mpidr: u64, entry: u64, argument: u64) -> Result<(), psci::error::Error> {
    psci::cpu_on::<C>(mpidr, entry, argument)
}

/// CPU_ON by the calling convention of the CPU's own width. The hypervisor's image and data lie
/// below 4 GiB, and affinities have no fourth level.
#[cfg(target_pointer_width = "32")]
fn cpu_on<C: Call>(mpidr: u64, entry: u64, argument: u64) -> Result<(), psci::error::Error> {
    psci::cpu_on_32::<C>(mpidr as u32, entry as u32, argument as u32)
}
