//! A device's registers.

use crate::arch::cpu;

/// A range of device registers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registers {
    base: usize,
    size: usize,
}

impl Registers {
    /// The registers from `base` on.
    ///
    /// # Safety
    ///
    /// A device that the caller may drive has `size` bytes of registers there, mapped as
    /// Device memory.
    pub const unsafe fn new(base: usize, size: usize) -> Self {
        Self { base, size }
    }

    /// The registers from `offset` on.
    pub fn part(&self, offset: usize, size: usize) -> Self {
        assert!(offset + size <= self.size);
        Self {
            base: self.base + offset,
            size,
        }
    }

    /// Reads the register at `offset`.
    pub fn read(&self, offset: usize) -> u32 {
        assert!(offset + 4 <= self.size);
        // SAFETY: the promise of `new`.
        unsafe { cpu::read32(self.base + offset) }
    }

    /// Writes the register at `offset`.
    pub fn write(&self, offset: usize, value: u32) {
        assert!(offset + 4 <= self.size);
        // SAFETY: the promise of `new`; the drivers write what their manuals say.
        unsafe { cpu::write32(self.base + offset, value) }
    }
}
