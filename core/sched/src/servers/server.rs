//! One server: its budget, when that comes again, and by which key it is chosen.

use crate::arith::{FRACTION_BITS, WHOLE, fraction, mul_div};
use crate::{Interface, InterfaceError, Order, Reservation};

/// How a server treats its budget.
///
/// The promise of an [`Interface`] to whoever has work all the time is kept by all of them.
/// They differ in what becomes of the budget of one who waits:
///
/// - `Periodic` spends it nevertheless. To the others it looks like a periodic task in every
///   case, so that it alone may have a deadline inside its period and the exact supply of
///   the model. What it spends on nothing, others may use ([`Slack`](crate::Slack)).
/// - `Polling` loses it, and everything until the next period's start: short answers wait
///   for up to a period. (Sprunt, Sha and Lehoczky 1989 compare these.)
/// - `Deferrable` keeps it until the period's end (Strosnider, Lehoczky and Sha 1995). Under
///   fixed priorities it can so run twice in a row, which the analysis of the others counts
///   as release jitter of period - budget. Under EDF who wakes inside a period would break
///   the others' promises (Ghazalie and Baker 1995); the budget is cut to what the remaining
///   time is worth then, by the revised wake-up rule of Abeni and others.
/// - `ConstantBandwidth` moves its deadline at the wake-up (Abeni and Buttazzo 1998). Hard:
///   out of budget, it waits for its deadline. Soft: it goes on with a later deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Spends its budget whether it has work or not.
    Periodic,
    /// Loses its budget when it has no work.
    Polling,
    /// Keeps its budget until the period's end.
    Deferrable,
    /// Keeps a bandwidth by moving its deadline; out of budget it waits.
    ConstantBandwidth,
    /// The same, but out of budget it goes on with a later deadline.
    SoftBandwidth,
    /// A task without a server: runs as long as it has work. What it may use is the
    /// interface's budget only to the analysis.
    Task,
}

impl Kind {
    /// Whether deadlines move with wake-ups.
    pub(crate) const fn moves_deadline(self) -> bool {
        matches!(self, Self::ConstantBandwidth | Self::SoftBandwidth)
    }

    /// Whether a budget can be taken up inside a period, with what the rest of it is worth: under
    /// EDF such a server asks for its bandwidth in any interval, not for whole budgets by whole
    /// periods.
    pub(crate) fn begins_inside(self) -> bool {
        self.moves_deadline() || self == Self::Deferrable
    }

    /// Whether this kind can keep `interface`.
    pub const fn suits(self, interface: Interface) -> Result<(), InterfaceError> {
        let any = matches!(self, Self::Periodic | Self::Polling | Self::Task);
        if any || interface.is_implicit() {
            Ok(())
        } else {
            Err(InterfaceError::DeadlineBeforePeriod)
        }
    }
}

/// Where a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// There is no server at this place.
    Vacant,
    /// In no queue.
    Idle,
    /// May run.
    Ready,
    /// Out of budget until its next period.
    Spent,
    /// Waits for work, and its bandwidth counts as used until its 0-lag time.
    Fading,
}

/// A new interface, and since when others have room for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub interface: Interface,
    pub not_before: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub interface: Interface,
    pub kind: Kind,
    pub state: State,
    pub work: bool,
    /// Whether its bandwidth is in the sum of those that are used.
    pub active: bool,
    /// Fractions of a tick that were used beyond whole ones.
    carry: u32,
    /// Whether its key is its deadline; else it is its priority.
    dynamic: bool,
    /// By which it is chosen: the smallest first.
    pub key: u64,
    pub budget: u64,
    /// What it ran beyond its budget, because the timer came late.
    debt: u64,
    /// The start of the period whose budget it has or had.
    pub release: u64,
    /// When the next period begins.
    pub next: u64,
    /// When it has to be looked at again before it runs: at the next period, where that
    /// comes by itself.
    pub stale: u64,
    /// Until when that budget is promised.
    pub deadline: u64,
    /// Its part of a CPU.
    pub bandwidth: u64,
    pub change: Option<Change>,
}

impl Server {
    /// None.
    pub const VACANT: Self = Self {
        interface: Interface::LEAST,
        kind: Kind::Task,
        state: State::Vacant,
        work: false,
        active: false,
        carry: 0,
        dynamic: false,
        key: u64::MAX,
        budget: 0,
        debt: 0,
        release: 0,
        next: u64::MAX,
        stale: u64::MAX,
        deadline: 0,
        bandwidth: 0,
        change: None,
    };

    /// Whose first period begins at `now`.
    pub fn new(order: Order, reservation: Reservation, now: u64) -> Self {
        let interface = reservation.interface;
        let mut server = Self {
            interface,
            kind: reservation.kind,
            state: State::Idle,
            dynamic: order == Order::EarliestDeadline,
            key: reservation.priority,
            bandwidth: fraction(interface.budget(), interface.period()),
            ..Self::VACANT
        };
        server.begin(now);
        server
    }

    /// The budget of the period that begins at `release`.
    #[inline]
    pub fn begin(&mut self, release: u64) {
        self.carry = 0;
        self.release = release;
        self.next = release.saturating_add(self.interface.period());
        if !self.kind.moves_deadline() && self.kind != Kind::Task {
            self.stale = self.next;
        }
        self.set_deadline(release.saturating_add(self.interface.deadline()));
        self.budget = self.interface.budget();
        if self.debt != 0 {
            self.pay_back();
        }
    }

    #[cold]
    fn pay_back(&mut self) {
        let paid = self.debt.min(self.budget);
        self.budget -= paid;
        self.debt -= paid;
    }

    /// By when what it has now is promised.
    #[inline]
    pub fn set_deadline(&mut self, deadline: u64) {
        self.deadline = deadline;
        if self.dynamic {
            self.key = deadline;
        }
    }

    /// Brings periods up to date, at or after the next one's start: `true` where a new one has
    /// begun by `now`.
    #[inline]
    pub fn advance(&mut self, now: u64) -> bool {
        // At the end of time there is no next one.
        if self.next == self.release {
            return false;
        }
        if self.change.is_some() {
            self.advance_to_change(now);
        }
        let period = self.interface.period();
        let late = now - self.next.min(now);
        if late < period {
            self.begin(self.next);
            return true;
        }
        let missed = late / period;
        let forgiven = self.interface.budget().saturating_mul(missed);
        self.debt = self.debt.saturating_sub(forgiven);
        let ahead = missed.saturating_mul(period);
        self.begin(self.next.saturating_add(ahead));
        true
    }

    /// Takes up a new interface at the first period's end at which it may.
    #[cold]
    fn advance_to_change(&mut self, now: u64) {
        let Some(change) = self.change else { return };
        let period = self.interface.period();
        let wait = change.not_before.saturating_sub(self.release);
        let periods = wait.div_ceil(period).max(1);
        let at = self.release.saturating_add(periods.saturating_mul(period));
        if at <= now {
            self.adopt(change.interface);
            // The next period is the first with it.
            self.next = at;
        }
    }

    /// A period that begins with a wake-up, by the constant bandwidth server's rule.
    pub fn begin_moved(&mut self, now: u64) {
        // It has used less than its bandwidth up to here, so that nothing of the old one is
        // left to wait for.
        if let Some(change) = self.change
            && change.not_before <= now
        {
            self.adopt(change.interface);
        }
        self.begin(now);
    }

    /// The period after the one whose budget is gone begins now, however early or late: by
    /// the constant bandwidth server's rule the deadline moves on by one period.
    pub fn postpone(&mut self) {
        let next = self.next;
        if let Some(change) = self.change
            && change.not_before <= next
        {
            self.adopt(change.interface);
        }
        // Whole budgets that were overrun cost a period each.
        let periods = self.debt / self.interface.budget();
        self.debt %= self.interface.budget();
        self.begin(next.saturating_add(periods.saturating_mul(self.interface.period())));
    }

    /// Has another interface from its next period on.
    pub fn adopt(&mut self, interface: Interface) {
        self.interface = interface;
        self.bandwidth = fraction(interface.budget(), interface.period());
        self.change = None;
    }

    /// Takes `spent` ticks from the budget; `false` where nothing is left.
    pub fn spend(&mut self, spent: u64) -> bool {
        if spent < self.budget {
            self.budget -= spent;
            return true;
        }
        self.debt = self.debt.saturating_add(spent - self.budget);
        self.budget = 0;
        false
    }

    /// The same, where a tick costs `rate`, a fraction of one. What is not enough for a tick
    /// more is nothing: all that is promised was given by then, since the rate is at most one.
    pub fn spend_slowly(&mut self, spent: u64, rate: u64) -> bool {
        let Some(product) = spent.checked_mul(rate) else {
            return self.spend(spent);
        };
        let product = product.saturating_add(u64::from(self.carry));
        self.carry = (product & (WHOLE - 1)) as u32;
        self.spend(product >> FRACTION_BITS) && self.lasts(rate) > 0
    }

    /// For how long the budget lasts at `rate`. Never too long: who asks earlier asks again.
    pub fn lasts(&self, rate: u64) -> u64 {
        if rate == 0 || self.budget >> (64 - FRACTION_BITS) != 0 {
            return self.budget;
        }
        let scaled = self.budget << FRACTION_BITS;
        scaled.saturating_sub(u64::from(self.carry)) / rate
    }

    /// By the rule for who wakes under EDF: the budget is what the time that is left is worth.
    pub fn cut(&mut self, now: u64) {
        let left = self.deadline.saturating_sub(now);
        let worth = mul_div(left, self.interface.budget(), self.interface.period());
        self.budget = self.budget.min(worth);
    }

    /// Whether budget and deadline, kept, would be more than its bandwidth.
    pub fn is_beyond_bandwidth(&self, now: u64) -> bool {
        let left = self.deadline.saturating_sub(now);
        let has = u128::from(self.budget) * u128::from(self.interface.period());
        has > u128::from(left) * u128::from(self.interface.budget())
    }

    /// When it would have used up its bandwidth, had it run in proportion: from then on its
    /// bandwidth is free (Lipari and Baruah 2000).
    pub fn zero_lag(&self) -> u64 {
        let (budget, period) = (self.interface.budget(), self.interface.period());
        self.deadline
            .saturating_sub(mul_div(self.budget, period, budget))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However much it ran beyond its budget, what it has had is never more than its budgets until
    /// then: whole ones are left out, and the rest is taken from the next.
    #[test]
    fn what_was_overrun_costs_so_many_periods_and_a_rest() {
        let (period, budget) = (10, 4);
        for over in 0..30 {
            let reservation = Reservation {
                kind: Kind::ConstantBandwidth,
                interface: Interface::periodic(period, budget).unwrap(),
                priority: 0,
            };
            let mut server = Server::new(Order::EarliestDeadline, reservation, 100);
            assert!(!server.spend(budget + over));
            server.postpone();
            let left_out = over / budget;
            assert_eq!(server.release, 110 + left_out * period, "{over}");
            assert_eq!(server.deadline, 120 + left_out * period, "{over}");
            assert_eq!(server.budget, budget - over % budget, "{over}");
            // All is paid: the next one is whole.
            server.spend(server.budget);
            server.postpone();
            assert_eq!(server.release, 120 + left_out * period, "{over}");
            assert_eq!(server.budget, budget, "{over}");
        }
    }
}
