//! What is schedulable, by the definitions alone: every tick is looked at.
//!
//! Nothing of this knows of demand, supply functions or bounds. A server at a core is a job of its
//! budget in each of its periods, which is due at its deadline. The tasks in a server have what its
//! promise certainly gives: as little as the definition of the promise allows.

/// A job in each period, all first ones at 0: a server at its core, or a task of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periodic {
    /// Between two releases.
    pub period: u64,
    /// What a job takes.
    pub time: u64,
    /// After the release; at most the period.
    pub deadline: u64,
    /// The smallest one goes first. `None`: the earliest deadline.
    pub rank: Option<u64>,
}

/// Whether no deadline is missed in the hyperperiod, on a CPU that is there in tick `now` if `supplied`
/// says so, from tick `from` on, where all first jobs are released.
fn kept(all: &[Periodic], from: u64, hyperperiod: u64, supplied: impl Fn(u64) -> bool) -> bool {
    let mut left = vec![0; all.len()];
    let mut due = vec![0; all.len()];
    for now in from..=from + hyperperiod {
        for (at, one) in all.iter().enumerate() {
            if left[at] > 0 && due[at] <= now {
                return false;
            }
            if (now - from).is_multiple_of(one.period) {
                left[at] = one.time;
                due[at] = now + one.deadline;
            }
        }
        if !supplied(now) {
            continue;
        }
        let waiting = (0..all.len()).filter(|at| left[*at] > 0);
        if let Some(first) = waiting.min_by_key(|at| all[*at].rank.unwrap_or(due[*at])) {
            left[first] -= 1;
        }
    }
    true
}

/// The hyperperiod of `periods`.
pub fn multiple(periods: impl Iterator<Item = u64>) -> u64 {
    periods.fold(1, |all, one| all / gcd(all, one) * one)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Whether servers keep their promises on a whole core.
///
/// All first periods begin at once, which is the worst there is for deadlines within periods (Liu &
/// Layland 1973; Leung & Merrill 1980), and after the hyperperiod everything repeats.
pub fn core_holds(servers: &[Periodic]) -> bool {
    let all = multiple(servers.iter().map(|server| server.period));
    // One tick of a job that a hyperperiod has left over is late in one of the next.
    kept(servers, 0, 2 * all, |_| true)
}

/// Whether tasks keep their deadlines in a server that gives `budget` within `deadline` of the start of
/// each `period`.
///
/// The tasks are released together, at the worst instant: the server has given all of its budget at the
/// start of a period, and gives that of each later period as late as it may. After the common multiple
/// of all periods everything repeats.
pub fn server_holds(tasks: &[Periodic], period: u64, budget: u64, deadline: u64) -> bool {
    let all = multiple(tasks.iter().map(|task| task.period).chain([period]));
    let supplied = |now: u64| {
        let within = now % period;
        now >= period && (deadline - budget..deadline).contains(&within)
    };
    kept(tasks, budget, 2 * all, supplied)
}

/// As [`server_holds`], of a polling server: it had no work at the start of a period, and lost its budget.
pub fn polling_holds(tasks: &[Periodic], period: u64, budget: u64, deadline: u64) -> bool {
    let all = multiple(tasks.iter().map(|task| task.period).chain([period]));
    let supplied = |now: u64| {
        let within = now % period;
        now >= period && (deadline - budget..deadline).contains(&within)
    };
    kept(tasks, 0, 2 * all, supplied)
}

/// Whether servers whose periods are multiples of their group's, and begin with it, keep their promises in a
/// group that gives `budget` within `deadline` of the start of each `period`, as late as it may.
pub fn group_holds(servers: &[Periodic], period: u64, budget: u64, deadline: u64) -> bool {
    let all = multiple(servers.iter().map(|server| server.period).chain([period]));
    let supplied = |now: u64| (deadline - budget..deadline).contains(&(now % period));
    kept(servers, 0, 2 * all, supplied)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(period: u64, time: u64, deadline: u64, rank: Option<u64>) -> Periodic {
        Periodic {
            period,
            time,
            deadline,
            rank,
        }
    }

    #[test]
    fn a_full_core_under_edf_and_rates() {
        let edf = [one(4, 2, 4, None), one(6, 3, 6, None)];
        assert!(core_holds(&edf));
        assert!(!core_holds(&[one(4, 2, 4, None), one(6, 4, 6, None)]));
        // The same by rates: the second one has 2 of 6 only.
        assert!(!core_holds(&[one(4, 2, 4, Some(4)), one(6, 3, 6, Some(6))]));
        assert!(core_holds(&[one(4, 2, 4, Some(4)), one(6, 2, 6, Some(6))]));
    }

    #[test]
    fn a_server_s_gap_is_as_long_as_it_may_be() {
        // 2 of 5: from 2 to 8 nothing.
        assert!(server_holds(&[one(20, 1, 7, None)], 5, 2, 5));
        assert!(!server_holds(&[one(20, 1, 6, None)], 5, 2, 5));
        assert!(server_holds(&[one(20, 1, 4, None)], 5, 2, 2));
        // A polling one is later by its budget.
        assert!(polling_holds(&[one(20, 1, 9, None)], 5, 2, 5));
        assert!(!polling_holds(&[one(20, 1, 8, None)], 5, 2, 5));
    }
}
