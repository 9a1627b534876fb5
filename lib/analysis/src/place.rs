//! Which vCPU goes to which core, and whether all of them get their budgets there.
//!
//! A partitioned pool: vCPUs that wish for a core first, then the others, the largest share of
//! a core first, each to the first core whose test still passes with it (first fit
//! decreasing). Where that fails, other choices are tried, going back a bounded number of
//! times. A vCPU that found no place is no proof that none exists; the refusal says so, unless
//! the vCPUs together are more than the cores.
//!
//! A global pool is tested as a whole ([`crate::global`]).

use crate::compose::{self, Known, Workload};
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

/// How many tests of a core a placement may take.
const TRIES: usize = 200_000;

/// What is known about the cores of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Every vCPU gets its budgets: a proof for each core, or one for a global pool.
    Placed(Vec<CoreProof>),
    /// A vCPU found no place, or the pool's test does not pass.
    Refused(Crowded),
    /// A test could not decide.
    Undecided(Undecided),
    /// A component on these cores has no interface.
    Waits(ComponentId),
}

/// A refusal of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crowded {
    /// Whose cores.
    pub pool: PoolId,
    /// The vCPU that found no place; `None` for a global pool.
    pub vcpu: Option<Vcpu>,
    /// The core where it would have done best; the workload below is that core's.
    pub core: Option<CoreId>,
    /// All vCPUs of that core or pool, the one without a place included.
    pub workload: Workload,
    /// What the core or the pool supplies.
    pub supply: Supply,
    /// Where the test saw it.
    pub miss: Miss,
    /// Whether no other placement could do either.
    pub certain: bool,
}

/// A vCPU on its way to a core.
#[derive(Clone, Copy, Debug)]
struct Item {
    vcpu: Vcpu,
    load: Load,
    core: Option<CoreId>,
}

/// The vCPUs of `pool`, in the order of the model.
fn items(model: &Model, pool: PoolId, known: &Known) -> Result<Vec<Item>, ComponentId> {
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
            all.push(Item {
                vcpu: Vcpu { component: id, cpu },
                load,
                core: component.core,
            });
        }
    }
    Ok(all)
}

/// What is known about `pool`.
pub(crate) fn pool(
    model: &Model,
    id: PoolId,
    pool: &Pool,
    known: &Known,
    work: &mut Work,
) -> Placement {
    let items = match items(model, id, known) {
        Ok(items) => items,
        Err(waits) => return Placement::Waits(waits),
    };
    let mut part = work.part(Work::TEST);
    let began = part;
    let found = match pool.mode {
        Mode::Global => whole(id, pool, &items, &mut part),
        Mode::Partitioned => partition(id, pool, items, &mut part),
    };
    work.settle(began, part);
    found.unwrap_or_else(Placement::Undecided)
}

/// All cores together, under global EDF.
fn whole(id: PoolId, pool: &Pool, items: &[Item], work: &mut Work) -> Result<Placement, Undecided> {
    let cpus = u32::try_from(pool.cores.len()).unwrap_or(u32::MAX);
    let supply = Supply::cores(cpus);
    let loads: Vec<Load> = items.iter().map(|item| item.load).collect();
    let outcome = match cpus {
        1 => test::keeps(&loads, pool.policy, &supply, work)?,
        _ => global::test(&loads, cpus, &supply, work)?,
    };
    Ok(match outcome {
        Outcome::Kept(proof) => Placement::Placed(Vec::from([CoreProof {
            pool: id,
            cores: pool.cores.clone(),
            vcpus: items.iter().map(|item| item.vcpu).collect(),
            proof,
        }])),
        Outcome::Missed(miss) => Placement::Refused(Crowded {
            pool: id,
            vcpu: None,
            core: None,
            // The test of several CPUs refuses what is all of them to the last, too.
            certain: cpus == 1 || are_too_many(&loads, pool.cores.len()),
            workload: Workload {
                loads,
                policy: pool.policy,
                cpus,
                server: Server::Periodic,
            },
            supply,
            miss,
        }),
    })
}

/// Whether they need more than so many cores in the long run.
fn are_too_many(loads: &[Load], cores: usize) -> bool {
    load::rate(loads).low > (cores as i128) << FRACTION
}

/// Whose vCPUs a core runs, as indices into the items.
type Chosen = Vec<Vec<usize>>;

fn partition(
    id: PoolId,
    pool: &Pool,
    mut items: Vec<Item>,
    work: &mut Work,
) -> Result<Placement, Undecided> {
    // Wishes first, then the largest share of a core; equals in the order of the model.
    items.sort_by(|a, b| {
        let wishes = b.core.is_some().cmp(&a.core.is_some());
        let ours = b.load.execution.saturating_mul(a.load.period);
        let theirs = a.load.execution.saturating_mul(b.load.period);
        wishes.then(ours.cmp(&theirs))
    });
    if pool.cores.len() == 1 {
        return on_one_core(id, pool, &items, work);
    }
    let mut search = Search::new(pool, &items);
    if search.run(work)? {
        let chosen = search.chosen;
        return proofs(id, pool, &items, chosen, work).map(Placement::Placed);
    }
    let furthest = search.furthest;
    crowded(id, pool, &items, furthest, work).map(Placement::Refused)
}

/// Where there is one core, nothing is to be searched: all `items` keep their deadlines there, or
/// some of them, the first ones first, are already too many. Who is one too many is found by
/// halving, as whoever is taken away does no harm to the others; where the steps do not suffice
/// for that, it is somebody later.
fn on_one_core(
    id: PoolId,
    pool: &Pool,
    items: &[Item],
    work: &mut Work,
) -> Result<Placement, Undecided> {
    let supply = Supply::cores(1);
    let first = |count: usize, work: &mut Work| {
        let indices: Vec<usize> = (0..count).collect();
        work.spend(count)?;
        let workload = workload(pool, items, &indices);
        test::keeps(&workload.loads, pool.policy, &supply, work)
    };
    if let Outcome::Kept(proof) = first(items.len(), work)? {
        let mut vcpus: Vec<Vcpu> = items.iter().map(|item| item.vcpu).collect();
        vcpus.sort_unstable();
        return Ok(Placement::Placed(Vec::from([CoreProof {
            pool: id,
            cores: pool.cores.clone(),
            vcpus,
            proof,
        }])));
    }
    let (mut does, mut not) = (0, items.len());
    let mut part = work.part(work.left() / 2);
    let began = part;
    while not - does > 1 {
        let middle = does + (not - does) / 2;
        match first(middle, &mut part) {
            Ok(Outcome::Kept(_)) => does = middle,
            Ok(Outcome::Missed(_)) => not = middle,
            Err(_) => break,
        }
    }
    work.settle(began, part);
    crowded(id, pool, items, not.saturating_sub(1), work).map(Placement::Refused)
}

/// A search through placements, without recursion: `places[k]` is the core that item k is on.
struct Search<'a> {
    pool: &'a Pool,
    items: &'a [Item],
    chosen: Chosen,
    /// The rate of what each core has.
    used: Vec<Rate>,
    /// Whether any of the items wishes for a core.
    wished: bool,
    /// Whether a core's rate alone decides: EDF, and no window is shorter than its period (Liu &
    /// Layland 1973).
    implicit: bool,
    tries: usize,
    /// The first item that never found a place.
    furthest: usize,
}

impl<'a> Search<'a> {
    fn new(pool: &'a Pool, items: &'a [Item]) -> Self {
        let implicit = |item: &Item| item.load.is_implicit();
        Self {
            pool,
            items,
            chosen: pool.cores.iter().map(|_| Vec::new()).collect(),
            used: pool
                .cores
                .iter()
                .map(|_| Rate { low: 0, high: 0 })
                .collect(),
            wished: items.iter().any(|item| item.core.is_some()),
            implicit: !pool.policy.is_fixed() && items.iter().all(implicit),
            tries: TRIES,
            furthest: 0,
        }
    }

    /// Whether all found a place; then they are in `chosen`.
    fn run(&mut self, work: &mut Work) -> Result<bool, Undecided> {
        let mut places: Vec<usize> = Vec::new();
        let mut from = 0;
        while places.len() < self.items.len() {
            let item = places.len();
            match self.next_core(item, from, work)? {
                Some(core) => {
                    if let Some(chosen) = self.chosen.get_mut(core) {
                        chosen.push(item);
                    }
                    self.count(item, core, 1);
                    places.push(core);
                    from = 0;
                }
                None => {
                    self.furthest = self.furthest.max(item);
                    let Some(core) = places.pop() else {
                        return Ok(false);
                    };
                    if let Some(chosen) = self.chosen.get_mut(core) {
                        chosen.pop();
                    }
                    self.count(places.len(), core, -1);
                    from = core + 1;
                }
            }
        }
        Ok(true)
    }

    /// The rate of `item`, `times` over, comes to that of `core`.
    fn count(&mut self, item: usize, core: usize, times: i128) {
        let Some(item) = self.items.get(item) else {
            return;
        };
        let own = load::rate(core::slice::from_ref(&item.load));
        if let Some(used) = self.used.get_mut(core) {
            used.low += times * own.low;
            used.high += times * own.high;
        }
    }

    /// Whether `new` fits on the core at `index`, where its rate alone can tell.
    fn by_rate(&self, index: usize, new: &Item) -> Option<bool> {
        let own = load::rate(core::slice::from_ref(&new.load));
        let used = self.used.get(index)?;
        if used.low.saturating_add(own.low) > 1 << FRACTION {
            return Some(false);
        }
        let fits = used.high.saturating_add(own.high) <= 1 << FRACTION;
        (fits && self.implicit).then_some(true)
    }

    /// The first core from `from` on that still passes with `item`. Of cores that are empty,
    /// the first stands for all.
    fn next_core(
        &mut self,
        item: usize,
        from: usize,
        work: &mut Work,
    ) -> Result<Option<usize>, Undecided> {
        let Some(new) = self.items.get(item) else {
            return Ok(None);
        };
        for (index, core) in self.pool.cores.iter().enumerate().skip(from) {
            if new.core.is_some_and(|wish| wish != *core) {
                continue;
            }
            let empty = |index: usize| self.chosen.get(index).is_some_and(Vec::is_empty);
            if !self.wished && empty(index) && (0..index).any(empty) {
                continue;
            }
            if self.tries == 0 {
                return Ok(None);
            }
            self.tries -= 1;
            match self.by_rate(index, new) {
                Some(true) => return Ok(Some(index)),
                Some(false) => {
                    work.spend(1)?;
                    continue;
                }
                None => {}
            }
            let mut with = self.chosen.get(index).cloned().unwrap_or_default();
            with.push(item);
            // To write them down, ranked, is a look at each, too.
            work.spend(with.len())?;
            let workload = workload(self.pool, self.items, &with);
            if compose::kept(&workload, &Supply::cores(1), work) {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }
}

/// The vCPUs `indices` of `items` as one core's workload, in the order of the model before
/// they are ranked.
fn workload(pool: &Pool, items: &[Item], indices: &[usize]) -> Workload {
    let mut chosen: Vec<&Item> = indices.iter().filter_map(|i| items.get(*i)).collect();
    chosen.sort_by_key(|item| item.vcpu);
    let mut loads: Vec<Load> = chosen.iter().map(|item| item.load).collect();
    load::number(&mut loads);
    load::rank(&mut loads, pool.policy);
    Workload {
        loads,
        policy: pool.policy,
        cpus: 1,
        server: Server::Periodic,
    }
}

fn proofs(
    id: PoolId,
    pool: &Pool,
    items: &[Item],
    chosen: Chosen,
    work: &mut Work,
) -> Result<Vec<CoreProof>, Undecided> {
    let mut all = Vec::with_capacity(chosen.len());
    for (core, indices) in pool.cores.iter().zip(chosen) {
        let workload = workload(pool, items, &indices);
        let supply = Supply::cores(1);
        let proof = match test::keeps(&workload.loads, pool.policy, &supply, work)? {
            Outcome::Kept(proof) => proof,
            Outcome::Missed(_) => Proof::Idle,
        };
        let mut vcpus: Vec<Vcpu> = indices
            .iter()
            .filter_map(|index| items.get(*index))
            .map(|item| item.vcpu)
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

/// Why the item `furthest` has no place: the core on which first fit leaves it the most room.
fn crowded(
    id: PoolId,
    pool: &Pool,
    items: &[Item],
    furthest: usize,
    work: &mut Work,
) -> Result<Crowded, Undecided> {
    let before = items.get(..furthest).unwrap_or_default();
    let chosen: Chosen = match pool.cores.len() {
        1 => Vec::from([(0..furthest).collect()]),
        _ => {
            let mut search = Search::new(pool, before);
            search.run(work)?;
            search.chosen
        }
    };
    let new = items.get(furthest);
    let wish = new.and_then(|item| item.core);
    let allowed = |core: &&(usize, &CoreId)| wish.is_none_or(|wish| wish == *core.1);
    let cores: Vec<(usize, &CoreId)> = pool.cores.iter().enumerate().collect();
    let with = |core: usize| {
        let mut indices = chosen.get(core).cloned().unwrap_or_default();
        indices.push(furthest);
        workload(pool, items, &indices)
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
    let all: Vec<Load> = items.iter().map(|item| item.load).collect();
    let too_many = are_too_many(&all, pool.cores.len());
    let one = pool.cores.len() == 1 || items.len() == 1 || wish.is_some() && furthest == 0;
    Ok(Crowded {
        pool: id,
        vcpu: new.map(|item| item.vcpu),
        core: Some(**core),
        workload,
        supply,
        miss,
        certain: too_many || one,
    })
}

/// The largest budget, in whole ticks, with which the vCPU that has no place would have one
/// on the core where it does best.
pub(crate) fn room(model: &Model, crowded: &Crowded, vcpu: Vcpu, work: &mut Work) -> Option<Nanos> {
    let tick = compose::wide(model.tick);
    let member = hanok_task_model::Member::Component(vcpu.component);
    let own = crowded
        .workload
        .loads
        .iter()
        .position(|load| load.member == member)?;
    let cost = compose::wide(model.cost.per_period());
    let now = crowded.workload.loads.get(own)?.execution;
    let (mut low, mut high) = (0, now / tick);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let mut workload = crowded.workload.clone();
        if let Some(load) = workload.loads.get_mut(own) {
            load.execution = middle * tick + cost;
        }
        if compose::kept(&workload, &crowded.supply, work) {
            low = middle
        } else {
            high = middle
        }
    }
    (low > 0).then(|| compose::narrow(low * tick).ok())?
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
