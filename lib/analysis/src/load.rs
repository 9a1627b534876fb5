//! What the members of a component need within a time: the left-hand side of every test.
//!
//! A [`Load`] is a task, or the interface of a component inside, which is a task to its parent as
//! well. Jitter and offsets are treated so that a positive answer is always right:
//!
//! - *Jitter* `J`: a job that arrived up to `J` ago may be released together with others, and then
//!   has `J` less until its deadline. Deadlines stay `T` apart. So a load counts with the window `D
//!   - J` in the place of its deadline. Under fixed priorities, higher ones interfere with `ceil((t
//!   + J) / T)` jobs (Audsley et al., Software Engineering Journal 8(5) 1993).
//! - *Offsets* are not used: all members may be released at once, which is the worst case, because
//!   nothing keeps the clocks of guests together.
//!
//! Sums saturate: a demand beyond 128 bits is more than any supply.

use hanok_task_model::{Member, Policy, Priority};

/// One member of a component, as the tests see it. Times are in nanoseconds, and in 128 bits, so
/// that the product of any two is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The task or component.
    pub member: Member,
    /// The least time between two arrivals.
    pub period: i128,
    /// The CPU time that a job needs.
    pub execution: i128,
    /// The deadline of a job, from its arrival.
    pub deadline: i128,
    /// The longest time from a job's arrival to its release.
    pub jitter: i128,
    /// The fixed priority, if it has one.
    pub priority: Option<Priority>,
    /// How its jobs arrive.
    pub arrival: Arrival,
    /// Whether its jobs arrive at the starts of periods that all such members share, as those of
    /// periodic servers do.
    pub begins_with_period: bool,
    /// Its place among the members in the model. Of equals the earlier one goes first.
    pub place: usize,
}

/// How the jobs of a [`Load`] arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrival {
    /// At least a period apart.
    #[default]
    Sporadic,
    /// A period apart, but each job may execute anywhere in its period: late in one and early in
    /// the next. To other members that is jitter of the period less the execution; its own deadline
    /// is unchanged. A deferrable server under fixed priorities is such a load, whatever its home
    /// is (Strosnider, Lehoczky & Sha, IEEE TC 44(1) 1995). It has paid for the switch back when it began, but that switch
    /// may come after the period's end: up to `late` of its execution is that much later.
    Anywhere {
        /// What a switch takes.
        late: i128,
    },
    /// At any time, with deadlines such that within any `t` no more is due than `t * execution /
    /// period`, rounded down. A constant bandwidth server under EDF is such a load (Abeni &
    /// Buttazzo, RTSS 1998), and so is a deferrable server whose budget is cut at the wake-up to
    /// the bandwidth of the remaining time.
    Bandwidth,
}

impl Load {
    /// Whether it is a component with its interface, and not a task.
    pub fn is_component(&self) -> bool {
        matches!(self.member, Member::Component(_))
    }

    /// Whether no deadline is before the next possible arrival. Then under EDF on a whole CPU the
    /// sum of rates decides.
    pub fn is_implicit(&self) -> bool {
        self.window() >= self.period
    }

    /// The time from a job's release to its deadline in the worst case.
    pub fn window(&self) -> i128 {
        self.deadline - self.jitter
    }

    /// The most work of jobs that are released and due within `t` (Baruah, Mok & Rosier, RTSS
    /// 1990).
    pub fn due(&self, t: i128) -> i128 {
        if self.arrival == Arrival::Bandwidth {
            return t.max(0).saturating_mul(self.execution) / self.period;
        }
        self.jobs_due(t).saturating_mul(self.execution)
    }

    /// The last instant up to `t` at which a job can be due, if there is one.
    pub fn last_due(&self, t: i128) -> Option<i128> {
        if self.arrival == Arrival::Bandwidth {
            return Some(self.first_with(self.due(t))).filter(|at| *at > 0);
        }
        let jobs = self.jobs_due(t);
        (jobs > 0).then(|| self.window() + (jobs - 1) * self.period)
    }

    /// The first instant within which a bandwidth server can need `demand`.
    fn first_with(&self, demand: i128) -> i128 {
        let product = demand.saturating_mul(self.period);
        product.saturating_add(self.execution - 1) / self.execution
    }

    /// The largest number of jobs that are released and due within `t`.
    pub fn jobs_due(&self, t: i128) -> i128 {
        let after = t - self.window();
        if after < 0 {
            0
        } else {
            after / self.period + 1
        }
    }

    /// The most work of jobs that are released within `t` (before its end).
    pub fn released(&self, t: i128) -> i128 {
        let jobs = (t + self.delay() + self.period - 1) / self.period;
        jobs.saturating_mul(self.execution)
    }

    /// By how much less than a period two jobs can be apart, as others see it.
    pub fn delay(&self) -> i128 {
        match self.arrival {
            Arrival::Anywhere { late } => self.jitter + self.period - self.execution + late,
            _ => self.jitter,
        }
    }

    /// The first instant from `t` on at which a job can be due.
    pub fn next_due(&self, t: i128) -> i128 {
        if self.arrival == Arrival::Bandwidth {
            return self.first_with(self.due(t - 1) + 1);
        }
        let jobs = (t - self.window() + self.period - 1).div_euclid(self.period);
        self.window()
            .saturating_add(jobs.max(0).saturating_mul(self.period))
    }

    /// The window under fixed priorities. A job must be complete before the next one arrives: a
    /// deadline beyond the period counts as the period.
    pub fn fixed_window(&self) -> i128 {
        self.deadline.min(self.period) - self.jitter
    }
}

/// The most work that all `loads` need within `t` under EDF.
pub fn due(loads: &[Load], t: i128) -> i128 {
    let each = loads.iter().map(|load| load.due(t));
    each.fold(0, i128::saturating_add)
}

/// The work that a job of the last one of `loads` competes with until `t` after its release, its
/// own included, where all others have higher priorities.
pub fn requested(loads: &[Load], t: i128) -> i128 {
    let Some((own, higher)) = loads.split_last() else {
        return 0;
    };
    let each = higher.iter().map(|load| load.released(t));
    each.fold(own.execution, i128::saturating_add)
}

/// Numbers `loads`, which are in the model's order.
pub fn number(loads: &mut [Load]) {
    (0..)
        .zip(loads)
        .for_each(|(place, load)| load.place = place);
}

/// Sorts `loads` by priority, the highest first, and equals in the model's order.
pub fn rank(loads: &mut [Load], policy: Policy) {
    match policy {
        Policy::Edf => {}
        Policy::RateMonotonic => loads.sort_by_key(|load| (load.period, load.place)),
        Policy::DeadlineMonotonic => loads.sort_by_key(|load| (load.deadline, load.place)),
        Policy::FixedPriority => loads.sort_by_key(|load| (load.priority, load.place)),
    }
}

/// The number of fractional bits of a [`Rate`].
pub const FRACTION: u32 = 62;

/// Bounds of a rate of CPU time, in units of 2^-62.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The lower bound.
    pub low: i128,
    /// The upper bound.
    pub high: i128,
}

/// The rate at which `loads` need CPU time in the long run.
pub fn rate(loads: &[Load]) -> Rate {
    let mut sum = Rate { low: 0, high: 0 };
    for load in loads {
        let scaled = load.execution.saturating_mul(1 << FRACTION);
        let (whole, rest) = (scaled / load.period, scaled % load.period);
        sum.low = sum.low.saturating_add(whole);
        let up = whole.saturating_add(i128::from(rest > 0));
        sum.high = sum.high.saturating_add(up);
    }
    sum
}

/// The least constant such that `due(t) <= rate * t + constant`, rounded up for each member.
pub fn head_start(loads: &[Load]) -> i128 {
    let of = |load: &Load| {
        let early = (load.period - load.window()).max(0);
        let product = load.execution.saturating_mul(early);
        product.saturating_add(load.period - 1) / load.period
    };
    loads.iter().map(of).fold(0, i128::saturating_add)
}

#[cfg(test)]
mod tests;
