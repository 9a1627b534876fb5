//! When CPU time is supplied.

use alloc::vec::Vec;
use hanok_task_model::ResourceInterface;

/// When a core, or whatever takes its place, supplies CPU time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Supply {
    /// Always.
    #[default]
    Full,
    /// A piece of each period, from an instant on; none before.
    Periodic {
        /// The start of the first piece.
        first: u64,
        /// The length of each piece.
        length: u64,
        /// The time from the start of one piece to that of the next.
        period: u64,
    },
    /// In these windows, in order; all of them again after `repeat`.
    Windows {
        /// The start and the end of each window.
        windows: Vec<(u64, u64)>,
        /// The time after which the first window comes again; `None` if there is no supply after
        /// the last.
        repeat: Option<u64>,
    },
}

/// What is wrong with a supply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SupplyError {
    /// The window with this index ends before it begins, or begins before the previous one ended.
    #[error("window {0} of the supply does not come after the one before it")]
    Order(usize),
    /// A piece is empty, or longer than the period.
    #[error("a piece of the supply is nothing, or longer than its period")]
    Piece,
    /// The windows come again before the last one ended.
    #[error("the supply comes again before its last window has ended")]
    Repeat,
}

impl Supply {
    /// The least supply that an interface promises from zero on. The first budget came just before,
    /// at its period's start, and every later one comes at the end of its deadline. So there is no
    /// supply for period + deadline - 2 budgets (the supply bound function of Easwaran, Anand and
    /// Lee 2007, figure 2).
    pub fn worst(interface: ResourceInterface) -> Self {
        let (period, budget) = (interface.period.get(), interface.budget.get());
        let last = interface.deadline.get().saturating_sub(budget);
        Self::Periodic {
            first: period.saturating_sub(budget).saturating_add(last),
            length: budget,
            period,
        }
    }

    /// Checks that the supply is valid.
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

    /// Whether CPU time is supplied at `now`, and when that changes.
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
            let mut interface = ResourceInterface::periodic(Nanos::new(5), Nanos::new(3));
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
        // Directly after the last window, and without any window after any time.
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
