//! Who has the smallest key: a tournament tree over all entities.
//!
//! Every policy asks for a minimum (the earliest deadline, the highest priority, the next
//! replenishment) and changes one key at a time. A tournament does either in one walk from
//! a leaf to the root, whose length is the logarithm of the entities in use, whatever the
//! order of the keys is: so the worst case is the usual one, and taking out one that is not
//! first costs no more than the first. A binary heap has a cheaper usual case for keys that
//! grow, but its deletion goes down with two comparisons a level; balanced trees cost a
//! multiple of both.
//!
//! Kept true: each round of the tree holds the winners of its two halves; between equal keys
//! the lower index wins, so that the order is total and runs can be repeated.

use crate::Entity;

/// The key of those that do not take part.
const ABSENT: u64 = u64::MAX;

/// The largest key there can be; what is larger counts as this.
const LAST_KEY: u64 = ABSENT - 1;

/// Keys of entities, and whose is the smallest.
#[derive(Clone, Debug)]
pub(crate) struct Tournament<const N: usize> {
    keys: [u64; N],
    /// For each inner node, from 1 on, the winners of its halves. Node n has the halves 2n
    /// and 2n + 1; from `leaves` on they are entities.
    rounds: [[u16; 2]; N],
    /// A power of two, above every index in use.
    leaves: u16,
    top: u16,
}

impl<const N: usize> Tournament<N> {
    /// Nobody takes part.
    pub const fn new() -> Self {
        const { assert!(N.is_power_of_two() && N >= 2 && N <= 1 << 14) };
        // Of two leaves, the only round's halves are themselves.
        Self {
            keys: [ABSENT; N],
            rounds: [[0, 1]; N],
            leaves: 2,
            top: 0,
        }
    }

    /// Who has the smallest key, and the key.
    #[inline]
    pub fn first(&self) -> Option<(Entity<N>, u64)> {
        let key = self.key_of(self.top);
        (key != ABSENT).then_some((Entity::wrapping(self.top), key))
    }

    /// Who comes next after the first one.
    pub fn second(&self) -> Option<(Entity<N>, u64)> {
        let mut node = self.leaves + self.top;
        let (mut best, mut best_key) = (0, ABSENT);
        while node > 1 {
            let side = node & 1;
            node >>= 1;
            let rival = self.rounds[usize::from(node) & (N - 1)][usize::from(side ^ 1)];
            let key = self.key_of(rival);
            if key < best_key || (key == best_key && rival < best) {
                (best, best_key) = (rival, key);
            }
        }
        (best_key != ABSENT).then_some((Entity::wrapping(best), best_key))
    }

    /// `entity` takes part with `key`.
    #[inline]
    pub fn set(&mut self, entity: Entity<N>, key: u64) {
        let index = entity.index() as u16;
        if index >= self.leaves {
            self.grow(index);
        }
        self.change(index, key.min(LAST_KEY));
    }

    /// `entity` takes part no more.
    #[inline]
    pub fn remove(&mut self, entity: Entity<N>) {
        let index = entity.index() as u16;
        if index < self.leaves {
            self.change(index, ABSENT);
        }
    }

    #[inline]
    fn key_of(&self, index: u16) -> u64 {
        self.keys[usize::from(index) & (N - 1)]
    }

    fn change(&mut self, index: u16, key: u64) {
        self.keys[usize::from(index) & (N - 1)] = key;
        let (mut winner, mut best) = (index, key);
        let mut node = usize::from(self.leaves) + usize::from(index);
        while node > 1 {
            let side = node & 1;
            node >>= 1;
            let round = &mut self.rounds[node & (N - 1)];
            if round[side] == winner && winner != index {
                // The same winner with the same key as before: nothing changes further up.
                return;
            }
            round[side] = winner;
            let rival = round[side ^ 1];
            let rival_key = self.keys[usize::from(rival) & (N - 1)];
            if rival_key < best || (rival_key == best && side == 1) {
                (winner, best) = (rival, rival_key);
            }
        }
        self.top = winner;
    }

    /// Makes room for `index`, once for each doubling.
    #[cold]
    fn grow(&mut self, index: u16) {
        while self.leaves <= index {
            self.leaves *= 2;
        }
        self.rebuild();
    }

    fn rebuild(&mut self) {
        for node in (1..usize::from(self.leaves)).rev() {
            let halves = [2 * node, 2 * node + 1].map(|half| self.winner(half));
            self.rounds[node & (N - 1)] = halves;
        }
        self.top = self.winner(1);
    }

    /// Who wins below `node`, of which the rounds are up to date.
    fn winner(&self, node: usize) -> u16 {
        if node >= usize::from(self.leaves) {
            return node as u16 - self.leaves;
        }
        let [left, right] = self.rounds[node & (N - 1)];
        match self.key_of(right) < self.key_of(left) {
            true => right,
            false => left,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        /// Against a table that is searched whole.
        #[test]
        fn it_finds_what_a_search_finds(
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
        assert_eq!(tree.first(), Some((Entity::LAST, u64::MAX - 1)));
        tree.remove(Entity::LAST);
        assert_eq!(tree.first(), None);
    }
}
