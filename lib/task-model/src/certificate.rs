//! What an analysis claims, and all that another program needs to verify it.
//!
//! A certificate can be checked by a program that knows nothing of how it was found. So a proof
//! does not list everything that was tried, but the few instants from which the rest follows; each
//! type says how. Instants and times are whole nanoseconds. Where a proof could be written in
//! several ways, only one is right, so that no changed certificate is still valid.
//!
//! Words: `demand(t)` is the most that the members of a component can need within `t`, and
//! `supply(t)` is the least that its interface gives within `t`. The formulas are in
//! docs/scheduling.md.

use crate::{ComponentId, CoreId, Member, PoolId, ResourceInterface};
use alloc::vec::Vec;

/// The claim that every deadline of a model is kept, with its proofs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Certificate {
    /// A proof for every component, each after those inside it.
    pub components: Vec<ComponentProof>,
    /// A proof for every core, or for the cores of a global pool together.
    pub cores: Vec<CoreProof>,
}

/// The claim that a component's interface gives its members what they need.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct ComponentProof {
    /// The component.
    pub component: ComponentId,
    /// Its interface, in whole ticks.
    pub interface: ResourceInterface,
    /// Whether the supply is counted from the start of a period. That is right only where all
    /// members are components whose periods are multiples of this one's.
    pub aligned: bool,
    /// The proof that the members keep their deadlines.
    pub proof: Proof,
    /// The proof that one tick less of budget would not suffice. Where the longest deadline was
    /// asked for ([`crate::Plan::Longest`]), the proof that one tick more of deadline would not.
    /// `None` if nothing is claimed.
    pub least: Option<Against>,
    /// The least budget as a rational number, where it was found.
    pub exact: Option<Exact>,
}

/// The least budget that suffices, not rounded to ticks. The deadline is the period for
/// [`crate::Window::Period`], and otherwise the budget and the cost of switching in a period.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Exact {
    /// The budget in nanoseconds.
    pub budget: Fraction,
    /// The proof that it suffices.
    pub proof: Proof,
    /// The proof that any less does not: `demand >= supply` where [`Against`] has `>`.
    pub against: Against,
}

/// A fraction in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Fraction {
    /// The number above the line.
    pub numerator: u64,
    /// The number below the line.
    pub denominator: u64,
}

/// The claim that the cores keep the promises made to the components on them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct CoreProof {
    /// The pool that the cores belong to.
    pub pool: PoolId,
    /// One core, or all cores of a global pool.
    pub cores: Vec<CoreId>,
    /// The vCPUs that these cores run, in the order of the model.
    pub vcpus: Vec<Vcpu>,
    /// The proof that all of them get their budgets in time.
    pub proof: Proof,
}

/// One CPU of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Vcpu {
    /// The component.
    pub component: ComponentId,
    /// The CPU's number in the component, from 0.
    pub cpu: u32,
}

/// A proof that members keep their deadlines.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Proof {
    /// There are no members.
    Idle,
    /// EDF on one CPU.
    Edf(Descent),
    /// EDF on a whole CPU, where no window (deadline without jitter) is shorter than its period.
    /// The sum of execution times divided by periods is at most one, which proves it (Liu &
    /// Layland, Journal of the ACM 20(1) 1973). Where this suffices, no descent is made.
    Utilization,
    /// Fixed priorities on one CPU: when after its release a job of each member is complete at the
    /// latest, from the highest priority to the lowest. That instant `t` is the least for which
    /// `supply(t)` is at least the demand of the member and all higher ones until `t`.
    Fixed(Vec<u64>),
    /// Global EDF on several CPUs: a descent for each member, in the order of the members, through
    /// the demand that a job of the member with this deadline competes with.
    Global(Vec<Descent>),
}

/// A proof in few instants that `demand(t) <= supply(t)` for all `t` (the idea of Zhang & Burns,
/// IEEE TC 58(9) 2009, with a supply in the place of the whole CPU).
///
/// After each instant `p` comes the least `t` with `supply(t) >= demand(p - 1)`. All instants from
/// there to `p - 1` are covered at once, because demand and supply only grow. Under EDF, the last
/// instant is one before which there is no demand. Under global EDF, it is one that is not after
/// the member's deadline, where its demand begins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Descent {
    /// The instants, falling. The first is 1 more than a deadline of some member; the tail holds
    /// from that deadline on.
    pub instants: Vec<u64>,
    /// Why no deadline can be missed after the first instant.
    pub tail: Tail,
}

/// Why no deadline can be missed from the first instant of a [`Descent`] on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Tail {
    /// A straight line above the demand has crossed one below the supply, and is less steep.
    Lines,
    /// The demand is at most as steep as the supply, and both repeat themselves after the least
    /// common multiple of all periods. The first instant is beyond that.
    Repeats,
}

/// A proof that a budget is too small.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Against {
    /// The budget is zero.
    Nothing,
    /// The members' rate is more than the supply's.
    Rate,
    /// EDF: at this instant after a critical one, the demand is more than the supply.
    Instant(u64),
    /// Fixed priorities: a job of this member can be late.
    Late {
        /// The member.
        member: Member,
        /// Rising instants. Between each and the next (at first between 0 and the first one), the
        /// demand just after the former is more than the supply until the latter. The last one
        /// reaches the deadline.
        instants: Vec<u64>,
    },
}
