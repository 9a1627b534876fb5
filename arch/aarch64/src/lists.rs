//! This CPU's list registers.

use crate::{read, write};
use hanok_hal::ListRegisters;

/// ICH_HCR_EL2.En: the virtual interface signals interrupts.
const ENABLE: u64 = 1;
/// ICH_HCR_EL2.UIE.
const UNDERFLOW: u64 = 1 << 1;

/// The list registers of the CPU that holds it.
#[derive(Debug)]
pub struct HardwareLists {
    count: usize,
}

macro_rules! by_index {
    ($index:expr, $one:ident, $none:expr, $($n:literal)*) => {
        match $index {
            $($n => $one!(concat!("ich_lr", $n, "_el2")),)*
            _ => $none,
        }
    };
}

impl HardwareLists {
    /// This CPU's.
    #[inline(always)]
    pub fn new() -> Self {
        // ICH_VTR_EL2.ListRegs is one less than their number (IHI 0069H, 12.4.9).
        Self {
            count: (read!("ich_vtr_el2") & 0x1f) as usize + 1,
        }
    }

    /// Empties them all, forgets active priorities, and lets the virtual interface signal.
    pub fn reset(&mut self) {
        for index in 0..self.count {
            self.write(index, 0);
        }
        // No legacy interface for the guest, where there could be one.
        write!("icc_sre_el1", 7);
        // Registers 1 to 3 are there with more than 5 bits of preemption (IHI 0069H, 12.4.4).
        let preemption = (read!("ich_vtr_el2") >> 26 & 7) + 1;
        write!("ich_ap0r0_el2", 0);
        write!("ich_ap1r0_el2", 0);
        if preemption > 5 {
            write!("ich_ap0r1_el2", 0);
            write!("ich_ap1r1_el2", 0);
        }
        if preemption > 6 {
            write!("ich_ap0r2_el2", 0);
            write!("ich_ap1r2_el2", 0);
            write!("ich_ap0r3_el2", 0);
            write!("ich_ap1r3_el2", 0);
        }
        write!("ich_hcr_el2", ENABLE);
    }

    /// Bits of priority that the virtual interface has (ICH_VTR_EL2.PRIbits).
    pub fn priority_bits() -> u32 {
        (read!("ich_vtr_el2") >> 29 & 7) as u32 + 1
    }
}

impl Default for HardwareLists {
    fn default() -> Self {
        Self::new()
    }
}

impl ListRegisters for HardwareLists {
    #[inline(always)]
    fn count(&self) -> usize {
        self.count
    }

    fn read(&self, index: usize) -> u64 {
        macro_rules! get {
            ($register:expr) => {
                read!($register)
            };
        }
        by_index!(index, get, 0, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    }

    fn write(&mut self, index: usize, value: u64) {
        macro_rules! set {
            ($register:expr) => {
                write!($register, value)
            };
        }
        by_index!(index, set, (), 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    }

    #[inline(always)]
    fn empty(&self) -> u32 {
        read!("ich_elrsr_el2") as u32
    }

    fn set_underflow_interrupt(&mut self, on: bool) {
        write!("ich_hcr_el2", if on { ENABLE | UNDERFLOW } else { ENABLE });
    }
}
