//! An entity is what a policy schedules; it is named by its index in that policy.
//!
//! The type keeps the index below the capacity. So policies for four entities and for thousands
//! share their code, and no policy meets an index that it has no room for.

/// The largest number of entities on one pCPU.
pub const MAX_ENTITIES: usize = 64;

/// An entity of a policy, by its index, which is below `N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entity<const N: usize = MAX_ENTITIES>(u16);

impl<const N: usize> Entity<N> {
    /// Checked at compile time wherever a capacity is used.
    const CAPACITY_FITS: () = assert!(N > 0 && N <= 1 << 15);
    /// The entity with index 0.
    pub const FIRST: Self = Self(0);
    /// The entity with the largest possible index.
    pub(crate) const LAST: Self = Self(N as u16 - 1);

    /// The entity at `index`; `None` if that is the capacity or more.
    pub const fn new(index: usize) -> Option<Self> {
        const { Self::CAPACITY_FITS };
        if index < N {
            Some(Self(index as u16))
        } else {
            None
        }
    }

    /// The entity at `index`, which wraps around in a table as long as the capacity.
    pub(crate) const fn wrapping(index: u16) -> Self {
        const { assert!(N.is_power_of_two()) };
        Self(index & (N as u16 - 1))
    }

    /// The entity's index, below the capacity.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of entities of one pCPU, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntitySet(u64);

impl EntitySet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// The set of entities whose indices are the bits of `bits`.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The indices of its entities as bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The union of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Removes the entity with the lowest index, and returns it.
    pub const fn take_first(&mut self) -> Option<Entity> {
        if self.0 == 0 {
            return None;
        }
        let first = self.0.trailing_zeros() as u16;
        self.0 &= self.0 - 1;
        Some(Entity(first))
    }

    /// Adds `entity`.
    pub const fn insert(&mut self, entity: Entity) {
        self.0 |= 1 << entity.0;
    }

    /// Removes `entity`.
    pub const fn remove(&mut self, entity: Entity) {
        self.0 &= !(1 << entity.0);
    }

    /// Whether `entity` is in the set.
    pub const fn contains(self, entity: Entity) -> bool {
        self.0 >> entity.0 & 1 != 0
    }

    /// The number of entities in the set.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The next member after `entity`, in the order of indices and from the last one back to the
    /// first. `entity` itself is the last candidate.
    pub const fn after(self, entity: Entity) -> Option<Entity> {
        let turned = self.0.rotate_right(entity.0 as u32 + 1);
        if turned == 0 {
            return None;
        }
        let steps = turned.trailing_zeros() as u16 + 1;
        Some(Entity((entity.0 + steps) % MAX_ENTITIES as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Against a set of the standard library's, over all indices that there are.
        #[test]
        fn a_mask_of_64_is_a_set(
            changes in proptest::collection::vec((0..MAX_ENTITIES, any::<bool>()), 0..200),
            from in 0..MAX_ENTITIES,
        ) {
            let (mut mask, mut set) = (EntitySet::EMPTY, BTreeSet::new());
            for (index, inserts) in changes {
                if inserts {
                    mask.insert(entity(index));
                    set.insert(index);
                } else {
                    mask.remove(entity(index));
                    set.remove(&index);
                }
                prop_assert_eq!(mask.contains(entity(index)), inserts);
                prop_assert_eq!(mask.len() as usize, set.len());
            }
            let after = set.range(from + 1..).chain(set.range(..=from)).next();
            prop_assert_eq!(mask.after(entity(from)).map(Entity::index), after.copied());
            let taken = core::iter::from_fn(|| mask.take_first());
            prop_assert!(taken.map(Entity::index).eq(set));
        }
    }

    fn entity(index: usize) -> Entity {
        Entity::new(index).unwrap()
    }

    #[test]
    fn they_are_taken_out_in_the_order_of_their_places() {
        let mut set =
            EntitySet::from_bits(1 << 63 | 1 << 5).union(EntitySet::from_bits(1 << 5 | 1));
        for place in [0, 5, 63] {
            assert_eq!(set.take_first(), Some(entity(place)));
        }
        assert_eq!((set.take_first(), set.is_empty()), (None, true));
    }

    #[test]
    fn a_walk_round_the_set_ends_at_its_start() {
        let mut set = EntitySet::EMPTY;
        assert_eq!(set.after(entity(5)), None);
        set.insert(entity(5));
        assert_eq!(set.after(entity(5)), Some(entity(5)));
        set.insert(entity(63));
        set.insert(entity(0));
        assert_eq!(set.after(entity(5)), Some(entity(63)));
        assert_eq!(set.after(entity(63)), Some(entity(0)));
        assert_eq!(set.after(entity(0)), Some(entity(5)));
        set.remove(entity(63));
        assert_eq!(set.after(entity(5)), Some(entity(0)));
        assert_eq!((set.len(), set.contains(entity(63))), (2, false));
        assert_eq!(Entity::<MAX_ENTITIES>::new(MAX_ENTITIES), None);
    }
}
