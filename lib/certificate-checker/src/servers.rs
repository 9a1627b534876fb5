//! The servers for which the analysis is proven.

use crate::Fault;
use hanok_task_model::{Component, Home, Mode, Model, Server};

/// Checks that the analysis is proven for `component`:
///
/// - a periodic server is a periodic task only in a home that idles at its own expense, which a
///   core and a periodic server do;
/// - all other kinds are proven on one CPU alone;
/// - a bandwidth server needs a home that goes by deadlines, and a soft one promises nothing;
/// - a server that may begin in the middle of its period may be switched to any number of times.
pub fn known(model: &Model, component: &Component) -> Result<(), Fault> {
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
    let free = model.cost.per_period().is_zero();
    let known = match component.server {
        Server::Periodic => home.is_none_or(|home| home.server == Server::Periodic),
        Server::Polling => one_cpu,
        Server::Deferrable => one_cpu && free,
        Server::ConstantBandwidth => one_cpu && free && by_deadline,
        Server::SoftBandwidth => false,
    };
    if known { Ok(()) } else { Err(Fault::Server) }
}
