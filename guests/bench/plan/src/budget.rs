//! What a vCPU that never sleeps had of its CPU in each period of its budget, by its own reading of the counter.
//!
//! The vCPU reads the counter all the while. Where two readings are further apart than its own instructions take,
//! somebody else had the CPU: there one *piece* of its time ends and the next one begins. As a piece begins after a long
//! time it asks how much is left of its budget. As it never sleeps, all of a budget is used up before the next one is
//! there; so what is left is either what was left before less what it has had, or a whole budget more: then a period has
//! begun. The pieces of a period are summed up by the counter alone.
//!
//! Beside them stands the hypervisor's account: the mean of what the vCPU used, and what is already spent of a budget as
//! the vCPU asks for the first time. That is what it took too much in the period before, which a server pays
//! back, and its own time until it asks.

const NANOS: u64 = 1_000_000_000;
/// No period begins in a pause that is shorter, in nanoseconds: it is an interrupt.
const SHORT_NS: u64 = 10_000;

/// The least, the sum and the most of several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// How many values there are.
    pub count: u64,
    /// The least value; [`u64::MAX`] where there is none.
    pub least: u64,
    /// The most; 0 where there is none.
    pub most: u64,
    sum: u64,
}

impl Spread {
    /// No values.
    pub const NONE: Self = Self {
        count: 0,
        least: u64::MAX,
        most: 0,
        sum: 0,
    };

    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        self.count += 1;
        self.least = self.least.min(value);
        self.most = self.most.max(value);
        self.sum = self.sum.saturating_add(value);
    }

    /// The mean, rounded down; 0 where there is no value.
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }
}

/// What the hypervisor says as a piece begins, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// What is left of the budget.
    pub left: u64,
    /// The CPU time that the vCPU has used since the board was started.
    pub used: u64,
}

/// The periods that were seen. Times are in nanoseconds, instants in ticks of the counter.
#[derive(Clone, Copy, Debug)]
pub struct Periods {
    budget: u64,
    frequency: u64,
    /// What the vCPU had in each period.
    pub got: Spread,
    /// What was spent of each budget at the first question, where nobody else had the CPU in it.
    pub spent: Spread,
    /// Periods in which a piece may have ended unseen: they are not in `got`.
    pub doubtful: u64,
    /// The first reading of the first period and of the one that is under way, if one is.
    began: Option<[u64; 2]>,
    /// The first reading of the piece that is under way.
    since: Option<u64>,
    /// What was left at the last question, and how many ticks the pieces after it had.
    left: u64,
    since_asked: u64,
    /// The ticks of the pieces of this period that have ended, and what the account said as it began.
    ran: u64,
    /// What the account said as the first period began, and as this one did.
    used: [u64; 2],
    doubt: bool,
    /// What was spent at this period's first question.
    asked: Option<u64>,
    count: u64,
}

impl Periods {
    /// None yet, of a vCPU with this budget in nanoseconds, of which so much is `left` now; the counter has `frequency`
    /// ticks in a second.
    pub const fn new(budget: u64, frequency: u64, left: u64) -> Self {
        Self {
            budget,
            frequency,
            got: Spread::NONE,
            spent: Spread::NONE,
            doubtful: 0,
            began: None,
            since: None,
            left,
            since_asked: 0,
            ran: 0,
            used: [0; 2],
            doubt: false,
            asked: None,
            count: 0,
        }
    }

    fn nanos(&self, ticks: u64) -> u64 {
        // No 128 bits: on a 32-bit CPU such a division takes thousands of instructions, which would be the vCPU's own.
        let frequency = self.frequency.max(1);
        let rest = (ticks % frequency).saturating_mul(NANOS) / frequency;
        (ticks / frequency)
            .saturating_mul(NANOS)
            .saturating_add(rest)
    }

    /// The last reading of the piece that is under way was `last`, and the first one of the next is `next`. What the
    /// hypervisor says comes from `said`, which is asked if a period may have begun meanwhile.
    pub fn piece(&mut self, last: u64, next: u64, said: impl FnOnce() -> Said) {
        let first = self.since.replace(next).unwrap_or(last);
        let ran = last.saturating_sub(first);
        self.ran += ran;
        self.since_asked += ran;
        if self.nanos(next.saturating_sub(last)) < SHORT_NS {
            return;
        }
        let said = said();
        let left = self.left.saturating_sub(self.nanos(self.since_asked));
        self.left = said.left;
        self.since_asked = 0;
        if said.left > left.saturating_add(self.budget / 2) {
            self.next_period(next, said);
        }
    }

    /// Somebody else had the CPU in the last question: how much of its time was whose is not known.
    pub fn doubt(&mut self) {
        self.doubt = true;
        self.asked = None;
    }

    fn next_period(&mut self, at: u64, said: Said) {
        let ran = core::mem::take(&mut self.ran);
        let doubt = core::mem::take(&mut self.doubt);
        let asked = self.asked.replace(self.budget.saturating_sub(said.left));
        let Some([first, _]) = self.began else {
            // What came before is no whole period.
            self.began = Some([at; 2]);
            self.used = [said.used; 2];
            return;
        };
        self.began = Some([first, at]);
        self.used[1] = said.used;
        self.count += 1;
        if let Some(spent) = asked {
            self.spent.add(spent);
        }
        if doubt {
            self.doubtful += 1;
        } else {
            self.got.add(self.nanos(ran));
        }
    }

    /// The number of whole periods.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What the vCPU used in a period on average, as the account says, rounded down.
    pub fn used(&self) -> u64 {
        let [first, last] = self.used;
        let all = last.saturating_sub(first);
        all.checked_div(self.count()).unwrap_or(0)
    }

    /// The mean time between the beginnings of two periods, in nanoseconds: the period, unless one was not seen.
    pub fn length(&self) -> u64 {
        let [first, last] = self.began.unwrap_or_default();
        let all = self.nanos(last.saturating_sub(first));
        all.checked_div(self.count()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// Ticks of 16 ns.
    const FREQUENCY: u64 = 62_500_000;
    const TICK: u64 = 16;

    /// Pieces of a vCPU: after how many ticks it goes on, and how long it runs, by periods of 2,000 ticks.
    fn seen(budget: u64, periods: &[Vec<[u64; 2]>]) -> Periods {
        let mut seen = Periods::new(budget * TICK, FREQUENCY, budget * TICK);
        let (mut used, mut last) = (0, 0);
        for (period, pieces) in (0..).zip(periods) {
            let (mut at, mut left) = (period * 2_000, budget);
            for [gap, ran] in pieces {
                let next = at + gap;
                let said = Said {
                    left: left * TICK,
                    used: used * TICK,
                };
                seen.piece(last, next, || said);
                last = next + ran;
                at = last;
                left = left.saturating_sub(*ran);
                used += ran;
            }
        }
        seen
    }

    #[test]
    fn pieces_of_a_period_are_summed_up() {
        let whole = [[10, 100], [2, 50], [700, 50]].to_vec();
        let more = [[10, 100], [700, 107]].to_vec();
        let less = [[710, 190]].to_vec();
        let all = [whole.clone(), whole.clone(), more, less, whole];
        let seen = seen(200, &all);
        // The first one is not whole as far as is known, and the last has not ended.
        assert_eq!(seen.count(), 3);
        assert_eq!(
            (seen.got.least, seen.got.most),
            (190 * TICK, 207 * TICK),
            "{seen:?}"
        );
        assert_eq!(seen.got.mean(), (200 + 207 + 190) * TICK / 3);
        assert_eq!(seen.used(), (200 + 207 + 190) * TICK / 3);
        assert_eq!((seen.spent.least, seen.spent.most), (0, 0));
        assert_eq!(seen.length(), 2_000 * TICK);
    }

    #[test]
    fn a_doubtful_period_is_left_out() {
        let whole = [[10, 100], [2, 50], [700, 50]].to_vec();
        let mut seen = seen(200, &[whole.clone(), whole.clone(), whole]);
        assert_eq!((seen.got.count, seen.doubtful), (1, 0));
        seen.doubt();
        let said = Said {
            left: 200 * TICK,
            used: 600 * TICK,
        };
        seen.piece(4_862, 6_010, || said);
        assert_eq!((seen.got.count, seen.doubtful, seen.count()), (1, 1, 2));
    }

    /// The first question comes in the middle of a period: none begins there.
    #[test]
    fn the_first_question_begins_no_period() {
        let (budget, left) = (200 * TICK, 180 * TICK);
        let mut seen = Periods::new(budget, FREQUENCY, left);
        let mut piece = |last, next, left, used| seen.piece(last, next, || Said { left, used });
        piece(20, 1_020, 180 * TICK, 20 * TICK);
        piece(1_200, 2_100, budget, 200 * TICK);
        piece(2_300, 4_100, budget, 400 * TICK);
        assert_eq!((seen.count(), seen.spent.most), (1, 0), "{seen:?}");
        assert_eq!(seen.got.least, budget, "{seen:?}");
    }

    #[test]
    fn nothing_seen_is_nothing() {
        let seen = Periods::new(100, FREQUENCY, 100);
        assert_eq!((seen.count(), seen.length(), seen.got.mean()), (0, 0, 0));
    }

    proptest! {
        /// However a budget is cut up, and whatever it is exceeded by, each period's sum comes out.
        #[test]
        fn sums_come_out(
            cuts in prop::collection::vec(prop::collection::vec(1_u64..400, 1..6), 4..40),
            over in 0_u64..30, gap in 2_u64..100,
        ) {
            let budget = 400;
            let periods: Vec<Vec<[u64; 2]>> = cuts
                .iter()
                .map(|cuts| {
                    let total: u64 = cuts.iter().sum();
                    let mut pieces: Vec<_> =
                        cuts.iter().map(|cut| [gap, (cut * budget / total).max(1)]).collect();
                    let sum: u64 = pieces.iter().map(|[_, ran]| ran).sum();
                    if let Some([_, ran]) = pieces.last_mut() {
                        *ran += budget + over - sum.min(budget);
                    }
                    pieces
                })
                .collect();
            let sums: Vec<u64> = periods
                .iter()
                .map(|pieces| pieces.iter().map(|[_, ran]| ran).sum::<u64>() * TICK)
                .collect();
            let whole = &sums[1..sums.len() - 1];
            let seen = seen(budget, &periods);
            prop_assert_eq!(seen.count() as usize, whole.len());
            prop_assert_eq!(Some(&seen.got.least), whole.iter().min());
            prop_assert_eq!(Some(&seen.got.most), whole.iter().max());
            prop_assert_eq!(seen.used(), seen.got.mean());
        }
    }
}
