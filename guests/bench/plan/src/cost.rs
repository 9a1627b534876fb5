//! Computes from readings of a counter what one round of a stretch costs.
//!
//! With `-icount shift=0` an instruction takes one nanosecond, but the counter may tick only once
//! in 16 of them. So a stretch has many rounds, and the same stretch without what is measured is
//! subtracted. Of several samples the least counts: anything else that happens on the machine, such
//! as a host's tick, makes a sample longer. The tick's size leaves an error of two ticks in a
//! stretch, so that a tenth of an instruction is the last meaningful digit.

use core::fmt;

/// The least of several samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Least(Option<u64>);

impl Least {
    /// No samples.
    pub const NONE: Self = Self(None);

    /// Adds a sample, in ticks.
    pub fn add(&mut self, ticks: u64) {
        self.0 = Some(self.0.map_or(ticks, |least| least.min(ticks)));
    }

    /// The least sample in ticks; `None` where there is none.
    pub fn get(self) -> Option<u64> {
        self.0
    }
}

impl FromIterator<u64> for Least {
    fn from_iter<I: IntoIterator<Item = u64>>(samples: I) -> Self {
        Self(samples.into_iter().min())
    }
}

const NANOSECONDS: u128 = 1_000_000_000;

/// The cost of one round in nanoseconds, to a tenth. Where an instruction takes one nanosecond,
/// these are instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    tenths: u64,
}

impl Cost {
    /// The cost of `rounds` rounds that took `with` ticks of `frequency` Hz, and `without` ticks
    /// without what is measured. `None` where that is no measurement: no rounds, no frequency, less
    /// time with than without, or a result that is too large.
    pub fn of(with: Least, without: Least, rounds: u64, frequency: u64) -> Option<Self> {
        let ticks = with.get()?.checked_sub(without.get()?)?;
        let divisor = u128::from(frequency) * u128::from(rounds);
        let scaled = u128::from(ticks) * NANOSECONDS * 10;
        let tenths = scaled
            .checked_add(divisor / 2)?
            .checked_div(divisor)?
            .try_into()
            .ok()?;
        Some(Self { tenths })
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tenths % 10 {
            0 => write!(f, "{}", self.tenths / 10),
            tenth => write!(f, "{}.{tenth}", self.tenths / 10),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    const FREQUENCY: u64 = 62_500_000;

    fn cost(with: u64, without: u64, rounds: u64, frequency: u64) -> Option<Cost> {
        Cost::of(Least(Some(with)), Least(Some(without)), rounds, frequency)
    }

    #[test]
    fn the_least_sample_counts() {
        let mut least = Least::NONE;
        assert_eq!(least.get(), None);
        for ticks in [7, 3, 9] {
            least.add(ticks);
        }
        assert_eq!(least.get(), Some(3));
        assert_eq!([7, 3, 9].into_iter().collect::<Least>(), least);
    }

    #[test]
    fn a_fraction_is_shown_where_there_is_one() {
        // 1,024 rounds of 423 instructions are 27,072 ticks of 16.
        assert_eq!(cost(27_072, 0, 1024, FREQUENCY).unwrap().to_string(), "423");
        let whole = cost(27_072 + 192, 192, 1024, FREQUENCY);
        assert_eq!(whole.unwrap().to_string(), "423");
        let half = cost(27_072 + 32, 0, 1024, FREQUENCY);
        assert_eq!(half.unwrap().to_string(), "423.5");
        assert_eq!(cost(5, 5, 1024, FREQUENCY).unwrap().to_string(), "0");
    }

    #[test]
    fn what_is_no_measurement_is_none() {
        assert_eq!(cost(4, 5, 1, FREQUENCY), None);
        assert_eq!(cost(5, 4, 0, FREQUENCY), None);
        assert_eq!(cost(5, 4, 1, 0), None);
        assert_eq!(cost(u64::MAX, 0, 1, 1), None);
        assert_eq!(Cost::of(Least::NONE, Least::NONE, 1, 1), None);
    }

    proptest! {
        /// Wherever in a tick the readings fall, a whole number of instructions comes out whole.
        #[test]
        fn the_grain_of_the_counter_does_not_show(
            cost_of_one in 0_u64..100_000,
            loop_cost in 1_u64..32,
            phases in (0_u64..16, 0_u64..16),
            frame in 0_u64..64,
        ) {
            let rounds = 1024;
            let ticks = |phase: u64, one: u64| (phase + frame + one * rounds) / 16 - phase / 16;
            let with = ticks(phases.0, cost_of_one + loop_cost);
            let without = ticks(phases.1, loop_cost);
            let cost = Cost::of(Least(Some(with)), Least(Some(without)), rounds, FREQUENCY);
            // Less time with than without can only come from the tick's size.
            let text = cost.map_or(std::string::String::from("0"), |cost| cost.to_string());
            prop_assert_eq!(text, cost_of_one.to_string());
        }

        /// The nearest tenth, found by bounds instead of a division. Numbers of 256 bits would lose
        /// nothing; cases beyond 128 bits are left to the other tests.
        #[test]
        fn any_reading_gives_the_nearest_tenth_or_nothing(
            with: u64, without: u64, rounds in 0..1u64 << 40, frequency in 0..1u64 << 36,
        ) {
            let divisor = u128::from(frequency) * u128::from(rounds);
            match cost(with, without, rounds, frequency) {
                Some(cost) => {
                    let scaled = u128::from(with - without) * 10_000_000_000;
                    if let Some(found) = u128::from(cost.tenths).checked_mul(divisor) {
                        prop_assert!(found.abs_diff(scaled) <= divisor.div_ceil(2));
                    }
                }
                None => prop_assert!(
                    with < without || divisor == 0
                        || u128::from(with - without) * 10_000_000_000 / divisor >= u128::from(u64::MAX)
                ),
            }
        }
    }
}
