//! What the board enforces in a global pool, whose vCPUs run on whichever core is free.

use super::super::draft::Whole;
use super::{Builder, Enforced, lost, name, nothing, share_of};
use crate::backend::Architecture;
use crate::board::Board;
use crate::diagnostic::{Report, Words};
use crate::draft::Draft;
use hanok_config::{Claim, CorePolicy, MAX_POOL, Promise};
use hanok_sched::Slack;
use hanok_task_model::{Component, ComponentId, Home, Mode, Model, Pool, PoolId};
use hanok_types::{CpuId, MAX_CPUS, MAX_VCPUS, VcpuId, VmId};

impl Enforced {
    /// The cores of global pools.
    pub(crate) fn pool_cores(&self) -> Vec<u64> {
        let policies = (0..).zip(&self.policies);
        let global = policies.filter(|(_, policy)| matches!(policy, CorePolicy::Global { .. }));
        global.map(|(core, _)| core).collect()
    }
}

/// Refuses global pools that are to be enforced on a board with a 32-bit hypervisor.
pub(crate) fn refuse_on(
    report: &mut Report,
    board: &Board,
    whole: Option<&Whole>,
    enforced: Option<&Enforced>,
) {
    let pools = enforced.is_some_and(|enforced| !enforced.pool_cores().is_empty());
    let enforce = whole.and_then(|whole| whole.enforce.as_ref());
    if let (Some(enforce), true, Architecture::Arm) = (enforce, pools, board.architecture()) {
        let what = format!("`enforce` with a global pool on board {}", board.name);
        let why = "its CPUs run the 32-bit hypervisor, in which vCPUs stay on their cores";
        let remedy = "make the pool mode = \"partitioned\", or choose a 64-bit board; 32-bit VMs run there, too";
        report.refuse(&enforce.span, Words::new(what, why, remedy));
    }
}

impl Builder<'_> {
    /// Promises the vCPUs of a VM in a global pool what they have of it; returns whether it is in one.
    pub(super) fn pooled(&mut self, draft: &Draft, vm: VmId) -> Result<bool, Words> {
        let Some(model) = self.model else {
            return Ok(false);
        };
        let Some((id, pool)) = pool(model, name(draft)) else {
            return Ok(false);
        };
        let lowest = enforceable(draft, pool, self.slack)?;
        for core in &pool.cores {
            let policy = self.all.policies.get_mut(usize::from(core.0));
            let order = pool.policy.into();
            let pool = CpuId::new(lowest);
            *policy.ok_or_else(lost)? = CorePolicy::Global { order, pool };
        }
        let cores = self.of(vm.index()).to_vec();
        for (vcpu, core) in cores.into_iter().enumerate().take(MAX_VCPUS) {
            let component = component(model, (name(draft), vcpu), id);
            let (id, component) = component.ok_or_else(|| nothing(draft, "budget"))?;
            let mut terms = self.terms(model, id, core)?;
            // What all have together is divided evenly, as the analysis reckons.
            terms.budget = terms.budget.div_ceil(u64::from(component.cpus.max(1)));
            terms.deadline = terms.deadline.max(terms.budget);
            let (vcpu, ask) = (VcpuId::new(vcpu as u8), Default::default());
            let claim = Claim::Promise {
                group: 0,
                terms,
                ask,
            };
            self.all.promises.push(Promise { vm, vcpu, claim });
        }
        Ok(true)
    }

    /// The cores on which the vCPUs of a VM begin that is in a global pool.
    pub(super) fn first_cores(&self, draft: &Draft, vcpus: usize) -> Option<Vec<usize>> {
        draft.schedule.as_ref()?;
        let (_, pool) = pool(self.model?, name(draft))?;
        let cores = pool.cores.iter().map(|core| usize::from(core.0)).cycle();
        Some(cores.take(vcpus).collect())
    }

    /// Refuses others on the cores of global pools, and more promises than there is time in one.
    pub(super) fn pools_hold(&self, drafts: &[Draft]) -> Result<(), Words> {
        let Some(model) = self.model else {
            return Ok(());
        };
        alone(model, &self.all.policies, drafts, &self.cores)?;
        overcommitted(model, &self.all.promises, drafts)
    }
}

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
fn component<'a>(
    model: &'a Model,
    (vm, vcpu): (&str, usize),
    pool: PoolId,
) -> Option<(ComponentId, &'a Component)> {
    let own = format!("{vm}.{vcpu}");
    let mut components = model.ids();
    components.find(|(_, one)| (one.name == own || one.name == vm) && one.home == Home::Pool(pool))
}

/// The lowest core of a pool, if the board can enforce what a VM has of it.
fn enforceable(draft: &Draft, pool: &Pool, slack: Slack) -> Result<u8, Words> {
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

/// Refuses VMs on the cores of a global pool that are not in it. `all` has the cores of each VM.
fn alone(
    model: &Model,
    policies: &[CorePolicy; MAX_CPUS],
    drafts: &[Draft],
    all: &[Vec<usize>],
) -> Result<(), Words> {
    for (draft, cores) in drafts.iter().zip(all) {
        let in_one = pool(model, name(draft)).is_some();
        if in_one && draft.schedule.is_some() {
            continue;
        }
        for core in cores {
            if let Some(CorePolicy::Global { .. }) = policies.get(*core) {
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
fn overcommitted(model: &Model, promises: &[Promise], drafts: &[Draft]) -> Result<(), Words> {
    for id in (0..model.pools.len() as u32).map(PoolId) {
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
