//! Which kinds of servers a proof holds for, and where.
//!
//! What a server of each kind asks of those beside it is at [`Arrival`](crate::load::Arrival), what
//! it gives to its members at [`Start`](crate::supply::Start); docs/scheduling.md derives both. What
//! is not derived there is refused here, each with its reason.

use hanok_task_model::{Component, Home, Mode, Model, Policy, Server};
use thiserror::Error;

/// Why nothing is proven about a server where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unproven {
    /// A soft bandwidth server: it may be ahead of its bandwidth by any amount, and is late by as
    /// much afterwards.
    #[error(
        "a soft bandwidth server promises no deadline: what it runs ahead it is late by afterwards"
    )]
    Soft,
    /// A bandwidth server where priorities decide: its deadline moves, and nobody looks at it.
    #[error(
        "a bandwidth server moves its deadline, which fixed priorities do not look at: choose by \
         \"edf\" above it, or make it deferrable"
    )]
    Moving,
    /// A periodic server in one of another kind: it spends its budget in its home's time, and its
    /// home has none while nobody in it has work. So it keeps what is left, and spends it later on
    /// nothing.
    #[error(
        "a periodic server cannot spend its budget while its home, which is of another kind, is \
         idle: make the home periodic, or this one polling or deferrable"
    )]
    Resting,
    /// On several CPUs, or among those of a global pool.
    #[error("on several CPUs and in global pools only periodic servers are reckoned with")]
    Parallel,
    /// It can be switched to more often than once in a period.
    #[error(
        "each wake-up of a deferrable or bandwidth server may be a switch, and how many come in a \
         period is not bounded: with `switch` or `refill`, make it periodic or polling"
    )]
    Switches,
}

/// Whether what is said of the kind of `component` is proven where it is.
pub(crate) fn proven(model: &Model, component: &Component) -> Result<(), Unproven> {
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
    let begins_inside = server.needs_period();
    match server {
        Server::SoftBandwidth => Err(Unproven::Soft),
        Server::Periodic if home != Server::Periodic => Err(Unproven::Resting),
        Server::Periodic => Ok(()),
        _ if component.cpus > 1 || global => Err(Unproven::Parallel),
        Server::ConstantBandwidth if fixed => Err(Unproven::Moving),
        _ if begins_inside && !model.cost.per_period().is_zero() => Err(Unproven::Switches),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use hanok_task_model::{CoreId, Interface, Nanos, Plan, Pool, PoolId};

    /// Only periodic servers have several CPUs, and only they are among those of a global pool.
    #[test]
    fn on_several_cpus_only_periodic_servers_are_proven() {
        let ns = Nanos::new;
        let plan = Plan::Given(Interface::periodic(ns(10), ns(5)));
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
                    proven(&model, &component)
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
