//! A GICv3's list registers, which are system registers.

use super::InterfaceState;
use crate::{read, write};
use hanok_hal::ListRegisters;
use hanok_vgic::GuestInterface;

/// ICH_HCR_EL2.En: the virtual interface signals interrupts.
const ENABLE: u64 = 1;
/// ICH_HCR_EL2.NPIE.
const NONE_PENDING: u64 = 1 << 3;

/// Registers 1 to 3 are there with more than 5 bits of preemption (IHI 0069H, 12.4.4).
macro_rules! each_active_priority {
    ($do:ident) => {
        let preemption = (read!("ich_vtr_el2") >> 26 & 7) + 1;
        $do!(0);
        if preemption > 5 {
            $do!(1);
        }
        if preemption > 6 {
            $do!(2);
            $do!(3);
        }
    };
}

/// The list registers of the CPU that holds it.
#[derive(Clone, Copy, Debug)]
pub struct HardwareLists;

/// One instruction for list register `$index`, below 16. The number is part of the instruction's encoding,
/// so there are sixteen instructions in a row, and a jump goes to one of them.
macro_rules! by_index {
    ($index:expr, $instruction:literal, $($value:tt)*) => {
        // SAFETY: the index is masked, so the jump goes to one of the sixteen pairs below it;
        // each moves between a list register and a general one, and goes to the end.
        unsafe {
            core::arch::asm!(
                "adr {place}, 2f",
                "add {place}, {place}, {index}, lsl #3",
                "br {place}",
                "2:",
                ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
                $instruction,
                "b 3f",
                ".endr",
                "3:",
                index = in(reg) $index & 15,
                place = out(reg) _,
                $($value)*,
                options(nostack, preserves_flags)
            )
        }
    };
}

impl HardwareLists {
    /// Empties all list registers, once: they are always empty while no vCPU is in this CPU.
    pub fn clear(&mut self) {
        for index in 0..self.count() {
            self.write(index, 0);
        }
        write!("ich_hcr_el2", 0);
    }

    /// Gives the interface a vCPU's state, and lets it signal interrupts.
    pub fn enter(&mut self, state: &InterfaceState) {
        // The guest has no legacy interface, on CPUs that could offer one.
        write!("icc_sre_el1", 7);
        write!("ich_vmcr_el2", state.vmcr as u64);
        macro_rules! load {
            ($n:literal) => {
                write!(concat!("ich_ap0r", $n, "_el2"), state.active[$n].0 as u64);
                write!(concat!("ich_ap1r", $n, "_el2"), state.active[$n].1 as u64);
            };
        }
        each_active_priority!(load);
        write!("ich_hcr_el2", ENABLE);
    }

    /// Takes the vCPU's state out of the interface, which then signals no interrupts.
    #[inline(always)]
    pub fn leave(&mut self, state: &mut InterfaceState) {
        state.vmcr = read!("ich_vmcr_el2") as usize;
        macro_rules! save {
            ($n:literal) => {
                state.active[$n] = (
                    read!(concat!("ich_ap0r", $n, "_el2")) as usize,
                    read!(concat!("ich_ap1r", $n, "_el2")) as usize,
                );
            };
        }
        each_active_priority!(save);
        write!("ich_hcr_el2", 0);
    }

    /// Stops the interface from signalling interrupts; its state is not needed any more.
    pub fn stop(&mut self) {
        write!("ich_hcr_el2", 0);
    }

    /// The number of bits of priority of the virtual interface (ICH_VTR_EL2.PRIbits).
    pub fn priority_bits() -> u32 {
        (read!("ich_vtr_el2") >> 29 & 7) as u32 + 1
    }
}

impl GuestInterface for HardwareLists {}

impl ListRegisters for HardwareLists {
    #[inline(always)]
    fn count(&self) -> usize {
        // ICH_VTR_EL2.ListRegs is one less than their number (IHI 0069H, 12.4.9).
        (read!("ich_vtr_el2") & 0x1f) as usize + 1
    }

    #[inline(always)]
    fn read(&self, index: usize) -> u64 {
        let value: u64;
        by_index!(index, r"mrs {value}, ich_lr\n\()_el2", value = out(reg) value);
        value
    }

    #[inline(always)]
    fn write(&mut self, index: usize, value: u64) {
        by_index!(index, r"msr ich_lr\n\()_el2, {value}", value = in(reg) value);
    }

    #[inline(always)]
    fn empty(&self) -> u32 {
        read!("ich_elrsr_el2") as u32
    }

    #[inline(always)]
    fn ended(&self) -> u32 {
        read!("ich_eisr_el2") as u32
    }

    fn set_none_pending_interrupt(&mut self, on: bool) {
        write!(
            "ich_hcr_el2",
            if on { ENABLE | NONE_PENDING } else { ENABLE }
        );
    }

    #[inline(always)]
    fn report_ends(&mut self, _on: bool) {}
}
