//! The rules for a VM's devices of the virtual platform: each has a region and an interrupt of its
//! own, which do not overlap the interrupt controller, real devices that the VM has for itself, or
//! RAM.

use super::Fault;
use crate::model::{SystemView, VmConfig};
use crate::slot::{DeviceKind, DeviceSlot};
use hanok_types::{IntId, IntKind, Ipa, Span, platform};

/// The region that the virtual platform reserves for the interrupt controller of either version.
const CONTROLLER: (Ipa, u64) = (
    platform::GIC_DIST,
    platform::UART.get() - platform::GIC_DIST.get(),
);
/// The window of the channels' memory.
const CHANNELS: (Ipa, u64) = (platform::CHANNEL_MEMORY, platform::CHANNEL_MEMORY_SIZE);
/// The region that the virtual platform reserves for real devices.
const PASSED_THROUGH: (Ipa, u64) = (platform::PASS_THROUGH, platform::PASS_THROUGH_SIZE);

pub(super) fn check(system: &SystemView<'_>, vm: usize, config: &VmConfig) -> Result<(), Fault> {
    for (index, slot) in config.slots.iter().enumerate() {
        if !is_paired(system, vm, index, slot) {
            return Err(Fault::Peer { vm, slot: index });
        }
        let earlier = || config.slots.iter().take(index);
        let overlaps = |other: &DeviceSlot| other.region.overlaps(&slot.region);
        if !is_free(&slot.region) || earlier().any(overlaps) {
            return Err(Fault::SlotRegion { vm, slot: index });
        }
        let shared = |other: &DeviceSlot| other.interrupt == slot.interrupt;
        if let Some(line) = slot.interrupt
            && (!is_free_line(line) || earlier().any(shared))
        {
            return Err(Fault::SlotLine {
                vm,
                slot: index,
                line,
            });
        }
        // There is one line, and one memory for variables.
        let single = matches!(slot.kind, DeviceKind::Pl011 | DeviceKind::Nor);
        if single && earlier().any(|other| other.kind == slot.kind) {
            return Err(Fault::SecondOfItsKind { vm, slot: index });
        }
    }
    Ok(())
}

/// Whether a device that two VMs share has its other end, which has this one, and another device has none.
fn is_paired(system: &SystemView<'_>, vm: usize, index: usize, slot: &DeviceSlot) -> bool {
    let serves = matches!(slot.kind, DeviceKind::BackEnd);
    let served = matches!(slot.kind, DeviceKind::Virtio(kind) if kind.has_back_end());
    let Some(peer) = slot.peer else {
        return !serves && !served;
    };
    let other = system.vms.get(peer.vm.index());
    let other = other.and_then(|other| other.slots.get(usize::from(peer.slot)));
    let (Some(other), true) = (other, peer.vm.index() != vm) else {
        return false;
    };
    let back = other
        .peer
        .map(|back| (back.vm.index(), usize::from(back.slot)));
    let fits = if serves {
        matches!(other.kind, DeviceKind::Virtio(kind) if kind.has_back_end())
    } else {
        served && other.kind == DeviceKind::BackEnd
    };
    fits && back == Some((vm, index))
}

fn is_free(region: &Span<Ipa>) -> bool {
    let taken = [CONTROLLER, PASSED_THROUGH, CHANNELS].map(|(start, len)| Span::new(start, len));
    let mut taken = taken.into_iter().flatten();
    let below_ram = region.end() <= platform::RAM && !region.is_empty();
    below_ram && !taken.any(|taken| taken.overlaps(region))
}

fn is_free_line(line: IntId) -> bool {
    let passed_through = platform::PASS_THROUGH_IRQ.get();
    let passed_through = passed_through..passed_through + platform::PASS_THROUGH_IRQS;
    let there = line.kind() == IntKind::Spi && line.get() < IntId::spi(0).get() + platform::SPIS;
    there && !passed_through.contains(&line.get())
}
