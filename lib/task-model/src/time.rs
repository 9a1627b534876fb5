//! Durations.

use core::fmt;

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(transparent)
)]
pub struct Nanos(u64);

impl Nanos {
    /// A duration of zero.
    pub const ZERO: Self = Self(0);
    /// The longest duration that a model may hold: 2^60 ns, more than 36 years. Sums of two,
    /// and products of two in 128 bits, then cannot overflow.
    pub const MAX: Self = Self(1 << 60);

    /// A duration of `nanos` nanoseconds.
    pub const fn new(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A duration of `micros` microseconds; the largest value where that needs more than 64 bits.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A duration of `millis` milliseconds; the largest value where that needs more than 64 bits.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// The number of nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether the duration is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether the duration is a whole number of `tick`s.
    pub const fn is_whole(self, tick: Self) -> bool {
        self.0.is_multiple_of(tick.0)
    }

    /// The sum, or the largest value where the sum needs more than 64 bits.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or zero where it would be negative.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Writes the duration in the largest unit that leaves a whole number: `10ms`, `1500us`, `7ns`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        let whole = units
            .into_iter()
            .find(|(factor, _)| self.0.is_multiple_of(*factor));
        let (factor, unit) = match whole {
            Some(whole) if self.0 > 0 => whole,
            _ => (1, "ns"),
        };
        write!(f, "{}{unit}", self.0 / factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn times_are_shown_in_their_unit() {
        let shown = [
            (0, "0ns"),
            (7, "7ns"),
            (1_500_000, "1500us"),
            (10_000_000, "10ms"),
            (2_000_000_000, "2s"),
        ];
        for (nanos, text) in shown {
            assert_eq!(Nanos::new(nanos).to_string(), text);
        }
    }

    #[test]
    fn too_much_saturates() {
        assert_eq!(Nanos::from_millis(u64::MAX).get(), u64::MAX);
        assert_eq!(Nanos::from_micros(3), Nanos::new(3_000));
        assert!(Nanos::from_micros(u64::MAX) > Nanos::MAX);
        let (three, five) = (Nanos::new(3), Nanos::new(5));
        assert_eq!(five.saturating_sub(three), Nanos::new(2));
        assert_eq!(three.saturating_sub(five), Nanos::ZERO);
    }
}
