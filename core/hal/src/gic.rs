//! The list registers through which a CPU shows its guest virtual interrupts.

/// A CPU's list registers, in the format of GICv3 (IHI 0069H, 12.4): the core writes values of
/// `ICH_LR<n>_EL2` with 64 bits, and a GICv2 backend translates them to the format of its GICH_LR.
pub trait ListRegisters {
    /// The number of list registers, 1 to 16.
    fn count(&self) -> usize;
    /// The value of list register `index`, which is below [`Self::count`].
    fn read(&self, index: usize) -> u64;
    /// Sets list register `index`, which is below [`Self::count`].
    fn write(&mut self, index: usize, value: u64);
    /// A bit for each list register that holds no interrupt (its state is invalid, and no
    /// maintenance interrupt is due), as in ICH_ELRSR_EL2.
    fn empty(&self) -> u32;
    /// A bit for each list register whose interrupt has ended and whose end is to be reported, as ICH_EISR_EL2.
    fn ended(&self) -> u32 {
        // The state is invalid, no physical interrupt is behind (HW), and the end is to be reported (EOI).
        let ended =
            |index: &usize| self.read(*index) >> 61 == 0 && self.read(*index) >> 41 & 1 != 0;
        (0..self.count())
            .filter(ended)
            .fold(0, |set, index| set | 1 << index)
    }
    /// Whether the maintenance interrupt for "no list register is pending" (ICH_HCR_EL2.NPIE) is
    /// on; on only while more is pending than fits.
    fn set_none_pending_interrupt(&mut self, on: bool);
    /// Sets whether this CPU takes maintenance interrupts, on a GICv2. At first it does not. It
    /// does only while the end of an interrupt in a list register is to be reported, or the
    /// interrupt of [`Self::set_none_pending_interrupt`] is enabled. While it does not, an
    /// interrupt with a physical one behind it (HW = 1) may be in a list register, alone (see
    /// `hanok_vgic`, "Interrupts of real devices"). A GICv3 always takes them, and this does
    /// nothing.
    /// them always, and this does nothing.
    fn report_ends(&mut self, on: bool);
}

/// Sixteen registers in memory, of which `count` exist.
#[cfg(any(test, feature = "fake"))]
#[derive(Clone, Debug)]
pub struct FakeListRegisters {
    /// The registers.
    pub lr: std::vec::Vec<u64>,
    /// Whether the interrupt for "no list register is pending" is enabled.
    pub none_pending_interrupt: bool,
    /// Whether maintenance interrupts are taken, on a GICv2.
    pub reports: bool,
    /// The number of writes.
    pub writes: usize,
}

#[cfg(any(test, feature = "fake"))]
impl FakeListRegisters {
    /// `count` empty registers.
    pub fn new(count: usize) -> Self {
        Self {
            lr: std::vec![0; count],
            none_pending_interrupt: false,
            reports: false,
            writes: 0,
        }
    }
}

#[cfg(any(test, feature = "fake"))]
impl ListRegisters for FakeListRegisters {
    fn count(&self) -> usize {
        self.lr.len()
    }

    fn read(&self, index: usize) -> u64 {
        self.lr[index]
    }

    fn write(&mut self, index: usize, value: u64) {
        self.writes += 1;
        self.lr[index] = value;
    }

    fn empty(&self) -> u32 {
        let invalid = |lr: u64| lr >> 62 == 0;
        // EOI (bit 41) without HW (bit 61): a maintenance interrupt is due.
        let due = |lr: u64| lr >> 61 & 1 == 0 && lr >> 41 & 1 != 0;
        (0..self.lr.len())
            .filter(|i| invalid(self.lr[*i]) && !due(self.lr[*i]))
            .fold(0, |set, i| set | 1 << i)
    }

    fn set_none_pending_interrupt(&mut self, on: bool) {
        self.none_pending_interrupt = on;
    }

    fn report_ends(&mut self, on: bool) {
        self.reports = on;
    }
}
