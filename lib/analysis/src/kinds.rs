//! For which kinds of servers a proof holds, and where in a model.
//!
//! [`Arrival`](crate::load::Arrival) says what a server of each kind asks of those beside it, and
//! [`SupplyStart`](crate::supply::SupplyStart) what it gives to its members; docs/scheduling.md
//! derives both. Everything that is not derived there is refused here, with its reason.

use crate::load::Load;
use hanok_task_model::{Component, Home, Mode, Model, Plan, Policy, Server};
use thiserror::Error;

/// Why nothing is proven about a server in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unproven {
    /// A soft bandwidth server: it may run ahead of its bandwidth by any amount, and is late by the
    /// same amount afterwards.
    #[error(
        "a soft bandwidth server promises no deadline: what it runs ahead it is late by afterwards"
    )]
    Soft,
    /// A bandwidth server under fixed priorities: it moves its deadline, and fixed priorities
    /// ignore deadlines.
    #[error(
        "a bandwidth server moves its deadline, which fixed priorities do not look at: choose by \
         \"edf\" above it, or make it deferrable"
    )]
    Moving,
    /// A periodic server in a server of another kind. It spends its budget in its home's time, and
    /// its home has no time while nothing in it has work. So the periodic server keeps its
    /// remaining budget, and spends it later on nothing.
    #[error(
        "a periodic server cannot spend its budget while its home, which is of another kind, is \
         idle: make the home periodic, or this one polling or deferrable"
    )]
    Resting,
    /// A server that is not periodic, on several CPUs or in a global pool.
    #[error("on several CPUs and in global pools only periodic servers are reckoned with")]
    Parallel,
    /// A group that pays for the switches at each of its wakes. It wakes with any vCPU in it, also with one that has no
    /// budget, and as often as that one likes.
    #[error(
        "a deferrable or bandwidth group pays for switches at each wake of whoever is in it, so that nothing is \
         left for sure for the others in it: with `switch` or `refill`, make it periodic or polling"
    )]
    Switches,
    /// A server whose budget is no more than what it pays for its switches.
    #[error(
        "a deferrable or bandwidth server pays for the switch to it and the one back from its budget, which is no \
         more than that: it would never run"
    )]
    Prepaid,
}

/// Says whether the analysis is proven for the kind of `component` in its place, with the members in `loads`, where it pays
/// so much from its budget each time for its switches.
pub(crate) fn proven(
    model: &Model,
    component: &Component,
    loads: &[Load],
    prepaid: i128,
) -> Result<(), Unproven> {
    let server = component.server;
    let (policy, global, home) = match component.home {
        Home::Pool(id) => {
            let pool = model.pool(id);
            let global = pool.is_some_and(|pool| pool.mode == Mode::Global);
            (pool.map(|pool| pool.policy), global, Server::Periodic)
        }
        Home::Component(id) => {
            let home = model.component(id);
            let kind = home.map_or(Server::Periodic, |home| home.server);
            (home.map(|home| home.policy), false, kind)
        }
    };
    let fixed = policy.is_some_and(Policy::is_fixed);
    let groups = loads.iter().any(Load::is_component);
    let nothing_left = match component.plan {
        Plan::Given(interface) => i128::from(interface.budget.get()) <= prepaid,
        _ => false,
    };
    match server {
        Server::SoftBandwidth => Err(Unproven::Soft),
        Server::Periodic if home != Server::Periodic => Err(Unproven::Resting),
        Server::Periodic => Ok(()),
        _ if component.cpus > 1 || global => Err(Unproven::Parallel),
        Server::ConstantBandwidth if fixed => Err(Unproven::Moving),
        _ if groups && prepaid > 0 => Err(Unproven::Switches),
        _ if nothing_left => Err(Unproven::Prepaid),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use hanok_task_model::{CoreId, Nanos, Plan, Pool, PoolId, ResourceInterface};

    /// Only periodic servers are proven on several CPUs and in a global pool.
    #[test]
    fn on_several_cpus_only_periodic_servers_are_proven() {
        let ns = Nanos::new;
        let plan = Plan::Given(ResourceInterface::periodic(ns(10), ns(5)));
        let home = Home::Pool(PoolId(0));
        let others = [
            Server::Polling,
            Server::Deferrable,
            Server::ConstantBandwidth,
        ];
        for mode in [Mode::Partitioned, Mode::Global] {
            let mut pool = Pool::new("all", [CoreId(0), CoreId(1)]);
            pool.mode = mode;
            let model = Model::new(ns(1), Vec::from([pool]));
            for cpus in 1..4 {
                let of = |server| {
                    let mut component = Component::new("vm", home, plan);
                    (component.server, component.cpus) = (server, cpus);
                    proven(&model, &component, &[], 0)
                };
                assert_eq!(of(Server::Periodic), Ok(()));
                let one = cpus == 1 && mode == Mode::Partitioned;
                let answer = if one { Ok(()) } else { Err(Unproven::Parallel) };
                for server in others {
                    assert_eq!(of(server), answer, "{mode:?} {cpus} {server:?}");
                }
            }
        }
    }
}
