//! VMIDs, given out so that no TLB entry of one VM's life is ever met by another.
//!
//! Each life of a VM gets a VMID of its own, so that nothing has to be invalidated when one
//! begins. VMIDs are given out in ascending order; one that was given back comes again only
//! after the *rollover*: when the last one is used up, all TLBs are invalidated once, and
//! everything that was given back by then is clean. VMIDs in use keep their meaning over
//! it, as they lose cached translations alone.

use crate::Vmid;

/// How many there are without FEAT_VMID16.
const COUNT: usize = 256;

/// Which VMIDs are in use. Number 0 belongs to nobody.
#[derive(Clone, Debug)]
pub struct VmidPool {
    used: [bool; COUNT],
    next: usize,
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
        Self {
            used: [false; COUNT],
            next: 1,
        }
    }

    /// One for a new life; `None` where all 255 are in use.
    pub fn allocate(&mut self) -> Option<Fresh> {
        let ahead = self.free_from(self.next);
        let rollover = ahead.is_none();
        let index = ahead.or_else(|| self.free_from(1))?;
        *self.used.get_mut(index)? = true;
        self.next = index + 1;
        Some(Fresh {
            vmid: Vmid::new(index as u8),
            rollover,
        })
    }

    fn free_from(&self, start: usize) -> Option<usize> {
        let tail = self.used.get(start..)?;
        tail.iter().position(|used| !used).map(|at| start + at)
    }

    /// Gives one back: its life is over, and no CPU runs under it.
    pub fn free(&mut self, vmid: Vmid) {
        if let Some(used) = self.used.get_mut(usize::from(vmid.get())) {
            *used = false;
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
