//! VMIDs, allocated so that no boot of a VM ever uses the TLB entries of another one.
//!
//! Each boot of a VM gets a VMID of its own, so that nothing has to be invalidated when the boot
//! begins. A VMID that was freed is dirty. It is allocated again only after the *rollover*: when no
//! clean VMID is left, all TLBs are invalidated once, and all VMIDs that are dirty then become
//! clean. VMIDs in use keep their meaning, since a rollover only removes cached translations.

use crate::Vmid;

/// The number of VMIDs without FEAT_VMID16.
const COUNT: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No TLB holds an entry with this VMID.
    Clean,
    /// A boot uses this VMID.
    Used,
    /// This VMID was freed since the last rollover.
    Dirty,
}

/// The pool of VMIDs. Number 0 is never allocated.
#[derive(Clone, Debug)]
pub struct VmidPool {
    states: [State; COUNT],
}

/// An allocated VMID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Fresh {
    /// The VMID.
    pub vmid: Vmid,
    /// Whether a rollover is needed: then all TLBs of every CPU, all VMIDs, must be invalidated
    /// before the VMID is used.
    pub rollover: bool,
}

impl VmidPool {
    /// A pool with no VMID in use and no entry in any TLB.
    pub const fn new() -> Self {
        let mut states = [State::Clean; COUNT];
        states[0] = State::Used;
        Self { states }
    }

    /// Allocates a VMID for a new boot; `None` if all 255 are in use.
    pub fn allocate(&mut self) -> Option<Fresh> {
        let clean = self.take_clean();
        let rollover = clean.is_none();
        if rollover {
            let spent = self.states.iter_mut().filter(|one| **one == State::Dirty);
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

    /// Frees a VMID: its boot has ended, and no CPU runs with it.
    pub fn free(&mut self, vmid: Vmid) {
        if let Some(state) = self.states.get_mut(usize::from(vmid.get())) {
            *state = State::Dirty;
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
    fn no_vmid_is_allocated_while_all_are_in_use() {
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
        /// An allocated VMID is in use by no other boot, and is clean: there was a rollover since
        /// it was last freed.
        #[test]
        fn no_boot_meets_entries_of_another(frees in proptest::collection::vec(0..8usize, 1..2000)) {
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
