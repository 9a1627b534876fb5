//! Demand of tasks: how much execution they ask for in windows of time.

use super::Refusal;

/// Fractions of a CPU are counted in units of 2^-64, rounded up.
pub(super) const ONE: u128 = 1 << 64;

/// A sporadic task, or a component as the core that it runs on sees it: `execution` in each
/// `period`, complete by `deadline` after the arrival. The release is up to `jitter` after the
/// arrival. All times are in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    period: u64,
    execution: u64,
    /// The time from the latest release to the deadline; the deadline itself counts from the
    /// arrival.
    window: u64,
    jitter: u64,
    priority: u64,
    /// `execution / period`, in units of [`ONE`].
    bandwidth: u128,
    /// The largest amount by which the task's demand is ahead of its bandwidth.
    ahead: u64,
}

impl Demand {
    /// A task. Refused is a task that can never keep its deadline, or whose times are beyond
    /// [`MAX_TIME`](super::MAX_TIME). `priority` is used only with fixed priorities; the smallest
    /// number is the highest.
    pub fn new(
        period: u64,
        execution: u64,
        deadline: u64,
        jitter: u64,
        priority: u64,
    ) -> Result<Self, Refusal> {
        let longest = period.max(deadline).max(execution).max(jitter);
        if period == 0 || execution == 0 || longest > super::MAX_TIME {
            return Err(Refusal::Time);
        }
        if execution > period {
            return Err(Refusal::Overload);
        }
        let window = deadline.checked_sub(jitter).filter(|w| *w >= execution);
        let window = window.ok_or(Refusal::Hopeless)?;
        // execution * (period - window) / period, rounded up.
        let early = u128::from(period.saturating_sub(window));
        let ahead = ratio(u128::from(execution) * early, period);
        Ok(Self {
            period,
            execution,
            window,
            jitter,
            priority,
            bandwidth: ratio(u128::from(execution) << 64, period),
            // It is at most the execution time.
            ahead: u64::try_from(ahead).unwrap_or(execution),
        })
    }

    /// A task that asks for nothing: a free place in a table.
    pub const NONE: Self = Self {
        period: 1,
        execution: 0,
        window: u64::MAX,
        jitter: 0,
        priority: u64::MAX,
        bandwidth: 0,
        ahead: 0,
    };

    /// What is in a place that nobody looks at. It is all zeros, of which an image needs no copy.
    pub(super) const UNUSED: Self = Self {
        period: 0,
        execution: 0,
        window: 0,
        jitter: 0,
        priority: 0,
        bandwidth: 0,
        ahead: 0,
    };

    /// This task, if it may run late in one period and early in the next, so that others see it
    /// with `jitter`. Its own deadline stays as it is. Deferrable servers under fixed priorities do
    /// so, with a jitter of period - budget.
    pub const fn back_to_back(self, jitter: u64) -> Self {
        Self { jitter, ..self }
    }

    /// The shortest time between two arrivals.
    pub const fn period(&self) -> u64 {
        self.period
    }

    /// The longest execution time of one job.
    pub const fn execution(&self) -> u64 {
        self.execution
    }

    /// The number of its priority.
    pub const fn priority(&self) -> u64 {
        self.priority
    }

    /// Its execution divided by its deadline, or by its period if that is shorter, in units of [`ONE`], rounded up.
    pub(super) fn density(&self) -> u128 {
        let time = self.window.min(self.period).max(1);
        ratio(u128::from(self.execution) << 64, time)
    }

    /// The time from its latest release to its deadline.
    pub(super) const fn window(&self) -> u64 {
        self.window
    }

    /// The execution that must be complete within `length` ticks of its release.
    #[inline]
    fn within(&self, length: u64) -> u64 {
        match length.checked_sub(self.window) {
            None => 0,
            Some(rest) => (rest / self.period + 1).saturating_mul(self.execution),
        }
    }

    /// The execution that the task can ask for within `length` ticks of its release.
    #[inline]
    pub(super) fn requested(&self, length: u64) -> u64 {
        let arrivals = length.saturating_add(self.jitter).div_ceil(self.period);
        arrivals.saturating_mul(self.execution)
    }

    /// The last instant at or before `at` at which the task can have a deadline.
    fn last_deadline(&self, at: u64) -> Option<u64> {
        let rest = at.checked_sub(self.window)?;
        Some(at - rest % self.period)
    }
}

/// The tasks of a table, with one of them replaced, left out or added, so that a change can be
/// examined without a copy. Of two tasks with equal priorities, the one that is earlier in the
/// table is the more important one.
#[derive(Clone, Copy, Debug)]
pub struct Set<'a> {
    tasks: &'a [Demand],
    at: usize,
    with: Demand,
}

impl<'a> Set<'a> {
    /// The table as it is.
    pub const fn new(tasks: &'a [Demand]) -> Self {
        Self {
            tasks,
            at: usize::MAX,
            with: Demand::NONE,
        }
    }

    /// The table with `task` in place of the one at `index`; if the table is not that long, after
    /// all others.
    pub const fn with(self, index: usize, task: Demand) -> Self {
        Self {
            at: index,
            with: task,
            ..self
        }
    }

    /// The table without the task at `index`.
    pub const fn without(self, index: usize) -> Self {
        self.with(index, Demand::NONE)
    }

    /// All tasks of the set, free places included.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Demand> {
        let (before, after) = match self.tasks.split_at_checked(self.at) {
            Some((before, after)) => (before, after.get(1..).unwrap_or_default()),
            None => (self.tasks, &[][..]),
        };
        let all = before
            .iter()
            .chain(core::iter::once(&self.with))
            .chain(after);
        all.filter(|task| task.execution != 0)
    }

    /// The largest number of tasks that the set can have.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.tasks.len()).map_or(u32::MAX, |len| len.saturating_add(1))
    }

    /// The set as three slices of the table. Free places are in them: they ask for nothing.
    #[inline]
    pub(super) fn stretches(&self) -> [&[Demand]; 3] {
        let with = core::slice::from_ref(&self.with);
        match self.tasks.split_at_checked(self.at) {
            Some((before, after)) => [before, with, after.get(1..).unwrap_or_default()],
            None => [self.tasks, with, &[]],
        }
    }

    /// The demand bound function: the execution that must be complete by deadlines within `length`
    /// (Baruah, Rosier and Howell 1990).
    pub(super) fn demand(&self, length: u64) -> u64 {
        let mut sum: u64 = 0;
        for stretch in self.stretches() {
            for task in stretch {
                sum = sum.saturating_add(task.within(length));
            }
        }
        sum
    }

    /// The last instant at or before `at` at which a task can have a deadline.
    pub(super) fn last_deadline(&self, at: u64) -> Option<u64> {
        let mut last = None;
        for stretch in self.stretches() {
            for task in stretch {
                last = last.max(task.last_deadline(at));
            }
        }
        last
    }

    /// The sum of bandwidths times `period`, in units of [`ONE`]. It is too large by less than
    /// `period` for each task. `None` if the tasks need more than the whole CPU.
    pub(super) fn bandwidth(&self, period: u64) -> Option<u128> {
        let sum: u128 = self.iter().map(|task| task.bandwidth).sum();
        // Each task is rounded up by at most one unit.
        (sum <= ONE + u128::from(self.len())).then(|| sum * u128::from(period))
    }

    /// Whether the sum of executions divided by deadlines (by periods, if those are shorter) is at
    /// most one, up to one unit of 2^-64 for each task. Then the demand within any time is at most
    /// that time, as a part of a server's bandwidth as well as in whole budgets.
    pub(super) fn is_within_density(&self) -> bool {
        let sum: u128 = self.iter().map(Demand::density).sum();
        sum <= ONE + u128::from(self.len())
    }

    /// The largest amount by which the demand is ahead of the bandwidth.
    pub(super) fn ahead(&self) -> u64 {
        self.iter()
            .fold(0, |sum: u64, task| sum.saturating_add(task.ahead))
    }

    /// The longest time from a release to its deadline.
    pub(super) fn longest_window(&self) -> u64 {
        self.iter().map(|task| task.window).max().unwrap_or(0)
    }

    /// The least common multiple of the periods and `first`, if it is at most `limit`.
    pub(super) fn hyperperiod(&self, first: u64, limit: u64) -> Option<u64> {
        self.iter().try_fold(first.max(1), |all, task| {
            let multiple = (all / gcd(all, task.period)).checked_mul(task.period)?;
            (multiple <= limit).then_some(multiple)
        })
    }

    /// The exact execution in a multiple of all periods.
    pub(super) fn execution_in(&self, hyperperiod: u64) -> u128 {
        let each =
            |task: &Demand| u128::from(hyperperiod / task.period) * u128::from(task.execution);
        self.iter().map(each).sum()
    }
}

/// `dividend`, which is at most 2^124, divided by `divisor`, which is at least 1 and at most 2^60, rounded up: by one
/// division, where `div_ceil` makes two, and in 32 bit each takes thousands of instructions.
fn ratio(dividend: u128, divisor: u64) -> u128 {
    divided(dividend + u128::from(divisor - 1), divisor.into())
}

/// The one place where numbers of 128 bits are divided, as that is a thousand bytes of code in 32 bit; 0 where the
/// divisor is.
#[inline(never)]
pub(super) fn divided(dividend: u128, divisor: u128) -> u128 {
    dividend.checked_div(divisor).unwrap_or(0)
}

/// The greatest common divisor; of 0 and 0 it is 1. By shifts and subtractions (Stein 1967): a CPU without a
/// division of 64 bits needs ten times as long for Euclid's remainders.
pub(super) fn gcd(mut a: u64, mut b: u64) -> u64 {
    if a == 0 || b == 0 {
        return (a | b).max(1);
    }
    let common = (a | b).trailing_zeros();
    a >>= a.trailing_zeros();
    while b != 0 {
        b >>= b.trailing_zeros();
        (a, b) = (a.min(b), a.abs_diff(b));
    }
    a << common
}

#[cfg(test)]
mod tests {
    use super::gcd;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_divisor_by_shifts_is_euclid_s(a: u64, b: u64, shift in 0..64u32) {
            let euclid = |mut a: u64, mut b: u64| {
                while b != 0 {
                    (a, b) = (b, a % b);
                }
                a.max(1)
            };
            for (a, b) in [(a, b), (a >> shift, b), (a, a >> shift), (a, 0), (0, 0), (a << shift, b << shift)] {
                prop_assert_eq!(gcd(a, b), euclid(a, b));
            }
        }
    }
}
