//! The global timer of Cortex-A5 and A9: a 64-bit counter that all CPUs share, with a comparator for each,
//! where there is no generic timer (DDI 0407, chapter 4).

use crate::GicError;
use bitflags::bitflags;
use core::ptr::NonNull;
use hanok_types::{Deadline, Hva};
use safe_mmio::fields::ReadPureWrite;
use safe_mmio::{UniqueMmioPointer, field};

/// Its registers (DDI 0407, 4.4). Those behind the counter are banked by CPU, but for the enable bit and the
/// prescaler in the control register.
#[repr(C)]
struct Registers {
    counter: [ReadPureWrite<u32>; 2],
    control: ReadPureWrite<u32>,
    status: ReadPureWrite<u32>,
    comparator: [ReadPureWrite<u32>; 2],
}

bitflags! {
    /// The control register. The prescaler, in bits 15:8, is zero.
    struct Control: u32 {
        /// The counter counts.
        const ENABLE = 1 << 0;
        /// The comparator compares.
        const COMPARE = 1 << 1;
        /// It raises the interrupt.
        const INTERRUPT = 1 << 2;
    }
}

/// The event flag of the status register, which a one clears.
const EVENT: u32 = 1;

/// The latest value that is compared, years away. Emulators count nanoseconds, and a later one would wrap into
/// the past there.
const LATEST: u64 = 1 << 56;

/// The registers of the global timer, of which each CPU sees its own comparator.
#[derive(Clone, Copy, Debug)]
pub struct GlobalTimer(NonNull<Registers>);

// SAFETY: what is banked is of the CPU that accesses it. The counter is only read, and the shared bits of the
// control register always get the same value.
unsafe impl Sync for GlobalTimer {}
// SAFETY: as above.
unsafe impl Send for GlobalTimer {}

impl GlobalTimer {
    /// The global timer whose registers lie here. Its counter counts from now on.
    ///
    /// # Safety
    /// It is a global timer, mapped as device memory for ever, and no other code drives it.
    pub unsafe fn start(registers: Hva) -> Result<Self, GicError> {
        let registers = NonNull::new(registers.get() as *mut Registers)
            .filter(|registers| registers.is_aligned())
            .ok_or(GicError::BadAddress)?;
        let timer = Self(registers);
        timer.control(Control::ENABLE);
        Ok(timer)
    }

    #[inline(always)]
    fn registers(&self) -> UniqueMmioPointer<'_, Registers> {
        // SAFETY: the registers are mapped; what several CPUs write is of each its own.
        unsafe { UniqueMmioPointer::new(self.0) }
    }

    fn control(&self, value: Control) {
        let mut registers = self.registers();
        field!(registers, control).write(value.bits());
    }

    /// The counter's value. Its halves are of one moment if the upper one is the same before and after (4.4.1).
    pub fn counter(&self) -> u64 {
        let mut registers = self.registers();
        let mut counter = field!(registers, counter);
        let mut half = |index: usize| counter.get(index).map_or(0, |half| half.read());
        let mut high = half(1);
        loop {
            let low = half(0);
            let again = half(1);
            if again == high {
                return u64::from(high) << 32 | u64::from(low);
            }
            high = again;
        }
    }

    /// Raises this CPU's interrupt when the counter reaches `due`, or no more.
    ///
    /// Before r2p0 of the Cortex-A9 the comparator matches only a value that is equal (Cortex-A9 MPCore TRM,
    /// "Revisions"). A value that has passed while it was written is therefore replaced by one that is ahead.
    pub fn set(&self, due: Deadline) {
        self.control(Control::ENABLE);
        let mut registers = self.registers();
        field!(registers, status).write(EVENT);
        let Some(due) = due.ticks() else { return };
        let mut at = due.min(LATEST);
        let mut ahead = 64;
        loop {
            self.compare(at);
            let now = self.counter();
            if now < at || field!(registers, status).read() & EVENT != 0 {
                return;
            }
            at = now + ahead;
            ahead *= 2;
        }
    }

    /// Sets the comparator, off meanwhile, and then on.
    fn compare(&self, at: u64) {
        self.control(Control::ENABLE);
        let mut registers = self.registers();
        let mut comparator = field!(registers, comparator);
        for (index, half) in [at as u32, (at >> 32) as u32].into_iter().enumerate() {
            if let Some(mut register) = comparator.get(index) {
                register.write(half);
            }
        }
        self.control(Control::all());
    }
}
