//! Checks global EDF on several CPUs, from the definition of a missed deadline.
//!
//! Suppose that deadlines are missed, and consider the first one, of a job of member k. Jobs with
//! later deadlines do not matter to EDF, and may be left out. Let the window of length t end at
//! that deadline. It begins at the last instant, not after the job's latest release, right before
//! which a supplied CPU had nothing to run.
//!
//! 1. Right before the window there were fewer jobs than CPUs. So at most m - 1 members have a job
//!    that began before the window and ends in it. The other members' jobs in it are released in
//!    it.
//! 2. All deadlines before the window's end are kept. So what a job does in the window, it does
//!    between its release (or the window's start) and its deadline. A member's deadlines are at
//!    least T apart, the last of them at the window's end.
//! 3. The late job runs in at most C - 1 instants. In all others of the window it waits or is not
//!    released yet, and every supplied CPU runs some other job. These are at least t - (C - 1)
//!    instants, of which exactly that many are considered. In the C - 1 instants that are left out,
//!    at most m (C - 1) can be supplied.
//! 4. In the considered instants a member runs at most once each. k's own earlier jobs have
//!    deadlines that are not after this one's latest release, so that they run in
//!    at most the t - D + J instants before that.
//!
//! If the members together cannot fill what is supplied in those instants, no deadline is missed.

use crate::Fault;
use crate::bounds::{Job, Supply, Z};
use crate::descent::{at, rational, steps, tail};
use alloc::vec::Vec;
use hanok_task_model::{Descent, Tail};
use num_integer::Integer;
use num_traits::{One, Zero};

/// Checks that each member's descent covers all lengths of the window.
pub fn check(jobs: &[Job], supply: &Supply, descents: &[Descent]) -> Result<(), Fault> {
    if descents.len() != jobs.len() {
        return Err(Fault::Members);
    }
    if jobs.iter().any(|job| job.deadline > job.period) {
        return Err(Fault::Kind);
    }
    let cpus = supply.cpus.to_integer();
    for (place, (late, descent)) in jobs.iter().zip(descents).enumerate() {
        // The most that is added to the demand: one job of each member that began before, and all
        // CPUs for as long as the late job takes.
        let executions = jobs.iter().map(|job| job.execution.clone()).collect();
        let before = greatest(executions, supply);
        let more = rational(before + &late.execution * &cpus);
        tail(jobs, supply, &more, descent)?;
        if descent.tail != Tail::Lines {
            return Err(Fault::Tail);
        }
        let window = late.window();
        let last = steps(supply, descent, |t| {
            filled(jobs, place, supply, t) + left_out(late, supply) + Z::one()
        })?;
        let mut earlier = descent.instants.iter().rev().skip(1);
        if at(last) > window || !earlier.all(|instant| at(*instant) > window) {
            return Err(Fault::Step);
        }
    }
    Ok(())
}

/// The most that can be supplied while the late job runs.
fn left_out(late: &Job, supply: &Supply) -> Z {
    (&late.execution - Z::one()) * supply.cpus.to_integer()
}

/// The most that the members can run in those instants of a window of length `t` in which the late
/// job, of the member at `place`, does not run.
fn filled(jobs: &[Job], place: usize, supply: &Supply, t: &Z) -> Z {
    let runs = jobs.get(place).map(|late| &late.execution - Z::one());
    let instants = t - runs.unwrap_or_default();
    let mut all = Z::zero();
    let mut begun = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let (released, any) = if index == place {
            // The late job itself, which is the last one of both, does not count.
            let before = (t - job.window()).max(Z::zero());
            let within = |work: Z| (work - &job.execution).min(before.clone()).max(Z::zero());
            (within(released(job, t)), within(any(job, t)))
        } else {
            let within = |work: Z| work.min(instants.clone()).max(Z::zero());
            (within(released(job, t)), within(any(job, t)))
        };
        begun.push(any - &released);
        all += released;
    }
    all + greatest(begun, supply)
}

/// The most work of a member's jobs that are released and due in the window: their deadlines are at
/// its end, a period before that, and so on, but not less than a job's own window after its start.
fn released(job: &Job, t: &Z) -> Z {
    let room = t - job.window();
    if room < Z::zero() {
        Z::zero()
    } else {
        (room.div_floor(&job.period) + Z::one()) * &job.execution
    }
}

/// The most work of a member's jobs that are due in the window, released in it or before. Of the
/// job that is due first, at most the time until its deadline counts.
fn any(job: &Job, t: &Z) -> Z {
    let (of_time, first) = t.div_mod_floor(&job.period);
    of_time * &job.execution + first.min(job.execution.clone())
}

/// The sum of the greatest `values`, of which there is one less than CPUs.
fn greatest(mut values: Vec<Z>, supply: &Supply) -> Z {
    let most = supply.cpus.to_integer() - Z::one();
    values.sort();
    let most = usize::try_from(most).unwrap_or(0);
    values.into_iter().rev().take(most).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::Shape;
    use crate::counted::Asked;

    /// A member's earlier jobs run before the late one's release, even if they take longer than
    /// there is time until then.
    #[test]
    fn earlier_jobs_run_before_the_late_one() {
        let asked = Asked {
            period: 3,
            execution: 5,
            deadline: 3,
            jitter: 0,
        };
        let jobs = [asked.job(0, Shape::Jobs)];
        let supply = Supply::cores(2);
        for (t, before) in [(2, 0), (3, 0), (4, 1), (6, 3), (8, 5)] {
            let most = filled(&jobs, 0, &supply, &Z::from(t));
            assert_eq!(most, Z::from(before), "{t}");
        }
    }
}
