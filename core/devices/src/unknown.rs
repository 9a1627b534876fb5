//! Counters of accesses to registers that do not exist.

/// How often a guest accessed registers that a device does not have. A number that rises is the
/// first sign of a driver that expects more than the device offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// The number of reads; each was answered with zero.
    pub reads: u32,
    /// The number of writes; each was ignored.
    pub writes: u32,
}

impl Unknown {
    /// Counts a read. The answer is the value that is read, zero.
    pub(crate) fn read(&mut self) -> u32 {
        self.reads = self.reads.saturating_add(1);
        0
    }

    /// Counts a write.
    pub(crate) fn write(&mut self) {
        self.writes = self.writes.saturating_add(1);
    }
}
