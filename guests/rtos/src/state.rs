//! The one kernel, and other global state.
//!
//! There is one CPU. What both tasks and exceptions use is accessed only with interrupts masked,
//! through [`with`]; exceptions come with interrupts masked.

use core::cell::{Cell, UnsafeCell};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use hanok_guest_runtime::{cpu, timer};
use hanok_rtos_kernel::{Event, Kernel, Options, Ticks};

/// The number of events that are kept to be compared with the simulation.
const EVENTS: usize = 16_384;

/// A value that is set once, before interrupts are enabled, and only read afterwards.
pub struct Once<T>(UnsafeCell<Option<T>>);

// SAFETY: there is one CPU, and nobody else runs while it is set.
unsafe impl<T> Sync for Once<T> {}

impl<T> Once<T> {
    /// Not set yet.
    pub const fn new() -> Self {
        Self(UnsafeCell::new(None))
    }

    /// Sets it.
    pub fn set(&self, value: T) {
        assert!(self.get().is_none());
        // SAFETY: no reference to it was given out, as it was not set; and see above.
        unsafe { *self.0.get() = Some(value) };
    }

    /// What was set.
    pub fn get(&self) -> Option<&T> {
        // SAFETY: it does not change any more once it is set.
        unsafe { (*self.0.get()).as_ref() }
    }
}

struct Shared<T>(UnsafeCell<T>);

// SAFETY: there is one CPU, and `with` masks interrupts.
unsafe impl<T> Sync for Shared<T> {}

struct Schedule {
    start: Ticks,
    end: Ticks,
    options: Options,
}

static KERNEL: Shared<Option<Kernel<'static>>> = Shared(UnsafeCell::new(None));
static EVENTS_KEPT: Shared<[Event; EVENTS]> = Shared(UnsafeCell::new([Event::NONE; EVENTS]));
static EVENTS_TAKEN: AtomicBool = AtomicBool::new(false);
static SCHEDULE: Once<Schedule> = Once::new();
static IN_USE: Flag = Flag(Cell::new(false));
static RAN_FROM: AtomicU64 = AtomicU64::new(0);

struct Flag(Cell<bool>);

// SAFETY: as for `Shared`.
unsafe impl Sync for Flag {}

/// The storage for the kernel's events; given out once.
pub fn trace_storage() -> &'static mut [Event] {
    if EVENTS_TAKEN.load(Relaxed) {
        return &mut [];
    }
    EVENTS_TAKEN.store(true, Relaxed);
    // SAFETY: given out once, as the flag says.
    unsafe { &mut *EVENTS_KEPT.0.get() }
}

/// Makes this the kernel.
pub fn install(kernel: Kernel<'static>) {
    // SAFETY: there is one CPU, interrupts are still masked, and nobody has a reference.
    unsafe { *KERNEL.0.get() = Some(kernel) };
}

/// Notes that the schedule begins at this value of the counter.
pub fn begin(start: Ticks, options: Options) {
    let length = match options.millis {
        0 => Ticks::MAX,
        millis => millis.saturating_mul(timer::frequency()) / 1000,
    };
    crate::debug::begin(start);
    SCHEDULE.set(Schedule {
        start,
        end: length,
        options,
    });
}

/// The time since the schedule's start.
pub fn now() -> Ticks {
    timer::now().saturating_sub(start())
}

/// The counter at the schedule's start.
pub fn start() -> Ticks {
    SCHEDULE.get().map_or(Ticks::MAX, |schedule| schedule.start)
}

/// The time of the schedule's end, from its start.
pub fn end() -> Ticks {
    SCHEDULE.get().map_or(Ticks::MAX, |schedule| schedule.end)
}

/// The options, once the schedule has begun.
pub fn options() -> Option<&'static Options> {
    SCHEDULE.get().map(|schedule| &schedule.options)
}

/// Calls `f` with the kernel; must not be called from within `f`. `None` before there is a kernel.
pub fn with<T>(f: impl FnOnce(&mut Kernel<'static>) -> T) -> Option<T> {
    let before = cpu::save_and_mask();
    assert!(!IN_USE.0.replace(true), "the kernel is in use");
    // SAFETY: interrupts are masked, and the flag says that nobody else has a reference.
    let kernel = unsafe { (*KERNEL.0.get()).as_mut() };
    let result = kernel.map(f);
    IN_USE.0.set(false);
    cpu::restore(before);
    result
}

/// Notes the value of the counter at which the running task would have got the CPU if it had never
/// lost it.
pub fn set_ran_from(value: Ticks) {
    RAN_FROM.store(value, Relaxed);
}

/// The part of its budget that the running job used.
pub fn used() -> Ticks {
    loop {
        let from = RAN_FROM.load(Relaxed);
        let now = timer::now();
        // Otherwise the job was preempted in between, and `now` says nothing.
        if RAN_FROM.load(Relaxed) == from {
            return now.wrapping_sub(from);
        }
    }
}
