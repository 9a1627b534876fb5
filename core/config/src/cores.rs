//! The policies of pCPUs, the CPU time that vCPUs and groups of them are promised, and what vCPUs without a
//! promise share.

use core::fmt;
use hanok_sched::{Grant, Interface, InterfaceError, Kind, Order, Reservation, Share, Slack};
use hanok_types::{CpuId, VcpuId, VmId};

/// The longest period of a promise, in nanoseconds: an hour.
pub const MAX_PERIOD: u64 = 3_600 * NANOS;
/// Nanoseconds in a second.
const NANOS: u64 = 1_000_000_000;

/// The policy by which a pCPU chooses among its vCPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CorePolicy {
    /// The vCPUs run in turn, and none has a promise.
    #[default]
    RoundRobin,
    /// Promises are enforced, and what is left is shared by the vCPUs without a promise.
    Servers {
        /// The order in which vCPUs that have work and budget run.
        order: Order,
        /// The use of promised time that its vCPU does not use.
        slack: Slack,
    },
    /// As `Servers`, for all pCPUs of a pool together: their vCPUs run on whichever is free. Unused time is
    /// nobody's.
    Global {
        /// The order, for all pCPUs of the pool.
        order: Order,
        /// The pool's lowest pCPU, by which it is known.
        pool: CpuId,
    },
}

/// The order and the use of slack, in two words.
impl fmt::Display for CorePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RoundRobin => f.write_str("turns -"),
            Self::Servers { order, slack } => write!(f, "{} {}", order.word(), slack.word()),
            Self::Global { order, .. } => write!(f, "{} idle", order.word()),
        }
    }
}

/// A promise of CPU time: `budget` within `deadline` of the start of each `period`. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The kind of the server, which manages the budget.
    pub kind: Kind,
    /// The time between two replenishments of the budget, at most [`MAX_PERIOD`].
    pub period: u64,
    /// The CPU time of each period: at most the deadline, and not zero.
    pub budget: u64,
    /// The time after the period's start by which the budget has been given: at most the period.
    pub deadline: u64,
    /// The priority, if the policy uses priorities; the smallest number is the highest priority.
    pub priority: u64,
}

/// What a vCPU may ask for while the board runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// The largest share of its pCPU, in parts of 65,536; 0 if it may not ask.
    pub limit: u32,
    /// The shortest period in nanoseconds.
    pub shortest: u64,
}

/// What a vCPU has of its pCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// A promise, at the expense of a group.
    Promise {
        /// The group's place among those of the pCPU, from 1; 0 if it is in none.
        group: u8,
        /// The promise.
        terms: Terms,
        /// What it may ask for instead.
        ask: Ask,
    },
    /// A share of what is left: it is best effort.
    Share(Share),
}

/// What a vCPU has of its pCPU, where promises are enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The VM of the vCPU.
    pub vm: VmId,
    /// The vCPU.
    pub vcpu: VcpuId,
    /// What it has.
    pub claim: Claim,
}

/// A group of vCPUs and groups of one pCPU: a server whose budget is that of its members together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The pCPU.
    pub cpu: CpuId,
    /// The group in which it is, by its place among those of the pCPU, from 1; 0 if it is in none. A group comes
    /// after the one in which it is.
    pub home: u8,
    /// The order in which its members run.
    pub order: Order,
    /// What it is promised.
    pub terms: Terms,
}

impl Claim {
    /// What a policy grants for it, in ticks of a counter of `frequency` Hz, see [`Terms::reservation`].
    ///
    /// # Errors
    /// As [`Terms::reservation`].
    pub fn grant(&self, frequency: u64) -> Result<Grant, InterfaceError> {
        Ok(match self {
            Self::Promise { group, terms, .. } => {
                Grant::Promise((*group).into(), terms.reservation(frequency)?)
            }
            Self::Share(share) => Grant::Share(*share),
        })
    }
}

impl Terms {
    /// Verifies that a server can keep the promise at all.
    pub(crate) fn check(&self) -> Result<(), InterfaceError> {
        let interface = Interface::new(self.period, self.budget, self.deadline)?;
        self.kind.suits(interface)
    }

    /// The promise in ticks of a counter of `frequency` Hz, below 2^34. It is rounded to whole ticks in the
    /// vCPU's favour: periods and deadlines down, the budget up.
    ///
    /// # Errors
    /// If the rounded values are no valid promise.
    pub fn reservation(&self, frequency: u64) -> Result<Reservation, InterfaceError> {
        let times = [self.period, self.budget, self.deadline];
        Ok(Reservation {
            kind: self.kind,
            interface: in_ticks(times, frequency)?,
            priority: self.priority,
        })
    }
}

/// The interface of a period, a budget and a deadline in nanoseconds, at most [`MAX_PERIOD`] each, in ticks of a counter of
/// `frequency` Hz, below 2^34. They are rounded to whole ticks in the favour of whoever has it: the period and the
/// deadline down, the budget up.
///
/// # Errors
/// If the rounded values are no valid interface.
pub fn in_ticks(
    [period, budget, deadline]: [u64; 3],
    frequency: u64,
) -> Result<Interface, InterfaceError> {
    let period = ticks(period, frequency, 0);
    let budget = ticks(budget, frequency, NANOS - 1);
    Interface::new(period, budget, ticks(deadline, frequency, 0))
}

/// `nanos` in ticks of a counter of `frequency` Hz; `more` is added to the dividend, to round up.
fn ticks(nanos: u64, frequency: u64, more: u64) -> u64 {
    // In two parts, as the product of both numbers does not fit in a u64.
    let (seconds, rest) = (nanos / NANOS, nanos % NANOS);
    seconds * frequency + (rest * frequency + more) / NANOS
}

/// A closed set whose members have words in the system's tree.
pub(crate) trait Word: Copy + PartialEq + 'static {
    /// Each member with its word.
    const WORDS: &'static [(Self, &'static str)];

    /// The member that has a word.
    fn from_word(word: &str) -> Option<Self> {
        let mut words = Self::WORDS.iter();
        words.find(|(_, own)| *own == word).map(|(one, _)| *one)
    }

    /// Its word.
    fn word(self) -> &'static str {
        let mut words = Self::WORDS.iter();
        words
            .find(|(one, _)| *one == self)
            .map_or("", |(_, word)| word)
    }
}

/// The word of a server's kind.
pub fn kind_word(kind: Kind) -> &'static str {
    kind.word()
}

impl Word for Order {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::EarliestDeadline, "deadline"),
        (Self::Priority, "priority"),
    ];
}

impl Word for Slack {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Idle, "idle"),
        (Self::Share, "share"),
        (Self::Reclaim, "reclaim"),
    ];
}

impl Word for Kind {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Periodic, "periodic"),
        (Self::Polling, "polling"),
        (Self::Deferrable, "deferrable"),
        (Self::ConstantBandwidth, "bandwidth"),
        (Self::SoftBandwidth, "soft-bandwidth"),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(period: u64, budget: u64, deadline: u64) -> Terms {
        Terms {
            kind: Kind::Periodic,
            period,
            budget,
            deadline,
            priority: 3,
        }
    }

    #[test]
    fn parts_of_a_tick_are_in_the_promise_s_favour() {
        // At 62.5 MHz a tick is 16 ns.
        let reserved = promise(1_000_015, 500_001, 999_999).reservation(62_500_000);
        let expected = Interface::new(62_500, 31_251, 62_499).unwrap();
        assert_eq!(reserved.unwrap().interface, expected);
        let hour = promise(MAX_PERIOD, MAX_PERIOD, MAX_PERIOD);
        let ticks = hour.reservation((1 << 34) - 1).unwrap().interface;
        assert_eq!(ticks.period(), 3_600 * ((1 << 34) - 1));
        let short = promise(15, 1, 15).reservation(62_500_000);
        assert_eq!(short, Err(InterfaceError::BudgetOverDeadline));
    }

    #[test]
    fn words_are_unique_and_come_back() {
        fn check<T: Word + core::fmt::Debug>() {
            for (one, word) in T::WORDS {
                assert_eq!(T::from_word(word), Some(*one));
            }
        }
        check::<Order>();
        check::<Slack>();
        check::<Kind>();
        assert_eq!(Kind::from_word("task"), None);
    }
}
