//! Stores to pages that hold code, one behind the other: the guest fills such a page, or copies to it. Linux fills the pages of
//! its initial code with a pattern when it needs them no longer, in one loop, in which it lets nothing else run. If each word
//! were an exit, it would take it seconds, and its watchdog would call that a lockup.

/// With as many stores in a row, the guest fills the page.
const ROW: u32 = 32;
/// How many bytes there are at most from one of them to the next.
const NEAR: u32 = 64;

/// Stores that were refused one after the other, each of them behind the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    last: u32,
    count: u32,
}

impl Row {
    /// A store to `address` was refused. Answers whether the row is long; then another one begins, so that as many stores are
    /// carried out before the next page is given up, even if it is executed again at once.
    pub(crate) fn is_long_with(&mut self, address: u32) -> bool {
        let distance = address.wrapping_sub(self.last);
        let follows = (1..=NEAR).contains(&distance) && self.count < ROW;
        self.count = if follows { self.count + 1 } else { 0 };
        self.last = address;
        self.count == ROW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_long_once_and_begins_anew() {
        let mut row = Row::default();
        let mut long = |at| row.is_long_with(at);
        let stores = 3 * (ROW + 1);
        let found = (0..stores)
            .filter(|store| long(0x8000 + NEAR * store))
            .count();
        assert_eq!(found, 3);
        assert!(!(0..stores).any(|store| long(0x8000 + (NEAR + 4) * store)));
        assert!(!(0..stores).any(|_| long(0x8000)));
        assert!(!(0..stores).any(|store| long(0x8000 - 4 * store)));
    }
}
