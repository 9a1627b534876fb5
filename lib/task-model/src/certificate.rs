//! What an analysis claims, with all that somebody else needs to see that it is true.
//!
//! A certificate is made to be checked by a program that knows nothing of how it was found.
//! So a proof is not a list of everything that was tried, but of the few instants from which
//! the rest follows; what follows from what is said at each type. Instants and times are whole
//! nanoseconds. Where a proof has a choice, one form alone is right, so that a certificate
//! cannot be changed and still stand.
//!
//! Words: `demand(t)` is the most that the members of a component can need within `t`,
//! `supply(t)` the least that its interface gives within `t`. The formulas are in
//! docs/scheduling.md.

use crate::{ComponentId, CoreId, Interface, Member, PoolId};
use alloc::vec::Vec;

/// That every deadline of a model is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Certificate {
    /// Every component once, each after those inside it.
    pub components: Vec<ComponentProof>,
    /// Every core once, or the cores of a global pool together.
    pub cores: Vec<CoreProof>,
}

/// That a component's interface gives its members what they need.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct ComponentProof {
    /// Which component.
    pub component: ComponentId,
    /// Its interface, in whole ticks.
    pub interface: Interface,
    /// Whether the supply is counted from the start of a period: only where the members are
    /// components alone, whose periods are all multiples of this one's.
    pub aligned: bool,
    /// That the members keep their deadlines.
    pub proof: Proof,
    /// That one tick less of budget would not do; where the longest deadline was asked for
    /// ([`crate::Plan::Longest`]), that one tick more of deadline would not. `None`: nothing is
    /// claimed.
    pub least: Option<Against>,
    /// The least budget in rational numbers, where it was found.
    pub exact: Option<Exact>,
}

/// The least budget that does, not rounded to ticks. The deadline is the period for
/// [`crate::Window::Period`], and else the budget and what switching costs in a period.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Exact {
    /// The budget in nanoseconds.
    pub budget: Fraction,
    /// That it does.
    pub proof: Proof,
    /// That any less does not: `demand >= supply` where [`Against`] has `>`.
    pub against: Against,
}

/// A fraction in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Fraction {
    /// Above the line.
    pub numerator: u64,
    /// Below the line.
    pub denominator: u64,
}

/// That the cores keep the promises made to the components on them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct CoreProof {
    /// Whose cores.
    pub pool: PoolId,
    /// One core, or all of a global pool.
    pub cores: Vec<CoreId>,
    /// Which vCPUs they run, in the order of the model.
    pub vcpus: Vec<Vcpu>,
    /// That all of them get their budgets in time.
    pub proof: Proof,
}

/// One CPU of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Vcpu {
    /// Whose.
    pub component: ComponentId,
    /// Which of them, from 0.
    pub cpu: u32,
}

/// That members keep their deadlines.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Proof {
    /// There are no members.
    Idle,
    /// EDF on one CPU.
    Edf(Descent),
    /// EDF on a whole CPU, where no window (deadline without jitter) is shorter than its period:
    /// the sum of execution times by periods is one at most, which is all there is to show (Liu &
    /// Layland, Journal of the ACM 20(1) 1973). Where this does, no descent is made.
    Utilization,
    /// Fixed priorities on one CPU: by when after its release a job of each member is complete
    /// at the latest, from the highest priority to the lowest. That instant `t` is the least
    /// with `supply(t)` at least the member's demand and all higher ones' until `t`.
    Fixed(Vec<u64>),
    /// Global EDF on several CPUs: a descent for each member, in the order of the members,
    /// through the demand that a job of it with this deadline competes with.
    Global(Vec<Descent>),
}

/// That `demand(t) <= supply(t)` for all `t`, in few instants (the idea of Zhang & Burns, IEEE
/// TC 58(9) 2009, with a supply in the place of the whole CPU).
///
/// From each instant `p` the next one is the least `t` with `supply(t) >= demand(p - 1)`. All
/// instants from there to `p - 1` are covered at once, because demand and supply only grow.
/// Under EDF, the last instant is one before which there is no demand; under global EDF, one
/// that is not after the member's deadline, where its demand begins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Descent {
    /// The instants, falling. The first is 1 more than a deadline of some member; the tail
    /// holds from that deadline on.
    pub instants: Vec<u64>,
    /// Why nothing happens after the first instant.
    pub tail: Tail,
}

/// Why all instants from the first one of a [`Descent`] on are harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Tail {
    /// A straight line above the demand has crossed one below the supply, and is less steep.
    Lines,
    /// The demand is as steep as the supply or less, and both repeat themselves after the least
    /// common multiple of all periods, which the first instant is beyond.
    Repeats,
}

/// That a budget is too small.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Against {
    /// It is nothing.
    Nothing,
    /// The members need more in the long run.
    Rate,
    /// EDF: at this instant after a critical one, the demand is more than the supply.
    Instant(u64),
    /// Fixed priorities: this member's job can be late.
    Late {
        /// Which member.
        member: Member,
        /// Rising instants: between each and the next (at first between 0 and the first one),
        /// the demand just after the former is more than the supply until the latter. The last
        /// one reaches the deadline.
        instants: Vec<u64>,
    },
}
