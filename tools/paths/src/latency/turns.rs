//! What the hypervisor does for others in a vCPU's own turn, at its expense.
//!
//! A vCPU is charged from the decision that lets it run to the next decision, except for switches. So an interrupt
//! for a neighbour that leaves the vCPU the CPU takes its time, and so does the beginning of one that takes the CPU away.
//! docs/scheduling.md derives how often each comes ("In others' turns").

use super::{Asked, PATHS, REPLENISHED, all_asked, nanos};
use crate::{List, LongPath, Machine};
use anyhow::Result;
use hanok_config::{Claim, CorePolicy, Group, Terms};
use hanok_sched::{Kind, Slack};
use hanok_system::Description;

/// A vCPU with a promise, and what happens in its turns for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InTurns {
    /// The vCPU's name, as in [`super::Latency`].
    pub name: String,
    /// Its core.
    pub core: usize,
    /// The bound, or why there is none.
    pub bound: Result<Spent, String>,
}

/// What others cost a vCPU at most, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Of each budget.
    pub period: u64,
    /// With each job, which may be a turn of its own.
    pub job: u64,
}

/// What others cost each vCPU with a promise, on a CPU that executes `speed` instructions in a microsecond.
///
/// # Errors
/// The list lacks a path.
pub fn in_turns(list: &List, system: &Description, speed: u64) -> Result<Vec<InTurns>> {
    let each = all_asked(system, speed).map(|(name, asked)| {
        Ok(InTurns {
            name,
            core: asked.core.index(),
            bound: asked.spent(list)?,
        })
    });
    each.collect()
}

/// A server on the core.
struct Server {
    terms: Terms,
    group: u8,
    /// Whether it is a vCPU's, and no group's.
    wakes: bool,
}

impl Asked<'_> {
    fn spent(&self, list: &List) -> Result<Result<Spent, String>> {
        let (siblings, others) = self.vcpus_here();
        let vcpus = siblings + others;
        let Some(machine) = Machine::of(self.system, vcpus) else {
            return Ok(Err("no path is counted on such a board".to_owned()));
        };
        if self.moves() {
            return Ok(Err(
                "its vCPU moves among the cores of a global pool".to_owned()
            ));
        }
        if let Some(why) = self.untold() {
            return Ok(Err(why));
        }
        let path = |name| list.path(name).map(|path: &LongPath| path.most(machine));
        let [own, look, life, interrupt] = PATHS.map(path);
        let (own, look, life, interrupt) = (own?, look?, life?, interrupt?);
        let Some(times) = self.times(vcpus as u64 - 1) else {
            let why = "a server beside it that keeps its budget may wake any number of times: give a `switch`";
            return Ok(Err(why.to_owned()));
        };
        let mut causes = self.given_devices(interrupt);
        causes.extend(self.caused_by_other_cores(look, life));
        let period = self.terms.period;
        let caused: u64 = causes.iter().map(|source| source.within(period)).sum();
        let period = times.in_period.saturating_mul(own).saturating_add(caused);
        let switches = if self.shares() {
            u64::from(self.system.switch_cost)
        } else {
            0
        };
        Ok(Ok(Spent {
            period: nanos(period, self.speed),
            job: nanos(times.with_job * own, self.speed).saturating_add(switches),
        }))
    }

    /// Whether others get the time of a server without work: then it pays for the switches of its own wakes.
    fn shares(&self) -> bool {
        matches!(self.policy(), Some(CorePolicy::Servers { slack, .. }) if *slack != Slack::Idle)
    }

    /// How often an interrupt for one of its `neighbours` comes in its turns; `None` where that has no bound.
    fn times(&self, neighbours: u64) -> Option<Times> {
        let own = self.terms.period;
        let meets = |period: u64| own.div_ceil(period.max(1));
        let servers: Vec<_> = self.servers_beside().collect();
        let begins: u64 = distinct(&servers).map(meets).sum();
        // Those behind it run while it has no work or no budget, or no group around it has: then each may wake once.
        let around = |group| {
            let groups = self.groups_around(group);
            groups.map(|group| meets(group.terms.period)).sum::<u64>()
        };
        // The budgets of the groups around it end in its turns, too.
        let ends = around(self.group());
        let turns = 1 + ends;
        let mut in_period = (begins + ends).saturating_add(neighbours.saturating_mul(turns));
        let before = servers
            .iter()
            .filter(|of| of.wakes && !self.never_before(of));
        for Server { terms, group, .. } in before {
            // It has to run before it can wake again, so that a period of it, or of a group around it, begins in between.
            let wakes = match terms.kind {
                Kind::Periodic | Kind::Polling => meets(terms.period) + around(*group),
                _ if self.system.switch_cost == 0 => return None,
                // Each wake takes two switches of its budget.
                _ => {
                    let wakes = terms.budget / u64::from(self.system.switch_cost) + 1;
                    (meets(terms.period) + 1).saturating_mul(wakes)
                }
            };
            in_period = in_period.saturating_add(wakes);
        }
        Some(Times {
            in_period,
            with_job: neighbours,
        })
    }

    /// Whether `server` runs only while the vCPU has no work or no budget: by priorities, on a whole core.
    fn never_before(&self, server: &Server) -> bool {
        let outside = self.group() == 0 && server.group == 0;
        outside && self.by_priority() && server.terms.priority > self.terms.priority
    }

    /// All servers of the core but its own.
    fn servers_beside(&self) -> impl Iterator<Item = Server> {
        let vcpus = self.system.promises.iter().filter_map(|promise| {
            let vm = self.system.vms.get(promise.vm.index())?;
            let here = vm.config.cpus.get(promise.vcpu.index()) == Some(&self.core);
            match promise.claim {
                Claim::Promise { group, terms, .. } if here && promise != self.promise => {
                    Some(Server {
                        terms,
                        group,
                        wakes: true,
                    })
                }
                _ => None,
            }
        });
        let groups = self.groups_of_core().map(|group| Server {
            terms: group.terms,
            group: group.home,
            wakes: false,
        });
        vcpus.chain(groups)
    }

    fn groups_of_core(&self) -> impl Iterator<Item = &Group> {
        let groups = self.system.groups.iter();
        groups.filter(|group| group.cpu == self.core)
    }

    /// The group that it is in, by its place among those of the core, from 1; 0: none.
    fn group(&self) -> u8 {
        match self.promise.claim {
            Claim::Promise { group, .. } => group,
            Claim::Share(_) => 0,
        }
    }

    /// The group at a place among those of the core, and those around it, from the inside out.
    fn groups_around(&self, place: u8) -> impl Iterator<Item = &Group> {
        let group = |place: u8| {
            let before = usize::from(place).checked_sub(1)?;
            self.groups_of_core().nth(before)
        };
        std::iter::successors(group(place), move |inside| group(inside.home))
    }
}

/// The periods of servers but for those that begin only where one of a shorter period does: all of a core begin together, and
/// up to eight budgets that begin at one instant are an interrupt's work. More are counted as if they began alone.
fn distinct(servers: &[Server]) -> impl Iterator<Item = u64> {
    let periods: Vec<_> = servers.iter().map(|of| of.terms.period).collect();
    let alone = periods.len() as u64 > REPLENISHED;
    let mut kept: Vec<u64> = Vec::new();
    let mut sorted = periods;
    sorted.sort_unstable();
    for period in sorted {
        if alone || !kept.iter().any(|shorter| period.is_multiple_of(*shorter)) {
            kept.push(period);
        }
    }
    kept.into_iter()
}

/// How often an interrupt for a neighbour comes in a vCPU's turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    in_period: u64,
    /// More with each job.
    with_job: u64,
}

#[cfg(test)]
mod tests;
