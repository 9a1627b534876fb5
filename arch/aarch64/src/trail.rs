//! A vCPU's latest exits, for people.

/// One exit.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// ESR_EL2.
    pub syndrome: u64,
    /// The guest's program counter.
    pub pc: u64,
}

/// A step as it is kept: neither is longer than a register of the CPU.
#[derive(Clone, Copy, Debug)]
struct Kept {
    syndrome: usize,
    pc: usize,
}

/// How many are kept.
const KEPT: usize = 16;

/// The latest synchronous exits.
#[derive(Clone, Copy, Debug)]
pub struct Trail {
    steps: [Kept; KEPT],
    count: usize,
}

impl Trail {
    /// None yet.
    pub const fn new() -> Self {
        let none = Kept { syndrome: 0, pc: 0 };
        Self {
            steps: [none; KEPT],
            count: 0,
        }
    }

    /// Notes one more.
    #[inline(always)]
    pub fn add(&mut self, syndrome: u64, pc: u64) {
        let (syndrome, pc) = (syndrome as usize, pc as usize);
        self.steps[self.count % KEPT] = Kept { syndrome, pc };
        self.count = self.count.wrapping_add(1);
    }

    /// Those that are kept, the latest first.
    pub fn latest(&self) -> impl Iterator<Item = Step> {
        let kept = self.count.min(KEPT);
        let steps = (1..=kept).map(|back| self.steps[self.count.wrapping_sub(back) % KEPT]);
        steps.map(|kept| Step {
            syndrome: kept.syndrome as u64,
            pc: kept.pc as u64,
        })
    }
}

impl Default for Trail {
    fn default() -> Self {
        Self::new()
    }
}
