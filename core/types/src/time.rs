//! Points in time.

/// The instant at which something is due, in ticks of the system counter; it may be never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(u64);

impl Deadline {
    /// Never. It is also the counter's last value, which the counter takes centuries to reach.
    pub const NEVER: Self = Self(u64::MAX);

    /// The instant at which the counter has the value `ticks`.
    pub const fn at(ticks: u64) -> Self {
        Self(ticks)
    }

    /// The earlier of the two deadlines.
    #[inline(always)]
    pub fn or(self, other: Self) -> Self {
        self.min(other)
    }

    /// This deadline if `condition` is true; else never.
    #[inline(always)]
    pub const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NEVER }
    }

    /// Whether the deadline has come when the counter has the value `now`.
    #[inline(always)]
    pub const fn has_come(self, now: u64) -> bool {
        now >= self.0
    }

    /// The counter's value at the deadline; `None` for never.
    pub const fn ticks(self) -> Option<u64> {
        if self.0 == u64::MAX {
            None
        } else {
            Some(self.0)
        }
    }
}

impl From<Option<u64>> for Deadline {
    fn from(ticks: Option<u64>) -> Self {
        ticks.map_or(Self::NEVER, Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_one_counts_and_never_is_last() {
        let (soon, late) = (Deadline::at(5), Deadline::at(9));
        assert_eq!(late.or(soon).or(Deadline::NEVER), soon);
        assert_eq!(soon.when(false), Deadline::NEVER);
        assert_eq!(Deadline::from(None).ticks(), None);
        assert_eq!(Deadline::from(Some(5)).ticks(), Some(5));
        assert!(soon.has_come(5) && !soon.has_come(4));
        assert!(!Deadline::NEVER.has_come(u64::MAX - 1));
    }
}
