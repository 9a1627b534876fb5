//! Admission in pieces: whether a server may have another interface, beside the others of its home.
//!
//! It is the same test as [`Ledger`](super::Ledger)'s, cut into steps of a few thousand
//! instructions, so that a hypervisor can serve interrupts between them. Two sets are tested: the one that is asked for,
//! and one that bounds what is asked for on the way there.
//!
//! *On the way.* A server changes at the end of one of its periods. Its jobs before and after are never closer than the
//! shorter of both periods, and no longer than the larger of both budgets; so the task with the shorter period, the larger
//! budget and the earlier deadline asks for as much in any window, and if the set with that task holds, nobody misses a
//! deadline at any time. On a whole CPU under EDF with deadlines at periods' ends this is not needed: both sets have a
//! bandwidth of at most one, and the demand of any window is at most the larger bandwidth times its length.

use super::demand::{Demand, ONE, Set, gcd};
use super::ledger::{kept, served};
use super::supply::Supply;
use super::{Refusal, edf, fixed};
use crate::{Interface, Kind, MAX_ENTITIES, Order, Reservation};

/// The number of members that are looked at in a step whose work for each is some hundred instructions.
const FEW: usize = 4;

/// The most steps of one answer: one more is not decided.
const STEPS: u32 = 20_000;

/// How far an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// It needs further steps.
    More,
    /// Every deadline is kept.
    Yes,
    /// Not all deadlines are shown to be kept.
    No(Refusal),
}

/// Where the servers get their time, and what the switch to one and the one back take, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The order in which they are chosen.
    pub order: Order,
    /// The server that supplies them; `None`: they have the whole CPU.
    pub supply: Option<(Interface, Kind)>,
    /// The cost in ticks.
    pub cost: u64,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begin,
    /// The density of the first members is this.
    Density(usize, u128),
    /// The common multiple of the supply's period and of the first members' is this, and is at most the bound.
    Hyperperiod(usize, u64, u64),
    /// All deadlines after this instant are kept.
    Backwards(u64),
    /// More important tasks than this one are in time, and this one needs so long or longer.
    Response(usize, u64),
    /// The set was found to hold.
    Held,
}

/// A question about the servers of a home.
pub type Question = SizedQuestion<MAX_ENTITIES>;

/// A question under way, about up to `N` servers.
#[derive(Clone, Debug)]
pub struct SizedQuestion<const N: usize> {
    terms: Terms,
    supply: Supply,
    demands: [Demand; N],
    count: usize,
    /// The member that changes.
    changes: usize,
    /// What bounds its demand on the way to what is asked for, if that is to be tested.
    on_the_way: Option<Demand>,
    /// Whether all deadlines are at periods' ends.
    implicit: bool,
    /// Whether one of the servers may begin inside its period.
    begins_inside: bool,
    stage: Stage,
    steps: u32,
}

impl<const N: usize> SizedQuestion<N> {
    /// No question.
    pub fn none() -> Self {
        Self {
            terms: Terms {
                order: Order::EarliestDeadline,
                supply: None,
                cost: 0,
            },
            supply: Supply::WHOLE,
            demands: [Demand::UNUSED; N],
            count: 0,
            changes: usize::MAX,
            on_the_way: None,
            implicit: true,
            begins_inside: false,
            stage: Stage::Begin,
            steps: 0,
        }
    }

    /// A question about servers that get their time on these terms.
    ///
    /// # Errors
    /// [`Refusal::Soft`] where the supplying server is of a kind that promises nothing to its members, and
    /// [`Refusal::Switches`] where switches cost something and it pays for those of its members.
    pub fn new(terms: Terms) -> Result<Self, Refusal> {
        let mut question = Self::none();
        question.begin(terms)?;
        Ok(question)
    }

    /// As [`Self::new`], in place of this question: what it knows of servers is not written again, which would take
    /// thousands of instructions.
    pub fn begin(&mut self, terms: Terms) -> Result<(), Refusal> {
        self.supply = match terms.supply {
            None => Supply::WHOLE,
            Some((interface, Kind::Polling)) => Supply::of(interface).polled(),
            Some((_, Kind::SoftBandwidth | Kind::Task)) => return Err(Refusal::Soft),
            Some((_, kind)) if kind.begins_inside() && terms.cost > 0 => {
                return Err(Refusal::Switches);
            }
            Some((interface, _)) => Supply::of(interface),
        };
        self.terms = terms;
        self.count = 0;
        self.changes = usize::MAX;
        self.on_the_way = None;
        self.implicit = true;
        self.begins_inside = false;
        self.stage = Stage::Begin;
        self.steps = 0;
        Ok(())
    }

    /// Adds a server that stays as it is.
    pub fn add(&mut self, server: Reservation) -> Result<(), Refusal> {
        let Reservation {
            kind,
            interface,
            priority,
        } = server;
        let Terms { order, cost, .. } = self.terms;
        kept(order, kind)?;
        let demand = served(order, interface, kind, priority, cost)?;
        *self.demands.get_mut(self.count).ok_or(Refusal::NoPlace)? = demand;
        self.count += 1;
        self.implicit &= interface.is_implicit();
        self.begins_inside |= kind.begins_inside();
        Ok(())
    }

    /// Adds the server that is to have `wanted` in place of its interface. It is the one that changes; there is one.
    pub fn add_changed(&mut self, server: Reservation, wanted: Interface) -> Result<(), Refusal> {
        let Terms { order, cost, .. } = self.terms;
        let old = server.interface;
        self.changes = self.count;
        self.add(Reservation {
            interface: wanted,
            ..server
        })?;
        self.implicit &= old.is_implicit();
        let (period, budget) = (
            old.period().min(wanted.period()),
            old.budget().max(wanted.budget()),
        );
        let deadline = old.deadline().min(wanted.deadline());
        let both = Interface::new(period, budget, deadline)
            .ok()
            .filter(|both| *both != wanted);
        let kind = server.kind;
        self.on_the_way = match both {
            Some(both) => Some(served(order, both, kind, server.priority, cost)?),
            None if (period, budget, deadline)
                == (wanted.period(), wanted.budget(), wanted.deadline()) =>
            {
                None
            }
            // No task asks for as little: only where none is needed is there a way.
            None => Some(Demand::NONE),
        };
        Ok(())
    }

    /// Does a step: some thousand instructions at most.
    pub fn step(&mut self) -> Progress {
        self.steps += 1;
        if self.steps > STEPS {
            return Progress::No(Refusal::Undecided);
        }
        match self.advance() {
            Ok(Stage::Held) => self.held(),
            Ok(stage) => {
                self.stage = stage;
                Progress::More
            }
            Err(refusal) if self.changes == usize::MAX => Progress::No(match refusal {
                Refusal::Undecided => refusal,
                _ => Refusal::Transition,
            }),
            Err(refusal) => Progress::No(refusal),
        }
    }

    /// The set that was tested holds. The way to it is tested next, where that is needed.
    fn held(&mut self) -> Progress {
        let by_bandwidth = self.is_by_bandwidth();
        let changed = core::mem::replace(&mut self.changes, usize::MAX);
        let Some(way) = self.on_the_way.take().filter(|_| !by_bandwidth) else {
            return Progress::Yes;
        };
        if way == Demand::NONE {
            return Progress::No(Refusal::Transition);
        }
        if let Some(slot) = self.demands.get_mut(changed) {
            *slot = way;
        }
        self.stage = Stage::Begin;
        Progress::More
    }

    /// Whether the sum of bandwidths alone decides.
    pub(crate) fn is_by_bandwidth(&self) -> bool {
        self.terms.order == Order::EarliestDeadline && self.terms.supply.is_none() && self.implicit
    }

    fn set(&self) -> Set<'_> {
        Set::new(self.members())
    }

    fn members(&self) -> &[Demand] {
        self.demands.get(..self.count).unwrap_or_default()
    }

    fn advance(&self) -> Result<Stage, Refusal> {
        let (set, supply) = (self.set(), &self.supply);
        Ok(match self.stage {
            Stage::Begin if self.terms.order == Order::Priority => self.respond(None, 0),
            Stage::Begin => {
                // Of more bandwidth than a CPU has, more is asked for in the long run.
                set.bandwidth(supply.period).ok_or(Refusal::Overload)?;
                if self.begins_inside && self.terms.supply.is_some() {
                    // What such a server asks for inside a group is not counted here.
                    return Err(Refusal::Undecided);
                }
                if self.begins_inside {
                    Stage::Density(0, 0)
                } else if self.is_by_bandwidth() {
                    Stage::Held
                } else {
                    Stage::Hyperperiod(0, supply.period, edf::linear_bound(&set, supply))
                }
            }
            Stage::Density(from, sum) => self.density(from, sum)?,
            Stage::Hyperperiod(from, all, limit) => self.hyperperiod(from, all, limit)?,
            Stage::Backwards(at) => match edf::step_back(&set, supply, at)? {
                0 => Stage::Held,
                before => Stage::Backwards(before),
            },
            Stage::Response(task, at) => match self.members().get(task) {
                None => Stage::Held,
                Some(demand) => match fixed::step_on(&set, demand, supply, at)? {
                    Some(later) => Stage::Response(task, later),
                    None => self.respond(Some(task), at),
                },
            },
            Stage::Held => Stage::Held,
        })
    }

    /// Goes on with the task that comes after `last`, which needs `at` ticks. That task needs those, and its own
    /// execution: it waits for as much and for `last`, too, and no supply gives more than one tick in each.
    fn respond(&self, last: Option<usize>, at: u64) -> Stage {
        let members = self.members();
        fixed::after(members, last).map_or(Stage::Held, |next| {
            let own = members.get(next).map_or(0, Demand::execution);
            Stage::Response(next, at.saturating_add(own))
        })
    }

    /// Adds up the densities of some more members.
    fn density(&self, from: usize, mut sum: u128) -> Result<Stage, Refusal> {
        let members = self.members();
        for demand in members.iter().skip(from).take(FEW) {
            sum += demand.density();
        }
        if from + FEW < members.len() {
            return Ok(Stage::Density(from + FEW, sum));
        }
        if sum > ONE + members.len() as u128 {
            return Err(Refusal::Density);
        }
        if self.is_by_bandwidth() {
            return Ok(Stage::Held);
        }
        let limit = edf::linear_bound(&self.set(), &self.supply);
        Ok(Stage::Hyperperiod(0, self.supply.period, limit))
    }

    /// Finds the common multiple of some more periods.
    fn hyperperiod(&self, from: usize, mut all: u64, limit: u64) -> Result<Stage, Refusal> {
        let members = self.members();
        let mut found = Some(all);
        for demand in members.iter().skip(from).take(FEW) {
            let multiple = (all / gcd(all, demand.period())).checked_mul(demand.period());
            found = multiple.filter(|multiple| *multiple <= limit);
            match found {
                Some(multiple) => all = multiple,
                None => break,
            }
        }
        if found.is_some() && from + FEW < members.len() {
            return Ok(Stage::Hyperperiod(from + FEW, all, limit));
        }
        let bound = edf::bound_of(&self.set(), &self.supply, limit, found)?;
        Ok(Stage::Backwards(bound))
    }
}

#[cfg(test)]
mod tests;
