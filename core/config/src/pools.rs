//! Pools of pCPUs. Nothing of this is in an image without [`crate::POOLS`].

use crate::check::{Fault, MAX_POOL};
use crate::cores::{Claim, CorePolicy};
use crate::model::SystemView;
use hanok_types::{CpuId, MAX_CPUS, VcpuId, VmId};

impl SystemView<'_> {
    /// The pCPUs that share their vCPUs with `cpu`, one bit each: its pool, or only itself.
    pub fn pool_of(&self, cpu: CpuId) -> u64 {
        let CorePolicy::Global { pool, .. } = self.policy(cpu) else {
            return 1 << (cpu.index() % MAX_CPUS);
        };
        let mut all = 0;
        for (index, policy) in self.policies.iter().enumerate() {
            if matches!(policy, CorePolicy::Global { pool: own, .. } if *own == pool) {
                all |= 1 << index;
            }
        }
        all
    }
}

/// Verifies the pools, and that whatever is in one can move.
pub(crate) fn check(system: &SystemView<'_>) -> Result<(), Fault> {
    for (index, policy) in system.policies.iter().enumerate() {
        let cpu = CpuId::new(index as u8);
        if let CorePolicy::Global { pool, .. } = policy {
            let own = system.pool_of(cpu);
            let lowest = own.trailing_zeros() as usize == pool.index();
            let same = lowest && system.policy(*pool) == *policy;
            if !same || own.count_ones() as usize > MAX_POOL {
                return Err(Fault::Pool { cpu });
            }
        }
    }
    for (vm, config) in system.vms.iter().enumerate() {
        for (index, cpu) in config.cpus.iter().enumerate() {
            if !matches!(system.policy(*cpu), CorePolicy::Global { .. }) {
                continue;
            }
            let vcpu = VcpuId::new(index as u8);
            let promise = system.promise(VmId::new(vm as u8), vcpu);
            let moves = promise.is_none_or(|promise| {
                matches!(promise.claim, Claim::Promise { group: 0, ask, .. } if ask.limit == 0)
            });
            if !moves || !config.devices.is_empty() {
                return Err(Fault::Pooled { vm });
            }
        }
    }
    Ok(())
}
