//! The lines of the report channel (docs/top.md).

mod answer;

pub use answer::parse;

use serde::Serialize;

/// A vCPU: the VM's index, and the vCPU's in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct VcpuId {
    /// The VM.
    pub vm: u32,
    /// The vCPU.
    pub vcpu: u32,
}

/// The policy of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// vCPUs take turns, or share by weight.
    Turns,
    /// The server with the earliest deadline.
    Deadline,
    /// The server with the highest priority.
    Priority,
}

/// The use of time that is promised and not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Slack {
    /// Nobody gets it.
    Idle,
    /// Those that have used their budgets up get it.
    Share,
    /// As before, and constant bandwidth servers divide it.
    Reclaim,
    /// The core promises nothing.
    None,
}

/// The kind of what a vCPU or a group is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A periodic server.
    Periodic,
    /// A polling server.
    Polling,
    /// A deferrable server.
    Deferrable,
    /// A hard constant bandwidth server.
    Bandwidth,
    /// A soft constant bandwidth server.
    SoftBandwidth,
    /// A share by weight, up to a cap.
    Credit,
    /// A turn, without a promise.
    Turn,
}

impl Kind {
    /// The word of the protocol.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Periodic => "periodic",
            Self::Polling => "polling",
            Self::Deferrable => "deferrable",
            Self::Bandwidth => "bandwidth",
            Self::SoftBandwidth => "soft-bandwidth",
            Self::Credit => "credit",
            Self::Turn => "turn",
        }
    }

    /// Whether it has a period and a budget.
    pub const fn is_server(self) -> bool {
        !matches!(self, Self::Credit | Self::Turn)
    }
}

/// What a vCPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// It runs.
    Runs,
    /// It has work.
    Ready,
    /// It has no work.
    Waits,
    /// Its VM is paused.
    Paused,
    /// It is off.
    Off,
}

impl Doing {
    /// The word of the protocol.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Ready => "ready",
            Self::Waits => "waits",
            Self::Paused => "paused",
            Self::Off => "off",
        }
    }
}

/// The line `core`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreLine {
    /// The core.
    pub cpu: u32,
    /// Its policy.
    pub policy: Policy,
    /// Its use of slack.
    pub slack: Slack,
    /// The counter when this core answered.
    pub now: u64,
    /// The ticks in which nobody ran.
    pub idle: u64,
    /// The number of switches.
    pub switches: u64,
    /// The ticks that switches took.
    pub switch_ticks: u64,
    /// The number of decisions.
    pub decisions: u64,
}

/// A promise in ticks. For a share by weight, `period` is the weight and `budget` the cap in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Its kind.
    pub kind: Kind,
    /// The period, or the weight.
    pub period: u64,
    /// The budget, or the cap.
    pub budget: u64,
    /// The deadline.
    pub deadline: u64,
    /// The priority.
    pub priority: u64,
}

/// The line `group`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLine {
    /// The core.
    pub cpu: u32,
    /// The group's index on that core.
    pub group: u32,
    /// The group around it.
    pub parent: Option<u32>,
    /// What it is promised.
    pub promise: Promise,
    /// What is left of the budget.
    pub left: u64,
    /// The ticks that it had.
    pub used: u64,
}

/// The line `vcpu`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VcpuLine {
    /// The vCPU.
    pub id: VcpuId,
    /// The core.
    pub cpu: u32,
    /// The group on that core.
    pub group: Option<u32>,
    /// What it does.
    pub doing: Doing,
    /// What it is promised.
    pub promise: Promise,
    /// What is left of the budget.
    pub left: u64,
    /// The ticks that it had, in all.
    pub used: u64,
    /// The part of them that was beyond its budgets.
    pub extra: u64,
    /// How often its budget was used up while it had work.
    pub throttled: u64,
    /// How often its promise was not kept.
    pub late: u64,
    /// How often it was switched to.
    pub switches: u64,
    /// The ticks that others took of its turns.
    pub stolen: u64,
}

/// The line `exits`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitsLine {
    /// The vCPU.
    pub id: VcpuId,
    /// The cause.
    pub cause: String,
    /// Their number.
    pub count: u64,
    /// The instructions that they took; 0 where the CPU does not count.
    pub instructions: u64,
}

/// The line `ran`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RanLine {
    /// The core.
    pub cpu: u32,
    /// Who ran; `None` where nobody did.
    pub who: Option<VcpuId>,
    /// The beginning, in ticks of the counter.
    pub since: u64,
    /// The end.
    pub until: u64,
}

/// A line of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// `board`.
    Board {
        /// Ticks of the counter in a second.
        frequency: u64,
        /// The counter.
        now: u64,
        /// The number of cores.
        cores: u32,
        /// The number of vCPUs.
        vcpus: u32,
    },
    /// `vm`: its index and its name.
    Vm(u32, String),
    /// `core`.
    Core(CoreLine),
    /// `group`.
    Group(GroupLine),
    /// `vcpu`.
    Vcpu(VcpuLine),
    /// `exits`.
    Exits(ExitsLine),
    /// `ran`.
    Ran(RanLine),
    /// `end`.
    End,
    /// `unanswered`, which a run says in its board's place.
    Unanswered,
}

/// The answer to a request for a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It takes effect at this tick of the counter.
    Changed {
        /// Whose.
        id: VcpuId,
        /// When.
        at: u64,
    },
    /// It is refused.
    Refused {
        /// Whose.
        id: VcpuId,
        /// The reason, a word.
        reason: String,
        /// The instant at which it would be too much, in ticks; 0 where it means nothing.
        instant: u64,
        /// The time needed until then.
        demand: u64,
        /// The time there is until then.
        supply: u64,
    },
    /// The board does not know this word.
    Unknown(String),
}

/// A line of the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A line of the report with this number.
    Item(u64, Item),
    /// An answer to a change.
    Verdict(Verdict),
}

/// The request for the report `number`.
pub fn ask_report(number: u64) -> String {
    format!("report {number}")
}
