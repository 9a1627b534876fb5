//! Self-hosted debug: breakpoints and watchpoints, switched when a guest first uses them.
//!
//! Until then MDCR_EL2.TDA makes every access an exit and the core answers the harmless
//! ones itself (kernels clear these registers as they start). The first access that counts
//! opens the trap for good; from then on the registers travel with the vCPU.

use crate::{read, write};

/// DBGBVR, DBGBCR, DBGWVR and DBGWCR, sixteen of each.
#[derive(Clone, Copy, Debug, Default)]
pub struct DebugState {
    /// Whether the guest has them: the trap is open while its vCPU runs.
    pub given: bool,
    breakpoints: [(u64, u64); 16],
    watchpoints: [(u64, u64); 16],
}

macro_rules! by_number {
    ($do:ident, $($n:literal)*) => { $($do!($n);)* };
}

/// How many breakpoints and watchpoints the CPU has (ID_AA64DFR0_EL1 BRPs and WRPs).
fn counts() -> (usize, usize) {
    let dfr0 = read!("id_aa64dfr0_el1");
    (
        (dfr0 >> 12 & 0xf) as usize + 1,
        (dfr0 >> 20 & 0xf) as usize + 1,
    )
}

impl DebugState {
    /// Takes the registers out of the CPU.
    pub fn save(&mut self) {
        let (breakpoints, watchpoints) = counts();
        macro_rules! one {
            ($n:literal) => {
                if $n < breakpoints {
                    self.breakpoints[$n] = (
                        read!(concat!("dbgbvr", $n, "_el1")),
                        read!(concat!("dbgbcr", $n, "_el1")),
                    );
                }
                if $n < watchpoints {
                    self.watchpoints[$n] = (
                        read!(concat!("dbgwvr", $n, "_el1")),
                        read!(concat!("dbgwcr", $n, "_el1")),
                    );
                }
            };
        }
        by_number!(one, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    }

    /// Puts the registers into the CPU. What a debugger uses to talk to the CPU is not
    /// switched, and left clean: claim tags and the interrupt enables of the DCC.
    pub fn load(&self) {
        write!("dbgclaimclr_el1", 0xff);
        write!("mdccint_el1", 0);
        let (breakpoints, watchpoints) = counts();
        macro_rules! one {
            ($n:literal) => {
                if $n < breakpoints {
                    write!(concat!("dbgbvr", $n, "_el1"), self.breakpoints[$n].0);
                    write!(concat!("dbgbcr", $n, "_el1"), self.breakpoints[$n].1);
                }
                if $n < watchpoints {
                    write!(concat!("dbgwvr", $n, "_el1"), self.watchpoints[$n].0);
                    write!(concat!("dbgwcr", $n, "_el1"), self.watchpoints[$n].1);
                }
            };
        }
        by_number!(one, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    }
}
