//! The rules for promises of CPU time.

use super::{Fault, POOLS};
use crate::cores::{Claim, CorePolicy, MAX_PERIOD, Promise};
use crate::model::SystemView;
use crate::pools;
use hanok_sched::{MAX_ENTITIES, MAX_GROUPS};
use hanok_types::{CpuId, MAX_CPUS, VcpuId, VcpuSet};

/// Verifies that each promise by itself can be kept by the vCPU's pCPU. The analysis says whether
/// all promises of a pCPU can be kept together.
pub(super) fn check(system: &SystemView<'_>) -> Result<(), Fault> {
    groups(system)?;
    if POOLS {
        pools::check(system)?;
    } else {
        let global = |policy: &CorePolicy| matches!(policy, CorePolicy::Global { .. });
        if let Some(index) = system.policies.iter().position(global) {
            let cpu = CpuId::new(index as u8);
            return Err(Fault::Pool { cpu });
        }
    }
    let mut left = system.promises;
    for (vm, config) in system.vms.iter().enumerate() {
        let own = left.iter().take_while(|promise| promise.vm.index() == vm);
        let count = own.clone().count();
        let mut promised = VcpuSet::EMPTY;
        for promise in own {
            let vcpu = promise.vcpu;
            let cpu = config.cpus.get(vcpu.index());
            let cpu = cpu.filter(|_| !promised.contains(vcpu));
            let cpu = *cpu.ok_or(Fault::MisplacedPromise { vm })?;
            promised.insert(vcpu);
            one(system, cpu, promise)?;
        }
        for (index, cpu) in config.cpus.iter().enumerate() {
            let vcpu = VcpuId::new(index as u8);
            let enforced = system.policy(*cpu) != CorePolicy::RoundRobin;
            if promised.contains(vcpu) != enforced {
                return Err(Fault::PromiseMismatch { vm, vcpu });
            }
        }
        left = left.get(count..).unwrap_or_default();
    }
    // Any promise that is left is not in the order of the VMs, or for none of them.
    match left.first() {
        None => Ok(()),
        Some(promise) => Err(Fault::MisplacedPromise {
            vm: promise.vm.index(),
        }),
    }
}

/// Verifies one promise to a vCPU of `cpu`.
fn one(system: &SystemView<'_>, cpu: CpuId, promise: &Promise) -> Result<(), Fault> {
    let (vm, vcpu) = (promise.vm.index(), promise.vcpu);
    let Claim::Promise { group, terms, .. } = promise.claim else {
        return Ok(());
    };
    if usize::from(group) > system.groups_of(cpu).count() {
        return Err(Fault::MisplacedPromise { vm });
    }
    if terms.period > MAX_PERIOD {
        return Err(Fault::Period { vm, vcpu });
    }
    let checked = terms.check();
    checked.map_err(|error| Fault::Promise { vm, vcpu, error })
}

/// Verifies the groups of each pCPU.
fn groups(system: &SystemView<'_>) -> Result<(), Fault> {
    if system.groups.is_empty() {
        return Ok(());
    }
    for group in system.groups {
        if group.cpu.index() >= MAX_CPUS {
            let (cpu, group) = (group.cpu, 0);
            return Err(Fault::Group { cpu, group });
        }
    }
    for cpu in (0..MAX_CPUS as u8).map(CpuId::new) {
        let groups = system.groups_of(cpu).count();
        let cpus = system.vms.iter().flat_map(|vm| &vm.cpus);
        let vcpus = cpus.filter(|own| **own == cpu).count();
        if groups > 0 && groups + vcpus > MAX_ENTITIES {
            return Err(Fault::TooManyVcpus { cpu });
        }
        for (index, group) in system.groups_of(cpu).enumerate() {
            let placed = usize::from(group.home) <= index && index < MAX_GROUPS;
            let enforced = system.policy(cpu) != CorePolicy::RoundRobin;
            let kept = group.terms.period <= MAX_PERIOD && group.terms.check().is_ok();
            if !(placed && enforced && kept) {
                return Err(Fault::Group { cpu, group: index });
            }
        }
    }
    Ok(())
}
