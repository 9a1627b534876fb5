//! The entity with the smallest key: a tournament tree over all entities.
//!
//! Every policy asks for a minimum (the earliest deadline, the highest priority, the next
//! replenishment) and changes one key at a time. A tournament does either in one walk from a leaf
//! to the root. The length of that walk is the logarithm of the number of entities in use, whatever
//! the order of the keys: so the worst case is the usual one, and removing any entity costs no more
//! than removing the first. A binary heap has a cheaper usual case for keys that grow, but its
//! deletion goes down with two comparisons a level; balanced trees cost a multiple of both.
//!
//! Kept true: each inner node holds the winner of its two halves. Between equal keys the lower
//! index wins, so that the order is total and runs can be repeated.

use crate::Entity;

/// The key of entities that do not take part. One key is larger: see [`Tournament::change`].
const ABSENT: u64 = u64::MAX - 1;

/// The largest key of an entity that takes part; larger keys count as this one.
pub(crate) const LAST_KEY: u64 = ABSENT - 1;

/// The keys of entities, and which one is the smallest.
#[derive(Clone, Debug)]
pub struct Tournament<const N: usize> {
    keys: [u64; N],
    /// For each inner node, from 1 on, the winner below it. Node n has the halves 2n and 2n + 1;
    /// from `leaves` on the halves are entities.
    winners: [u16; N],
    /// The number of leaves: a power of two, above every index in use.
    leaves: u16,
}

impl<const N: usize> Default for Tournament<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Tournament<N> {
    /// A tournament in which no entity takes part.
    pub const fn new() -> Self {
        const { assert!(N.is_power_of_two() && N >= 2 && N <= 1 << 14) };
        // Of two leaves, either may win as long as no entity takes part.
        Self {
            keys: [ABSENT; N],
            winners: [0; N],
            leaves: 2,
        }
    }

    /// The entity with the smallest key, and the key.
    #[inline]
    pub fn first(&self) -> Option<(Entity<N>, u64)> {
        let top = self.winners[1];
        let key = self.key_of(top);
        (key != ABSENT).then_some((Entity::wrapping(top), key))
    }

    /// The smallest key; [`u64::MAX`] if no entity takes part.
    #[inline]
    pub fn first_key(&self) -> u64 {
        match self.key_of(self.winners[1]) {
            ABSENT => u64::MAX,
            key => key,
        }
    }

    /// The entity that comes after the first one, and its key.
    pub fn second(&self) -> Option<(Entity<N>, u64)> {
        let mut node = self.leaves + self.winners[1];
        let (mut best, mut best_key) = (0, ABSENT);
        while node > 1 {
            let rival = self.winner(node ^ 1);
            let key = self.key_of(rival);
            if (key, rival) < (best_key, best) {
                (best, best_key) = (rival, key);
            }
            node >>= 1;
        }
        (best_key != ABSENT).then_some((Entity::wrapping(best), best_key))
    }

    /// Whether `entity` takes part.
    pub fn contains(&self, entity: Entity<N>) -> bool {
        self.key_of(entity.index() as u16) != ABSENT
    }

    /// Lets `entity` take part with `key`.
    #[inline]
    pub fn set(&mut self, entity: Entity<N>, key: u64) {
        self.make_room(entity);
        self.change(entity.index() as u16, key.min(LAST_KEY));
    }

    /// Takes `entity` out.
    #[inline]
    pub fn remove(&mut self, entity: Entity<N>) {
        let index = entity.index() as u16;
        if self.key_of(index) != ABSENT {
            self.change(index, ABSENT);
        }
    }

    /// Makes room for `entity`. Each doubling takes a rebuild, which is better done here than when
    /// the entity first takes part.
    #[inline]
    pub fn make_room(&mut self, entity: Entity<N>) {
        let index = entity.index() as u16;
        if index >= self.leaves {
            self.grow(index);
        }
    }

    #[inline]
    fn key_of(&self, index: u16) -> u64 {
        self.keys[usize::from(index) & (N - 1)]
    }

    /// Walks up from the leaf of `index`, whose key becomes `key`: while `index` itself wins, then
    /// with the entity that beats it, up to a node that this entity had won before.
    fn change(&mut self, index: u16, key: u64) {
        self.keys[usize::from(index) & (N - 1)] = key;
        let mut node = usize::from(self.leaves + index);
        let mut rival = index ^ 1;
        let (mut winner, mut best) = loop {
            // Between equal keys the left half wins. No key is so large that `key + 1` overflows.
            let limit = key.wrapping_add((node & 1) as u64);
            let rival_key = self.key_of(rival);
            node >>= 1;
            if rival_key < limit {
                break (rival, rival_key);
            }
            self.winners[node & (N - 1)] = index;
            if node == 1 {
                return;
            }
            rival = self.winners[(node ^ 1) & (N - 1)];
        };
        while self.winners[node & (N - 1)] != winner {
            self.winners[node & (N - 1)] = winner;
            if node == 1 {
                return;
            }
            let rival = self.winners[(node ^ 1) & (N - 1)];
            let rival_key = self.key_of(rival);
            if rival_key < best.wrapping_add((node & 1) as u64) {
                (winner, best) = (rival, rival_key);
            }
            node >>= 1;
        }
    }

    /// Makes room for `index`.
    #[cold]
    fn grow(&mut self, index: u16) {
        while self.leaves <= index {
            self.leaves *= 2;
        }
        for node in (1..self.leaves).rev() {
            let [left, right] = [2 * node, 2 * node + 1].map(|half| self.winner(half));
            let winner = if self.key_of(right) < self.key_of(left) {
                right
            } else {
                left
            };
            self.winners[usize::from(node) & (N - 1)] = winner;
        }
    }

    /// The winner at `node`.
    fn winner(&self, node: u16) -> u16 {
        match node.checked_sub(self.leaves) {
            Some(leaf) => leaf,
            None => self.winners[usize::from(node) & (N - 1)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        /// Against a search of the whole table.
        #[test]
        fn a_tournament_finds_what_a_search_finds(
            steps in proptest::collection::vec((0..32usize, proptest::option::of(0..20u64)), 1..300),
        ) {
            let mut tree = Tournament::<32>::new();
            let mut table = [None; 32];
            for (index, key) in steps {
                let entity = Entity::new(index).unwrap();
                match key {
                    Some(key) => tree.set(entity, key),
                    None => tree.remove(entity),
                }
                table[index] = key;
                for (index, key) in table.iter().enumerate() {
                    prop_assert_eq!(tree.contains(Entity::new(index).unwrap()), key.is_some());
                }
                let mut order: Vec<_> = (0..32).filter_map(|i| Some((table[i]?, i))).collect();
                order.sort();
                let named = |found: Option<(Entity<32>, u64)>| found.map(|(e, key)| (key, e.index()));
                prop_assert_eq!(named(tree.first()), order.first().copied());
                prop_assert_eq!(named(tree.second()), order.get(1).copied());
            }
        }
    }

    #[test]
    fn the_largest_key_still_takes_part() {
        let mut tree = Tournament::<4>::new();
        tree.set(Entity::LAST, u64::MAX);
        assert_eq!(tree.first(), Some((Entity::LAST, LAST_KEY)));
        tree.remove(Entity::LAST);
        assert_eq!(tree.first(), None);
    }
}
