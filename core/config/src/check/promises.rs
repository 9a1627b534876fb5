//! The rules of promised CPU time.

use super::Fault;
use crate::cores::{CorePolicy, MAX_PERIOD};
use crate::model::{System, VmConfig};
use hanok_types::VcpuId;

/// Whether what the vCPUs of a VM are promised can be kept by their pCPUs, each promise by itself. Whether
/// all of a pCPU's promises together can be kept, the analysis says.
pub(super) fn check(system: &System, vm: usize, config: &VmConfig) -> Result<(), Fault> {
    for (number, promise) in config.promises.iter().enumerate() {
        let vcpu = promise.vcpu;
        let mut earlier = config.promises.iter().take(number);
        if vcpu.index() >= config.cpus.len() || earlier.any(|other| other.vcpu == vcpu) {
            return Err(Fault::PromiseToNobody { vm });
        }
        if promise.period > MAX_PERIOD {
            return Err(Fault::Period { vm, vcpu });
        }
        let checked = promise.check();
        checked.map_err(|error| Fault::Promise { vm, vcpu, error })?;
    }
    for (index, cpu) in config.cpus.iter().enumerate() {
        let vcpu = VcpuId::new(index as u8);
        let enforced = system.policy(*cpu) != CorePolicy::RoundRobin;
        if config.promise(vcpu).is_some() != enforced {
            return Err(Fault::Promised { vm, vcpu });
        }
    }
    Ok(())
}
