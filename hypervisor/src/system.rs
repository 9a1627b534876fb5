//! The VMs of the image: their memory, their stage 2, their vCPUs.

use crate::arena::{self, Arena};
use crate::channels::{self, Channel};
use crate::fatal::refuse;
use crate::layout::take;
use crate::records::Records;
use crate::selftest;
use crate::shared;
use crate::{Board, VmUnit};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
use hanok_arch::traps::{self, guest_hcr};
use hanok_arch::{HostContext, Vcpu};
use hanok_arm_common::bulk::clean_to_coherency;
use hanok_arm_common::frames::{Frames, SharedFrames};
use hanok_arm_common::mmu::Stage2Tlb;
use hanok_arm_common::privilege::is_deprivileged;
use hanok_arm_common::ram::GuestRam;
use hanok_config::{
    Ask, BlobKind, Claim, DeviceKind, Group, Parts, Places, Promise, SystemTree, SystemView,
    TreeError, VmConfig, sum,
};
use hanok_devices::{NOR_WORDS, nor_memory};
use hanok_hal::{Mutex, VmMemory};
use hanok_memory::{AddressSpace, FrameMap, Owner, Owners};
use hanok_paging::{Geometry, Stage2, Table, Vmid, vttbr_el2};
use hanok_pcpu::{AdoptError, Notices, regions_of};
use hanok_sched::InterfaceError;
use hanok_types::{Hpa, MAX_CPUS, PAGE_SIZE, Span, VcpuId, VmId, platform};
use hanok_vgic::CpuPart;
use hanok_vm::{Granted, Home, SharedVcpu, StolenPage, TELLS_STOLEN, VcpuParts};

/// The geometry of every VM's stage 2: 40 bits, the least that every Armv8-A CPU with a 40-bit bus
/// supports, and enough for QEMU virt's RAM.
const STAGE_2: Geometry = Geometry::BITS_40;

/// The value of VTCR_EL2 for this geometry on this CPU.
pub fn vtcr() -> u64 {
    traps::vtcr(&STAGE_2)
}

/// The system in the image's payload, if its tree has this sum; each VM is read into its place in the
/// arena.
pub fn parse(payload: &'static [u8], sum: u64, arena: &mut Arena) -> SystemView<'static> {
    if payload.is_empty() {
        refuse(format_args!(
            "the image has no system in it: build one with `hanok build FILE -o IMAGE`"
        ));
    }
    match read(payload, sum, arena) {
        Ok(system) => system,
        Err(error) => refuse(format_args!(
            "the system's device tree in the image: {error}: load the image again, or build it anew"
        )),
    }
}

fn read(
    payload: &'static [u8],
    sum: u64,
    arena: &mut Arena,
) -> Result<SystemView<'static>, TreeError> {
    let tree = SystemTree::verified(payload, sum)?;
    let mut count = Count::default();
    tree.each(&mut count)?;
    let vms = arena.places(count.vms);
    let promises = arena.places(count.promises);
    let groups = arena.places(count.groups);
    let (Some(vms), Some(promises), Some(groups)) = (vms, promises, groups) else {
        refuse(format_args!("no memory for the VMs' descriptions"))
    };
    let mut kept = Kept {
        vms,
        promises,
        groups,
    };
    tree.each(&mut kept)?;
    let (vms, promises) = (kept.vms.finish(), kept.promises.finish());
    tree.system(vms, promises, kept.groups.finish())
}

/// How many parts a system has.
#[derive(Default)]
struct Count {
    vms: usize,
    promises: usize,
    groups: usize,
}

impl Parts for Count {
    fn vm(&mut self, _: VmConfig) {
        self.vms += 1;
    }

    fn promise(&mut self, _: Promise) {
        self.promises += 1;
    }

    fn group(&mut self, _: Group) {
        self.groups += 1;
    }
}

/// Where the parts of the system are kept.
struct Kept {
    vms: arena::Places<VmConfig>,
    promises: arena::Places<Promise>,
    groups: arena::Places<Group>,
}

impl Parts for Kept {
    fn vm(&mut self, vm: VmConfig) {
        self.vms.push(vm);
    }

    fn promise(&mut self, promise: Promise) {
        self.promises.push(promise);
    }

    fn group(&mut self, group: Group) {
        self.groups.push(group);
    }
}

/// The parameters of the creation of every VM.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The system.
    pub system: &'a SystemView<'static>,
    /// Bits of priority of the CPUs' virtual interface.
    pub priority_bits: u32,
    /// The time of day at counter zero, in seconds since 1970.
    pub epoch: u32,
    /// A GICv2's virtual CPU interface, which guests use as their CPU interface.
    pub gicv: Option<Hpa>,
    /// The boot loader's arguments.
    pub bootargs: &'a str,
    /// The image's payload.
    pub payload: &'a [u8],
}

/// The pool of frames for all VMs' stages 2, at first with as many as they could need.
pub fn frames(system: &SystemView<'_>, arena: &mut Arena) -> &'static Mutex<Frames> {
    let configs = system.vms.iter();
    let counts = configs.map(|config| tables_for(config, selftest::SLOTS));
    // The empty stage 2 has a root alone; a root is aligned to its size.
    let count = 4 + counts.sum::<u64>();
    let block = take(&mut arena.free, count * PAGE_SIZE, "the VMs' stages 2");
    // SAFETY: free RAM, mapped in place, taken for tables alone.
    let frames = unsafe { Frames::new(block.start(), count, 0) };
    match arena.put(Mutex::new(frames)) {
        Some(pool) => pool,
        None => refuse(format_args!("no memory for the pool of frames")),
    }
}

/// Gives frames back that no stage 2 needs.
pub fn give_back(pool: &Mutex<Frames>, arena: &mut Arena) {
    if selftest::SLOTS != 0 {
        // Blocks will be split at run time.
        return;
    }
    if let Some(Err(error)) = pool.lock().shrink(0).map(|rest| arena.free.free(rest)) {
        refuse(format_args!("the frames that no stage 2 needs: {error}"));
    }
}

fn tables_for(config: &VmConfig, slots: usize) -> u64 {
    let rom = config.firmware().map_or(0, |blob| blob.len);
    // As firmware's: a table for each 2 MiB, and one more for memory that does not begin at a multiple of that.
    let channels = config.channels.iter();
    let shared: u64 = channels
        .map(|end| (2 << 20) + end.memory.len().next_multiple_of(2 << 20))
        .sum();
    AddressSpace::<SharedFrames>::tables_for(config.memory.len(), rom + shared, slots)
}

/// Every VM with its memory and its stage 2.
pub fn place_units(
    facts: &Facts<'_>,
    frames: &'static Mutex<Frames>,
    arena: &mut Arena,
) -> &'static [VmUnit] {
    let mut leak = selftest::Leak::new(facts.bootargs);
    let mut slots = selftest::Slots::new(facts.bootargs, facts.system.vms.len(), arena);
    let channels = channels::make(facts.system, arena);
    let mut places = facts.system.places();
    let Some(shared) = shared::Records::new(facts.system, arena) else {
        refuse(format_args!("no memory for the records of shared devices"))
    };
    let mut units = match arena.places(facts.system.vms.len()) {
        Some(units) => units,
        None => refuse(format_args!("no memory for the VMs' records")),
    };
    for (index, config) in facts.system.vms.iter().enumerate() {
        let id = VmId::new(index as u8);
        let shared = shared.of(facts.system, (id, config), arena);
        let parts = shared.and_then(|shared| parts(config, facts, &mut places, shared, arena));
        let Some(parts) = parts else {
            refuse(format_args!(
                "vm {}: no memory for its vCPUs' records",
                config.name
            ))
        };
        let (gic, bits) = (facts.system.gic, facts.priority_bits);
        let mut vm = hanok_vm::Vm::new(id, config, parts, gic, bits, facts.epoch);
        if is_deprivileged() {
            vm = vm.with_software_interface();
        }
        let pools = (&mut arena.free, frames, &mut slots);
        let unit = unit(vm, facts, &mut leak, pools, channels);
        units.push(unit);
    }
    units.finish()
}

/// The data that a VM needs for each of its vCPUs.
fn parts(
    config: &VmConfig,
    facts: &Facts<'_>,
    places: &mut Places,
    shared: shared::OfVm,
    arena: &mut Arena,
) -> Option<VcpuParts> {
    let mut homes = config.cpus.iter().map(|cpu| Home {
        cpu: *cpu,
        bit: places.next_on(*cpu),
    });
    let (first, others) = (homes.next()?, config.cpus.len() - 1);
    let gic = facts.system.gic;
    Some(VcpuParts {
        first,
        stolen: stolen(config, arena)?,
        shared,
        others: arena.put_all(others, homes.map(SharedVcpu::new))?,
        gic: arena.put_all(others, (0..others).map(|_| CpuPart::new(gic)))?,
        variables: variables(config, facts.payload, arena)?,
    })
}

/// The memory of a VM's variables' flash, with what the image has for it; `None` where there is no memory.
fn variables(config: &VmConfig, payload: &[u8], arena: &mut Arena) -> Option<&'static [AtomicU32]> {
    if !config.has(DeviceKind::Nor) {
        return Some(&[]);
    }
    let kept = match config.blob(BlobKind::Variables) {
        Some(blob) => {
            let from = payload.get(blob.offset as usize..).unwrap_or_default();
            let kept = from.get(..blob.len as usize).unwrap_or_default();
            if sum(kept) != blob.sum {
                refuse(format_args!(
                    "vm {}: its variables in the image are damaged: load the image again",
                    config.name
                ));
            }
            kept
        }
        None => &[],
    };
    let words = nor_memory(kept).map(AtomicU32::new);
    Some(arena.put_all(NOR_WORDS, words)?)
}

/// The page that tells a 64-bit guest its stolen time; `None` where there is no memory for it.
fn stolen(config: &VmConfig, arena: &mut Arena) -> Option<Option<&'static StolenPage>> {
    if !TELLS_STOLEN || config.aarch32 {
        return Some(None);
    }
    let page = &*arena.put(StolenPage::new())?;
    // A guest that reads it with its caches off is not to find what the memory held before.
    clean_to_coherency(host_of(page).get(), PAGE_SIZE);
    Some(Some(page))
}

/// The page's address, which is the same on the board.
fn host_of(page: &'static StolenPage) -> Hpa {
    Hpa::new(core::ptr::from_ref(page).addr() as u64)
}

type Pools<'a> = (
    &'a mut FrameMap,
    &'static Mutex<Frames>,
    &'a mut selftest::Slots,
);

fn unit(
    vm: hanok_vm::Vm,
    facts: &Facts<'_>,
    leak: &mut selftest::Leak,
    (free, frames, slots): Pools<'_>,
    channels: &[Channel],
) -> VmUnit {
    let config = vm.config();
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
    let stolen = vm.stolen_page().map(host_of);
    let shared = channels::join(&vm, channels);
    let regions = regions_of(config, host.start(), at_flash, facts.gicv, stolen, &shared);
    let Some(regions) = regions else {
        refuse(format_args!(
            "vm {name}: its devices' registers pass the top, or are too many"
        ));
    };
    // It is under the VMID that no VM runs with, so no TLB can have an entry yet.
    let (mut tlb, frames) = (Stage2Tlb(0), SharedFrames::new(frames));
    let space = AddressSpace::new(STAGE_2, frames, &mut tlb, &regions, slots.of(config));
    let mut space = match space {
        Ok(space) => space,
        Err(error) => refuse(format_args!("vm {name}: its stage 2: {error}")),
    };
    leak.apply(space.table_mut(), host.start());
    VmUnit {
        vm,
        ram,
        flash,
        is_fixed: space.is_fixed(),
        memory: Mutex::new(space),
        space: AtomicU64::new(0),
        last_here: [const { AtomicU8::new(0) }; MAX_CPUS],
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

/// VTTBR_EL2 of a stage 2 that maps nothing, with the VMID that no VM has.
pub fn empty_space(frames: &'static Mutex<Frames>) -> u64 {
    match Table::<Stage2, SharedFrames>::new(STAGE_2, SharedFrames::new(frames)) {
        Some(table) => vttbr_el2(table.root(), Vmid::new(0)),
        None => refuse(format_args!("no frame for the empty stage 2")),
    }
}

/// Gives each frame its owner, once all permanent data has its place: so the arena ends here. The answer is the
/// number of free bytes.
pub fn hand_out(board: &Board, arena: Arena) -> u64 {
    let free = match arena.finish() {
        Ok(free) => free,
        Err(error) => refuse(format_args!("the rest of the arena: {error}")),
    };
    let owners = Owners::new(&free).and_then(|mut owners| {
        for unit in board.vms {
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
        Ok(owners) => *board.owners.lock() = owners,
        Err(error) => refuse(format_args!("the board's memory: {error}")),
    }
    free.free_bytes()
}

/// What a vCPU of the VM has of its pCPU, in ticks of the board's counter.
fn grant(
    board: &Board,
    system: &SystemView<'_>,
    unit: &VmUnit,
    vcpu: VcpuId,
) -> Result<Granted, InterfaceError> {
    let Some(promise) = system.promise(unit.vm.id(), vcpu) else {
        return Ok(Granted::default());
    };
    let grant = promise.claim.grant(board.machine.frequency)?;
    let ask = match promise.claim {
        Claim::Promise { ask, .. } => ask,
        Claim::Share(_) => Ask::default(),
    };
    Ok(Granted {
        grant: Some(grant),
        ask,
    })
}

/// Gives every vCPU to its pCPU.
pub fn place_vcpus(
    board: &'static Board,
    system: &SystemView<'_>,
    cpus: &mut Records,
    arena: &mut Arena,
    #[cfg(target_arch = "arm")] mut window: crate::deprivileged::Window<'_>,
) {
    for unit in board.vms {
        #[cfg(target_arch = "arm")]
        let part = crate::deprivileged::VmPart::default();
        for (index, cpu) in unit.vm.config().cpus.iter().enumerate() {
            let name = &unit.vm.config().name;
            let id = VcpuId::new(index as u8);
            let core = hanok_vm::Vcpu::new(id);
            let Some(starting) = cpus.get_mut(cpu.index()) else {
                refuse(format_args!("vm {name}: the board has no CPU {cpu}"));
            };
            let shared = unit.vm.home_of(id).is_some_and(|home| home.bit != 0);
            let hcr = guest_hcr(board.machine.features, shared);
            let aarch32 = unit.vm.config().aarch32;
            #[cfg_attr(target_arch = "aarch64", expect(unused_mut))]
            let mut context = HostContext::new(hcr, aarch32, starting.cpu.stack);
            #[cfg(target_arch = "arm")]
            part.complete(&mut context, unit, (id, core.mpidr()), arena, &mut window);
            let vcpu = arena.put(Vcpu::new(unit, core, context));
            let pcpu = starting.cpu.pcpu.as_mut();
            let (Some(pcpu), Some(vcpu)) = (pcpu, vcpu) else {
                refuse(format_args!("vm {name}: no place for its vCPU {index}"));
            };
            let adopted = grant(board, system, unit, id)
                .map_err(AdoptError::Promise)
                .and_then(|grant| pcpu.adopt(vcpu, grant));
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
