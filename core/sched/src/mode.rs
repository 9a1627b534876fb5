//! A change of mode: several components get other interfaces, and each one gets what it was
//! promised before, during and after the change.
//!
//! A component that gets less keeps its old promise until its period's end, and has the new one
//! from then on: at that instant, and not before, the rest of its bandwidth is free. So a component
//! that gets more gets it at its own first period's end after all these instants. If both modes are
//! admitted, the bandwidths in use never exceed the larger sum of the two. Under EDF with deadlines
//! at the periods' ends, promises need no more than that (Buttazzo, Abeni and others use the same
//! instants for elastic tasks and for servers). For other deadlines and for fixed priorities, the
//! demand of both modes together must be admitted; the caller is responsible for that
//! ([`crate::admission`]).

use crate::{Entity, Interface, InterfaceError, Servers};

/// Switches `servers` to a new mode at `now`: the given entities get the given interfaces, all
/// others keep theirs. The answer is the instant from which on those that get more may have it. If
/// one of the interfaces is not possible, nothing changes. Entities without a server are passed
/// over.
pub fn switch<const N: usize>(
    servers: &mut Servers<N>,
    mode: &[(Entity<N>, Interface)],
    now: u64,
) -> Result<u64, InterfaceError> {
    let less = |entity: &Entity<N>, interface: &Interface| {
        let old = servers.interface(*entity);
        old.is_some_and(|old| interface.is_less_than(old))
    };
    let mut free = now;
    for (entity, interface) in mode {
        servers.allows(*entity, *interface)?;
        if less(entity, interface)
            && let Some(end) = servers.period_end(*entity, now)
        {
            free = free.max(end);
        }
    }
    for (entity, interface) in mode {
        let old = servers.interface(*entity);
        let less = old.is_some_and(|old| interface.is_less_than(old));
        let not_before = if less { now } else { free };
        // An entity without a server is passed over.
        let _ = servers.change(*entity, *interface, not_before)?;
    }
    Ok(free)
}

#[cfg(test)]
mod tests;
