//! The SMMU in front of a PCIe host bridge that a VM has for itself.

use crate::VmUnit;
use crate::fatal::refuse;
use crate::layout::{map_device, take};
use crate::selftest;
use crate::system::vtcr;
use hanok_arm_common::mmu::OwnTable;
use hanok_arm_common::smmu::{FUNCTIONS, Owner, REGISTERS, Smmu, memory_for};
use hanok_config::{BoardTree, POOLS, PcieHost};
use hanok_hal::Mutex;
use hanok_memory::FrameMap;
use hanok_pcpu::{DeviceLine, DeviceLines};
use hanok_types::{Address, Hva, Span};

/// Sets up the SMMU if a VM has the bridge, and adds the interrupt of its refusals to `lines`. Without an SMMU no VM
/// gets a bridge. The image for pools has no room for this; the tool refuses such a description.
pub fn set_up(
    tree: &BoardTree<'_>,
    units: &[VmUnit],
    lines: &mut DeviceLines,
    table: &mut OwnTable,
    free: &mut FrameMap,
) -> Option<Mutex<Smmu>> {
    if POOLS {
        return None;
    }
    let bridge = tree.pcie()?;
    let (index, unit) = units
        .iter()
        .enumerate()
        .find(|(_, unit)| has(unit, &bridge))?;
    let name = &unit.vm.config().name;
    let Some(smmu) = bridge.smmu else {
        refuse(format_args!(
            "vm {name}: no SMMUv3 is in front of the board's PCIe devices"
        ));
    };
    // What it says in its stage 2 must be so for as long as it runs.
    let space = unit.memory.lock();
    if selftest::SLOTS != 0 && !space.is_fixed() {
        refuse(format_args!(
            "vm {name}: it has PCIe devices, so that its pages must stay"
        ));
    }
    let registers = Span::new(smmu.registers.start(), REGISTERS).unwrap_or_default();
    for span in [registers, bridge.configuration] {
        map_device(table, span);
    }
    let (bytes, align) = memory_for(smmu.first + FUNCTIONS);
    let memory = take(free, bytes + align, "the SMMU's tables").start();
    let memory = memory.align_up(align).unwrap_or(memory);
    let owner = Owner {
        vm: unit.vm.id(),
        root: space.root(),
        vtcr: vtcr(),
        top: tree.ram.iter().map(Span::end).max().unwrap_or_default(),
        first: smmu.first,
        configuration: bridge.configuration.start(),
    };
    let registers = Hva::new(registers.start().get());
    // SAFETY: the registers are mapped, and no VM has them; the memory is free RAM, mapped in place, taken for this.
    let Some(made) = (unsafe { Smmu::new(registers, memory, owner) }) else {
        refuse(format_args!(
            "the board's SMMU has no stage 2, coherent walks or tables as CPUs have them"
        ));
    };
    let (event, edge) = smmu.event;
    if lines
        .push(DeviceLine::refusals(event, edge, index))
        .is_err()
    {
        refuse(format_args!(
            "the system's devices have too many interrupts"
        ));
    }
    Some(Mutex::new(made))
}

/// Whether the VM has any of the bridge's configuration space.
fn has(unit: &VmUnit, bridge: &PcieHost) -> bool {
    let devices = unit.vm.config().devices.iter();
    let mut ranges = devices.flat_map(|device| &device.registers);
    ranges.any(|range| {
        range
            .host_span()
            .is_some_and(|span| span.overlaps(&bridge.configuration))
    })
}
