//! The VMs of the image: their memory, their stage 2, their vCPUs.

use crate::fatal::refuse;
use crate::layout::take;
use crate::place::Place;
use crate::smp::Records;
use hanok_aarch64::board::{Board, VmUnit};
use hanok_aarch64::frames::Frames;
use hanok_aarch64::lists::HardwareLists;
use hanok_aarch64::mmu::Stage2Tlb;
use hanok_aarch64::ram::GuestRam;
use hanok_aarch64::read;
use hanok_aarch64::traps::guest_hcr;
use hanok_aarch64::vcpu::Vcpu;
use hanok_config::{System, VmConfig};
use hanok_memory::FrameMap;
use hanok_paging::{Geometry, PaRange, Stage2, Stage2Attributes, Table, Vmid, vtcr_el2, vttbr_el2};
use hanok_types::{Hpa, PAGE_SIZE, Span, VcpuId, VmId};

/// The geometry of every VM's stage 2: 40 bits, the least that every Armv8-A CPU with a
/// 40-bit bus has, and all that QEMU virt's RAM needs.
const STAGE_2: Geometry = Geometry::BITS_40;

/// VTCR_EL2 for it on this CPU.
pub fn vtcr() -> u64 {
    vtcr_el2(&STAGE_2, PaRange::from_mmfr0(read!("id_aa64mmfr0_el1")))
}

/// The system in the image's payload.
pub fn parse(payload: &[u8], cpus: usize) -> System {
    if payload.is_empty() {
        refuse(format_args!(
            "the image has no system in it: build one with `hanok build FILE -o IMAGE`"
        ));
    }
    let system = match System::parse(payload, payload.len() as u64) {
        Ok(system) => system,
        Err(error) => refuse(format_args!(
            "the system's device tree in the image: {error}"
        )),
    };
    if system.cpus_needed() > cpus {
        refuse(format_args!(
            "the system needs {} CPUs and the board has {cpus}: start it with more, or give its \
             VMs fewer",
            system.cpus_needed()
        ));
    }
    system
}

/// Every VM with its memory and its stage 2.
pub fn place_units(
    system: &System,
    epoch: u32,
    free: &mut FrameMap,
    place: &mut Place,
) -> &'static [VmUnit] {
    let units = system
        .vms
        .iter()
        .enumerate()
        .map(|(index, config)| unit(index, config, epoch, free));
    match place.put_all(system.vms.len(), units) {
        Some(units) => units,
        None => refuse(format_args!("no memory for the VMs' records")),
    }
}

fn unit(index: usize, config: &VmConfig, epoch: u32, free: &mut FrameMap) -> VmUnit {
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
    let vmid = Vmid::new(index as u8 + 1);
    let stage_2 = stage_2(config, host.start(), free, vmid);
    let root = stage_2.root();
    let id = VmId::new(index as u8);
    let vm = hanok_vm::Vm::new(id, config.clone(), HardwareLists::priority_bits(), epoch);
    VmUnit {
        vm,
        ram,
        vttbr: vttbr_el2(root, vmid),
        blocks: count_blocks(&stage_2),
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

/// The VM's RAM by the largest blocks; everything else exits.
fn stage_2(config: &VmConfig, host: Hpa, free: &mut FrameMap, vmid: Vmid) -> Table<Stage2, Frames> {
    // A root of two, a table for each GiB that blocks do not cover whole, and two more for
    // each end that is not on a 2 MiB boundary.
    let count = 8 + 2 * config.memory.len().div_ceil(1 << 30);
    let block = take_frames(free, count);
    // SAFETY: free RAM, mapped in place, taken for these tables alone.
    let frames = unsafe { Frames::new(block.start(), count, 0) };
    let name = &config.name;
    let Some(mut table) = Table::<Stage2, Frames>::new(STAGE_2, frames) else {
        refuse(format_args!("vm {name}: no frame for its stage 2"));
    };
    let mut tlb = Stage2Tlb(vttbr_el2(table.root(), vmid));
    if let Err(error) = table.map(&mut tlb, config.memory, host, Stage2Attributes::RAM) {
        refuse(format_args!("vm {name}: its stage 2: {error}"));
    }
    table
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
            let vcpu = place.put(Vcpu::new(unit, core, guest_hcr(board.features)));
            let (Some(vcpu), Some(starting)) = (vcpu, cpus.get_mut(cpu.index())) else {
                refuse(format_args!("vm {name}: no place for its vCPU {index}"));
            };
            if starting.cpu.vcpu.is_some() {
                refuse(format_args!(
                    "vm {name}: CPU {cpu} has a vCPU already, and more than one is not \
                     supported yet"
                ));
            }
            starting.cpu.vcpu = Some(vcpu);
        }
    }
}
