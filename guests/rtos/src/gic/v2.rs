//! GICv2 (IHI 0048B): a memory-mapped CPU interface.

use crate::mmio::Registers;

const GICD_CTLR: usize = 0x000;
const GICC_CTLR: usize = 0x000;
const GICC_PMR: usize = 0x004;
const GICC_IAR: usize = 0x00c;
const GICC_EOIR: usize = 0x010;

/// The controller.
pub struct Gic {
    distributor: Registers,
    cpu: Registers,
}

impl Gic {
    /// Turns the controller on. Interrupts are in group 0 after a reset, or look as if they were;
    /// bit 0 of both control registers is for group 0, in either security state (4.3.1, 4.4.1).
    pub fn new(distributor: Registers, cpu: Registers) -> Self {
        super::quiet_private(&distributor);
        distributor.write(GICD_CTLR, 1);
        cpu.write(GICC_PMR, 0xf0);
        cpu.write(GICC_CTLR, 1);
        Self { distributor, cpu }
    }

    /// Enables a private interrupt.
    pub fn enable(&self, id: u32) {
        super::enable_private(&self.distributor, id);
    }

    /// Takes the most urgent pending interrupt.
    pub fn acknowledge(&self) -> u32 {
        self.cpu.read(GICC_IAR)
    }

    /// Ends the interrupt.
    pub fn end(&self, id: u32) {
        self.cpu.write(GICC_EOIR, id);
    }
}
