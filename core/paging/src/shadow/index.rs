//! Finding the root of an owner without looking at all roots.

/// How many chains there are.
const CHAINS: usize = 128;
/// The end of a chain.
const END: u8 = u8::MAX;

/// The roots that have or had an owner, in chains by the owners' marks. A root is in one chain at most.
#[derive(Debug)]
pub(super) struct RootIndex<const ROOTS: usize> {
    heads: [u8; CHAINS],
    /// What comes behind each root.
    next: [u8; ROOTS],
    /// The chain that each root is in.
    chains: [u8; ROOTS],
}

const fn chain(mark: u32) -> usize {
    (mark ^ mark >> 20) as usize % CHAINS
}

impl<const ROOTS: usize> RootIndex<ROOTS> {
    /// No root has an owner.
    pub const NONE: Self = Self {
        heads: [END; CHAINS],
        next: [END; ROOTS],
        chains: [END; ROOTS],
    };

    /// Some root for which `is_meant` holds, if the mark of its owner is this one.
    #[inline(always)]
    pub fn find(&self, mark: u32, is_meant: impl Fn(usize) -> bool) -> Option<usize> {
        let mut number = self.heads[chain(mark)].into();
        // Not longer than there are roots, whatever the chains are.
        for _ in 0..ROOTS {
            let next = *self.next.get(number)?;
            if is_meant(number) {
                return Some(number);
            }
            number = next.into();
        }
        None
    }

    /// A root has another owner now, with this mark.
    pub fn put(&mut self, root: usize, mark: u32) {
        self.take(root);
        let chain = chain(mark);
        let (Some(next), Some(old)) = (self.next.get_mut(root), self.chains.get_mut(root)) else {
            return;
        };
        *old = chain as u8;
        *next = core::mem::replace(&mut self.heads[chain], root as u8);
    }

    /// Takes a root from its chain.
    fn take(&mut self, root: usize) {
        let Some(head) = self.heads.get_mut(usize::from(self.chains[root])) else {
            return;
        };
        let behind = self.next[root];
        if usize::from(*head) == root {
            *head = behind;
            return;
        }
        let mut before = usize::from(*head);
        for _ in 0..ROOTS {
            match self.next.get_mut(before) {
                Some(next) if usize::from(*next) == root => {
                    *next = behind;
                    return;
                }
                Some(next) => before = (*next).into(),
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside a plain list of marks.
    #[test]
    fn roots_are_found_by_the_mark_that_they_got_last() {
        const ROOTS: usize = 20;
        let mut index = RootIndex::<ROOTS>::NONE;
        let mut marks = [None; ROOTS];
        let mut state = 7u32;
        for _ in 0..5000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let root = (state >> 8) as usize % ROOTS;
            // Few chains, so that each is long.
            let mark = ((state >> 16) % 4) << 20 | 3;
            index.put(root, mark);
            marks[root] = Some(mark);
            for (root, mark) in marks.iter().enumerate() {
                if let Some(mark) = *mark {
                    assert_eq!(index.find(mark, |one| one == root), Some(root));
                    assert_eq!(index.find(mark ^ 1, |one| one == root), None);
                }
            }
        }
        assert_eq!(index.find(5, |_| true), None);
    }
}
