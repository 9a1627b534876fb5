//! The servers for which the analysis is proven.

use crate::Fault;
use crate::bounds::{Job, Z, nanos, pays};
use hanok_task_model::{Component, Home, Mode, Model, ResourceInterface, Server};
use num_integer::Integer;

/// What a server pays each time for the switch to it and the one back, in whole ticks; others than those that
/// [pay](pays): nothing.
pub fn payment(model: &Model, component: &Component) -> Z {
    if pays(component.server) {
        nanos(crate::cost(model))
    } else {
        Z::from(0)
    }
}

/// The most that is paid in one period for wakes. `component` has work until all jobs are complete, so that each wake is a
/// job's release. A period's budget is paid from in the time from the period's start on, before its end: each task releases
/// at most `ceil((P + J) / T)` jobs in it.
pub fn for_wakes(payment: &Z, jobs: &[Job], interface: &ResourceInterface) -> Z {
    let released = |job: &Job| (nanos(interface.period) + &job.jitter).div_ceil(&job.period);
    let wakes: Z = jobs.iter().map(released).sum();
    wakes * payment
}

/// Checks that the analysis is proven for `component`:
///
/// - a periodic server is a periodic task only in a home that idles at its own expense, which a
///   core and a periodic server do;
/// - all other kinds are proven on one CPU alone;
/// - a bandwidth server needs a home that goes by deadlines, and a soft one promises nothing;
/// - a server that may begin in the middle of its period may be switched to any number of times: where switches cost
///   something, it pays for them. Its wakes have to be known, which those of a group are not; and something of the budget
///   has to be left.
pub fn known(
    model: &Model,
    component: &Component,
    jobs: &[Job],
    interface: &ResourceInterface,
) -> Result<(), Fault> {
    let home = match component.home {
        Home::Component(id) => Some(model.component(id).ok_or(Fault::Incomplete)?),
        Home::Pool(_) => None,
    };
    let pool = match component.home {
        Home::Pool(id) => Some(model.pool(id).ok_or(Fault::Incomplete)?),
        Home::Component(_) => None,
    };
    let policy = home.map(|home| home.policy).or(pool.map(|p| p.policy));
    let one_cpu = component.cpus == 1 && pool.is_none_or(|pool| pool.mode == Mode::Partitioned);
    let by_deadline = policy.is_some_and(|policy| !policy.is_fixed());
    let payment = payment(model, component);
    let wakes_known = payment == Z::from(0) || !jobs.iter().any(Job::is_component);
    let bearable = wakes_known && nanos(interface.budget) > payment;
    let known = match component.server {
        Server::Periodic => home.is_none_or(|home| home.server == Server::Periodic),
        Server::Polling => one_cpu,
        Server::Deferrable => one_cpu && bearable,
        Server::ConstantBandwidth => one_cpu && bearable && by_deadline,
        Server::SoftBandwidth => false,
    };
    if known { Ok(()) } else { Err(Fault::Server) }
}
