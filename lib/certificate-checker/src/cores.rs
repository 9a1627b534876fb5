//! Whether the cores keep the promises made to the components on them.

use crate::bounds::{Job, Supply};
use crate::{CheckedPart, Fault, Interfaces, Rejection, proofs, rank};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use hanok_task_model::{CoreId, CoreProof, Home, Mode, Model, Nanos, Pool, PoolId, Vcpu};

/// Whether `proofs` cover every core and every vCPU once.
pub fn check(
    model: &Model,
    proofs: &[CoreProof],
    interfaces: &Interfaces,
) -> Result<(), Rejection> {
    let rejection = |pool, fault| Rejection {
        place: CheckedPart::Pool(pool),
        fault,
    };
    let (mut cores, mut vcpus) = (BTreeSet::new(), BTreeSet::new());
    for proof in proofs {
        let fault = |fault| rejection(proof.pool, fault);
        let pool = model.pool(proof.pool).ok_or(fault(Fault::Incomplete))?;
        whole(pool, proof).map_err(fault)?;
        if !proof.cores.iter().all(|core| cores.insert(*core)) {
            return Err(fault(Fault::Incomplete));
        }
        let sorted = proof.vcpus.is_sorted();
        if !sorted || !proof.vcpus.iter().all(|vcpu| vcpus.insert(*vcpu)) {
            return Err(fault(Fault::Placement));
        }
        one(model, pool, proof, interfaces).map_err(fault)?;
    }
    complete(model, interfaces, &cores, &vcpus)
}

/// One core of a partitioned pool, all of a global one.
fn whole(pool: &Pool, proof: &CoreProof) -> Result<(), Fault> {
    let sound = match (pool.mode, proof.cores.as_slice()) {
        (Mode::Partitioned, [core]) => pool.cores.contains(core),
        (Mode::Partitioned, _) => false,
        (Mode::Global, cores) => pool.cores == cores,
    };
    if sound {
        Ok(())
    } else {
        Err(Fault::Incomplete)
    }
}

fn one(
    model: &Model,
    pool: &Pool,
    proof: &CoreProof,
    interfaces: &Interfaces,
) -> Result<(), Fault> {
    let mut jobs = Vec::new();
    for vcpu in &proof.vcpus {
        let id = vcpu.component;
        let component = model.component(id).ok_or(Fault::Placement)?;
        let interface = interfaces.get(&id).ok_or(Fault::Placement)?;
        let here = component.home == Home::Pool(proof.pool);
        let wish = |core: CoreId| proof.cores.contains(&core);
        let share = share(model, *vcpu, interfaces);
        if !here || share.is_zero() || !component.core.is_none_or(wish) {
            return Err(Fault::Placement);
        }
        jobs.push(Job::of_interface(
            model,
            (id, component),
            pool.policy,
            interface,
            share,
        ));
    }
    rank(&mut jobs, pool.policy);
    let supply = Supply::cores(proof.cores.len());
    // A pool of one core is one CPU, whatever its mode; the analysis tests it as its mode says.
    let cpus = match pool.mode {
        Mode::Partitioned => 1,
        Mode::Global => proof.cores.len() as u32,
    };
    match (pool.mode, jobs.is_empty()) {
        (Mode::Global, false) if cpus == 1 => global_of_one(&jobs, &supply, proof),
        _ => proofs::check(&jobs, pool.policy, cpus, &supply, &proof.proof),
    }
}

/// A global pool of one core is EDF on that core.
fn global_of_one(jobs: &[Job], supply: &Supply, proof: &CoreProof) -> Result<(), Fault> {
    proofs::check(jobs, hanok_task_model::Policy::Edf, 1, supply, &proof.proof)
}

/// A vCPU's part of its component's budget: whole ticks dealt out evenly, first come first.
fn share(model: &Model, vcpu: Vcpu, interfaces: &Interfaces) -> Nanos {
    let Some(interface) = interfaces.get(&vcpu.component) else {
        return Nanos::ZERO;
    };
    let cpus = model
        .component(vcpu.component)
        .map_or(0, |component| component.cpus);
    if vcpu.cpu >= cpus {
        return Nanos::ZERO;
    }
    let (tick, all) = (model.tick.get(), interface.budget.get());
    let (ticks, cpus) = (all / tick, u64::from(cpus));
    let extra = u64::from(u64::from(vcpu.cpu) < ticks % cpus);
    Nanos::new((ticks / cpus + extra) * tick)
}

/// Whether all cores, and all vCPUs with a budget, were met.
fn complete(
    model: &Model,
    interfaces: &Interfaces,
    cores: &BTreeSet<CoreId>,
    vcpus: &BTreeSet<Vcpu>,
) -> Result<(), Rejection> {
    for (pool, found) in (0..).map(PoolId).zip(&model.pools) {
        let place = CheckedPart::Pool(pool);
        if !found.cores.iter().all(|core| cores.contains(core)) {
            let fault = Fault::Incomplete;
            return Err(Rejection { place, fault });
        }
        for (component, found) in model.ids().filter(|(_, c)| c.home == Home::Pool(pool)) {
            let all = (0..found.cpus).map(|cpu| Vcpu { component, cpu });
            let mut needed = all.filter(|vcpu| !share(model, *vcpu, interfaces).is_zero());
            if !needed.all(|vcpu| vcpus.contains(&vcpu)) {
                let fault = Fault::Placement;
                return Err(Rejection { place, fault });
            }
        }
    }
    Ok(())
}
