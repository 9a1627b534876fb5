//! Which core of a partitioned pool a component is on.

use crate::{Interfaces, SimError};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use hanok_task_model::{ComponentId, Interface, Model, Pool};

/// So much of a core is the whole of it. Only where a component is put is decided by these
/// fractions, whether it fits there is the simulation's own finding.
const WHOLE: u128 = 1 << 64;

/// A core, by its place in the pool, for each of `members`: the one that a component wishes for, else the
/// first one with room, the largest components first.
pub fn place(
    model: &Model,
    pool: &Pool,
    members: &[ComponentId],
    interfaces: &Interfaces,
) -> Result<Vec<usize>, SimError> {
    let mut used = vec![0u128; pool.cores.len()];
    let mut placed = vec![None; members.len()];
    let mut free = Vec::new();
    for (index, id) in members.iter().enumerate() {
        let size = size(interfaces.get(id));
        let wish = model.component(*id).and_then(|component| component.core);
        let wish = wish.and_then(|wish| pool.cores.iter().position(|core| *core == wish));
        match wish.and_then(|core| Some((core, used.get_mut(core)?))) {
            Some((core, used)) => {
                *used += size;
                put(&mut placed, index, core);
            }
            None => free.push((Reverse(size), index)),
        }
    }
    free.sort();
    for (Reverse(size), index) in free {
        let core = used.iter().position(|used| used + size <= WHOLE);
        let name = || members.get(index).and_then(|id| model.component(*id));
        let Some(core) = core else {
            let name = name().map(|component| component.name.clone());
            return Err(SimError::NoCore(name.unwrap_or_default()));
        };
        if let Some(used) = used.get_mut(core) {
            *used += size;
        }
        put(&mut placed, index, core);
    }
    Ok(placed.into_iter().map(Option::unwrap_or_default).collect())
}

fn put(placed: &mut [Option<usize>], index: usize, core: usize) {
    if let Some(place) = placed.get_mut(index) {
        *place = Some(core);
    }
}

fn size(interface: Option<&Interface>) -> u128 {
    interface.map_or(0, |interface| {
        let budget = u128::from(interface.budget.get()) << 64;
        budget / u128::from(interface.period.get().max(1))
    })
}
