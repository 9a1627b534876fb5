//! The timers. Each counts down at 24 MHz.
//!
//! The first raises the hypervisor's interrupt when something is due. The second never stops: it is the counter,
//! whose upper half is kept here. (The block has a counter of 64 bits, too, but QEMU's counts nanoseconds.)

use crate::GicError;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use hanok_types::{Deadline, Hva};
use safe_mmio::fields::{ReadPure, ReadPureWrite};
use safe_mmio::{UniqueMmioPointer, field, field_shared};

/// A timer's registers.
#[repr(C)]
struct Timer {
    control: ReadPureWrite<u32>,
    interval: ReadPureWrite<u32>,
    current: ReadPure<u32>,
    _reserved: u32,
}

/// The registers up to the second timer.
#[repr(C)]
struct Registers {
    enable: ReadPureWrite<u32>,
    status: ReadPureWrite<u32>,
    _reserved: [u32; 2],
    timers: [Timer; 2],
}

/// The place of the timer that raises the hypervisor's interrupt. Its interrupt's bit has the same one.
const DUE: usize = 0;
/// The place of the counter.
const COUNTER: usize = 1;

/// A timer's control: it begins anew with its interval, by the clock of 24 MHz, undivided.
const START: u32 = 0b111;
/// The same once only.
const START_ONCE: u32 = START | 1 << 7;
/// How many ticks a timer needs to stop.
const STOPPING: u32 = 3;
/// The longest time in ticks that a timer is set to, half of the counter's: the counter's upper half is brought up
/// to date at least as often, as each interrupt has the timer set again.
const LONGEST: u64 = 1 << 31;

/// The registers of the timers.
#[derive(Clone, Copy, Debug)]
pub struct AllwinnerTimers(NonNull<Registers>);

// SAFETY: the registers are not a CPU's own; the board has one CPU, which runs the hypervisor with interrupts masked.
unsafe impl Sync for AllwinnerTimers {}
// SAFETY: as above.
unsafe impl Send for AllwinnerTimers {}

impl AllwinnerTimers {
    /// The timers whose registers lie here.
    ///
    /// # Safety
    /// They are an Allwinner A10's, mapped as device memory for ever, and no other code drives them.
    pub unsafe fn new(registers: Hva) -> Result<Self, GicError> {
        NonNull::new(registers.get() as *mut Registers)
            .filter(|registers| registers.is_aligned())
            .map(Self)
            .ok_or(GicError::BadAddress)
    }

    fn registers(&self) -> UniqueMmioPointer<'_, Registers> {
        // SAFETY: the registers are mapped, and driven by one CPU.
        unsafe { UniqueMmioPointer::new(self.0) }
    }

    /// Sets a timer's control, and before it its interval, unless that is zero.
    fn control(&self, place: usize, interval: u32, control: u32) {
        let mut registers = self.registers();
        let mut timers = field!(registers, timers);
        if let Some(mut timer) = timers.get(place) {
            if interval != 0 {
                field!(timer, interval).write(interval);
            }
            field!(timer, control).write(control);
        }
    }

    /// Makes the first timer's interrupt end.
    fn clear(&self) {
        let mut registers = self.registers();
        field!(registers, status).write(1 << DUE);
    }

    /// The time in ticks since the counter began, of which it keeps 32 bits.
    fn low(&self) -> u32 {
        let registers = self.registers();
        let timers = field_shared!(registers, timers);
        let counter = timers.get(COUNTER);
        counter.map_or(0, |timer| !field_shared!(timer, current).read())
    }
}

/// How many ticks the counter may seem to go back, far fewer than lie between two reads a wrap apart.
const BACKWARD: u32 = 1 << 16;

/// The counter, and the timer that raises the hypervisor's interrupt.
#[derive(Debug)]
pub struct AllwinnerTimer {
    timers: AllwinnerTimers,
    /// What the counter's lower half was when it was read last, and its upper half.
    last: [AtomicU32; 2],
}

impl AllwinnerTimer {
    /// Starts the counter at zero.
    pub fn start(timers: AllwinnerTimers) -> Self {
        timers.control(DUE, 0, 0);
        timers.clear();
        timers.control(COUNTER, u32::MAX, START);
        let mut registers = timers.registers();
        field!(registers, enable).write(1 << DUE);
        Self {
            timers,
            last: [const { AtomicU32::new(0) }; 2],
        }
    }

    /// The counter's value.
    pub fn counter(&self) -> u64 {
        let [last, high] = &self.last;
        let (before, mut now) = (last.load(Ordering::Relaxed), self.timers.low());
        if before.wrapping_sub(now) < BACKWARD {
            // An emulator's counter may step back a little: that is no wrap.
            now = before;
        }
        if now < before {
            high.store(high.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        last.store(now, Ordering::Relaxed);
        u64::from(high.load(Ordering::Relaxed)) << 32 | u64::from(now)
    }

    /// Raises the interrupt when the counter reaches `due`, or a good minute from now if that is earlier.
    pub fn set(&self, due: Deadline) {
        self.timers.control(DUE, 0, 0);
        let stopped = self.timers.low();
        while self.timers.low().wrapping_sub(stopped) < STOPPING {}
        self.timers.clear();
        let now = self.counter();
        let ahead = due.ticks().map_or(LONGEST, |at| at.saturating_sub(now));
        let interval = ahead.clamp(1, LONGEST) as u32;
        self.timers.control(DUE, interval, START_ONCE);
    }
}
