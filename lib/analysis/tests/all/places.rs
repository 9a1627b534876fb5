//! Compares placements with all possible placements, using a core's test by its definition.

use crate::common::{ROOT, Random, given, model, ns, vm};
use hanok_analysis::{Change, Placement, Refutation, RefutedAt, analyse};
use hanok_task_model::{CoreId, Member, Mode, Model, Plan, Policy, PoolId, Vcpu};

/// A vCPU and what it needs on its core.
#[derive(Clone, Copy, Debug)]
struct Item {
    vcpu: Vcpu,
    period: u64,
    execution: u64,
    deadline: u64,
    wish: Option<CoreId>,
}

/// The vCPUs in the order of the model.
fn items(model: &Model) -> Vec<Item> {
    let cost = model.cost.per_period().get();
    let tick = model.tick.get();
    let mut all = Vec::new();
    for (id, component) in model.ids() {
        let Plan::Given(interface) = component.plan else {
            panic!("all are given");
        };
        // Whole ticks are dealt out to the vCPUs in turn.
        let mut dealt = vec![0; component.cpus as usize];
        for turn in 0..interface.budget.get() / tick {
            dealt[(turn % u64::from(component.cpus)) as usize] += tick;
        }
        for (cpu, budget) in (0..).zip(dealt).filter(|(_, budget)| *budget > 0) {
            all.push(Item {
                vcpu: Vcpu { component: id, cpu },
                period: interface.period.get(),
                execution: budget + cost,
                deadline: interface.deadline.get(),
                wish: component.core,
            });
        }
    }
    all
}

/// Those that ask for a core come first, then the largest share.
fn in_order(mut items: Vec<Item>) -> Vec<Item> {
    let share = |item: &Item| item.execution as f64 / item.period as f64;
    items.sort_by(|a, b| {
        let wishes = b.wish.is_some().cmp(&a.wish.is_some());
        wishes.then(share(b).total_cmp(&share(a)))
    });
    items
}

/// A common multiple of all periods.
const COMMON: u64 = 120;

/// Whether a whole core suffices for these items, which are in the order of the model.
fn fits(items: &[Item], policy: Policy) -> bool {
    let mut items = items.to_vec();
    items.sort_by_key(|item| item.vcpu);
    let rate: u64 = items
        .iter()
        .map(|item| item.execution * (COMMON / item.period))
        .sum();
    if policy == Policy::Edf {
        let due = |t: u64| {
            let jobs = |item: &Item| (t + item.period).saturating_sub(item.deadline) / item.period;
            items
                .iter()
                .map(|item| jobs(item) * item.execution)
                .sum::<u64>()
        };
        return rate <= COMMON && (0..=2 * COMMON).all(|t| due(t) <= t);
    }
    match policy {
        Policy::RateMonotonic => items.sort_by_key(|item| item.period),
        _ => items.sort_by_key(|item| item.deadline),
    }
    (0..items.len()).all(|place| {
        let own = items[place];
        (1..=own.deadline).any(|t| {
            let higher = items[..place]
                .iter()
                .map(|one| t.div_ceil(one.period) * one.execution);
            higher.sum::<u64>() + own.execution <= t
        })
    })
}

/// The first of all placements that works, in the order of its digits: the cores of the items.
fn placed(items: &[Item], cores: &[CoreId], policy: Policy) -> Option<Vec<usize>> {
    let all = (cores.len() as u32).pow(items.len() as u32) as usize;
    let digits = |mut number: usize| {
        let mut places = vec![0; items.len()];
        for place in places.iter_mut().rev() {
            (*place, number) = (number % cores.len(), number / cores.len());
        }
        places
    };
    (0..all).map(digits).find(|places| {
        let wish = |(item, core): (&Item, &usize)| item.wish.is_none_or(|w| w == cores[*core]);
        items.iter().zip(places).all(wish)
            && (0..cores.len()).all(|core| fits(&on(items, places, core), policy))
    })
}

/// The items on a core.
fn on(items: &[Item], places: &[usize], core: usize) -> Vec<Item> {
    let here = items
        .iter()
        .zip(places)
        .filter(|(_, place)| **place == core);
    here.map(|(item, _)| *item).collect()
}

fn crowd(random: &mut Random) -> Model {
    let mut model = model(0);
    let cores = 1 + random.below(3) as u8;
    model.pools[0].cores = (0..cores).map(|core| CoreId(5 - core)).collect();
    model.tick = ns(random.pick(&[1, 2]));
    model.cost.switch = ns(random.pick(&[0, 0, 1]));
    let policies = [
        Policy::Edf,
        Policy::Edf,
        Policy::RateMonotonic,
        Policy::DeadlineMonotonic,
    ];
    model.pools[0].policy = random.pick(&policies);
    let implicit = random.below(2) == 0;
    for _ in 0..1 + random.below(2 + 2 * u64::from(cores)) {
        let period = random.pick(&[20, 24, 30, 40, 60]);
        let budget = 2 * (1 + random.below(period * 3 / 8));
        let deadline = if implicit {
            period
        } else {
            period - 2 * random.below((period - budget) / 2)
        };
        let tasks = [(100_000, 1, 100_000)];
        let id = vm(
            &mut model,
            ROOT,
            given(period, budget, deadline),
            Policy::Edf,
            &tasks,
        );
        let component = &mut model.components[id.0 as usize];
        if random.below(5) == 0 {
            component.core = Some(CoreId(5 - random.below(cores.into()) as u8));
        } else if cores > 1 && deadline == period && random.below(6) == 0 {
            component.cpus = 2;
        }
    }
    model
}

#[test]
fn placements_are_the_first_of_all_that_do() {
    let mut random = Random(0x9_1ace);
    let (mut kept, mut refused, mut wishes, mut spread, mut rooms) = (0, 0, 0, 0, 0);
    while kept < 200 || refused < 200 || wishes < 100 || spread < 50 || rooms < 50 {
        let model = crowd(&mut random);
        let Ok(analysis) = analyse(&model) else {
            continue;
        };
        let pool = &model.pools[0];
        let (cores, policy) = (&pool.cores, pool.policy);
        let items = in_order(items(&model));
        if items.len() > 7 {
            continue;
        }
        wishes += usize::from(items.iter().any(|item| item.wish.is_some()));
        spread += usize::from(items.iter().any(|item| item.vcpu.cpu > 0));
        match (&analysis.pools[0], placed(&items, cores, policy)) {
            (Placement::Placed(proofs), Some(places)) => {
                kept += 1;
                for (index, core) in cores.iter().enumerate() {
                    let mut vcpus: Vec<Vcpu> = on(&items, &places, index)
                        .iter()
                        .map(|item| item.vcpu)
                        .collect();
                    vcpus.sort();
                    assert_eq!(proofs[index].cores, [*core]);
                    assert_eq!(proofs[index].vcpus, vcpus, "{model:#?} {proofs:?}");
                }
            }
            (Placement::Refused(_), None) => {
                refused += 1;
                let found = analysis.refutations.last().expect("it is explained");
                rooms += usize::from(explained(&items, cores, policy, found));
            }
            (found, wanted) => panic!("{found:?} {wanted:?} {model:#?}"),
        }
    }
}

/// Whether a refusal is the right one: it names the first item that has no place wherever those
/// before it are, and the core on which their first placement leaves that item the most time.
/// Returns whether that core has any time left for it.
fn explained(items: &[Item], cores: &[CoreId], policy: Policy, found: &Refutation) -> bool {
    let late = (0..items.len()).find(|at| placed(&items[..=*at], cores, policy).is_none());
    let late = late.expect("one has no place");
    let places = placed(&items[..late], cores, policy).expect("those before it have");
    let own = items[late];
    assert_eq!(found.vcpu, Some(own.vcpu), "{items:?} {found:?}");
    let rate = |items: &[Item]| {
        let each = items
            .iter()
            .map(|item| item.execution * (COMMON / item.period));
        each.sum::<u64>()
    };
    let allowed = |core: &usize| own.wish.is_none_or(|wish| wish == cores[*core]);
    let used = |core: usize| rate(&on(&items[..late], &places, core));
    let least = (0..cores.len()).filter(allowed).map(used).min();
    let RefutedAt::Cores(PoolId(0), Some(named)) = found.place else {
        panic!("a core is named: {found:?}");
    };
    let core = cores.iter().position(|core| *core == named);
    let core = core.filter(allowed).expect("it is one of those");
    assert_eq!(Some(used(core)), least, "{items:?} {found:?}");
    let certain = rate(items) > COMMON * cores.len() as u64
        || cores.len() == 1
        || items.len() == 1
        || own.wish.is_some() && late == 0;
    assert_eq!(found.certain, certain, "{items:?} {found:?}");
    let change = |change: &Change| match change {
        Change::MaxBudget(id, room) if *id == own.vcpu.component => Some(room.get()),
        _ => None,
    };
    let room = found.changes.iter().find_map(change);
    assert_eq!(found.changes.last(), Some(&Change::Core(PoolId(0))));
    assert_eq!(found.changes.len(), 1 + usize::from(room.is_some()));
    room.is_some()
}

/// With the offered budget there is a place on one core, and with a tick more there is none. Where
/// no budget is offered, a tick is too much.
#[test]
fn the_room_on_a_core_is_all_there_is() {
    let mut random = Random(0x0_4003);
    let (mut some, mut none) = (0, 0);
    while some < 100 || none < 10 {
        let mut model = crowd(&mut random);
        model.pools[0].cores.truncate(1);
        let core = model.pools[0].cores[0];
        for component in &mut model.components {
            component.core = component.core.map(|_| core);
            component.cpus = 1;
        }
        let Ok(analysis) = analyse(&model) else {
            continue;
        };
        let Some(found) = analysis.refutations.last() else {
            continue;
        };
        let (RefutedAt::Cores(..), Some(vcpu)) = (found.place, found.vcpu) else {
            continue;
        };
        let all = in_order(items(&model));
        let late = all
            .iter()
            .position(|item| item.vcpu == vcpu)
            .expect("it is there");
        let cost = model.cost.per_period().get();
        let suffices = |budget: u64| {
            let mut here = all[..=late].to_vec();
            here[late].execution = budget + cost;
            fits(&here, model.pools[0].policy)
        };
        let tick = model.tick.get();
        match found.changes.first() {
            Some(Change::MaxBudget(_, room)) => {
                assert!(room.get().is_multiple_of(tick));
                let room = room.get();
                assert!(
                    suffices(room) && !suffices(room + tick),
                    "{model:#?} {found:?}"
                );
                some += 1;
            }
            _ => {
                assert!(!suffices(tick), "{model:#?} {found:?}");
                none += 1;
            }
        }
    }
}

/// A pool that is scheduled as a whole: only a demand of more than all cores together is certain to
/// be too much, and no vCPU or core is blamed.
#[test]
fn a_global_pool_is_refused_as_a_whole() {
    let mut random = Random(0x0_9100);
    let (mut certain, mut other) = (0, 0);
    while certain < 20 || other < 20 {
        let mut model = crowd(&mut random);
        model.pools[0].mode = Mode::Global;
        model.pools[0].policy = Policy::Edf;
        for component in &mut model.components {
            component.core = None;
        }
        let Ok(analysis) = analyse(&model) else {
            continue;
        };
        let items = items(&model);
        let rate: u64 = items
            .iter()
            .map(|item| item.execution * (COMMON / item.period))
            .sum();
        let cores = model.pools[0].cores.len() as u64;
        let Placement::Refused(refusal) = &analysis.pools[0] else {
            assert!(rate <= COMMON * cores, "{model:#?}");
            continue;
        };
        assert_eq!((refusal.vcpu, refusal.core), (None, None));
        let certainly = cores == 1 || rate > COMMON * cores;
        assert_eq!(refusal.certain, certainly, "{model:#?}");
        let Some(found) = analysis.refutations.last() else {
            panic!("it is explained: {model:#?}");
        };
        assert_eq!(found.place, RefutedAt::Cores(PoolId(0), None));
        assert_eq!(found.changes, [Change::Core(PoolId(0))]);
        assert!(found.shortfall() > 0, "{found:?}");
        let member = |item: &Item| Member::Component(item.vcpu.component);
        assert!(items.iter().any(|item| member(item) == found.member));
        certain += usize::from(refusal.certain);
        other += usize::from(!refusal.certain);
    }
}
