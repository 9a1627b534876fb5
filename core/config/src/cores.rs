//! How pCPUs choose among their vCPUs, and what CPU time vCPUs are promised.

use hanok_sched::{Interface, InterfaceError, Kind, Order, Reservation, Slack};
use hanok_types::{VcpuId, VmId};

/// The longest period of a promise, in nanoseconds: an hour.
pub const MAX_PERIOD: u64 = 3_600 * NANOS;
/// Nanoseconds of a second.
const NANOS: u64 = 1_000_000_000;

/// How a pCPU chooses among its vCPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CorePolicy {
    /// In turn, without a promise.
    #[default]
    RoundRobin,
    /// By what each vCPU is promised, which is enforced.
    Servers {
        /// Which of the vCPUs that have work and budget runs.
        order: Order,
        /// What becomes of time that was promised and is not used.
        slack: Slack,
    },
}

/// What CPU time a vCPU is promised: `budget` within `deadline` of the start of each `period`. Times are
/// in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// To a vCPU of which VM.
    pub vm: VmId,
    /// Which of the VM's vCPUs.
    pub vcpu: VcpuId,
    /// How its budget is treated.
    pub kind: Kind,
    /// How often the budget comes, at most [`MAX_PERIOD`].
    pub period: u64,
    /// What comes in each period: at most the deadline, and not zero.
    pub budget: u64,
    /// Until when after the period's start it has come: at most the period.
    pub deadline: u64,
    /// Its priority where these decide; the smallest number is the highest.
    pub priority: u64,
}

impl Promise {
    /// Whether it can be kept by a server at all.
    pub(crate) fn check(&self) -> Result<(), InterfaceError> {
        let interface = Interface::new(self.period, self.budget, self.deadline)?;
        self.kind.suits(interface)
    }

    /// The promise in ticks of a counter of `frequency` Hz, below 2^34. What is no whole tick is in the
    /// promise's favour: periods and deadlines are rounded down, the budget up.
    ///
    /// # Errors
    /// Where so few ticks are no promise any more.
    pub fn reservation(&self, frequency: u64) -> Result<Reservation, InterfaceError> {
        let period = ticks(self.period, frequency, 0);
        let budget = ticks(self.budget, frequency, NANOS - 1);
        let deadline = ticks(self.deadline, frequency, 0);
        Ok(Reservation {
            kind: self.kind,
            interface: Interface::new(period, budget, deadline)?,
            priority: self.priority,
        })
    }
}

/// `nanos` in ticks of a counter of `frequency` Hz; `more` is added to what is divided by a second.
fn ticks(nanos: u64, frequency: u64, more: u64) -> u64 {
    // In two parts: the product of both numbers is no u64.
    let (seconds, rest) = (nanos / NANOS, nanos % NANOS);
    seconds * frequency + (rest * frequency + more) / NANOS
}

/// The words of a closed set in the system's tree.
pub(crate) trait Word: Copy + PartialEq + 'static {
    /// Each of the set with its word.
    const WORDS: &'static [(Self, &'static str)];

    /// From its word.
    fn from_word(word: &str) -> Option<Self> {
        let mut words = Self::WORDS.iter();
        words.find(|(_, own)| *own == word).map(|(one, _)| *one)
    }

    /// Its word.
    #[cfg(feature = "write")]
    fn word(self) -> &'static str {
        let mut words = Self::WORDS.iter();
        words
            .find(|(one, _)| *one == self)
            .map_or("", |(_, word)| word)
    }
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

    fn promise(period: u64, budget: u64, deadline: u64) -> Promise {
        Promise {
            vm: VmId::new(0),
            vcpu: VcpuId::new(0),
            kind: Kind::Periodic,
            period,
            budget,
            deadline,
            priority: 3,
        }
    }

    #[test]
    fn parts_of_a_tick_are_in_the_promise_s_favour() {
        // 62.5 MHz: 16 ns a tick.
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
