//! The rules for a VM's devices of the virtual platform: each has a region and an interrupt of its
//! own, which do not overlap the interrupt controller, real devices that the VM has for itself, or
//! RAM.

use super::Fault;
use crate::model::VmConfig;
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

pub(super) fn check(vm: usize, config: &VmConfig) -> Result<(), Fault> {
    for (index, slot) in config.slots.iter().enumerate() {
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
        let is_serial = |slot: &DeviceSlot| slot.kind == DeviceKind::Pl011;
        if is_serial(slot) && earlier().any(is_serial) {
            return Err(Fault::SecondSerialPort { vm, slot: index });
        }
    }
    Ok(())
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
