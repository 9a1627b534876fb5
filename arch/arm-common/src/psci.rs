//! The firmware's PSCI (DEN0022F): starting the other CPUs, and ending the run.

#[cfg(target_arch = "arm")]
use conduits::{Hvc, Smc};
use smccc::{Call, psci};
#[cfg(target_arch = "aarch64")]
use smccc::{Hvc, Smc};

/// The instruction that calls the firmware.
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

    /// Turns the board off. It returns only if the firmware refuses.
    pub fn system_off(&self) {
        // After a refusal the caller stops the CPU; nothing else can be done.
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

/// The two calls of a 32-bit CPU. Those of `smccc` are words of A32, which the assembler refuses where the
/// image is T32.
#[cfg(target_arch = "arm")]
mod conduits {
    use core::arch::asm;
    use smccc::Call;

    macro_rules! conduit {
        ($name:ident, $extension:literal, $instruction:literal) => {
            /// Executes this instruction by the calling convention for 32 bit (DEN0028): the arguments of a
            /// PSCI call are in R0 to R3, and its answer is in R0.
            #[derive(Debug)]
            pub enum $name {}

            impl Call for $name {
                fn call32(function: u32, arguments: [u32; 7]) -> [u32; 8] {
                    let mut results = [0; 8];
                    // SAFETY: the firmware keeps R4 to R14 and our memory, but for a CPU that it starts.
                    unsafe {
                        asm!(
                            concat!(".arch_extension ", $extension),
                            $instruction,
                            inout("r0") function => results[0],
                            inout("r1") arguments[0] => results[1],
                            inout("r2") arguments[1] => results[2],
                            inout("r3") arguments[2] => results[3],
                            options(nostack)
                        );
                    }
                    results
                }

                /// This CPU does not have the instruction.
                fn call64(_: u32, _: [u64; 17]) -> [u64; 18] {
                    // NOT_SUPPORTED.
                    [-1_i64 as u64; 18]
                }
            }
        };
    }

    conduit!(Hvc, "virt", "hvc #0");
    conduit!(Smc, "sec", "smc #0");
}
