//! First-level tables and whose they are.

use super::asid::Tag;
use crate::short::{Privilege, ShortRegime};
use hanok_types::Hpa;

/// A space of a guest: the registers that say how its addresses are translated, and its ASID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestSpace {
    /// The registers.
    pub regime: ShortRegime,
    /// CONTEXTIDR.ASID.
    pub asid: u8,
    /// Whether it has tables of its own in which the kernel may execute next to nothing.
    pub confined: bool,
}

/// Whose a root is. Equal spaces have equal owners, as the regime is normalized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub space: GuestSpace,
    pub view: Privilege,
}

impl Owner {
    pub fn new(space: &GuestSpace, view: Privilege) -> Self {
        let regime = space.regime.normalized();
        let space = GuestSpace { regime, ..*space };
        Self { space, view }
    }

    /// The owner of the common root: what a global entry of a TLB does not depend on is cleared. `None`
    /// without the MMU, where nothing is in a TLB.
    pub fn common(&self) -> Option<Self> {
        let regime = ShortRegime {
            ttbr0: 0,
            ..self.space.regime
        };
        let space = GuestSpace {
            regime,
            asid: 0,
            ..self.space
        };
        let view = self.view;
        regime.control().mmu().then_some(Self { space, view })
    }
}

/// The number of descriptors of a first-level table.
pub(super) const ENTRIES: usize = 4096;
const BITS: usize = u32::BITS as usize;

/// A set of first-level descriptors.
#[derive(Debug)]
pub(super) struct Indices([u32; ENTRIES / BITS]);

impl Indices {
    pub fn contains(&self, index: usize) -> bool {
        let word = self.0.get(index / BITS);
        word.is_some_and(|word| word >> (index % BITS) & 1 != 0)
    }

    pub fn insert(&mut self, index: usize) {
        if let Some(word) = self.0.get_mut(index / BITS) {
            *word |= 1 << (index % BITS);
        }
    }

    pub fn remove(&mut self, index: usize) {
        if let Some(word) = self.0.get_mut(index / BITS) {
            *word &= !(1 << (index % BITS));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The greatest of them below `end`.
    pub fn last_below(&self, end: usize) -> Option<usize> {
        let before = |word: usize, bits: u32| {
            let last = bits.checked_ilog2()?;
            Some(word * BITS + last as usize)
        };
        let partial = self.0.get(end / BITS).copied().unwrap_or(0) & ((1 << (end % BITS)) - 1);
        before(end / BITS, partial).or_else(|| {
            let mut whole = (0..end / BITS).rev();
            whole.find_map(|word| before(word, self.0[word]))
        })
    }

    /// The least of them.
    pub fn first(&self) -> Option<usize> {
        let word = self.0.iter().position(|word| *word != 0)?;
        Some(word * BITS + self.0[word].trailing_zeros() as usize)
    }
}

/// A first-level table.
#[derive(Debug)]
pub(super) struct Root {
    pub table: Hpa,
    /// Whose it is; `None` if its entries are void, and it is to be emptied.
    pub owner: Option<Owner>,
    /// Its ASID, if it has one. No TLB holds anything of it otherwise.
    pub tag: Option<Tag>,
    /// The common root that it has entries of.
    pub common: Option<usize>,
    /// How often it lost entries by [`Self::lose`]; of a root with a common one, what that had counted when
    /// the ASID was last known to hold.
    pub losses: u32,
    /// The clock when it was used last.
    pub used: u64,
    /// The clock when it got its owner.
    pub owned: u64,
    /// The descriptors that are not 0, that of the window left out.
    pub filled: Indices,
    /// A bit for each megabyte of the host, modulo 64, to which a section may lead.
    pub sections: u64,
    /// Whether an entry stems from a supersection.
    pub supersections: bool,
    /// Whether a doorbell may be open.
    pub doorbells: bool,
}

impl Root {
    pub fn new() -> Self {
        Self {
            table: Hpa::new(0),
            owner: None,
            tag: None,
            common: None,
            losses: 0,
            used: 0,
            owned: 0,
            filled: Indices([0; ENTRIES / BITS]),
            sections: 0,
            supersections: false,
            doorbells: false,
        }
    }

    /// Makes all entries void.
    pub fn disown(&mut self) {
        self.owner = None;
        self.tag = None;
        self.common = None;
        // Its tables are the first to be taken.
        self.used = 0;
    }

    /// Entries are gone that TLBs may hold. The ASID of a root goes; of a common root, those of all that have
    /// its entries, when they are entered.
    pub fn lose(&mut self) {
        self.tag = None;
        self.losses = self.losses.wrapping_add(1);
    }

    /// Forgets what was noted of entries that are all gone.
    pub fn emptied(&mut self) {
        self.sections = 0;
        self.supersections = false;
        self.doorbells = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_a_set() {
        let mut set = Root::new().filled;
        assert!(set.is_empty());
        for index in [4095, 31, 32] {
            set.insert(index);
        }
        assert_eq!(set.first(), Some(31));
        let down = [4096, 4095, 32, 31].map(|end| set.last_below(end));
        assert_eq!(down, [Some(4095), Some(32), Some(31), None]);
        set.remove(31);
        assert!(!set.contains(31) && set.contains(32) && set.contains(4095));
        assert_eq!(set.first(), Some(32));
        set.remove(32);
        set.remove(4095);
        assert_eq!(set.first(), None);
    }
}
