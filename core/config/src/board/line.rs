//! Interrupts of the board's devices, as a guest's tree describes them.

use hanok_types::IntId;

/// An interrupt of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLine {
    /// Its id on the board, an SPI.
    pub id: IntId,
    /// The trigger, as in the GIC's binding: 1 and 2 are edges, 4 and 8 levels, 0 is unknown.
    pub trigger: u32,
}

impl HostLine {
    /// Whether an edge triggers the interrupt.
    pub fn is_edge(self) -> bool {
        self.trigger & 3 != 0
    }
}
