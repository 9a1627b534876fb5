//! The VMs of the image: their memory, their stage 2, their vCPUs.

use crate::fatal::refuse;
use crate::layout::take;
use crate::place::Place;
use crate::smp::Records;
use crate::{Board, VmUnit};
use core::sync::atomic::AtomicU64;
use hanok_arch::traps::{self, guest_hcr};
use hanok_arch::{HostContext, Vcpu};
use hanok_arm_common::frames::Frames;
use hanok_arm_common::mmu::Stage2Tlb;
use hanok_arm_common::ram::GuestRam;
use hanok_config::{System, VmConfig};
use hanok_hal::VmMemory;
use hanok_memory::FrameMap;
use hanok_paging::{Geometry, Stage2, Stage2Attributes, Table, Vmid, vttbr_el2};
use hanok_pcpu::Notices;
use hanok_types::{CpuId, Hpa, Ipa, PAGE_SIZE, Span, VcpuId, VmId, platform};

/// The geometry of every VM's stage 2: 40 bits, the least that every Armv8-A CPU with a
/// 40-bit bus has, and all that QEMU virt's RAM needs.
const STAGE_2: Geometry = Geometry::BITS_40;

/// VTCR_EL2 for it on this CPU.
pub fn vtcr() -> u64 {
    traps::vtcr(&STAGE_2)
}

/// The system in the image's payload, whose tree has this sum.
pub fn parse(payload: &[u8], sum: u64) -> System {
    if payload.is_empty() {
        refuse(format_args!(
            "the image has no system in it: build one with `hanok build FILE -o IMAGE`"
        ));
    }
    match System::verified(payload, sum) {
        Ok(system) => system,
        Err(error) => refuse(format_args!(
            "the system's device tree in the image: {error}: load the image again, or build it anew"
        )),
    }
}

/// What every VM's making depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The system.
    pub system: &'a System,
    /// Bits of priority of the CPUs' virtual interface.
    pub priority_bits: u32,
    /// The wall clock's time at counter zero, in seconds.
    pub epoch: u32,
    /// A GICv2's virtual CPU interface, which guests have for theirs.
    pub gicv: Option<Hpa>,
    /// Whether VMs are to see each other's memory, for a test that must find it.
    pub leak: bool,
}

/// Every VM with its memory and its stage 2.
pub fn place_units(facts: &Facts<'_>, free: &mut FrameMap, place: &mut Place) -> &'static [VmUnit] {
    let mut before = None;
    let units = facts.system.vms.iter().enumerate().map(|(index, config)| {
        let unit = unit(index, config, facts, before, free);
        before = facts.leak.then(|| unit.ram.host());
        unit
    });
    match place.put_all(facts.system.vms.len(), units) {
        Some(units) => units,
        None => refuse(format_args!("no memory for the VMs' records")),
    }
}

fn unit(
    index: usize,
    config: &VmConfig,
    facts: &Facts<'_>,
    leaked: Option<Hpa>,
    free: &mut FrameMap,
) -> VmUnit {
    let name = &config.name;
    let memory = config.memory;
    let host = match free.allocate_for_guest(memory.len(), memory.start()) {
        Ok(block) => block,
        Err(error) => refuse(format_args!(
            "vm {name}: no {} MiB of memory for it ({error}): give it less, or the board more",
            memory.len() >> 20
        )),
    };
    // SAFETY: free RAM, mapped in place, taken for this VM alone.
    let ram = unsafe { GuestRam::new(memory, host.start()) };
    let flash = flash(config, free);
    let mut stage_2 = stage_2(config, host.start(), flash.as_ref(), facts.gicv, free);
    if let Some(leaked) = leaked {
        leak(&mut stage_2, leaked);
    }
    let id = VmId::new(index as u8);
    let (gic, bits) = (facts.system.gic, facts.priority_bits);
    let mut vm = hanok_vm::Vm::new(id, config.clone(), gic, bits, facts.epoch);
    for (vcpu, bit) in bits_of(facts.system, index) {
        vm.set_bit(vcpu, bit);
    }
    VmUnit {
        vm,
        ram,
        flash,
        root: stage_2.root(),
        space: AtomicU64::new(0),
        last_here: Default::default(),
        notices: Notices::default(),
        blocks: count_blocks(&stage_2),
    }
}

/// The bits of a VM's vCPUs on pCPUs that they share with others: on each, vCPUs are counted in the
/// order of the description.
fn bits_of(system: &System, vm: usize) -> impl Iterator<Item = (VcpuId, u64)> {
    let all = || system.vms.iter().flat_map(|vm| &vm.cpus);
    let before: usize = system.vms.iter().take(vm).map(|vm| vm.cpus.len()).sum();
    let cpus = system.vms.get(vm).map_or(&[][..], |vm| &vm.cpus);
    cpus.iter().enumerate().filter_map(move |(index, cpu)| {
        let shared = all().filter(|other| *other == cpu).count() > 1;
        let earlier = all().take(before + index).filter(|other| *other == cpu);
        let bit = 1_u64.checked_shl(earlier.count() as u32)?;
        shared.then_some((VcpuId::new(index as u8), bit))
    })
}

/// Memory for a VM's firmware, which it sees as its first bank of flash.
fn flash(config: &VmConfig, free: &mut FrameMap) -> Option<GuestRam> {
    let span = config.firmware()?.span()?;
    let len = span.end().get().next_multiple_of(PAGE_SIZE);
    let block = take(free, len, "a VM's firmware");
    let ipa = Span::new(platform::FLASH, len)?;
    // SAFETY: free RAM, mapped in place, taken for this VM alone.
    Some(unsafe { GuestRam::new(ipa, block.start()) })
}

/// VTTBR_EL2 of a stage 2 that maps nothing, with the VMID that no VM has.
pub fn empty_space(free: &mut FrameMap) -> u64 {
    let block = take_frames(free, 4);
    // SAFETY: free RAM, mapped in place, taken for this table alone.
    let frames = unsafe { Frames::new(block.start(), 4, 0) };
    match Table::<Stage2, Frames>::new(STAGE_2, frames) {
        Some(table) => vttbr_el2(table.root(), Vmid::new(0)),
        None => refuse(format_args!("no frame for the empty stage 2")),
    }
}

/// How many blocks of 1 GiB, 2 MiB and 4 KiB a stage 2 has.
fn count_blocks(stage_2: &Table<Stage2, Frames>) -> [u32; 3] {
    stage_2.iterate().fold([0; 3], |mut counts, mapping| {
        // Level 1 leaves are 1 GiB, level 2 ones 2 MiB, level 3 ones 4 KiB.
        counts[usize::from(mapping.level.clamp(1, 3)) - 1] += 1;
        counts
    })
}

/// The VM's RAM by the largest blocks, its firmware, the devices it was given; everything
/// else exits.
fn stage_2(
    config: &VmConfig,
    host: Hpa,
    flash: Option<&GuestRam>,
    gicv: Option<Hpa>,
    free: &mut FrameMap,
) -> Table<Stage2, Frames> {
    // A root of two, a table for each GiB that blocks do not cover whole, two more for each
    // end that is not on a 2 MiB boundary, and for the platform's window below RAM a table
    // for its GiB and one for each 2 MiB of it that hold pages.
    let flash_len = flash.map_or(0, |flash| flash.ipa().len());
    let count = 44 + 2 * config.memory.len().div_ceil(1 << 30) + flash_len.div_ceil(2 << 20);
    let block = take_frames(free, count);
    // SAFETY: free RAM, mapped in place, taken for these tables alone.
    let frames = unsafe { Frames::new(block.start(), count, 0) };
    let name = &config.name;
    let Some(mut table) = Table::<Stage2, Frames>::new(STAGE_2, frames) else {
        refuse(format_args!("vm {name}: no frame for its stage 2"));
    };
    // Under the VMID that no VM runs with: nothing can be in a TLB yet.
    let mut tlb = Stage2Tlb(vttbr_el2(table.root(), Vmid::new(0)));
    let mut map = |span, host, attributes| {
        if let Err(error) = table.map(&mut tlb, span, host, attributes) {
            refuse(format_args!("vm {name}: its stage 2: {error}"));
        }
    };
    map(config.memory, host, Stage2Attributes::RAM);
    if let Some(flash) = flash {
        map(flash.ipa(), flash.host(), Stage2Attributes::ROM);
    }
    let interface = Span::new(platform::GIC_V2_CPU, platform::GIC_V2_CPU_SIZE);
    if let Some((span, gicv)) = interface.zip(gicv) {
        map(span, gicv, Stage2Attributes::DEVICE);
    }
    for registers in config.devices.iter().flat_map(|device| &device.registers) {
        let Some(span) = registers.guest_span() else {
            refuse(format_args!("vm {name}: a device's registers pass the top"));
        };
        map(span, registers.host, Stage2Attributes::DEVICE);
    }
    table
}

/// Maps memory of another VM where nothing should be (`hanok.selftest=leak`).
fn leak(stage_2: &mut Table<Stage2, Frames>, other: Hpa) {
    const HOLE: Ipa = Ipa::new(0x0b00_0000);
    let mut tlb = Stage2Tlb(vttbr_el2(stage_2.root(), Vmid::new(0)));
    let mapped = Span::new(HOLE, 2 << 20).and_then(|hole| {
        stage_2
            .map(&mut tlb, hole, other, Stage2Attributes::RAM)
            .ok()
    });
    if mapped.is_none() {
        refuse(format_args!("hanok.selftest=leak: it cannot be mapped"));
    }
}

fn take_frames(free: &mut FrameMap, count: u64) -> Span<Hpa> {
    take(free, count * PAGE_SIZE, "a VM's stage 2")
}

/// Every vCPU at its pCPU.
pub fn place_vcpus(board: &'static Board, cpus: &mut Records, place: &mut Place) {
    for unit in board.vms {
        for (index, cpu) in unit.vm.config().cpus.iter().enumerate() {
            let name = &unit.vm.config().name;
            let core = hanok_vm::Vcpu::new(VcpuId::new(index as u8));
            let Some(starting) = cpus.get_mut(cpu.index()) else {
                refuse(format_args!("vm {name}: the board has no CPU {cpu}"));
            };
            let hcr = guest_hcr(board.machine.features, sharing(board, *cpu) > 1);
            let aarch32 = unit.vm.config().aarch32;
            let context = HostContext::new(hcr, aarch32, starting.cpu.stack);
            let vcpu = place.put(Vcpu::new(unit, core, context));
            let pcpu = starting.cpu.pcpu.as_mut();
            let adopted = pcpu.zip(vcpu).map(|(pcpu, vcpu)| pcpu.adopt(vcpu));
            if adopted != Some(Ok(())) {
                refuse(format_args!("vm {name}: no place for its vCPU {index}"));
            }
        }
    }
}

/// How many vCPUs have their place on `cpu`.
fn sharing(board: &Board, cpu: CpuId) -> usize {
    let all = board.vms.iter().flat_map(|unit| &unit.vm.config().cpus);
    all.filter(|other| **other == cpu).count()
}
