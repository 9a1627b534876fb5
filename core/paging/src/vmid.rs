//! VMIDs, given out so that no TLB entry of one VM's life is ever met by another.
//!
//! Each life of a VM gets a VMID of its own, so that nothing has to be invalidated when one
//! begins. One that was given back is spent: it comes again only after the *rollover*, when
//! no clean one is left, all TLBs are invalidated once, and everything spent by then is
//! clean. VMIDs in use keep their meaning over it, as they lose cached translations alone.

use crate::Vmid;

/// How many there are without FEAT_VMID16.
const COUNT: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No TLB holds an entry under it.
    Clean,
    /// A life has it.
    Used,
    /// It was given back since the last rollover.
    Spent,
}

/// The VMIDs. Number 0 belongs to nobody.
#[derive(Clone, Debug)]
pub struct VmidPool {
    states: [State; COUNT],
}

/// A VMID that was given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Fresh {
    /// The VMID.
    pub vmid: Vmid,
    /// The rollover: every CPU's TLBs, all VMIDs, must be invalidated before it is used.
    pub rollover: bool,
}

impl VmidPool {
    /// None in use, and nothing in any TLB.
    pub const fn new() -> Self {
        let mut states = [State::Clean; COUNT];
        states[0] = State::Used;
        Self { states }
    }

    /// One for a new life; `None` where all 255 are in use.
    pub fn allocate(&mut self) -> Option<Fresh> {
        let clean = self.take_clean();
        let rollover = clean.is_none();
        if rollover {
            let spent = self.states.iter_mut().filter(|one| **one == State::Spent);
            spent.for_each(|one| *one = State::Clean);
        }
        let vmid = clean.or_else(|| self.take_clean())?;
        Some(Fresh { vmid, rollover })
    }

    fn take_clean(&mut self) -> Option<Vmid> {
        let index = self.states.iter().position(|one| *one == State::Clean)?;
        *self.states.get_mut(index)? = State::Used;
        Some(Vmid::new(index as u8))
    }

    /// Gives one back: its life is over, and no CPU runs under it.
    pub fn free(&mut self, vmid: Vmid) {
        if let Some(state) = self.states.get_mut(usize::from(vmid.get())) {
            *state = State::Spent;
        }
    }
}

impl Default for VmidPool {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    #[test]
    fn all_in_use_is_an_end() {
        let mut pool = VmidPool::new();
        for expected in 1..=255u8 {
            let fresh = pool.allocate().unwrap();
            assert_eq!((fresh.vmid.get(), fresh.rollover), (expected, false));
        }
        assert_eq!(pool.allocate(), None);
        pool.free(Vmid::new(7));
        let fresh = pool.allocate().unwrap();
        assert_eq!((fresh.vmid.get(), fresh.rollover), (7, true));
    }

    proptest! {
        /// What is given out is nobody's, and clean: since it was last given back there was
        /// a rollover.
        #[test]
        fn nobody_meets_another_s_entries(frees in proptest::collection::vec(0..8usize, 1..2000)) {
            let mut pool = VmidPool::new();
            let (mut live, mut dirty) = (Vec::new(), BTreeSet::new());
            for which in frees {
                let fresh = pool.allocate().unwrap();
                if fresh.rollover {
                    dirty.clear();
                }
                let id = fresh.vmid.get();
                prop_assert!(id != 0 && !live.contains(&id) && !dirty.contains(&id));
                live.push(id);
                if live.len() == 8 {
                    let gone = live.remove(which);
                    pool.free(Vmid::new(gone));
                    dirty.insert(gone);
                }
            }
        }
    }
}
