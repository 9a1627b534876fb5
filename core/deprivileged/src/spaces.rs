//! The spaces between which a kernel may change without the monitor.
//!
//! A change of process is a few writes of TTBR0 and CONTEXTIDR, and each of these leads to another root. The backend
//! finds it in a table that the monitor has filled ([`KnownSpaces`]), by both registers' values. The table is the CPU's, and
//! each entry counts only with the *stamp* that is in force: when a root, its ASID or anything else that an entry supposes
//! has changed since, or another vCPU has used the table, the monitor takes another stamp, and begins anew.

use hanok_paging::shadow::{AsidPool, RootSet};
use hanok_paging::short::ShortRegime;

/// How many sets the table has, by the lowest bits of the ASID.
pub const SETS: usize = 64;
/// The entries of a set: Linux changes to a process's tables by way of reserved ones, with the same ASID.
const WAYS: usize = 2;

/// Where the views of a space are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Roots {
    /// The kernel's first-level table, as TTBR0 is to have it, and ASID.
    pub kernel: [u32; 2],
    /// The programs' ones. If the table is 0, the kernel does not go back by itself.
    pub user: [u32; 2],
    /// DACR with which the kernel may go back.
    pub domains: u32,
}

impl Roots {
    /// None.
    pub const NONE: Self = Self {
        kernel: [0; 2],
        user: [0; 2],
        domains: 0,
    };

    /// The kernel's alone.
    pub(crate) const fn of_kernel(self) -> Self {
        Self {
            kernel: self.kernel,
            ..Self::NONE
        }
    }
}

/// A space that is known.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KnownSpace {
    /// The stamp with which it counts. None is 0.
    pub stamp: u32,
    /// TTBR0 and CONTEXTIDR.
    pub space: [u32; 2],
    /// Where both views of it are.
    pub roots: Roots,
}

/// The spaces that a CPU knows.
#[derive(Debug)]
#[repr(C)]
pub struct KnownSpaces {
    /// They are looked for in the set of the ASID's lowest bits alone.
    pub sets: [[KnownSpace; WAYS]; SETS],
    /// The stamp that was taken last.
    last: u32,
}

impl KnownSpaces {
    /// None.
    pub const NONE: Self = {
        let none = KnownSpace {
            stamp: 0,
            space: [0; 2],
            roots: Roots::NONE,
        };
        Self {
            sets: [[none; WAYS]; SETS],
            last: 0,
        }
    };

    /// A stamp with which no entry counts.
    fn renew(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1);
        if self.last == 0 {
            *self = Self::NONE;
            self.last = 1;
        }
        self.last
    }

    /// The entry for a space, if it counts.
    pub fn find(&self, stamp: u32, space: [u32; 2]) -> Option<&KnownSpace> {
        let mut ways = self.sets.get(set(space))?.iter();
        ways.find(|way| way.stamp == stamp && way.space == space && stamp != 0)
    }

    /// Puts an entry where the space's is, or one that does not count, or one of the others.
    fn put(&mut self, known: KnownSpace) {
        let Some([first, second]) = self.sets.get_mut(set(known.space)) else {
            return;
        };
        let fits = |way: &KnownSpace| way.stamp != known.stamp || way.space == known.space;
        if fits(first) {
            *first = known;
        } else {
            if !fits(second) {
                *first = *second;
            }
            *second = known;
        }
    }
}

const fn set(space: [u32; 2]) -> usize {
    space[1] as usize % SETS
}

/// What a vCPU knows of the entries that it has put into its CPU's table.
#[derive(Debug)]
pub(crate) struct OwnSpaces {
    stamp: u32,
    pool: u8,
    generation: u64,
    /// The registers of a walk but TTBR0, with the kernel's DACR.
    regime: Option<ShortRegime>,
    /// The roots, as the shadow tables name them.
    pub roots: RootSet,
}

impl OwnSpaces {
    /// None.
    pub const NONE: Self = Self {
        stamp: 0,
        pool: 0,
        generation: 0,
        regime: None,
        roots: RootSet::NONE,
    };

    /// The stamp in force, which is another one if the entries do not count any more. `known` says whether the shadow tables
    /// still know the roots.
    pub fn stamp(
        &mut self,
        table: &mut KnownSpaces,
        asids: &AsidPool,
        regime: &ShortRegime,
        known: impl Fn(&RootSet) -> bool,
    ) -> u32 {
        let regime = ShortRegime {
            ttbr0: 0,
            ..*regime
        };
        let same = self.stamp == table.last
            && self.pool == asids.id()
            && self.generation == asids.generation()
            && self.regime.as_ref() == Some(&regime)
            && known(&self.roots);
        if !same {
            *self = Self {
                stamp: table.renew(),
                pool: asids.id(),
                generation: asids.generation(),
                regime: Some(regime),
                roots: RootSet::NONE,
            };
        }
        self.stamp
    }

    /// The kernel's DACR in the spaces.
    pub fn domains(&self) -> Option<u32> {
        self.regime.as_ref().map(|regime| regime.dacr)
    }

    /// Puts an entry into the table, whose roots are these.
    pub fn put(
        &mut self,
        table: &mut KnownSpaces,
        space: [u32; 2],
        roots: Roots,
        numbers: RootSet,
    ) {
        self.roots = self.roots | numbers;
        table.put(KnownSpace {
            stamp: self.stamp,
            space,
            roots,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanok_paging::short::Pxn;

    fn regime(sctlr: u32) -> ShortRegime {
        ShortRegime {
            sctlr,
            ttbr0: 0,
            ttbr1: 0,
            ttbcr: 0,
            dacr: 0,
            prrr: 0,
            nmrr: 0,
            pxn: Pxn::Absent,
        }
    }

    #[test]
    fn two_spaces_of_an_asid_are_kept() {
        let (mut table, asids) = (KnownSpaces::NONE, AsidPool::new(0));
        let mut own = OwnSpaces::NONE;
        let stamp = own.stamp(&mut table, &asids, &regime(1), |_| true);
        let root = |table| Roots {
            kernel: [table, 1],
            ..Roots::NONE
        };
        for (space, table_at) in [([1, 5], 10), ([2, 5], 20), ([1, 5], 30)] {
            own.put(&mut table, space, root(table_at), RootSet::NONE);
        }
        let found =
            |table: &KnownSpaces, space| table.find(stamp, space).map(|one| one.roots.kernel[0]);
        assert_eq!(found(&table, [1, 5]), Some(30));
        assert_eq!(found(&table, [2, 5]), Some(20));
        own.put(&mut table, [3, 5 + 0x1_0000], root(40), RootSet::NONE);
        let all = [[1, 5], [2, 5], [3, 5 + 0x1_0000]].map(|space| found(&table, space));
        assert_eq!(all, [None, Some(20), Some(40)]);
        assert!(table.find(0, [0, 0]).is_none());
    }

    #[test]
    fn what_an_entry_supposes_takes_another_stamp() {
        let (mut table, mut asids) = (KnownSpaces::NONE, AsidPool::with_last(3, 1));
        let mut own = OwnSpaces::NONE;
        let take =
            |own: &mut OwnSpaces, table: &mut KnownSpaces, asids: &AsidPool, sctlr, known| {
                own.stamp(table, asids, &regime(sctlr), |_| known)
            };
        let first = take(&mut own, &mut table, &asids, 1, true);
        assert_eq!(take(&mut own, &mut table, &asids, 1, true), first);
        let second = take(&mut own, &mut table, &asids, 3, true);
        let third = take(&mut own, &mut table, &asids, 3, false);
        // Another vCPU has used the table.
        let mut other = OwnSpaces::NONE;
        let fourth = take(&mut other, &mut table, &asids, 3, true);
        let fifth = take(&mut own, &mut table, &asids, 3, true);
        asids = AsidPool::new(4);
        let sixth = take(&mut own, &mut table, &asids, 3, true);
        assert_eq!(
            [first, second, third, fourth, fifth, sixth],
            [1, 2, 3, 4, 5, 6]
        );
        table.last = u32::MAX;
        own.put(&mut table, [1, 1], Roots::NONE, RootSet::NONE);
        assert_eq!(take(&mut own, &mut table, &asids, 3, true), 1);
        assert!(table.find(6, [1, 1]).is_none());
    }
}
