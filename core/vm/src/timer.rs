//! The EL1 physical timer, emulated (DDI 0487, D12.2).
//!
//! The guest has the virtual timer in hardware. The hypervisor uses the physical one itself, so a
//! guest gets a model of it: the same registers, a compare value for the same counter, and an
//! interrupt line with a level.

use hanok_types::Deadline;

const ENABLE: u64 = 1;
const IMASK: u64 = 1 << 1;
const ISTATUS: u64 = 1 << 2;

/// CNTP_CTL_EL0, CNTP_CVAL_EL0 and CNTP_TVAL_EL0 of one vCPU. Times are counter ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhysicalTimer {
    control: u64,
    compare: u64,
    /// The level of the line at the last [`Self::sample`].
    line: bool,
}

impl PhysicalTimer {
    /// The value of CNTP_CTL_EL0 at `now`. ISTATUS reads as zero while the timer is off.
    pub fn control(&self, now: u64) -> u64 {
        self.control | if self.condition(now) { ISTATUS } else { 0 }
    }

    /// Sets CNTP_CTL_EL0.
    pub fn set_control(&mut self, value: u64) {
        self.control = value & (ENABLE | IMASK);
    }

    /// The value of CNTP_CVAL_EL0.
    pub fn compare(&self) -> u64 {
        self.compare
    }

    /// Sets CNTP_CVAL_EL0.
    pub fn set_compare(&mut self, value: u64) {
        self.compare = value;
    }

    /// The value of CNTP_TVAL_EL0 at `now`: the low 32 bits of the time that is left, negative once
    /// it is past.
    pub fn value(&self, now: u64) -> u64 {
        self.compare.wrapping_sub(now) & 0xffff_ffff
    }

    /// Sets CNTP_TVAL_EL0: a signed 32-bit distance from `now`.
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
    #[inline]
    pub fn rests(&self) -> bool {
        self.control & (ENABLE | IMASK) != ENABLE && !self.line
    }

    /// The instant at which the line will rise, if it was low at the last [`Self::sample`] and is
    /// going to. It may be past already, since time goes on between the two.
    #[inline]
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
        let mut timer = PhysicalTimer::default();
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
        let mut timer = PhysicalTimer::default();
        timer.set_compare(10);
        timer.set_control(ENABLE | IMASK);
        assert_eq!(timer.control(10), ENABLE | IMASK | ISTATUS);
        assert!(!timer.sample(10));
        assert_eq!(timer.deadline().ticks(), None);
    }

    #[test]
    fn a_disabled_timer_has_no_status() {
        let timer = PhysicalTimer::default();
        assert_eq!(timer.control(u64::MAX), 0);
    }

    #[test]
    fn a_timer_fires_at_its_compare_value_and_not_before() {
        let mut timer = PhysicalTimer::default();
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
}
