//! The timers of EL1 that are emulated (DDI 0487, D12.2; DDI 0406C, B8.1).
//!
//! The hypervisor uses a CPU's physical timer itself, so a guest gets a model of it: the same registers, a
//! compare value for the same counter, and an interrupt line with a level. The guest has the virtual
//! timer in hardware, where there is one for guests; elsewhere it gets another such model. As the virtual
//! offset is zero, both compare with the same count.
//!
//! Most vCPUs use no emulated timer, and exits ask for their deadline all the time. So what both timers are
//! asked for together is computed when one of them changes. Rejected: the second timer for some backends
//! alone, by a type parameter of everything that has a vCPU.

use hanok_types::{Deadline, IntId, platform};

const ENABLE: u64 = 1;
const IMASK: u64 = 1 << 1;
const ISTATUS: u64 = 1 << 2;

/// One of a vCPU's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestTimer {
    /// The EL1 physical timer, CNTP.
    Physical,
    /// The EL1 virtual timer, CNTV. It is emulated only where the guest has none in hardware.
    Virtual,
}

impl GuestTimer {
    /// Its interrupt.
    pub const fn interrupt(self) -> IntId {
        match self {
            Self::Physical => platform::TIMER_PHYSICAL_IRQ,
            Self::Virtual => platform::TIMER_VIRTUAL_IRQ,
        }
    }
}

/// A register of the generic timer, for [`Guest::read_timer`](crate::Guest::read_timer) and
/// [`Guest::write_timer`](crate::Guest::write_timer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerRegister {
    /// CNTFRQ, which is read-only.
    Frequency,
    /// CNTPCT and CNTVCT, which are alike, and read-only.
    Count,
    /// CNTP_CTL and CNTV_CTL.
    Control(GuestTimer),
    /// CNTP_CVAL and CNTV_CVAL.
    CompareValue(GuestTimer),
    /// CNTP_TVAL and CNTV_TVAL.
    TimerValue(GuestTimer),
}

/// The emulated timers of one vCPU.
#[derive(Clone, Copy, Debug)]
pub struct EmulatedTimers {
    /// The instant at which the first line will rise.
    deadline: Deadline,
    /// Whether all lines are low and stay low.
    rest: bool,
    each: [EmulatedTimer; 2],
}

impl EmulatedTimers {
    /// Timers after a reset: both are off.
    pub(crate) const fn new() -> Self {
        Self {
            deadline: Deadline::NEVER,
            rest: true,
            each: [EmulatedTimer::new(); 2],
        }
    }

    /// One of the timers.
    pub const fn of(&self, timer: GuestTimer) -> &EmulatedTimer {
        &self.each[timer as usize]
    }

    /// One of the timers, to be changed; [`Self::sample`] follows.
    pub(crate) const fn of_mut(&mut self, timer: GuestTimer) -> &mut EmulatedTimer {
        &mut self.each[timer as usize]
    }

    /// The level of a timer's line at `now`, which the caller passes to the interrupt controller.
    pub(crate) fn sample(&mut self, timer: GuestTimer, now: u64) -> bool {
        let level = self.of_mut(timer).sample(now);
        let [physical, virt] = &self.each;
        self.deadline = physical.deadline().or(virt.deadline());
        self.rest = physical.rests() && virt.rests();
        level
    }

    /// Whether all lines were low when last sampled, and will stay low.
    #[inline(always)]
    pub const fn rest(&self) -> bool {
        self.rest
    }

    /// The instant at which the first line will rise, as [`EmulatedTimer::deadline`].
    #[inline(always)]
    pub const fn deadline(&self) -> Deadline {
        self.deadline
    }
}

/// CNTP_CTL, CNTP_CVAL and CNTP_TVAL of one vCPU, or the same of CNTV. Times are counter ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmulatedTimer {
    control: u64,
    compare: u64,
    /// The level of the line at the last [`Self::sample`].
    line: bool,
}

impl EmulatedTimer {
    /// A timer that is off.
    const fn new() -> Self {
        Self {
            control: 0,
            compare: 0,
            line: false,
        }
    }

    /// The value of CNTP_CTL at `now`. ISTATUS reads as zero while the timer is off.
    pub fn control(&self, now: u64) -> u64 {
        self.control | if self.condition(now) { ISTATUS } else { 0 }
    }

    /// Sets CNTP_CTL.
    pub fn set_control(&mut self, value: u64) {
        self.control = value & (ENABLE | IMASK);
    }

    /// The value of CNTP_CVAL.
    pub fn compare(&self) -> u64 {
        self.compare
    }

    /// Sets CNTP_CVAL.
    pub fn set_compare(&mut self, value: u64) {
        self.compare = value;
    }

    /// The value of CNTP_TVAL at `now`: the low 32 bits of the time that is left, negative once
    /// it is past.
    pub fn value(&self, now: u64) -> u64 {
        self.compare.wrapping_sub(now) & 0xffff_ffff
    }

    /// Sets CNTP_TVAL: a signed 32-bit distance from `now`.
    pub fn set_value(&mut self, now: u64, value: u64) {
        self.compare = now.wrapping_add(i64::from(value as u32 as i32) as u64);
    }

    fn condition(&self, now: u64) -> bool {
        self.control & ENABLE != 0 && now >= self.compare
    }

    /// The level of the interrupt line at `now`.
    pub fn interrupt(&self, now: u64) -> bool {
        self.condition(now) && self.control & IMASK == 0
    }

    /// The level of the interrupt line at `now`, which the caller passes to the interrupt
    /// controller.
    pub fn sample(&mut self, now: u64) -> bool {
        self.line = self.interrupt(now);
        self.line
    }

    /// Whether the line was low at the last [`Self::sample`] and will stay low.
    pub fn rests(&self) -> bool {
        self.control & (ENABLE | IMASK) != ENABLE && !self.line
    }

    /// The instant at which the line will rise, if it was low at the last [`Self::sample`] and is
    /// going to. It may be past already, since time goes on between the two.
    pub fn deadline(&self) -> Deadline {
        let armed = self.control & (ENABLE | IMASK) == ENABLE;
        Deadline::at(self.compare).when(armed && !self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_value_is_in_the_past() {
        let mut timer = EmulatedTimer::new();
        timer.set_control(ENABLE);
        timer.set_value(1000, 0xffff_ffff);
        assert_eq!(timer.compare(), 999);
        assert!(timer.sample(1000));
        assert_eq!(timer.deadline().ticks(), None);
        timer.set_control(0);
        assert!(!timer.rests(), "its line is to fall yet");
        timer.sample(1000);
        assert!(timer.rests());
    }

    #[test]
    fn a_masked_timer_still_shows_its_status() {
        let mut timer = EmulatedTimer::new();
        timer.set_compare(10);
        timer.set_control(ENABLE | IMASK);
        assert_eq!(timer.control(10), ENABLE | IMASK | ISTATUS);
        assert!(!timer.sample(10));
        assert_eq!(timer.deadline().ticks(), None);
    }

    #[test]
    fn a_disabled_timer_has_no_status() {
        let timer = EmulatedTimer::new();
        assert_eq!(timer.control(u64::MAX), 0);
    }

    #[test]
    fn a_timer_fires_at_its_compare_value_and_not_before() {
        let mut timer = EmulatedTimer::new();
        timer.set_control(ENABLE);
        timer.set_value(100, 50);
        assert_eq!(
            (timer.value(120), timer.deadline().ticks()),
            (30, Some(150))
        );
        assert!(!timer.sample(149));
        // A caller that sets a timer by this a little later must still get the past instant.
        assert_eq!(timer.deadline().ticks(), Some(150));
        assert!(timer.sample(150));
        assert_eq!(timer.deadline().ticks(), None);
    }

    #[test]
    fn the_first_of_both_timers_counts() {
        use GuestTimer::{Physical, Virtual};
        let change =
            |timers: &mut EmulatedTimers, timer, now, change: &dyn Fn(&mut EmulatedTimer)| {
                change(timers.of_mut(timer));
                timers.sample(timer, now)
            };
        let mut timers = EmulatedTimers::new();
        assert!(timers.rest() && timers.deadline() == Deadline::NEVER);
        for (timer, at) in [(Virtual, 200), (Physical, 300)] {
            let set = |timer: &mut EmulatedTimer| {
                timer.set_control(ENABLE);
                timer.set_compare(at);
            };
            assert!(!change(&mut timers, timer, 100, &set));
        }
        assert!(!timers.rest() && timers.deadline() == Deadline::at(200));
        assert!(change(&mut timers, Virtual, 200, &|_| ()));
        assert_eq!(timers.deadline(), Deadline::at(300));
        assert!(!change(&mut timers, Physical, 200, &|timer| timer.set_control(0)));
        assert!(!timers.rest(), "the other's line is high");
        assert!(!change(&mut timers, Virtual, 200, &|timer| timer.set_control(0)));
        assert!(timers.rest() && timers.deadline() == Deadline::NEVER);
    }
}
