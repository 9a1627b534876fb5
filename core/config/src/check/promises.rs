//! The rules for promises of CPU time.

use super::Fault;
use crate::cores::{CorePolicy, MAX_PERIOD};
use crate::model::SystemView;
use hanok_types::{VcpuId, VcpuSet};

/// Verifies that each promise by itself can be kept by the vCPU's pCPU. The analysis says whether
/// all promises of a pCPU can be kept together.
pub(super) fn check(system: &SystemView<'_>) -> Result<(), Fault> {
    let mut left = system.promises;
    for (vm, config) in system.vms.iter().enumerate() {
        let own = left.iter().take_while(|promise| promise.vm.index() == vm);
        let count = own.clone().count();
        let mut promised = VcpuSet::EMPTY;
        for promise in own {
            let vcpu = promise.vcpu;
            if vcpu.index() >= config.cpus.len() || promised.contains(vcpu) {
                return Err(Fault::MisplacedPromise { vm });
            }
            promised.insert(vcpu);
            if promise.period > MAX_PERIOD {
                return Err(Fault::Period { vm, vcpu });
            }
            let checked = promise.check();
            checked.map_err(|error| Fault::Promise { vm, vcpu, error })?;
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
