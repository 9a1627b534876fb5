//! Counters of accesses to registers that are not there.

/// How often a guest touched registers that a device does not have. A number that rises is
/// the first trace of a driver that expects more than the device offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// Reads that answered zero.
    pub reads: u32,
    /// Writes that were ignored.
    pub writes: u32,
}

impl Unknown {
    /// Counts a read, and gives what it answers.
    pub(crate) fn read(&mut self) -> u32 {
        self.reads = self.reads.saturating_add(1);
        0
    }

    /// Counts a write.
    pub(crate) fn write(&mut self) {
        self.writes = self.writes.saturating_add(1);
    }
}
