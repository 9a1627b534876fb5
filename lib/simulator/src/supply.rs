//! When there is CPU time at all.

use alloc::vec::Vec;
use hanok_task_model::Interface;

/// When a core, or what stands for one, gives CPU time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Supply {
    /// Always.
    #[default]
    Full,
    /// So much of each period, beginning at an instant; none before.
    Periodic {
        /// When the first piece comes.
        first: u64,
        /// How long each piece is.
        length: u64,
        /// From the start of a piece to the next one's.
        period: u64,
    },
    /// In these windows, from a start to an end, in order; the whole again after `repeat`.
    Windows {
        /// Starts and ends.
        windows: Vec<(u64, u64)>,
        /// When the first window comes again; never: there is nothing after the last.
        repeat: Option<u64>,
    },
}

/// What is wrong with a supply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SupplyError {
    /// A window that ends before it begins, or begins before the former one ended.
    #[error("window {0} of the supply does not come after the one before it")]
    Order(usize),
    /// A piece of nothing, or longer than the period.
    #[error("a piece of the supply is nothing, or longer than its period")]
    Piece,
    /// Windows that come again before the last one ended.
    #[error("the supply comes again before its last window has ended")]
    Repeat,
}

impl Supply {
    /// The least that an interface promises, to whoever begins to need it at zero: the first
    /// budget came just before, at its period's start, and every later one comes at the end of
    /// its deadline. So there is nothing for period + deadline - 2 budgets (the supply bound
    /// function of Easwaran, Anand and Lee 2007, figure 2).
    pub fn worst(interface: Interface) -> Self {
        let (period, budget) = (interface.period.get(), interface.budget.get());
        let last = interface.deadline.get().saturating_sub(budget);
        Self::Periodic {
            first: period.saturating_sub(budget).saturating_add(last),
            length: budget,
            period,
        }
    }

    /// Whether it makes sense.
    pub fn validate(&self) -> Result<(), SupplyError> {
        match self {
            Self::Full => Ok(()),
            Self::Periodic { length, period, .. } => {
                if *length > 0 && length <= period {
                    Ok(())
                } else {
                    Err(SupplyError::Piece)
                }
            }
            Self::Windows { windows, repeat } => in_order(windows, *repeat),
        }
    }

    /// Whether there is CPU time at `now`, and when that changes.
    pub fn at(&self, now: u64) -> (bool, Option<u64>) {
        match self {
            Self::Full => (true, None),
            Self::Periodic {
                first,
                length,
                period,
            } => periodic(*first, *length, *period, now),
            Self::Windows { windows, repeat } => within(windows, *repeat, now),
        }
    }
}

fn periodic(first: u64, length: u64, period: u64, now: u64) -> (bool, Option<u64>) {
    let Some(since) = now.checked_sub(first) else {
        return (false, Some(first));
    };
    if length >= period {
        return (true, None);
    }
    let phase = since % period;
    if phase < length {
        (true, now.checked_add(length - phase))
    } else {
        (false, now.checked_add(period - phase))
    }
}

fn within(windows: &[(u64, u64)], repeat: Option<u64>, now: u64) -> (bool, Option<u64>) {
    let round = repeat.map_or(0, |repeat| now / repeat * repeat);
    let phase = now - round;
    let next = windows.partition_point(|(_, end)| *end <= phase);
    match windows.get(next) {
        Some((start, end)) if *start <= phase => (true, round.checked_add(*end)),
        Some((start, _)) => (false, round.checked_add(*start)),
        None => {
            let first = windows.first().map(|(start, _)| *start);
            let again = repeat.and_then(|repeat| round.checked_add(repeat));
            (
                false,
                again.zip(first).and_then(|(a, first)| a.checked_add(first)),
            )
        }
    }
}

fn in_order(windows: &[(u64, u64)], repeat: Option<u64>) -> Result<(), SupplyError> {
    let mut last = 0;
    for (index, (start, end)) in windows.iter().enumerate() {
        if *start < last || end <= start {
            return Err(SupplyError::Order(index));
        }
        last = *end;
    }
    match repeat {
        Some(repeat) if repeat < last.max(1) => Err(SupplyError::Repeat),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanok_task_model::Nanos;
    use std::vec;

    /// The supply up to each of 0..=16.
    fn sums(supply: &Supply) -> Vec<u64> {
        let mut sum = 0;
        let mut sums = vec![0];
        for now in 0..16 {
            sum += u64::from(supply.at(now).0);
            sums.push(sum);
        }
        sums
    }

    #[test]
    fn the_worst_supply_is_the_supply_bound_function() {
        let of = |deadline| {
            let mut interface = Interface::periodic(Nanos::new(5), Nanos::new(3));
            interface.deadline = Nanos::new(deadline);
            sums(&Supply::worst(interface))
        };
        assert_eq!(of(5), [0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 6, 6, 7, 8]);
        assert_eq!(of(4), [0, 0, 0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 6, 6, 7, 8, 9]);
        assert_eq!(of(3), [0, 0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 6, 6, 7, 8, 9, 9]);
    }

    #[test]
    fn windows_come_again() {
        let supply = Supply::Windows {
            windows: vec![(1, 2), (3, 5)],
            repeat: Some(6),
        };
        assert_eq!(supply.validate(), Ok(()));
        let sums = sums(&supply);
        assert_eq!(sums[..9], [0, 0, 1, 1, 2, 3, 3, 3, 4]);
        assert_eq!(supply.at(5), (false, Some(7)));
        let once = Supply::Windows {
            windows: vec![(1, 2)],
            repeat: None,
        };
        assert_eq!(once.at(2), (false, None));
        assert_eq!(once.at(u64::MAX), (false, None));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let windows = |windows: &[(u64, u64)], repeat| {
            let windows = windows.to_vec();
            Supply::Windows { windows, repeat }.validate()
        };
        assert_eq!(windows(&[(0, 2), (1, 3)], None), Err(SupplyError::Order(1)));
        assert_eq!(windows(&[(2, 2)], None), Err(SupplyError::Order(0)));
        assert_eq!(windows(&[(0, 2)], Some(1)), Err(SupplyError::Repeat));
        assert_eq!(windows(&[], Some(0)), Err(SupplyError::Repeat));
        // At once after the last window, and without a window after any time at all.
        assert_eq!(windows(&[(0, 2)], Some(2)), Ok(()));
        assert_eq!(windows(&[], Some(1)), Ok(()));
        let none = Supply::Periodic {
            first: 0,
            length: 0,
            period: 0,
        };
        assert_eq!(none.validate(), Err(SupplyError::Piece));
    }
}
