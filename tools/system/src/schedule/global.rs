//! What the board enforces in a global pool, whose vCPUs run on whichever core is free.

use super::draft::Whole;
use super::enforce::{cores, name, share_of};
use crate::cores::Pools;
use crate::diagnostic::Words;
use crate::draft::Draft;
use hanok_config::{Claim, CorePolicy, MAX_POOL, Promise};
use hanok_sched::Slack;
use hanok_task_model::{Component, Home, Mode, Model, Pool, PoolId};
use hanok_types::{MAX_CPUS, MAX_VCPUS};

/// The global pool that a VM is in by its own component, or those of its vCPUs.
pub(super) fn pool<'a>(model: &'a Model, vm: &str) -> Option<(PoolId, &'a Pool)> {
    let mut own = model.components.iter().filter(|one| is_of(one, vm));
    own.find_map(|component| {
        let Home::Pool(id) = component.home else {
            return None;
        };
        let pool = model.pool(id).filter(|pool| pool.mode == Mode::Global)?;
        Some((id, pool))
    })
}

/// Whether a component is a VM, or one of its vCPUs.
fn is_of(component: &Component, vm: &str) -> bool {
    let own = component.name.strip_prefix(vm);
    let vcpu = own.and_then(|rest| rest.strip_prefix('.'));
    own == Some("") || vcpu.is_some_and(|number| number.parse::<u8>().is_ok())
}

/// The component by which a vCPU is promised time from a pool.
pub(super) fn component<'a>(
    model: &'a Model,
    (vm, vcpu): (&str, usize),
    pool: PoolId,
) -> Option<&'a Component> {
    let own = format!("{vm}.{vcpu}");
    let mut components = model.components.iter();
    components.find(|one| (one.name == own || one.name == vm) && one.home == Home::Pool(pool))
}

/// The lowest core of a pool, if the board can enforce what a VM has of it.
pub(super) fn enforceable(draft: &Draft, pool: &Pool, slack: Slack) -> Result<u8, Words> {
    let (vm, pool_name) = (name(draft), &pool.name);
    if draft.cpus.is_some() {
        return Err(Words::new(
            format!("\"{vm}\" names `cpus`, and is in the global pool \"{pool_name}\""),
            "its vCPUs run on whichever core of the pool is free",
            "remove `cpus` and write `vcpus`, or make the pool mode = \"partitioned\"",
        ));
    }
    if !draft.devices.is_empty() {
        return Err(Words::new(
            format!("\"{vm}\" has devices of the board, and is in the global pool \"{pool_name}\""),
            "the interrupts of a device come to one core",
            "give the VM a core of its own, in a pool of mode = \"partitioned\"",
        ));
    }
    if draft.ask.is_some_and(|ask| ask.limit > 0) {
        return Err(Words::new(
            format!("\"{vm}\" has `ask`, and is in the global pool \"{pool_name}\""),
            "the board has an exact test for one core, and none for several",
            "remove `ask`, or make the pool mode = \"partitioned\"",
        ));
    }
    if slack != Slack::Idle {
        return Err(Words::new(
            format!("`slack` beside the global pool \"{pool_name}\""),
            "who could use what is left on one core may be running on another",
            "write slack = \"idle\", or make the pool mode = \"partitioned\"",
        ));
    }
    if pool.cores.len() > MAX_POOL {
        return Err(Words::new(
            format!("pool \"{pool_name}\" has {} cores", pool.cores.len()),
            format!("on the board a global pool has at most {MAX_POOL}"),
            "make several pools of them",
        ));
    }
    let lowest = pool.cores.iter().map(|core| core.0).min();
    let lowest = lowest.filter(|core| usize::from(*core) < MAX_CPUS);
    lowest.ok_or_else(|| {
        Words::new(
            format!("pool \"{pool_name}\" has no core"),
            "vCPUs need one",
            "name some in `cores`",
        )
    })
}

/// Refuses VMs on the cores of a global pool that are not in it.
pub(super) fn alone(policies: &[CorePolicy; MAX_CPUS], drafts: &[Draft]) -> Result<(), Words> {
    for draft in drafts {
        for core in cores(draft) {
            let policy = policies.get(core);
            if let Some(CorePolicy::Global { .. }) = policy {
                return Err(Words::new(
                    format!(
                        "\"{}\" is on core {core}, which is a global pool's",
                        name(draft)
                    ),
                    "the cores of a global pool are for the VMs with [vm.schedule] in it: best effort is not \
                     served there",
                    "give the VM another core, or [vm.schedule] and `pool`",
                ));
            }
        }
    }
    Ok(())
}

/// Refuses a pool of which more is promised than its cores have.
pub(super) fn overcommitted(
    model: Option<&Model>,
    promises: &[Promise],
    drafts: &[Draft],
) -> Result<(), Words> {
    for id in (0..model.map_or(0, |model| model.pools.len()) as u32).map(PoolId) {
        let Some(model) = model else { break };
        let Some(there) = model.pool(id).filter(|pool| pool.mode == Mode::Global) else {
            continue;
        };
        let mut used = 0;
        for promise in promises {
            let Some(draft) = drafts.get(promise.vm.index()) else {
                continue;
            };
            let own = pool(model, name(draft)).is_some_and(|(own, _)| own == id);
            if let (Claim::Promise { terms, .. }, true) = (promise.claim, own) {
                used += share_of(&terms);
            }
        }
        if used > (there.cores.len() as u128) << 64 {
            return Err(Words::new(
                format!("more than all of pool \"{}\" is promised", there.name),
                "budgets by their periods add up to more than its cores have",
                "lower a budget; `hanok sched check` says how much each VM needs",
            ));
        }
    }
    Ok(())
}

/// What the global pools say about cores, where the board enforces them.
pub(crate) fn pools(whole: Option<&Whole>, drafts: &[Draft], model: Option<&Model>) -> Pools {
    let enforce = whole.and_then(|whole| whole.enforce.as_ref());
    let (Some(model), true) = (model, enforce.is_some_and(|enforce| enforce.value)) else {
        return Pools::default();
    };
    let first = |draft: &Draft| {
        let (_, pool) = pool(model, name(draft))?;
        let vcpus = draft.vcpus.as_ref().map_or(1, |at| at.value) as usize;
        let cores = pool.cores.iter().map(|core| core.0).cycle();
        Some(cores.take(vcpus.min(MAX_VCPUS)).collect())
    };
    let first: Vec<Option<Vec<u8>>> = drafts.iter().map(first).collect();
    let used = drafts.iter().filter_map(|draft| pool(model, name(draft)));
    let cores = used.flat_map(|(_, pool)| pool.cores.iter().map(|core| u64::from(core.0)));
    let cores = cores.collect();
    Pools { first, cores }
}
