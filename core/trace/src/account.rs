//! Who had the CPU: totals of each vCPU and each pCPU, and the latest turns.
//!
//! As with [`Counters`](crate::Counters), one pCPU writes and all may read, so that whoever looks
//! (the prompt, a program at the other end of the line, the guest itself) needs no answer of the
//! pCPU that it looks at.

use crate::counters::Count;
use hanok_hal::sync::atomic::{AtomicU32, Ordering, fence};

/// Whether a vCPU has work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It waits, is paused, or is off.
    Waits,
    /// It has work.
    Ready,
}

/// What one vCPU had since its VM was created. Times are in ticks of the board's counter.
#[derive(Debug, Default)]
pub struct Account {
    used: Count,
    extra: Count,
    stolen: Count,
    /// In the lower 32 bits, as all that counts events.
    switches: AtomicU32,
    throttled: AtomicU32,
    late: AtomicU32,
    ready: AtomicU32,
}

impl Account {
    /// The vCPU ran for so long; `extra` says that it was beyond its budget. To be called, as all that
    /// write, only on the vCPU's own pCPU.
    #[inline]
    pub fn ran(&self, ticks: u64, extra: bool) {
        self.used.add(ticks);
        if extra {
            self.extra.add(ticks);
        }
    }

    /// The vCPU comes into the pCPU after it had work for so long and did not run.
    #[inline]
    pub fn comes(&self, stolen: u64) {
        self.stolen.add(stolen);
        let switches = self.switches.load(Ordering::Relaxed);
        self.switches
            .store(switches.wrapping_add(1), Ordering::Relaxed);
    }

    /// The vCPU has work, or has none any more.
    #[inline]
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready.into(), Ordering::Relaxed);
    }

    /// How often the vCPU's budget ran out while it had work, and how often a promise was not kept.
    #[inline]
    pub fn set_served(&self, throttled: u32, late: u32) {
        self.throttled.store(throttled, Ordering::Relaxed);
        self.late.store(late, Ordering::Relaxed);
    }

    /// The time that it ran, until its last turn ended.
    pub fn used(&self) -> u64 {
        self.used.get()
    }

    /// How much of [`Self::used`] was beyond its budgets.
    pub fn extra(&self) -> u64 {
        self.extra.get()
    }

    /// The time for which it had work and did not run, until it ran last.
    pub fn stolen(&self) -> u64 {
        self.stolen.get()
    }

    /// How often it came into the pCPU, modulo 2^32.
    pub fn switches(&self) -> u32 {
        self.switches.load(Ordering::Relaxed)
    }

    /// Whether it ever came into the pCPU. The number of times wraps around, the time does not.
    pub fn has_run(&self) -> bool {
        self.switches() != 0 || self.used() != 0
    }

    /// How often its budget ran out while it had work.
    pub fn throttled(&self) -> u32 {
        self.throttled.load(Ordering::Relaxed)
    }

    /// How often its budget was not given by its deadline.
    pub fn late(&self) -> u32 {
        self.late.load(Ordering::Relaxed)
    }

    /// Whether it has work.
    pub fn readiness(&self) -> Readiness {
        match self.ready.load(Ordering::Relaxed) {
            0 => Readiness::Waits,
            _ => Readiness::Ready,
        }
    }
}

/// The number of turns that are kept of each pCPU: a power of two.
pub const KEPT_TURNS: usize = 256;

/// A pCPU's turn: from an instant on, until the next turn, somebody ran or nobody did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its beginning, in ticks of the board's counter.
    pub since: u64,
    /// The end; `None` for the turn that goes on.
    pub until: Option<u64>,
    /// Who ran, as [`CpuAccount::turn`] was told.
    pub who: Option<u16>,
}

#[derive(Debug)]
struct Kept {
    since: Instant,
    who: AtomicU32,
}

/// An instant. On CPUs where an atomic store of 64 bits is a loop it is two stores: a reader that finds the turn's
/// number unchanged afterwards has both halves of one.
#[derive(Debug)]
struct Instant {
    low: AtomicU32,
    high: AtomicU32,
}

impl Instant {
    const fn zero() -> Self {
        Self {
            low: AtomicU32::new(0),
            high: AtomicU32::new(0),
        }
    }

    #[inline(always)]
    fn set(&self, at: u64) {
        self.low.store(at as u32, Ordering::Relaxed);
        self.high.store((at >> 32) as u32, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        let high = u64::from(self.high.load(Ordering::Relaxed));
        high << 32 | u64::from(self.low.load(Ordering::Relaxed))
    }
}

/// What one pCPU did.
#[derive(Debug)]
pub struct CpuAccount {
    idle: Count,
    /// The number of turns in which nobody ran, in the lower 32 bits.
    rests: AtomicU32,
    switch_ticks: Count,
    turns: [Kept; KEPT_TURNS],
    /// The number of turns that have begun.
    begun: AtomicU32,
}

/// What [`Kept::who`] is where nobody runs; else one more than who does.
const NOBODY: u32 = 0;

impl CpuAccount {
    /// A pCPU that has done nothing.
    pub const fn new() -> Self {
        Self {
            idle: Count::zero(),
            rests: AtomicU32::new(0),
            switch_ticks: Count::zero(),
            turns: [const {
                Kept {
                    since: Instant::zero(),
                    who: AtomicU32::new(0),
                }
            }; KEPT_TURNS],
            begun: AtomicU32::new(0),
        }
    }

    /// From `since` on, `who` runs. To be called, as all that write, only on this pCPU.
    #[inline]
    pub fn turn(&self, since: u64, who: Option<u16>) {
        let begun = self.begun.load(Ordering::Relaxed);
        let slot = &self.turns[begun as usize % KEPT_TURNS];
        slot.since.set(since);
        let who = who.map_or(NOBODY, |who| u32::from(who) + 1);
        slot.who.store(who, Ordering::Relaxed);
        self.begun.store(begun.wrapping_add(1), Ordering::Release);
        if who == NOBODY {
            let rests = self.rests.load(Ordering::Relaxed);
            self.rests.store(rests.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Nobody ran for so long.
    #[inline]
    pub fn rested(&self, ticks: u64) {
        self.idle.add(ticks);
    }

    /// Whoever had the turn slept for so long in it: nobody ran, and it counts as beginning later.
    #[inline]
    pub fn slept(&self, ticks: u64) {
        self.rested(ticks);
        let turn = self.begun.load(Ordering::Relaxed).wrapping_sub(1);
        let slot = &self.turns[turn as usize % KEPT_TURNS];
        slot.since.set(slot.since.get().wrapping_add(ticks));
    }

    /// A switch took so long.
    #[inline]
    pub fn switched(&self, ticks: u64) {
        self.switch_ticks.add(ticks);
    }

    /// The time for which nobody ran, until somebody ran last.
    pub fn idle(&self) -> u64 {
        self.idle.get()
    }

    /// The number of turns of vCPUs, modulo 2^32.
    pub fn switches(&self) -> u32 {
        let rests = self.rests.load(Ordering::Relaxed);
        self.begun().wrapping_sub(rests)
    }

    /// The time that switches took where budgets are enforced, and nobody was charged for it.
    pub fn switch_ticks(&self) -> u64 {
        self.switch_ticks.get()
    }

    /// The number of turns that have begun, modulo 2^32.
    pub fn begun(&self) -> u32 {
        self.begun.load(Ordering::Acquire)
    }

    /// The turn with this number, counted as [`Self::begun`] does; `None` if it is not kept any more, or has
    /// not begun.
    pub fn kept(&self, number: u32) -> Option<Turn> {
        let before = self.begun().wrapping_sub(number);
        let at = |number: u32| &self.turns[number as usize % KEPT_TURNS];
        let (since, who) = (
            at(number).since.get(),
            at(number).who.load(Ordering::Relaxed),
        );
        let next = at(number.wrapping_add(1)).since.get();
        // All was read before it is looked whether it was written over meanwhile.
        fence(Ordering::Acquire);
        let after = self.begun().wrapping_sub(number);
        if before == 0 || after >= KEPT_TURNS as u32 {
            return None;
        }
        Some(Turn {
            since,
            until: (before > 1).then_some(next),
            who: who.checked_sub(1).map(|who| who as u16),
        })
    }
}

impl Default for CpuAccount {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_kept_until_they_are_written_over() {
        let cpu = CpuAccount::new();
        assert_eq!((cpu.begun(), cpu.kept(0)), (0, None));
        for number in 0..264_u16 {
            let who = (!number.is_multiple_of(3)).then_some(number);
            cpu.turn(u64::from(number) * 10, who);
        }
        assert_eq!((cpu.begun(), cpu.switches()), (264, 176));
        let turn = |number: u16, until| Turn {
            since: u64::from(number) * 10,
            until,
            who: (!number.is_multiple_of(3)).then_some(number),
        };
        assert_eq!(cpu.kept(263), Some(turn(263, None)));
        for number in 9..263 {
            let until = Some(u64::from(number + 1) * 10);
            assert_eq!(cpu.kept(number.into()), Some(turn(number, until)));
        }
        assert_eq!(
            (cpu.kept(8), cpu.kept(264), cpu.kept(7)),
            (None, None, None)
        );
    }

    #[test]
    fn an_account_adds_up() {
        let account = Account::default();
        account.ran(5, false);
        account.ran(7, true);
        account.comes(3);
        account.set_served(2, 1);
        assert_eq!((account.used(), account.extra()), (12, 7));
        assert_eq!((account.stolen(), account.switches()), (3, 1));
        assert_eq!((account.throttled(), account.late()), (2, 1));
        assert_eq!(account.readiness(), Readiness::Waits);
        account.set_ready(true);
        assert_eq!(account.readiness(), Readiness::Ready);
    }
}
