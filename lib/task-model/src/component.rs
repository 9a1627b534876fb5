//! Components: VMs, and groups of VMs.

use crate::{CoreId, Home, Nanos, Policy, Priority};
use alloc::string::String;

/// What becomes of the budget of a component that has no work; the kinds of servers of core/sched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Server {
    /// It is spent nevertheless.
    #[default]
    Periodic,
    /// It is lost, until the next period begins.
    Polling,
    /// It is kept until the period's end.
    Deferrable,
    /// The period begins anew with the work (a hard constant bandwidth server).
    ConstantBandwidth,
    /// The same; and without budget, the component goes on with a later deadline.
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
    /// Whether an interface of this kind has its deadline at the period's end, always.
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
pub struct Interface {
    /// How often the budget is full again.
    pub period: Nanos,
    /// How much CPU time there is in each period; with several CPUs, of all together.
    pub budget: Nanos,
    /// How long after the start of a period the budget has been given at the latest.
    pub deadline: Nanos,
}

impl Interface {
    /// The periodic resource: the deadline is the period.
    pub const fn periodic(period: Nanos, budget: Nanos) -> Self {
        let deadline = period;
        Self {
            period,
            budget,
            deadline,
        }
    }

    /// The budget of CPU `cpu` of `cpus`: the whole ticks are dealt out evenly, those that are
    /// left to the first CPUs, one each. What is no whole tick is lost.
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
    /// This one.
    One(Nanos),
    /// The cheapest of these, ends included, where switching is taken into account.
    Range {
        /// The shortest.
        least: Nanos,
        /// The longest.
        most: Nanos,
    },
}

/// What deadline an interface gets that is to be found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Window {
    /// The period: the periodic resource.
    #[default]
    Period,
    /// The budget itself: the least budget there can be, and the most urgent one.
    Budget,
    /// First the budget that [`Self::Budget`] leads to, then the longest deadline with which
    /// it still does.
    Longest,
}

/// A component's interface, or what is asked about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plan {
    /// It has this one; does it do?
    Given(Interface),
    /// It has none yet: the least is wanted.
    Find {
        /// The periods that come into question.
        periods: Periods,
        /// The deadline.
        window: Window,
    },
    /// It has this budget in each period: the longest deadline that does is wanted.
    Longest {
        /// The period.
        period: Nanos,
        /// The budget.
        budget: Nanos,
    },
}

/// A VM, or a group of VMs, that is promised CPU time and gives it to its members: tasks,
/// other components, or both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Component {
    /// Its name, unique in the model.
    pub name: String,
    /// Who gives it its CPU time.
    pub home: Home,
    /// How it chooses among its members.
    pub policy: Policy,
    /// Its interface.
    pub plan: Plan,
    /// What becomes of its budget while it has no work.
    pub server: Server,
    /// How many CPUs it may use at the same time (its vCPUs). With more than one, its tasks
    /// are scheduled by global EDF among them.
    pub cpus: u32,
    /// The core it must be on, in a pool that is partitioned.
    pub core: Option<CoreId>,
    /// Its priority among the members of its home; counts, and must be there, where that
    /// schedules by [`Policy::FixedPriority`] alone.
    pub priority: Option<Priority>,
}

impl Component {
    /// A component on one CPU under EDF, with no wish for a core.
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
