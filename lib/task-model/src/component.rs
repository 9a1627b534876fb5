//! Components: VMs, and groups of VMs.

use crate::{CoreId, Home, Nanos, Policy, Priority};
use alloc::string::String;

/// The kind of server that gives a component its budget, as in core/sched. It says what becomes of
/// the budget while the component has no work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Server {
    /// The budget is spent all the same.
    #[default]
    Periodic,
    /// The budget is lost until the next period begins.
    Polling,
    /// The budget is kept until the period's end.
    Deferrable,
    /// The period begins anew when work arrives (a hard constant bandwidth server).
    ConstantBandwidth,
    /// As [`Self::ConstantBandwidth`]; but when its budget is spent, the component goes on with a
    /// later deadline.
    SoftBandwidth,
}

impl From<Server> for hanok_sched::Kind {
    fn from(server: Server) -> Self {
        match server {
            Server::Periodic => Self::Periodic,
            Server::Polling => Self::Polling,
            Server::Deferrable => Self::Deferrable,
            Server::ConstantBandwidth => Self::ConstantBandwidth,
            Server::SoftBandwidth => Self::SoftBandwidth,
        }
    }
}

impl Server {
    /// Whether the deadline of every interface of this kind is the period's end.
    pub const fn needs_period(self) -> bool {
        !matches!(self, Self::Periodic | Self::Polling)
    }
}

/// A promise of CPU time: `budget` within `deadline` of the start of each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct ResourceInterface {
    /// The time after which the budget is full again.
    pub period: Nanos,
    /// The CPU time in each period; with several CPUs, that of all together.
    pub budget: Nanos,
    /// The time from the start of a period by which the budget has been given.
    pub deadline: Nanos,
}

impl ResourceInterface {
    /// A periodic resource: the deadline is the period.
    pub const fn periodic(period: Nanos, budget: Nanos) -> Self {
        let deadline = period;
        Self {
            period,
            budget,
            deadline,
        }
    }

    /// The budget of CPU `cpu` of `cpus`. The whole ticks are dealt out evenly, and the remaining
    /// ones go to the first CPUs, one each. A part of a tick is lost.
    pub fn share(&self, tick: Nanos, cpu: u32, cpus: u32) -> Nanos {
        let cpus = u64::from(cpus.max(1));
        let ticks = self.budget.get() / tick.get().max(1);
        let more = u64::from(u64::from(cpu) < ticks % cpus);
        Nanos::new(
            (ticks / cpus)
                .saturating_add(more)
                .saturating_mul(tick.get()),
        )
    }
}

/// The periods among which one is to be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Periods {
    /// Only this one.
    One(Nanos),
    /// The cheapest of these, both ends included, with switching costs taken into account.
    Range {
        /// The shortest period.
        least: Nanos,
        /// The longest period.
        most: Nanos,
    },
}

/// Which deadline an interface gets that is to be found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Window {
    /// The period: a periodic resource.
    #[default]
    Period,
    /// The budget itself: this gives the least budget, and the most urgent one.
    Budget,
    /// First the budget as for [`Self::Budget`], then the longest deadline with which it still
    /// suffices.
    Longest,
}

/// A component's interface, or what is asked about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plan {
    /// The component has this interface; the analysis says whether it suffices.
    Given(ResourceInterface),
    /// The component has no interface yet; the analysis finds the least one.
    Find {
        /// The periods to choose from.
        periods: Periods,
        /// The deadline that the interface gets.
        window: Window,
    },
    /// The component has this budget in each period; the analysis finds the longest deadline that
    /// suffices.
    Longest {
        /// The period.
        period: Nanos,
        /// The budget in each period.
        budget: Nanos,
    },
}

/// A VM, or a group of VMs. It is promised CPU time and gives that to its members: tasks, other
/// components, or both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Component {
    /// The component's name, unique in the model.
    pub name: String,
    /// The pool or component that gives it CPU time.
    pub home: Home,
    /// The policy that chooses among its members.
    pub policy: Policy,
    /// Its interface, or what is asked about that.
    pub plan: Plan,
    /// The kind of its server.
    pub server: Server,
    /// The number of CPUs that it may use at the same time (its vCPUs). If it has more than one,
    /// its tasks are scheduled by global EDF among them.
    pub cpus: u32,
    /// The core that it must be on, in a partitioned pool.
    pub core: Option<CoreId>,
    /// Its priority among the members of its home. It is required where the home schedules by
    /// [`Policy::FixedPriority`], and ignored elsewhere.
    pub priority: Option<Priority>,
}

impl Component {
    /// A component on one CPU under EDF, on any core.
    pub fn new(name: impl Into<String>, home: Home, plan: Plan) -> Self {
        Self {
            name: name.into(),
            home,
            policy: Policy::Edf,
            plan,
            server: Server::Periodic,
            cpus: 1,
            core: None,
            priority: None,
        }
    }
}
