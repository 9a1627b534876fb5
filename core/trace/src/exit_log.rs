//! A vCPU's latest exits, for people.

/// One exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// ESR_EL2.
    pub syndrome: u64,
    /// The guest's program counter.
    pub pc: u64,
}

/// An exit as it is stored: neither value is longer than a register of the CPU.
#[derive(Clone, Copy, Debug)]
struct Kept {
    syndrome: usize,
    pc: usize,
}

/// The number of exits that are kept.
const KEPT: usize = 16;

/// The latest synchronous exits.
#[derive(Clone, Copy, Debug)]
pub struct ExitLog {
    exits: [Kept; KEPT],
    count: usize,
}

impl ExitLog {
    /// An empty log.
    pub const fn new() -> Self {
        let none = Kept { syndrome: 0, pc: 0 };
        Self {
            exits: [none; KEPT],
            count: 0,
        }
    }

    /// Adds an exit.
    #[inline(always)]
    pub fn add(&mut self, syndrome: u64, pc: u64) {
        let (syndrome, pc) = (syndrome as usize, pc as usize);
        self.exits[self.count % KEPT] = Kept { syndrome, pc };
        self.count = self.count.wrapping_add(1);
    }

    /// The exits that are kept, the latest first.
    pub fn latest(&self) -> impl Iterator<Item = Exit> {
        let kept = self.count.min(KEPT);
        let exits = (1..=kept).map(|back| self.exits[self.count.wrapping_sub(back) % KEPT]);
        exits.map(|kept| Exit {
            syndrome: kept.syndrome as u64,
            pc: kept.pc as u64,
        })
    }
}

impl Default for ExitLog {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn the_latest_come_first_and_the_oldest_are_forgotten() {
        let mut log = ExitLog::new();
        assert_eq!(log.latest().count(), 0);
        for n in 0..KEPT as u64 + 3 {
            log.add(n, n * 4);
        }
        let kept: Vec<_> = log.latest().map(|exit| (exit.syndrome, exit.pc)).collect();
        let wanted: Vec<_> = (3..KEPT as u64 + 3).rev().map(|n| (n, n * 4)).collect();
        assert_eq!(kept, wanted);
    }
}
