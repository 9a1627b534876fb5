//! A vCPU's latest exits, for people.

/// One exit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// ESR_EL2.
    pub syndrome: u64,
    /// The guest's program counter.
    pub pc: u64,
}

/// How many are kept.
const KEPT: usize = 16;

/// The latest synchronous exits.
#[derive(Clone, Copy, Debug)]
pub struct Trail {
    steps: [Step; KEPT],
    count: usize,
}

impl Trail {
    /// None yet.
    pub const fn new() -> Self {
        let none = Step { syndrome: 0, pc: 0 };
        Self {
            steps: [none; KEPT],
            count: 0,
        }
    }

    /// Notes one more.
    #[inline(always)]
    pub fn add(&mut self, syndrome: u64, pc: u64) {
        self.steps[self.count % KEPT] = Step { syndrome, pc };
        self.count = self.count.wrapping_add(1);
    }

    /// Those that are kept, the latest first.
    pub fn latest(&self) -> impl Iterator<Item = Step> {
        let kept = self.count.min(KEPT);
        (1..=kept).map(|back| self.steps[self.count.wrapping_sub(back) % KEPT])
    }
}

impl Default for Trail {
    fn default() -> Self {
        Self::new()
    }
}
