//! The sets of tasks that the image can run.
//!
//! A budget is the sum of the times from when a job gets the CPU to when it loses it. So it
//! includes the kernel's work to switch to the job, the interrupts that came while it ran, and the
//! way into the kernel at its end. A job that only burns time needs [`END`] microseconds less than
//! its budget; these are for that last part.
//!
//! The 20 tasks of [`RM20`] and [`EDF20`] are released together at 0, which is the worst moment,
//! and all periods divide 200 ms: after that everything repeats. Their budgets were chosen by a
//! search, so that no job ends closer than [`APART`] microseconds to a release. A kernel (with a
//! hypervisor under it) that is faster than that has to make the same schedule as the simulation,
//! in which the kernel takes no time.
//!
//! The command line may describe other tasks: see [`Description`].

use crate::{Description, MAX_TASKS, Policy, Spec, Ticks};
use heapless::Vec;

/// The part of a budget in microseconds that is for the end of the job.
const END: u64 = 2;
/// The least distance in microseconds between a job's end and a release.
#[cfg(test)]
const APART: u64 = 50;

/// How long a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// All of its budget.
    Budget,
    /// So many microseconds.
    Microseconds(u64),
    /// For ever.
    Endless,
}

/// A task, with times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// Its first release.
    pub offset: u64,
    /// Its period.
    pub period: u64,
    /// The time from a release to the job's deadline.
    pub deadline: u64,
    /// Its priority under [`Policy::Fixed`]; 0 is the most urgent.
    pub priority: u64,
    /// Its budget.
    pub budget: u64,
    /// How long it runs of its budget.
    pub execution: Execution,
}

/// Where the tasks of a set stand.
#[derive(Clone, Copy, Debug)]
pub enum Tasks {
    /// In the image.
    Listed(&'static [Entry]),
    /// On the command line.
    Described(Description),
}

/// Tasks that run together.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    /// Its name on the command line; `described` if its tasks stand there.
    pub name: &'static str,
    /// The policy that orders the tasks.
    pub policy: Policy,
    /// Whether no task waits for another, so that the schedule can be simulated.
    pub independent: bool,
    /// The tasks.
    pub tasks: Tasks,
}

impl Set {
    /// The tasks that the command line describes, under EDF.
    pub const fn described(description: Description) -> Self {
        Self {
            name: "described",
            policy: Policy::EarliestDeadline,
            independent: true,
            tasks: Tasks::Described(description),
        }
    }

    /// Whether the command line describes its tasks.
    pub const fn is_described(&self) -> bool {
        matches!(self.tasks, Tasks::Described(_))
    }

    /// The tasks.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + use<> {
        let (listed, described) = match self.tasks {
            Tasks::Listed(listed) => (listed, None),
            Tasks::Described(description) => (&[] as &[Entry], Some(description)),
        };
        let described = described.into_iter().flat_map(Description::entries);
        listed.iter().copied().chain(described).take(MAX_TASKS)
    }

    /// The tasks with their times in ticks of a counter of this frequency in Hz.
    pub fn specs(&self, frequency: u64) -> Vec<Spec, MAX_TASKS> {
        self.entries().map(|entry| entry.spec(frequency)).collect()
    }
}

impl Entry {
    /// Rounds down; but periods up, so that the tasks never need more time than they say.
    fn spec(&self, frequency: u64) -> Spec {
        let ticks = |microseconds: u64| microseconds.saturating_mul(frequency) / 1_000_000;
        let period = self.period.saturating_mul(frequency).div_ceil(1_000_000);
        let execution = match self.execution {
            Execution::Budget => ticks(self.budget.saturating_sub(END)),
            Execution::Microseconds(count) => ticks(count),
            Execution::Endless => Ticks::MAX,
        };
        Spec {
            name: self.name,
            period,
            deadline: ticks(self.deadline),
            offset: ticks(self.offset),
            priority: self.priority,
            budget: ticks(self.budget),
            execution,
        }
    }
}

/// A task that burns its budget, released at 0 first, whose deadline is its period.
pub(crate) const fn task(name: &'static str, period: u64, budget: u64) -> Entry {
    Entry {
        name,
        offset: 0,
        period,
        deadline: period,
        priority: 0,
        budget,
        execution: Execution::Budget,
    }
}

/// 20 tasks under fixed priorities, utilization 0.69: below Liu and Layland's bound for 20
/// tasks, 0.705, so that all deadlines are met whatever happens.
pub const RM20: Set = Set {
    name: "rm20",
    policy: Policy::RateMonotonic,
    independent: true,
    tasks: Tasks::Listed(&[
        task("rm01", 1_000, 46),
        task("rm02", 2_000, 44),
        task("rm03", 2_500, 70),
        task("rm04", 4_000, 172),
        task("rm05", 5_000, 102),
        task("rm06", 5_000, 190),
        task("rm07", 8_000, 314),
        task("rm08", 10_000, 268),
        task("rm09", 10_000, 404),
        task("rm10", 20_000, 1_002),
        task("rm11", 20_000, 869),
        task("rm12", 25_000, 506),
        task("rm13", 40_000, 1_790),
        task("rm14", 40_000, 909),
        task("rm15", 50_000, 1_566),
        task("rm16", 50_000, 1_231),
        task("rm17", 100_000, 4_312),
        task("rm18", 100_000, 3_698),
        task("rm19", 200_000, 3_981),
        task("rm20", 200_000, 9_489),
    ]),
};

/// 20 tasks under EDF, utilization 0.95.
pub const EDF20: Set = Set {
    name: "edf20",
    policy: Policy::EarliestDeadline,
    independent: true,
    tasks: Tasks::Listed(&[
        task("edf01", 1_000, 49),
        task("edf02", 2_000, 79),
        task("edf03", 2_500, 105),
        task("edf04", 4_000, 160),
        task("edf05", 5_000, 215),
        task("edf06", 5_000, 294),
        task("edf07", 8_000, 403),
        task("edf08", 10_000, 361),
        task("edf09", 10_000, 512),
        task("edf10", 20_000, 1_286),
        task("edf11", 20_000, 523),
        task("edf12", 25_000, 1_798),
        task("edf13", 40_000, 1_800),
        task("edf14", 40_000, 1_828),
        task("edf15", 50_000, 2_150),
        task("edf16", 50_000, 1_863),
        task("edf17", 100_000, 3_026),
        task("edf18", 100_000, 6_747),
        task("edf19", 200_000, 12_952),
        task("edf20", 200_000, 8_451),
    ]),
};

/// Five tasks under fixed priorities, utilization 0.30: less than half of a CPU that is shared fairly with one other VM.
pub const RM5: Set = Set {
    name: "rm5",
    policy: Policy::RateMonotonic,
    independent: true,
    tasks: Tasks::Listed(&[
        task("rm51", 1_000, 60),
        task("rm52", 2_000, 120),
        task("rm53", 5_000, 400),
        task("rm54", 10_000, 800),
        task("rm55", 20_000, 400),
    ]),
};

/// Five tasks under EDF, utilization 0.35.
pub const EDF5: Set = Set {
    name: "edf5",
    policy: Policy::EarliestDeadline,
    independent: true,
    tasks: Tasks::Listed(&[
        task("edf51", 1_000, 50),
        task("edf52", 2_000, 150),
        task("edf53", 4_000, 300),
        task("edf54", 10_000, 1_000),
        task("edf55", 50_000, 2_500),
    ]),
};

/// Tasks that show that faults are detected: one that runs twice as long as its budget, one that
/// never ends, and one that starves because of it.
pub const OVERLOAD: Set = Set {
    name: "overload",
    policy: Policy::RateMonotonic,
    independent: true,
    tasks: Tasks::Listed(&[
        task("sound", 10_000, 2_000),
        Entry {
            execution: Execution::Microseconds(4_013),
            ..task("greedy", 20_000, 2_000)
        },
        Entry {
            execution: Execution::Endless,
            ..task("endless", 100_000, 10_000)
        },
        task("starved", 200_000, 10_000),
    ]),
};

/// Tasks with code of their own in the image, which share a semaphore and a queue.
///
/// Every 100 ms they make the case that priority inheritance is for: `logger` holds the semaphore
/// that `control` needs when `radio` arrives, whose priority is between theirs and whose job is
/// longer than `control` may wait.
pub const DEMO: Set = Set {
    name: "demo",
    policy: Policy::RateMonotonic,
    independent: false,
    tasks: Tasks::Listed(&[
        task("control", 5_000, 500),
        task("sensor", 10_000, 500),
        task("filter", 20_000, 1_000),
        Entry {
            offset: 5_000,
            ..task("radio", 50_000, 10_000)
        },
        task("logger", 100_000, 7_000),
        task("hello", 1_000_000, 50_000),
    ]),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Simulation;

    /// Of QEMU's Cortex-A57, and of most newer CPUs.
    const FREQUENCIES: [u64; 2] = [62_500_000, 1_000_000_000];
    const HYPERPERIOD_MS: u64 = 200;

    /// In parts of a million.
    fn utilization(set: &Set) -> u64 {
        let share = |entry: Entry| entry.budget * 1_000_000 / entry.period;
        set.entries().map(share).sum()
    }

    #[test]
    fn utilization_is_as_promised() {
        assert!((685_000..=690_000).contains(&utilization(&RM20)));
        assert!((945_000..=950_000).contains(&utilization(&EDF20)));
        assert_eq!((RM20.entries().count(), EDF20.entries().count()), (20, 20));
        assert!(utilization(&DEMO) < 690_000);
        assert_eq!((utilization(&RM5), utilization(&EDF5)), (300_000, 350_000));
    }

    #[test]
    fn periods_are_from_1_to_200_ms_and_divide_the_hyperperiod() {
        for entry in RM20.entries().chain(EDF20.entries()) {
            assert!((1_000..=200_000).contains(&entry.period));
            assert!((HYPERPERIOD_MS * 1000).is_multiple_of(entry.period));
        }
    }

    #[test]
    fn no_job_ends_too_close_to_a_release() {
        for (set, frequency) in [&RM20, &EDF20]
            .into_iter()
            .flat_map(|set| FREQUENCIES.map(|frequency| (set, frequency)))
        {
            let hyperperiod = frequency / 1000 * HYPERPERIOD_MS;
            let mut simulation = Simulation::new(set.policy, &set.specs(frequency));
            while simulation
                .next()
                .is_some_and(|event| event.time <= 2 * hyperperiod)
            {}
            assert!(
                simulation.closest() >= frequency / 1_000_000 * APART,
                "{}",
                set.name
            );
        }
    }
}
