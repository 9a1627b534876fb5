//! One server: its budget, when that is replenished, and the key by which it is chosen.

use crate::arith::{FRACTION_BITS, WHOLE, fraction, mul_div};
use crate::{Interface, InterfaceError, Order, Reservation};

/// How a server treats its budget.
///
/// All kinds keep the promise of an [`Interface`] to an entity that always has work. They differ in
/// what happens to the budget of an entity that waits:
///
/// - `Periodic` spends it nevertheless. To the others the server always looks like a periodic task,
///   so that only this kind may have a deadline inside its period and the exact supply of the
///   model. Others may use the time that it spends without work ([`Slack`](crate::Slack)).
/// - `Polling` loses it, and has none until the next period's start: short work waits for up to a
///   period. (Sprunt, Sha and Lehoczky 1989 compare these.)
/// - `Deferrable` keeps it until the period's end (Strosnider, Lehoczky and Sha 1995). Under fixed
///   priorities it can so run twice in a row, which the analysis of the others counts as release
///   jitter of period - budget. Under EDF a server that wakes inside a period with its whole budget
///   would break the others' promises (Ghazalie and Baker 1995); so the budget is cut to what the
///   remaining time is worth, by the revised wake-up rule of Abeni and others.
/// - `ConstantBandwidth` moves its deadline at the wake-up (Abeni and Buttazzo 1998). When it is
///   out of budget, the hard form waits for its deadline; the soft form goes on with a later
///   deadline.
///
/// The last two come before others anew at each wake, and each wake may mean a switch to them and one back. So they pay
/// for both beforehand, by what [`Servers::set_prepaid`](crate::Servers::set_prepaid) says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Spends its budget whether it has work or not.
    Periodic,
    /// Loses its budget when it has no work.
    Polling,
    /// Keeps its budget until the period's end.
    Deferrable,
    /// Keeps a bandwidth by moving its deadline. When it is out of budget, it waits.
    ConstantBandwidth,
    /// Keeps a bandwidth by moving its deadline. When it is out of budget, it goes on with a later
    /// deadline.
    SoftBandwidth,
    /// A task without a server: it runs as long as it has work. Only the analysis uses its
    /// interface's budget, as the task's execution time.
    Task,
}

impl Kind {
    /// Whether wake-ups move the deadline.
    pub(crate) const fn moves_deadline(self) -> bool {
        matches!(self, Self::ConstantBandwidth | Self::SoftBandwidth)
    }

    /// Whether the server can begin to use its budget inside a period, as far as the rest of the
    /// period is worth. Under EDF such a server asks for its bandwidth in any interval, not for
    /// whole budgets in whole periods.
    pub(crate) const fn begins_inside(self) -> bool {
        self.moves_deadline() || matches!(self, Self::Deferrable)
    }

    /// Whether this kind of server can keep `interface`; the error says why not.
    pub const fn suits(self, interface: Interface) -> Result<(), InterfaceError> {
        let any = matches!(self, Self::Periodic | Self::Polling | Self::Task);
        if any || interface.is_implicit() {
            Ok(())
        } else {
            Err(InterfaceError::DeadlineBeforePeriod)
        }
    }
}

/// What bringing a server's periods up to date did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Period {
    /// A new period has begun.
    Begun,
    /// The period is the same as before.
    Unchanged,
}

/// What is left of a budget after a server was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Budget {
    /// At least one tick is left.
    Left,
    /// The budget is used up.
    UsedUp,
}

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// There is no server at this place.
    Vacant,
    /// The server waits for work, and is in no queue.
    Idle,
    /// The server may run.
    Ready,
    /// The server is out of budget until its next period.
    Spent,
    /// The server waits for work, and its bandwidth counts as in use until its 0-lag time.
    Fading,
}

/// A scheduled interface, and the instant from which on others have room for it.
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
    /// Whether its bandwidth is in the sum of those in use.
    pub active: bool,
    /// The fraction of a tick that was used beyond whole ticks.
    carry: u32,
    /// Whether its key is its deadline; else the key is its priority.
    dynamic: bool,
    /// The key by which it is chosen: the smallest goes first.
    pub key: u64,
    /// Its priority, whether that is its key or not.
    pub priority: u64,
    pub budget: u64,
    /// The ticks that it ran beyond its budget because the timer came late.
    debt: u64,
    /// The start of the period that its budget belongs to.
    pub release: u64,
    /// The start of the next period.
    pub next: u64,
    /// The instant after which it must be refreshed before it runs: the next period's start, if
    /// that period begins by itself.
    pub refresh_at: u64,
    /// The instant by which its budget is promised.
    pub deadline: u64,
    /// Its bandwidth, as a fraction of a CPU.
    pub bandwidth: u64,
    pub change: Option<Change>,
    /// How often its budget ran out while it had work, in the lower 32 bits of counts that wrap.
    pub throttled: u32,
    /// How often its budget was not given by the deadline although it could have used it.
    pub late: u32,
    /// Whether it has had work since the period's start.
    pub steady: bool,
}

impl Server {
    /// A place without a server.
    pub const VACANT: Self = Self {
        interface: Interface::LEAST,
        kind: Kind::Task,
        state: State::Vacant,
        work: false,
        active: false,
        carry: 0,
        dynamic: false,
        key: u64::MAX,
        priority: u64::MAX,
        budget: 0,
        debt: 0,
        release: 0,
        next: u64::MAX,
        refresh_at: u64::MAX,
        deadline: 0,
        bandwidth: 0,
        change: None,
        throttled: 0,
        late: 0,
        steady: false,
    };

    /// A server whose first period begins at `now`.
    pub fn new(order: Order, reservation: Reservation, now: u64) -> Self {
        let interface = reservation.interface;
        let mut server = Self {
            interface,
            kind: reservation.kind,
            state: State::Idle,
            dynamic: order == Order::EarliestDeadline,
            key: reservation.priority,
            priority: reservation.priority,
            bandwidth: fraction(interface.budget(), interface.period()),
            ..Self::VACANT
        };
        server.begin(now);
        server
    }

    /// Begins the period that starts at `release`, with its budget.
    #[inline]
    pub fn begin(&mut self, release: u64) {
        self.carry = 0;
        self.steady = self.work;
        self.release = release;
        self.next = release.saturating_add(self.interface.period());
        if !self.kind.moves_deadline() && self.kind != Kind::Task {
            self.refresh_at = self.next;
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

    /// Sets the instant by which its current budget is promised.
    #[inline]
    pub fn set_deadline(&mut self, deadline: u64) {
        self.deadline = deadline;
        if self.dynamic {
            self.key = deadline;
        }
    }

    /// Brings periods up to date, at or after the next one's start.
    #[inline]
    pub fn advance(&mut self, now: u64) -> Period {
        // At the end of time there is no next period.
        if self.next == self.release {
            return Period::Unchanged;
        }
        self.note_if_late();
        if self.change.is_some() {
            self.advance_to_change(now);
        }
        let period = self.interface.period();
        let late = now - self.next.min(now);
        if late < period {
            self.begin(self.next);
            return Period::Begun;
        }
        let missed = late / period;
        let forgiven = self.interface.budget().saturating_mul(missed);
        self.debt = self.debt.saturating_sub(forgiven);
        let ahead = missed.saturating_mul(period);
        self.begin(self.next.saturating_add(ahead));
        Period::Begun
    }

    /// Counts it if the period ends with a budget that the server could have used: its promise was not kept.
    #[inline]
    fn note_if_late(&mut self) {
        let owed = self.kind == Kind::Periodic || self.work && (self.steady || self.dynamic);
        if self.state == State::Ready && self.budget > 0 && owed {
            self.late = self.late.wrapping_add(1);
        }
    }

    /// The scheduled interface, and the first period's end at which that is allowed.
    #[inline(never)]
    pub fn pending(&self) -> Option<(Interface, u64)> {
        let change = self.change?;
        let period = self.interface.period();
        let wait = change.not_before.saturating_sub(self.release);
        let periods = wait.div_ceil(period).max(1);
        let at = self.release.saturating_add(periods.saturating_mul(period));
        Some((change.interface, at))
    }

    /// Changes to the scheduled interface at the first period's end at which that is allowed.
    #[cold]
    fn advance_to_change(&mut self, now: u64) {
        let Some((interface, at)) = self.pending() else {
            return;
        };
        if at <= now {
            self.set_interface(interface);
            // The next period is the first one with it.
            self.next = at;
        }
    }

    /// Begins a period at a wake-up, by the constant bandwidth server's rule.
    pub fn begin_at_wake_up(&mut self, now: u64) {
        // The server has used less than its bandwidth until now, so that it need not wait for an
        // end of its old interface.
        if let Some(change) = self.change
            && change.not_before <= now
        {
            self.set_interface(change.interface);
        }
        self.begin(now);
    }

    /// Begins the period after the one whose budget is used up, now, however early or late that is:
    /// by the constant bandwidth server's rule the deadline moves by one period.
    #[inline]
    pub fn postpone(&mut self) {
        if self.change.is_some() || self.debt != 0 {
            self.change_or_pay();
        }
        self.begin(self.next);
    }

    /// The part of [`Self::postpone`] that is seldom needed: moves `next` to where the period begins.
    #[cold]
    #[inline(never)]
    fn change_or_pay(&mut self) {
        let next = self.next;
        if let Some(change) = self.change
            && change.not_before <= next
        {
            self.set_interface(change.interface);
        }
        // Each whole budget of debt costs a period.
        let periods = self.debt / self.interface.budget();
        self.debt %= self.interface.budget();
        self.next = next.saturating_add(periods.saturating_mul(self.interface.period()));
    }

    /// Changes to another interface from the next period on.
    pub fn set_interface(&mut self, interface: Interface) {
        self.interface = interface;
        self.bandwidth = fraction(interface.budget(), interface.period());
        self.change = None;
    }

    /// Takes `spent` ticks from the budget.
    pub fn spend(&mut self, spent: u64) -> Budget {
        if spent < self.budget {
            self.budget -= spent;
            return Budget::Left;
        }
        self.debt = self.debt.saturating_add(spent - self.budget);
        self.budget = 0;
        Budget::UsedUp
    }

    /// As [`Self::spend`], with a cost of `rate` for each tick, a fraction of one. If the rest is
    /// not enough for one more tick, the budget is used up: since the rate is at most one, all that
    /// is promised has been given by then.
    pub fn spend_slowly(&mut self, spent: u64, rate: u64) -> Budget {
        let Some(product) = spent.checked_mul(rate) else {
            return self.spend(spent);
        };
        let product = product.saturating_add(u64::from(self.carry));
        self.carry = (product & (WHOLE - 1)) as u32;
        match self.spend(product >> FRACTION_BITS) {
            Budget::Left if self.ticks_left(rate) > 0 => Budget::Left,
            _ => Budget::UsedUp,
        }
    }

    /// The number of ticks that the budget lasts at `rate`. It is never too large: a policy that is
    /// asked too early is asked again.
    pub fn ticks_left(&self, rate: u64) -> u64 {
        if rate == 0 || self.budget >> (64 - FRACTION_BITS) != 0 {
            return self.budget;
        }
        let scaled = self.budget << FRACTION_BITS;
        scaled.saturating_sub(u64::from(self.carry)) / rate
    }

    /// Applies the wake-up rule of EDF: limits the budget to what the remaining time is worth.
    pub fn limit_budget(&mut self, now: u64) {
        let left = self.deadline.saturating_sub(now);
        let worth = mul_div(left, self.interface.budget(), self.interface.period());
        self.budget = self.budget.min(worth);
    }

    /// Whether keeping both budget and deadline would exceed the server's bandwidth.
    pub fn is_beyond_bandwidth(&self, now: u64) -> bool {
        let left = self.deadline.saturating_sub(now);
        let has = u128::from(self.budget) * u128::from(self.interface.period());
        has > u128::from(left) * u128::from(self.interface.budget())
    }

    /// The 0-lag time: the instant at which the server would have used its budget, had it run at
    /// its bandwidth. From then on its bandwidth is free (Lipari and Baruah 2000).
    pub fn zero_lag(&self) -> u64 {
        let (budget, period) = (self.interface.budget(), self.interface.period());
        self.deadline
            .saturating_sub(mul_div(self.budget, period, budget))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However much it ran beyond its budget, it never has more than its budgets until then: whole
    /// budgets are left out, and the rest is taken from the next.
    #[test]
    fn an_overrun_costs_whole_periods_and_a_rest() {
        let (period, budget) = (10, 4);
        for over in 0..30 {
            let reservation = Reservation {
                kind: Kind::ConstantBandwidth,
                interface: Interface::periodic(period, budget).unwrap(),
                priority: 0,
            };
            let mut server = Server::new(Order::EarliestDeadline, reservation, 100);
            assert_eq!(server.spend(budget + over), Budget::UsedUp);
            server.postpone();
            let left_out = over / budget;
            assert_eq!(server.release, 110 + left_out * period, "{over}");
            assert_eq!(server.deadline, 120 + left_out * period, "{over}");
            assert_eq!(server.budget, budget - over % budget, "{over}");
            // All debt is paid: the next budget is whole.
            assert_eq!(server.spend(server.budget), Budget::UsedUp);
            server.postpone();
            assert_eq!(server.release, 120 + left_out * period, "{over}");
            assert_eq!(server.budget, budget, "{over}");
        }
    }
}
