//! A change of mode: several components get other interfaces, and nobody misses what it was
//! promised, before, during or after.
//!
//! Who gets less has what it was promised until its period's end, and from then on what is
//! less: at that instant, and not before, the rest of its bandwidth is free. So who gets more
//! does so at its own first period's end after all of these. With both modes admitted, the
//! bandwidths in use never exceed what one of them was admitted with: under EDF, with
//! deadlines at the periods' ends, that is all that promises need (Buttazzo, Abeni and others
//! use the same instants for elastic tasks and for servers). For other deadlines and for fixed
//! priorities the demand of both modes together must be admitted, which is the caller's to
//! ask ([`crate::admission`]).

use crate::{Entity, Interface, InterfaceError, Servers};

/// Tells `servers` of a new mode at `now`: these get these interfaces, all others keep theirs.
/// The instant from which on those that get more may have it. Nothing changes where one of
/// them cannot be; who has no server is passed over.
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
        servers.change(*entity, *interface, not_before)?;
    }
    Ok(free)
}

#[cfg(test)]
mod tests;
