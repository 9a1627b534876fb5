//! The cost of a vCPU's exits: their number by cause, and the number of instructions that the
//! hypervisor executed for each cause.
//!
//! Only the pCPU that runs the vCPU counts; every pCPU may read. So there is one writer at a time,
//! and counting is a plain load and store of an atomic, without a read-modify-write.

#[cfg(any(test, target_pointer_width = "64"))]
use hanok_hal::sync::atomic::AtomicU64;
use hanok_hal::sync::atomic::Ordering;
#[cfg(any(test, not(target_pointer_width = "64")))]
use hanok_hal::sync::atomic::{AtomicU32, fence};

/// The reason for which the hypervisor ran on behalf of a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// HVC.
    Hypercall,
    /// SMC.
    MonitorCall,
    /// WFI.
    Wait,
    /// A load or store that stage 2 did not translate.
    Device,
    /// An instruction fetch from an address where there is no memory.
    Fetch,
    /// A trapped system register.
    SystemRegister,
    /// The first use of FP registers.
    Fp,
    /// An instruction that the VM does not have.
    Denied,
    /// The virtual timer's interrupt.
    Timer,
    /// Any other physical interrupt.
    Interrupt,
    /// An SError.
    SystemError,
    /// An exit that cannot come with the configured traps.
    Unexpected,
}

impl Cause {
    /// The number of causes.
    pub const COUNT: usize = 12;

    /// All causes, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Hypercall,
        Self::MonitorCall,
        Self::Wait,
        Self::Device,
        Self::Fetch,
        Self::SystemRegister,
        Self::Fp,
        Self::Denied,
        Self::Timer,
        Self::Interrupt,
        Self::SystemError,
        Self::Unexpected,
    ];

    /// The cause's word, for people.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Hypercall => "hypercall",
            Self::MonitorCall => "smc",
            Self::Wait => "wait",
            Self::Device => "device",
            Self::Fetch => "fetch",
            Self::SystemRegister => "register",
            Self::Fp => "fp",
            Self::Denied => "undefined",
            Self::Timer => "timer",
            Self::Interrupt => "interrupt",
            Self::SystemError => "serror",
            Self::Unexpected => "unexpected",
        }
    }
}

/// The counts of one vCPU since its VM was created.
#[derive(Debug, Default)]
pub struct Counters {
    exits: [Count; Cause::COUNT],
    instructions: [Count; Cause::COUNT],
}

impl Counters {
    /// Counts an exit. To be called only on the vCPU's own pCPU.
    #[inline(always)]
    pub fn count(&self, cause: Cause) {
        self.exits[cause as usize].add(1);
    }

    /// Adds `instructions` that the hypervisor executed for an exit. To be called only on the
    /// vCPU's own pCPU.
    #[inline(always)]
    pub fn charge(&self, cause: Cause, instructions: u64) {
        self.instructions[cause as usize].add(instructions);
    }

    /// The number of exits for `cause`.
    pub fn exits(&self, cause: Cause) -> u64 {
        self.exits[cause as usize].get()
    }

    /// The number of instructions for `cause`; zero if the CPU does not count them.
    pub fn instructions(&self, cause: Cause) -> u64 {
        self.instructions[cause as usize].get()
    }
}

/// A count that one pCPU adds to, and all read.
#[cfg(target_pointer_width = "64")]
pub(crate) type Count = Whole;
#[cfg(not(target_pointer_width = "64"))]
pub(crate) type Count = Halves;

/// The count for CPUs that load and store 64 bits at once.
#[cfg(any(test, target_pointer_width = "64"))]
#[derive(Debug, Default)]
pub(crate) struct Whole(AtomicU64);

#[cfg(any(test, target_pointer_width = "64"))]
impl Whole {
    pub(crate) const fn zero() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline(always)]
    pub(crate) fn add(&self, more: u64) {
        let value = self.0.load(Ordering::Relaxed).wrapping_add(more);
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The count for CPUs on which an atomic access to 64 bits is a loop of exclusive accesses, which
/// would double the cost of counting an exit. The upper half changes once in 2^32 additions. While
/// it changes, it is odd, so that a reader knows that it must read again.
#[cfg(any(test, not(target_pointer_width = "64")))]
#[derive(Debug, Default)]
pub(crate) struct Halves {
    low: AtomicU32,
    /// Twice the upper half of the count, plus one while both halves change.
    high: AtomicU32,
}

#[cfg(any(test, not(target_pointer_width = "64")))]
impl Halves {
    #[cfg_attr(target_pointer_width = "64", expect(dead_code))]
    pub(crate) const fn zero() -> Self {
        Self {
            low: AtomicU32::new(0),
            high: AtomicU32::new(0),
        }
    }

    #[inline(always)]
    pub(crate) fn add(&self, more: u64) {
        let low = self.low.load(Ordering::Relaxed);
        let (sum, carry) = low.overflowing_add(more as u32);
        if carry || more >> 32 != 0 {
            self.add_to_both(sum, (more >> 32) as u32 + u32::from(carry));
        } else {
            self.low.store(sum, Ordering::Relaxed);
        }
    }

    #[cold]
    fn add_to_both(&self, low: u32, high: u32) {
        let old = self.begin();
        self.low.store(low, Ordering::Relaxed);
        let new = old.wrapping_add(high.wrapping_mul(2));
        self.high.store(new, Ordering::Release);
    }

    /// Begins a change of both halves, and answers the former upper one. Until the caller has
    /// stored the new upper one, no reader gets a count.
    #[inline(always)]
    fn begin(&self) -> u32 {
        let old = self.high.load(Ordering::Relaxed);
        self.high.store(old | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        old
    }

    pub(crate) fn get(&self) -> u64 {
        loop {
            if let Some(count) = self.look() {
                return count;
            }
            core::hint::spin_loop();
        }
    }

    /// The count; `None` while both halves change.
    #[inline(always)]
    fn look(&self) -> Option<u64> {
        let high = self.high.load(Ordering::Acquire);
        let low = self.low.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let whole = high & 1 == 0 && self.high.load(Ordering::Relaxed) == high;
        whole.then_some(u64::from(high / 2) << 32 | u64::from(low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_in_halves_is_a_count() {
        let (whole, halves) = (Whole::default(), Halves::default());
        for more in [
            0,
            1,
            u64::from(u32::MAX),
            1,
            1 << 32,
            3 << 32 | 7,
            0xffff_fff8,
            1 << 62,
        ] {
            whole.add(more);
            halves.add(more);
            assert_eq!(whole.get(), halves.get(), "{more:#x}");
        }
    }

    #[test]
    fn a_reader_of_a_count_in_halves_never_sees_it_shrink() {
        const STEP: u64 = 0x7fff_ffff;
        const STEPS: u64 = 200_000;
        let halves = Halves::default();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..STEPS).for_each(|_| halves.add(STEP)));
            let mut last = 0;
            while last < STEP * STEPS {
                let now = halves.get();
                assert!(
                    now >= last && now.is_multiple_of(STEP),
                    "{now:#x} after {last:#x}"
                );
                last = now;
            }
        });
    }

    #[test]
    fn no_reader_gets_a_count_while_both_halves_change() {
        let halves = Halves::default();
        for count in [0, 7 << 32 | 5] {
            halves.add(count);
            assert_eq!(halves.look(), Some(count));
            let old = halves.begin();
            assert_eq!(halves.look(), None);
            halves.high.store(old, Ordering::Release);
            assert_eq!(halves.look(), Some(count));
        }
    }

    #[test]
    fn each_cause_has_its_place() {
        let counters = Counters::default();
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, index);
            (0..=index).for_each(|_| counters.count(cause));
            counters.charge(cause, 100 * index as u64);
        }
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(counters.exits(cause), index as u64 + 1, "{}", cause.word());
            assert_eq!(counters.instructions(cause), 100 * index as u64);
        }
    }
}
