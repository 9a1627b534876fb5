//! GICv3 (IHI 0069H): a redistributor for each CPU, the CPU interface in system registers.

use crate::arch::{cpu, icc};
use crate::mmio::Registers;

const GICD_CTLR: usize = 0x0000;
const ENABLE_GROUP_1: u32 = 1 << 1;
const AFFINITY_ROUTING: u32 = 1 << 4;
const WRITE_PENDING: u32 = 1 << 31;

const GICR_TYPER: usize = 0x0008;
const VIRTUAL_LPIS: u32 = 1 << 1;
const LAST: u32 = 1 << 4;
const GICR_TYPER_AFFINITY: usize = 0x000c;
const GICR_WAKER: usize = 0x0014;
const CHILDREN_ASLEEP: u32 = 1 << 2;
/// A redistributor's frames are 64 KiB each; the second has the private interrupts.
const FRAME: usize = 0x1_0000;
const IGROUPR0: usize = 0x0080;

/// The controller.
pub struct Gic {
    private: Registers,
}

impl Gic {
    /// Turns the controller on, with all interrupts in group 1.
    pub fn new(distributor: Registers, redistributors: &Registers) -> Self {
        distributor.write(GICD_CTLR, AFFINITY_ROUTING);
        while distributor.read(GICD_CTLR) & WRITE_PENDING != 0 {}
        distributor.write(GICD_CTLR, AFFINITY_ROUTING | ENABLE_GROUP_1);
        let own = own_redistributor(redistributors);
        own.write(GICR_WAKER, 0);
        while own.read(GICR_WAKER) & CHILDREN_ASLEEP != 0 {}
        let private = own.part(FRAME, FRAME);
        super::quiet_private(&private);
        private.write(IGROUPR0, u32::MAX);
        icc::enable_system_registers();
        icc::set_priority_mask(0xf0);
        icc::enable_group_1();
        Self { private }
    }

    /// Enables a private interrupt.
    pub fn enable(&self, id: u32) {
        super::enable_private(&self.private, id);
    }
}

/// The redistributor of this CPU: the one with its affinity (12.10).
fn own_redistributor(all: &Registers) -> Registers {
    let mut offset = 0;
    loop {
        let one = all.part(offset, 2 * FRAME);
        let kind = one.read(GICR_TYPER);
        if one.read(GICR_TYPER_AFFINITY) == cpu::affinity() {
            return one;
        }
        assert!(kind & LAST == 0, "no redistributor is this CPU's");
        offset += if kind & VIRTUAL_LPIS != 0 { 4 } else { 2 } * FRAME;
    }
}

/// Takes the most urgent pending interrupt.
pub fn acknowledge() -> u32 {
    icc::acknowledge()
}

/// Ends the interrupt.
pub fn end(id: u32) {
    icc::end(id);
}
