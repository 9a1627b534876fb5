//! Places the vCPUs of a partitioned pool that nobody has placed.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use hanok_sched::Interface;

/// The share of a whole core. These fractions decide where a vCPU is put; the simulation shows
/// whether it fits there.
const WHOLE: u128 = 1 << 64;

/// Places each promise on a core: the one it asks for, or the first one with enough time left, the
/// largest promises first. The error is a promise that fits nowhere.
pub fn place(
    promises: &[Interface],
    wishes: &[Option<usize>],
    cores: usize,
) -> Result<Vec<usize>, usize> {
    let mut used = vec![0u128; cores];
    let mut placed = vec![0; promises.len()];
    let mut free = Vec::new();
    let wishes = wishes.iter().copied().chain(core::iter::repeat(None));
    for ((index, promise), wish) in promises.iter().enumerate().zip(wishes) {
        let size = size(*promise);
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
        let room = used.iter().position(|used| used + size <= WHOLE);
        let core = room.ok_or(index)?;
        if let Some(used) = used.get_mut(core) {
            *used += size;
        }
        put(&mut placed, index, core);
    }
    Ok(placed)
}

fn put(placed: &mut [usize], index: usize, core: usize) {
    if let Some(place) = placed.get_mut(index) {
        *place = core;
    }
}

fn size(promise: Interface) -> u128 {
    (u128::from(promise.budget()) << 64) / u128::from(promise.period())
}
