//! Places vCPUs on cores, so that all of them get their budgets.
//!
//! For a partitioned pool, vCPUs that ask for a core come first, then the others, the largest share
//! of a core first. Each goes to the first core whose test still passes with it (first fit
//! decreasing). Where that fails, other choices are tried by backtracking, a bounded number of
//! times. That a vCPU found no place does not prove that none exists; the refusal says so, unless
//! the vCPUs together are more than the cores.
//!
//! A global pool is tested as a whole ([`crate::global`]).

use crate::compose::{self, KnownVerdicts, Workload};
use crate::edf::{Miss, Outcome};
use crate::global;
use crate::load::{self, FRACTION, Load, Rate};
use crate::supply::Supply;
use crate::test;
use crate::work::{Undecided, Work};
use alloc::vec::Vec;
use hanok_task_model::{
    ComponentId, CoreId, CoreProof, Mode, Model, Nanos, Policy, Pool, PoolId, Proof, Server, Vcpu,
};

/// The largest number of tests of a core in one placement.
const TRIES: usize = 200_000;

/// The answer about the cores of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Every vCPU gets its budget; a proof for each core, or one for a global pool.
    Placed(Vec<CoreProof>),
    /// A vCPU found no place, or the pool's test does not pass.
    Refused(PoolRefusal),
    /// A test could not decide, for this reason.
    Undecided(Undecided),
    /// This component on these cores has no interface.
    Waits(ComponentId),
}

/// The refusal of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRefusal {
    /// The pool that is refused.
    pub pool: PoolId,
    /// The vCPU that found no place; `None` for a global pool.
    pub vcpu: Option<Vcpu>,
    /// The core where that vCPU would have done best; the workload below is that core's.
    pub core: Option<CoreId>,
    /// All vCPUs of that core or pool, with the one that found no place.
    pub workload: Workload,
    /// The supply of the core or the pool.
    pub supply: Supply,
    /// Where the test saw a deadline missed.
    pub miss: Miss,
    /// Whether it is certain that no other placement exists.
    pub certain: bool,
}

/// A vCPU that is to be placed.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    vcpu: Vcpu,
    load: Load,
    core: Option<CoreId>,
}

/// The vCPUs of `pool`, in the order of the model.
fn candidates(
    model: &Model,
    pool: PoolId,
    known: &KnownVerdicts,
) -> Result<Vec<Candidate>, ComponentId> {
    let mut all = Vec::new();
    let policy = model.pool(pool).map_or(Policy::Edf, |pool| pool.policy);
    for id in model.roots(pool) {
        let component = model.component(id).ok_or(id)?;
        let interface = compose::interface_of(known, id).ok_or(id)?;
        for cpu in 0..component.cpus {
            let budget = match component.cpus {
                1 => interface.budget,
                cpus => interface.share(model.tick, cpu, cpus),
            };
            if budget.is_zero() {
                continue;
            }
            let cost = model.cost.per_period();
            let load = compose::of_interface((id, component), policy, &interface, budget, cost);
            all.push(Candidate {
                vcpu: Vcpu { component: id, cpu },
                load,
                core: component.core,
            });
        }
    }
    Ok(all)
}

/// The answer about `pool`.
pub(crate) fn pool(
    model: &Model,
    id: PoolId,
    pool: &Pool,
    known: &KnownVerdicts,
    work: &mut Work,
) -> Placement {
    let candidates = match candidates(model, id, known) {
        Ok(candidates) => candidates,
        Err(waits) => return Placement::Waits(waits),
    };
    let mut part = work.part(Work::TEST);
    let began = part;
    let found = match pool.mode {
        Mode::Global => on_all_cores(id, pool, &candidates, &mut part),
        Mode::Partitioned => partition(id, pool, candidates, &mut part),
    };
    work.charge_part(began, part);
    found.unwrap_or_else(Placement::Undecided)
}

/// Tests all cores together, under global EDF.
fn on_all_cores(
    id: PoolId,
    pool: &Pool,
    candidates: &[Candidate],
    work: &mut Work,
) -> Result<Placement, Undecided> {
    let cpus = u32::try_from(pool.cores.len()).unwrap_or(u32::MAX);
    let supply = Supply::cores(cpus);
    let loads: Vec<Load> = candidates.iter().map(|candidate| candidate.load).collect();
    let outcome = match cpus {
        1 => test::keeps(&loads, pool.policy, &supply, work)?,
        _ => global::test(&loads, cpus, &supply, work)?,
    };
    Ok(match outcome {
        Outcome::Kept(proof) => Placement::Placed(Vec::from([CoreProof {
            pool: id,
            cores: pool.cores.clone(),
            vcpus: candidates.iter().map(|candidate| candidate.vcpu).collect(),
            proof,
        }])),
        Outcome::Missed(miss) => Placement::Refused(PoolRefusal {
            pool: id,
            vcpu: None,
            core: None,
            // The test for several CPUs also refuses vCPUs that need exactly all of the CPUs.
            certain: cpus == 1 || are_too_many(&loads, pool.cores.len()),
            workload: Workload {
                loads,
                policy: pool.policy,
                cpus,
                server: Server::Periodic,
                prepaid: 0,
            },
            supply,
            miss,
        }),
    })
}

/// Whether `loads` need more than `cores` cores in the long run.
fn are_too_many(loads: &[Load], cores: usize) -> bool {
    load::rate(loads).low > (cores as i128) << FRACTION
}

/// For each core, the vCPUs that it runs, as indices into the candidates.
type Assignment = Vec<Vec<usize>>;

fn partition(
    id: PoolId,
    pool: &Pool,
    mut candidates: Vec<Candidate>,
    work: &mut Work,
) -> Result<Placement, Undecided> {
    // Those that ask for a core come first, then the largest share of a core; equals in the order
    // of the model.
    candidates.sort_by(|a, b| {
        let asks = b.core.is_some().cmp(&a.core.is_some());
        let ours = b.load.execution.saturating_mul(a.load.period);
        let theirs = a.load.execution.saturating_mul(b.load.period);
        asks.then(ours.cmp(&theirs))
    });
    if pool.cores.len() == 1 {
        return on_one_core(id, pool, &candidates, work);
    }
    let mut search = PlacementSearch::new(pool, &candidates);
    if search.run(work)? == SearchEnd::Placed {
        let assigned = search.assigned;
        return proofs(id, pool, &candidates, assigned, work).map(Placement::Placed);
    }
    let furthest = search.furthest;
    refusal(id, pool, &candidates, furthest, work).map(Placement::Refused)
}

/// Places all vCPUs on a pool's only core, where nothing is to be searched: all of them keep their
/// deadlines, or some of them, the first ones first, are already too many. The first one that is
/// too many is found by halving, because taking one away does no harm to the others. Where the
/// steps do not suffice for that, a later one is named.
fn on_one_core(
    id: PoolId,
    pool: &Pool,
    candidates: &[Candidate],
    work: &mut Work,
) -> Result<Placement, Undecided> {
    let supply = Supply::cores(1);
    let first = |add_rate: usize, work: &mut Work| {
        let indices: Vec<usize> = (0..add_rate).collect();
        work.spend(add_rate)?;
        let workload = workload(pool, candidates, &indices);
        test::keeps(&workload.loads, pool.policy, &supply, work)
    };
    if let Outcome::Kept(proof) = first(candidates.len(), work)? {
        let mut vcpus: Vec<Vcpu> = candidates.iter().map(|candidate| candidate.vcpu).collect();
        vcpus.sort_unstable();
        return Ok(Placement::Placed(Vec::from([CoreProof {
            pool: id,
            cores: pool.cores.clone(),
            vcpus,
            proof,
        }])));
    }
    let (mut suffices, mut not) = (0, candidates.len());
    let mut part = work.part(work.left() / 2);
    let began = part;
    while not - suffices > 1 {
        let middle = suffices + (not - suffices) / 2;
        match first(middle, &mut part) {
            Ok(Outcome::Kept(_)) => suffices = middle,
            Ok(Outcome::Missed(_)) => not = middle,
            Err(_) => break,
        }
    }
    work.charge_part(began, part);
    refusal(id, pool, candidates, not.saturating_sub(1), work).map(Placement::Refused)
}

/// How a search for a placement ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchEnd {
    /// Every candidate has a place.
    Placed,
    /// All choices were tried, and some candidate has no place in any of them.
    Exhausted,
}

/// What the rates of a core's vCPUs say about one more.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RateTest {
    /// It fits.
    Fits,
    /// The rates are too much together.
    TooMuch,
    /// The rates alone do not decide.
    Undecided,
}

/// A search through placements, without recursion: `places[k]` is the core of candidate k.
struct PlacementSearch<'a> {
    pool: &'a Pool,
    candidates: &'a [Candidate],
    assigned: Assignment,
    /// For each core, the rate of the vCPUs on it.
    used: Vec<Rate>,
    /// Whether any candidate asks for a core.
    asks_for_core: bool,
    /// Whether a core's rate alone decides: EDF, and no window is shorter than its period (Liu &
    /// Layland 1973).
    implicit: bool,
    tries: usize,
    /// The first candidate that never found a place.
    furthest: usize,
}

impl<'a> PlacementSearch<'a> {
    fn new(pool: &'a Pool, candidates: &'a [Candidate]) -> Self {
        let implicit = |candidate: &Candidate| candidate.load.is_implicit();
        Self {
            pool,
            candidates,
            assigned: pool.cores.iter().map(|_| Vec::new()).collect(),
            used: pool
                .cores
                .iter()
                .map(|_| Rate { low: 0, high: 0 })
                .collect(),
            asks_for_core: candidates.iter().any(|candidate| candidate.core.is_some()),
            implicit: !pool.policy.is_fixed() && candidates.iter().all(implicit),
            tries: TRIES,
            furthest: 0,
        }
    }

    /// Runs the search. The placement found is in `assigned`.
    fn run(&mut self, work: &mut Work) -> Result<SearchEnd, Undecided> {
        let mut places: Vec<usize> = Vec::new();
        let mut from = 0;
        while places.len() < self.candidates.len() {
            let candidate = places.len();
            match self.next_core(candidate, from, work)? {
                Some(core) => {
                    if let Some(assigned) = self.assigned.get_mut(core) {
                        assigned.push(candidate);
                    }
                    self.add_rate(candidate, core, 1);
                    places.push(core);
                    from = 0;
                }
                None => {
                    self.furthest = self.furthest.max(candidate);
                    let Some(core) = places.pop() else {
                        return Ok(SearchEnd::Exhausted);
                    };
                    if let Some(assigned) = self.assigned.get_mut(core) {
                        assigned.pop();
                    }
                    self.add_rate(places.len(), core, -1);
                    from = core + 1;
                }
            }
        }
        Ok(SearchEnd::Placed)
    }

    /// Adds the rate of the candidate `candidate`, `times` times, to that of `core`.
    fn add_rate(&mut self, candidate: usize, core: usize, times: i128) {
        let Some(candidate) = self.candidates.get(candidate) else {
            return;
        };
        let own = load::rate(core::slice::from_ref(&candidate.load));
        if let Some(used) = self.used.get_mut(core) {
            used.low += times * own.low;
            used.high += times * own.high;
        }
    }

    /// Whether `new` fits on the core at `index`.
    fn by_rate(&self, index: usize, new: &Candidate) -> RateTest {
        let own = load::rate(core::slice::from_ref(&new.load));
        let Some(used) = self.used.get(index) else {
            return RateTest::Undecided;
        };
        if used.low.saturating_add(own.low) > 1 << FRACTION {
            return RateTest::TooMuch;
        }
        let fits = used.high.saturating_add(own.high) <= 1 << FRACTION;
        if fits && self.implicit {
            RateTest::Fits
        } else {
            RateTest::Undecided
        }
    }

    /// The first core from `from` on whose test still passes with `candidate`. Of empty cores, only the
    /// first is tried, as they are equal.
    fn next_core(
        &mut self,
        candidate: usize,
        from: usize,
        work: &mut Work,
    ) -> Result<Option<usize>, Undecided> {
        let Some(new) = self.candidates.get(candidate) else {
            return Ok(None);
        };
        for (index, core) in self.pool.cores.iter().enumerate().skip(from) {
            if new.core.is_some_and(|wish| wish != *core) {
                continue;
            }
            let empty = |index: usize| self.assigned.get(index).is_some_and(Vec::is_empty);
            if !self.asks_for_core && empty(index) && (0..index).any(empty) {
                continue;
            }
            if self.tries == 0 {
                return Ok(None);
            }
            self.tries -= 1;
            match self.by_rate(index, new) {
                RateTest::Fits => return Ok(Some(index)),
                RateTest::TooMuch => {
                    work.spend(1)?;
                    continue;
                }
                RateTest::Undecided => {}
            }
            let mut with = self.assigned.get(index).cloned().unwrap_or_default();
            with.push(candidate);
            // Listing and ranking them costs a step for each, too.
            work.spend(with.len())?;
            let workload = workload(self.pool, self.candidates, &with);
            if compose::are_kept(&workload, &Supply::cores(1), work) {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }
}

/// The vCPUs `indices` of `candidates` as one core's workload, which is ranked from the model's order.
fn workload(pool: &Pool, candidates: &[Candidate], indices: &[usize]) -> Workload {
    let mut assigned: Vec<&Candidate> = indices.iter().filter_map(|i| candidates.get(*i)).collect();
    assigned.sort_by_key(|candidate| candidate.vcpu);
    let mut loads: Vec<Load> = assigned.iter().map(|candidate| candidate.load).collect();
    load::number(&mut loads);
    load::rank(&mut loads, pool.policy);
    Workload {
        loads,
        policy: pool.policy,
        cpus: 1,
        server: Server::Periodic,
        prepaid: 0,
    }
}

fn proofs(
    id: PoolId,
    pool: &Pool,
    candidates: &[Candidate],
    assigned: Assignment,
    work: &mut Work,
) -> Result<Vec<CoreProof>, Undecided> {
    let mut all = Vec::with_capacity(assigned.len());
    for (core, indices) in pool.cores.iter().zip(assigned) {
        let workload = workload(pool, candidates, &indices);
        let supply = Supply::cores(1);
        let proof = match test::keeps(&workload.loads, pool.policy, &supply, work)? {
            Outcome::Kept(proof) => proof,
            Outcome::Missed(_) => Proof::Idle,
        };
        let mut vcpus: Vec<Vcpu> = indices
            .iter()
            .filter_map(|index| candidates.get(*index))
            .map(|candidate| candidate.vcpu)
            .collect();
        vcpus.sort_unstable();
        all.push(CoreProof {
            pool: id,
            cores: Vec::from([*core]),
            vcpus,
            proof,
        });
    }
    Ok(all)
}

/// The refusal for the candidate `furthest`: on the core on which first fit leaves it the most
/// time.
fn refusal(
    id: PoolId,
    pool: &Pool,
    candidates: &[Candidate],
    furthest: usize,
    work: &mut Work,
) -> Result<PoolRefusal, Undecided> {
    let before = candidates.get(..furthest).unwrap_or_default();
    let assigned: Assignment = match pool.cores.len() {
        1 => Vec::from([(0..furthest).collect()]),
        _ => {
            let mut search = PlacementSearch::new(pool, before);
            _ = search.run(work)?;
            search.assigned
        }
    };
    let new = candidates.get(furthest);
    let wish = new.and_then(|candidate| candidate.core);
    let allowed = |core: &&(usize, &CoreId)| wish.is_none_or(|wish| wish == *core.1);
    let cores: Vec<(usize, &CoreId)> = pool.cores.iter().enumerate().collect();
    let with = |core: usize| {
        let mut indices = assigned.get(core).cloned().unwrap_or_default();
        indices.push(furthest);
        workload(pool, candidates, &indices)
    };
    let emptiest = cores
        .iter()
        .filter(allowed)
        .min_by_key(|(index, _)| load::rate(&with(*index).loads).high);
    let (index, core) = emptiest.ok_or(Undecided::TooLong)?;
    let workload = with(*index);
    let supply = Supply::cores(1);
    let miss = match test::keeps(&workload.loads, pool.policy, &supply, work)? {
        Outcome::Missed(miss) => miss,
        Outcome::Kept(_) => return Err(Undecided::TooLong),
    };
    let all: Vec<Load> = candidates.iter().map(|candidate| candidate.load).collect();
    let too_many = are_too_many(&all, pool.cores.len());
    let one = pool.cores.len() == 1 || candidates.len() == 1 || wish.is_some() && furthest == 0;
    Ok(PoolRefusal {
        pool: id,
        vcpu: new.map(|candidate| candidate.vcpu),
        core: Some(**core),
        workload,
        supply,
        miss,
        certain: too_many || one,
    })
}

/// The largest budget, in whole ticks, with which the vCPU that found no place would fit on the
/// core where it does best.
pub(crate) fn largest_budget(
    model: &Model,
    refusal: &PoolRefusal,
    vcpu: Vcpu,
    work: &mut Work,
) -> Option<Nanos> {
    let tick = compose::wide(model.tick);
    let member = hanok_task_model::Member::Component(vcpu.component);
    let own = refusal
        .workload
        .loads
        .iter()
        .position(|load| load.member == member)?;
    let cost = compose::beyond_budget(model, vcpu.component);
    let now = refusal.workload.loads.get(own)?.execution;
    let (mut low, mut high) = (0, now / tick);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let mut workload = refusal.workload.clone();
        if let Some(load) = workload.loads.get_mut(own) {
            load.execution = middle * tick + cost;
        }
        if compose::are_kept(&workload, &refusal.supply, work) {
            low = middle
        } else {
            high = middle
        }
    }
    (low > 0).then(|| compose::narrow(low * tick).ok())?
}

#[cfg(test)]
mod tests;
