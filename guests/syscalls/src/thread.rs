//! Threads and how Linux schedules them.

use crate::error::{Errno, Result};
use crate::raw;

/// The largest number of CPUs that is known of.
pub const CPUS: usize = 1024;
const WORD: usize = usize::BITS as usize;

/// A set of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus([usize; CPUS / WORD]);

impl Cpus {
    /// None.
    pub const NONE: Self = Self([0; CPUS / WORD]);

    /// One of them.
    pub fn one(cpu: usize) -> Self {
        let mut all = Self::NONE;
        if let Some(word) = all.0.get_mut(cpu / WORD) {
            *word |= 1 << (cpu % WORD);
        }
        all
    }

    /// The first ones.
    pub fn first(count: usize) -> Self {
        let mut all = Self::NONE;
        for (number, word) in all.0.iter_mut().enumerate() {
            let left = count.saturating_sub(number * WORD);
            *word = if left >= WORD {
                usize::MAX
            } else {
                (1 << left) - 1
            };
        }
        all
    }

    /// Whether it is among them.
    pub fn has(&self, cpu: usize) -> bool {
        let word = self.0.get(cpu / WORD).copied().unwrap_or(0);
        word >> (cpu % WORD) & 1 != 0
    }

    /// All of them, from the first on.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..CPUS).filter(|cpu| self.has(*cpu))
    }
}

/// How a thread is scheduled (struct sched_attr, its first version).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// With deadlines: the CPU time in each period, in nanoseconds.
    pub runtime: u64,
    /// The time from a period's start by which it is given.
    pub deadline: u64,
    /// The period.
    pub period: u64,
}

impl Attributes {
    const DEADLINE: u32 = 6;
    /// SCHED_FLAG_RESET_ON_FORK: what the thread starts is scheduled as usual. Without it, it could start nothing.
    const RESET_ON_FORK: u64 = 1;

    /// As every thread is at first.
    pub const fn usual() -> Self {
        Self::of(0)
    }

    /// As every thread is at first, and so is what it starts, whatever becomes of itself.
    pub const fn resetting() -> Self {
        Self {
            flags: Self::RESET_ON_FORK,
            ..Self::usual()
        }
    }

    /// By its deadlines (SCHED_DEADLINE): `runtime` within `deadline` of the start of each `period`.
    pub const fn deadline(runtime: u64, deadline: u64, period: u64) -> Self {
        Self {
            flags: Self::RESET_ON_FORK,
            runtime,
            deadline,
            period,
            ..Self::of(Self::DEADLINE)
        }
    }

    const fn of(policy: u32) -> Self {
        Self {
            size: size_of::<Self>() as u32,
            policy,
            flags: 0,
            nice: 0,
            priority: 0,
            runtime: 0,
            deadline: 0,
            period: 0,
        }
    }

    /// Whether it is by deadlines.
    pub const fn is_deadline(&self) -> bool {
        self.policy == Self::DEADLINE
    }
}

/// The number of the calling thread.
pub fn own() -> i32 {
    // SAFETY: it reads and writes nothing.
    unsafe { raw::call(raw::GETTID, [0; 6]) as i32 }
}

/// The CPU that the calling thread is on at this moment.
pub fn cpu() -> Result<usize> {
    let mut cpu = 0_u32;
    // SAFETY: it writes the number.
    unsafe { raw::checked(raw::GETCPU, [&raw mut cpu as usize, 0, 0, 0, 0, 0]) }?;
    Ok(cpu as usize)
}

/// The CPUs that a thread may be on (0: the calling one).
pub fn affinity(thread: i32) -> Result<Cpus> {
    let mut cpus = Cpus::NONE;
    let place = cpus.0.as_mut_ptr() as usize;
    let arguments = [thread as usize, size_of::<Cpus>(), place, 0, 0, 0];
    // SAFETY: it writes no more than the set.
    unsafe { raw::checked(raw::GETAFFINITY, arguments) }?;
    Ok(cpus)
}

/// Keeps a thread on these CPUs (0: the calling one). It is on one of them when the call returns.
pub fn set_affinity(thread: i32, cpus: &Cpus) -> Result<()> {
    let place = cpus.0.as_ptr() as usize;
    let arguments = [thread as usize, size_of::<Cpus>(), place, 0, 0, 0];
    // SAFETY: it reads the set.
    unsafe { raw::checked(raw::SETAFFINITY, arguments) }.map(|_| ())
}

/// How a thread is scheduled (0: the calling one).
pub fn attributes(thread: i32) -> Result<Attributes> {
    let mut found = Attributes::default();
    let place = &raw mut found as usize;
    let arguments = [thread as usize, place, size_of::<Attributes>(), 0, 0, 0];
    // SAFETY: it writes no more than the attributes.
    unsafe { raw::checked(raw::GETATTR, arguments) }?;
    Ok(found)
}

/// Says how a thread is scheduled (0: the calling one).
pub fn set_attributes(thread: i32, wanted: &Attributes) -> Result<()> {
    let place = &raw const *wanted as usize;
    // SAFETY: it reads the attributes, which say how long they are.
    unsafe { raw::checked(raw::SETATTR, [thread as usize, place, 0, 0, 0, 0]) }.map(|_| ())
}

/// Gives the CPU up. A thread that is scheduled by its deadlines waits for its next period.
pub fn give_up() {
    // SAFETY: it reads and writes nothing.
    unsafe { raw::call(raw::YIELD, [0; 6]) };
}

/// Whether a process or thread is there.
pub fn is_there(thread: i32) -> bool {
    // SAFETY: signal 0 is none.
    let answer = unsafe { raw::checked(raw::KILL, [thread as usize, 0, 0, 0, 0, 0]) };
    !matches!(answer, Err(Errno::SRCH))
}
