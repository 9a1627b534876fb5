//! The interrupt controller. Its interrupts are SPIs here, line 0 the first.
//!
//! It has no active state and no interrupt of the CPU's own. An interrupt that is served is masked meanwhile, by
//! another register than the one that enables it.

use crate::GicError;
use crate::host_gic::CpuInterface;
use core::ptr::NonNull;
use hanok_hal::Taken;
use hanok_types::{GicVersion, Hva, IntId};
use safe_mmio::fields::{ReadPure, ReadPureWrite};
use safe_mmio::{UniqueMmioPointer, field};

/// A bit for each line, in three registers; the fourth is reserved.
type Lines = [ReadPureWrite<u32>; 4];

/// The registers.
#[repr(C)]
struct Registers {
    /// The base below, and four times the number of the pending interrupt of the highest priority.
    vector: ReadPure<u32>,
    base: ReadPureWrite<u32>,
    protect: ReadPureWrite<u32>,
    /// How line 0 is triggered, an external pin.
    pin: ReadPureWrite<u32>,
    pending: [ReadPure<u32>; 4],
    fast_pending: [ReadPure<u32>; 4],
    /// Which are FIQs.
    fast: Lines,
    enable: Lines,
    mask: Lines,
}

/// The first SPI.
const SPIS: u32 = 32;
/// What [`Taken`] has where there is no interrupt (IHI 0048B, 3.2.5).
const SPURIOUS: u32 = 1023;

/// The interrupt controller of the one CPU.
#[derive(Clone, Copy, Debug)]
pub struct AllwinnerInterrupts {
    registers: NonNull<Registers>,
}

// SAFETY: the board has one CPU, which runs the hypervisor with interrupts masked.
unsafe impl Sync for AllwinnerInterrupts {}
// SAFETY: as above.
unsafe impl Send for AllwinnerInterrupts {}

impl AllwinnerInterrupts {
    /// The controller whose registers lie here.
    ///
    /// # Safety
    /// They are an Allwinner A10's, mapped as device memory for ever, and no other code drives them.
    pub unsafe fn new(registers: Hva) -> Result<Self, GicError> {
        let registers = NonNull::new(registers.get() as *mut Registers)
            .filter(|registers| registers.is_aligned())
            .ok_or(GicError::BadAddress)?;
        Ok(Self { registers })
    }

    fn registers(&self) -> UniqueMmioPointer<'_, Registers> {
        // SAFETY: the registers are mapped, and driven by one CPU.
        unsafe { UniqueMmioPointer::new(self.registers) }
    }

    /// Disables and masks all lines. None is an FIQ, and the vector is four times the line.
    pub(crate) fn init_distributor(&self) {
        let mut registers = self.registers();
        field!(registers, base).write(0);
        for word in 0..3 {
            set(field!(registers, fast).get(word), u32::MAX, false);
            set(field!(registers, enable).get(word), u32::MAX, false);
            set(field!(registers, mask).get(word), u32::MAX, true);
        }
    }

    /// Lets an interrupt through, or not.
    pub(crate) fn enable(&self, interrupt: IntId, on: bool) {
        if let Some(line) = interrupt.get().checked_sub(SPIS) {
            let mut registers = self.registers();
            let (word, bit) = (line as usize / 32, 1 << (line % 32));
            set(field!(registers, enable).get(word), bit, on);
            set(field!(registers, mask).get(word), bit, !on);
        }
    }

    /// Keeps an SPI from coming again, or lets it come again.
    pub(crate) fn set_active(&self, interrupt: IntId, active: bool) {
        if let Some(line) = interrupt.get().checked_sub(SPIS) {
            let mut registers = self.registers();
            let bit = 1 << (line % 32);
            set(field!(registers, mask).get(line as usize / 32), bit, active);
        }
    }

    /// Nothing is pending but what a device asserts.
    pub(crate) fn clear_pending(&self, _: IntId) {}

    /// All lines are level-sensitive.
    pub(crate) fn set_edge(&self, _: IntId, _: bool) {}
}

/// Sets or clears bits of a register.
fn set(register: Option<UniqueMmioPointer<'_, ReadPureWrite<u32>>>, bits: u32, on: bool) {
    if let Some(mut register) = register {
        let others = register.read() & !bits;
        register.write(if on { others | bits } else { others });
    }
}

impl CpuInterface for AllwinnerInterrupts {
    const VERSION: GicVersion = GicVersion::V2;

    fn acknowledge(self) -> Taken {
        let mut registers = self.registers();
        let line = field!(registers, vector).read() >> 2;
        // Line 0 is never enabled, so that zero means none.
        Taken::new(if line == 0 { SPURIOUS } else { line + SPIS })
    }

    fn drop_priority(self, taken: Taken) {
        self.set_active(taken.id(), true);
    }

    fn end(self, taken: Taken) {
        self.set_active(taken.id(), false);
    }
}
