//! The records of virtio devices, which the VM that has one and the VM that serves it share.

use crate::arena::Arena;
use hanok_config::{DeviceKind, DeviceSlot, SystemView, VmConfig};
use hanok_devices::virtio::{Backed, SharedDevice};
use hanok_types::VmId;

/// The records of all virtio devices of a system, in the order of VMs and slots.
pub struct Records(&'static [SharedDevice]);

/// The records of one VM's slots, at the slots' indices.
pub type OfVm = &'static [Option<&'static SharedDevice>];

impl Records {
    /// Records of devices that nobody has used; `None` if there is no memory for them.
    pub fn new(system: &SystemView<'_>, arena: &mut Arena) -> Option<Self> {
        let slots = || system.vms.iter().flat_map(|vm| &vm.slots);
        let mut records = arena.places(slots().filter(is_virtio).count())?;
        for slot in slots() {
            if let DeviceKind::Virtio(kind) = slot.kind {
                records.push(SharedDevice::new(kind, backed(system, slot)));
            }
        }
        Some(Self(records.finish()))
    }

    /// Those of VM `vm`; `None` if there is no memory for the list.
    pub fn of(
        &self,
        system: &SystemView<'_>,
        (vm, config): (VmId, &VmConfig),
        arena: &mut Arena,
    ) -> Option<OfVm> {
        let slots = config.slots.iter().enumerate();
        let mut found = slots.map(|(index, slot)| self.record(system, vm, index, slot));
        if !found.clone().any(|record| record.is_some()) {
            return Some(&[]);
        }
        Some(arena.put_all(config.slots.len(), &mut found)?)
    }

    fn record(
        &self,
        system: &SystemView<'_>,
        vm: VmId,
        index: usize,
        slot: &DeviceSlot,
    ) -> Option<&'static SharedDevice> {
        let (vm, index) = match (slot.kind, slot.peer) {
            (DeviceKind::Virtio(_), _) => (vm.index(), index),
            (DeviceKind::BackEnd, Some(peer)) => (peer.vm.index(), peer.slot.into()),
            _ => return None,
        };
        let earlier = system.vms.iter().take(vm).flat_map(|vm| &vm.slots);
        let own = system.vms.get(vm)?.slots.iter().take(index);
        self.0.get(earlier.chain(own).filter(is_virtio).count())
    }
}

fn is_virtio(slot: &&DeviceSlot) -> bool {
    matches!(slot.kind, DeviceKind::Virtio(_))
}

fn backed(system: &SystemView<'_>, slot: &DeviceSlot) -> Backed {
    let driver = slot.peer.and_then(|peer| system.vms.get(peer.vm.index()));
    match driver {
        Some(driver) => Backed::ByVm {
            trusted: driver.trusted,
        },
        None => Backed::ByHypervisor,
    }
}
