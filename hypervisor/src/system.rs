//! The VMs of the image: their memory, their stage 2, their vCPUs.

use crate::arena::Arena;
use crate::fatal::refuse;
use crate::layout::take;
use crate::selftest;
use crate::smp::Records;
use crate::{Board, VmUnit};
use core::sync::atomic::AtomicU64;
use hanok_arch::traps::{self, guest_hcr};
use hanok_arch::{HostContext, Vcpu};
use hanok_arm_common::frames::Frames;
use hanok_arm_common::mmu::Stage2Tlb;
use hanok_arm_common::ram::GuestRam;
use hanok_config::{CorePolicy, System, VmConfig};
use hanok_hal::{Mutex, VmMemory};
use hanok_memory::{AddressSpace, FrameMap, Owner, Owners, Region, RegionKind, Slot};
use hanok_paging::{Geometry, Stage2, Table, Vmid, vttbr_el2};
use hanok_pcpu::{AdoptError, Notices, PcpuPolicy, regions_of};
use hanok_sched::{InterfaceError, Reservation, RoundRobin, Servers};
use hanok_types::{CpuId, Hpa, PAGE_SIZE, Span, VcpuId, VmId, platform};

/// The geometry of every VM's stage 2: 40 bits, the least that every Armv8-A CPU with a 40-bit bus
/// supports, and enough for QEMU virt's RAM.
const STAGE_2: Geometry = Geometry::BITS_40;

/// The value of VTCR_EL2 for this geometry on this CPU.
pub fn vtcr() -> u64 {
    traps::vtcr(&STAGE_2)
}

/// Parses the system in the image's payload, whose tree has this sum.
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

/// What the creation of every VM depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The system.
    pub system: &'a System,
    /// The number of bits of priority of the CPUs' virtual CPU interfaces.
    pub priority_bits: u32,
    /// The time of day at counter zero, in seconds since 1970.
    pub epoch: u32,
    /// A GICv2's virtual CPU interface, which guests use as their CPU interface.
    pub gicv: Option<Hpa>,
    /// The boot loader's arguments.
    pub bootargs: &'a str,
}

/// Creates every VM with its memory and its stage 2.
pub fn place_units(facts: &Facts<'_>, free: &mut FrameMap, arena: &mut Arena) -> &'static [VmUnit] {
    let mut leak = selftest::Leak::new(facts.bootargs);
    let mut slots = selftest::Slots::new(facts, arena);
    let units = facts.system.vms.iter().enumerate();
    let units = units
        .map(|(index, config)| unit(index, config, facts, &mut leak, (&mut *free, &mut slots)));
    match arena.put_all(facts.system.vms.len(), units) {
        Some(units) => units,
        None => refuse(format_args!("no memory for the VMs' records")),
    }
}

fn unit(
    index: usize,
    config: &VmConfig,
    facts: &Facts<'_>,
    leak: &mut selftest::Leak,
    (free, slots): (&mut FrameMap, &mut selftest::Slots),
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
    let at_flash = flash.map(|flash| (flash.ipa(), flash.host()));
    let Some(regions) = regions_of(config, host.start(), at_flash, facts.gicv) else {
        refuse(format_args!(
            "vm {name}: its devices' registers pass the top, or are too many"
        ));
    };
    let mut space = space(config, &regions, slots.of(config), free);
    leak.apply(space.table_mut(), host.start());
    let id = VmId::new(index as u8);
    let (gic, bits) = (facts.system.gic, facts.priority_bits);
    let mut vm = hanok_vm::Vm::new(id, config.clone(), gic, bits, facts.epoch);
    for (vcpu, bit) in facts.system.shared_bits(index) {
        vm.set_bit(vcpu, bit);
    }
    VmUnit {
        vm,
        ram,
        flash,
        memory: Mutex::new(space),
        space: AtomicU64::new(0),
        last_here: Default::default(),
        notices: Notices::default(),
    }
}

/// Memory for a VM's firmware, which the guest has as its first bank of flash.
fn flash(config: &VmConfig, free: &mut FrameMap) -> Option<GuestRam> {
    let span = config.firmware()?.span()?;
    let len = span.end().get().next_multiple_of(PAGE_SIZE);
    let block = take(free, len, "a VM's firmware");
    let ipa = Span::new(platform::FLASH, len)?;
    // SAFETY: free RAM, mapped in place, taken for this VM alone.
    Some(unsafe { GuestRam::new(ipa, block.start()) })
}

/// The VTTBR_EL2 of the empty stage 2, with the VMID that no VM has.
pub fn empty_space(free: &mut FrameMap) -> u64 {
    let block = take_frames(free, 4);
    // SAFETY: free RAM, mapped in place, taken for this table alone.
    let frames = unsafe { Frames::new(block.start(), 4, 0) };
    match Table::<Stage2, Frames>::new(STAGE_2, frames) {
        Some(table) => vttbr_el2(table.root(), Vmid::new(0)),
        None => refuse(format_args!("no frame for the empty stage 2")),
    }
}

/// The VM's RAM by the largest blocks, its firmware, the devices it was given; everything
/// else exits.
fn space(
    config: &VmConfig,
    regions: &[Region],
    slots: &'static mut [Option<Slot>],
    free: &mut FrameMap,
) -> AddressSpace<Frames> {
    let rom: u64 = regions
        .iter()
        .filter(|region| region.kind == RegionKind::Rom)
        .map(|region| region.span.len())
        .sum();
    let count = AddressSpace::<Frames>::tables_for(config.memory.len(), rom, slots.len());
    let block = take_frames(free, count);
    // SAFETY: free RAM, mapped in place, taken for these tables alone.
    let frames = unsafe { Frames::new(block.start(), count, 0) };
    // Under the VMID that no VM runs with: nothing can be in a TLB yet.
    let mut tlb = Stage2Tlb(0);
    match AddressSpace::new(STAGE_2, frames, &mut tlb, regions, slots) {
        Ok(space) => space,
        Err(error) => refuse(format_args!("vm {}: its stage 2: {error}", config.name)),
    }
}

/// Whose each frame is, once all that lives for ever has its place.
pub fn owners(free: &FrameMap, units: &[VmUnit]) -> Owners {
    let owners = Owners::new(free).and_then(|mut owners| {
        for unit in units {
            let vm = Owner::Vm(unit.vm.id());
            for region in core::iter::once(&unit.ram).chain(&unit.flash) {
                let len = region.ipa().len().next_multiple_of(PAGE_SIZE);
                let span = Span::new(region.host(), len).unwrap_or_default();
                owners.hand_over(span, Owner::Hypervisor, vm)?;
            }
        }
        Ok(owners)
    });
    match owners {
        Ok(owners) => owners,
        Err(error) => refuse(format_args!("the board's memory: {error}")),
    }
}

fn take_frames(free: &mut FrameMap, count: u64) -> Span<Hpa> {
    take(free, count * PAGE_SIZE, "a VM's stage 2")
}

/// How a pCPU chooses among its vCPUs; `None` where there is no memory for that.
pub fn policy(system: &System, id: CpuId, board: &Board, arena: &mut Arena) -> Option<PcpuPolicy> {
    Some(match system.policy(id) {
        CorePolicy::RoundRobin => {
            let micros = u64::from(system.slice);
            let slice = micros * board.machine.frequency / 1_000_000;
            PcpuPolicy::RoundRobin(RoundRobin::new(slice))
        }
        CorePolicy::Servers { order, slack } => {
            PcpuPolicy::Servers(arena.put(Servers::new(order, slack))?)
        }
    })
}

/// What a vCPU of the VM is promised, in ticks of the board's counter.
fn reservation(
    board: &Board,
    unit: &VmUnit,
    vcpu: usize,
) -> Result<Option<Reservation>, InterfaceError> {
    let promise = unit.vm.config().promise(VcpuId::new(vcpu as u8));
    let reservation = promise.map(|promise| promise.reservation(board.machine.frequency));
    reservation.transpose()
}

/// Every vCPU at its pCPU.
pub fn place_vcpus(board: &'static Board, system: &System, cpus: &mut Records, arena: &mut Arena) {
    for unit in board.vms {
        for (index, cpu) in unit.vm.config().cpus.iter().enumerate() {
            let name = &unit.vm.config().name;
            let core = hanok_vm::Vcpu::new(VcpuId::new(index as u8));
            let Some(starting) = cpus.get_mut(cpu.index()) else {
                refuse(format_args!("vm {name}: the board has no CPU {cpu}"));
            };
            let hcr = guest_hcr(board.machine.features, system.is_shared(*cpu));
            let aarch32 = unit.vm.config().aarch32;
            let context = HostContext::new(hcr, aarch32, starting.cpu.stack);
            let vcpu = arena.put(Vcpu::new(unit, core, context));
            let pcpu = starting.cpu.pcpu.as_mut();
            let (Some(pcpu), Some(vcpu)) = (pcpu, vcpu) else {
                refuse(format_args!("vm {name}: no place for its vCPU {index}"));
            };
            let adopted = reservation(board, unit, index)
                .map_err(AdoptError::Promise)
                .and_then(|reservation| pcpu.adopt(vcpu, reservation));
            match adopted {
                Ok(()) => {}
                Err(AdoptError::NoRoom) => {
                    refuse(format_args!("vm {name}: no place for its vCPU {index}"));
                }
                Err(AdoptError::Promise(error)) => refuse(format_args!(
                    "vm {name}: what vCPU {index} is promised, in ticks of this board's counter: {error}"
                )),
            }
        }
    }
}
