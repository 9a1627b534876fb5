//! The model of a system: its VMs, their memory, and the blobs to load there.

use crate::POOLS;
use crate::channel::{ChannelEnd, MAX_CHANNELS};
use crate::cores::{CorePolicy, Group, Promise};
use crate::slot::{DeviceKind, DeviceSlots};
use hanok_types::{CpuId, GicVersion, Hpa, IntId, Ipa, MAX_CPUS, MAX_VCPUS, Span, VcpuId, VmId};
use heapless::{String, Vec};

/// The most bytes of a VM's name.
pub const MAX_NAME: usize = 32;
/// The most blobs of one VM.
pub const MAX_BLOBS: usize = 8;
/// The most ranges of one blob that the board fills with random bytes.
pub const MAX_SEEDS: usize = 4;
/// The most memory a VM can have: as on QEMU's `virt`, RAM ends at 256 GiB.
pub const MAX_MEMORY: u64 = 255 << 30;
/// The most devices that are passed through to one VM.
pub const MAX_DEVICES: usize = 4;
/// The most ranges of registers of one device.
pub const MAX_REGISTERS: usize = 4;
/// The most interrupts of one device.
pub const MAX_LINES: usize = 8;
/// The most interrupts of devices that are passed through, for all VMs of a board together.
pub const MAX_BOARD_LINES: usize = 64;
/// The time slice in microseconds if the description gives none.
pub const DEFAULT_SLICE: u32 = 10_000;
/// The time slices in microseconds that a description may choose.
pub const SLICES: core::ops::RangeInclusive<u32> = 100..=1_000_000;

/// A whole system, as the tool on the PC makes it.
#[cfg(feature = "write")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// Its VMs, [`hanok_types::MAX_VMS`] at most.
    pub vms: alloc::vec::Vec<VmConfig>,
    /// The promises to the vCPUs whose pCPUs enforce promises: first those of the first VM, then of the next.
    pub promises: alloc::vec::Vec<Promise>,
    /// The groups of vCPUs: those of each pCPU in an order in which each comes after the one in which it is.
    pub groups: alloc::vec::Vec<Group>,
    /// The version of the interrupt controller that its VMs see; the board must have the same.
    pub gic: GicVersion,
    /// The time in microseconds for which a vCPU runs before another one of its pCPU has its turn, on
    /// pCPUs whose vCPUs run in turn; see [`SLICES`].
    pub slice: u32,
    /// What a server costs its pCPU beyond its budget in each period, in nanoseconds: the switch to its vCPU and the
    /// one back. Admission reckons with it.
    pub switch_cost: u32,
    /// The trace.
    pub trace: Trace,
    /// The policy by which each pCPU chooses among its vCPUs.
    pub policies: [CorePolicy; MAX_CPUS],
}

/// What the board traces from its start on, and in how much memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The number of records of each pCPU's ring, of [`TRACE_RECORDS`] and a power of two; 0: the board has no trace.
    pub records: u32,
    /// The classes of events that are recorded; those of the trace's format that do not exist mean nothing.
    pub classes: u32,
}

/// The numbers of records that a ring may have: from 4 KiB to 32 MiB.
pub const TRACE_RECORDS: core::ops::RangeInclusive<u32> = 128..=1 << 20;

#[cfg(feature = "write")]
impl Default for System {
    fn default() -> Self {
        Self {
            vms: Default::default(),
            promises: Default::default(),
            groups: Default::default(),
            gic: GicVersion::default(),
            slice: DEFAULT_SLICE,
            switch_cost: 0,
            trace: Trace::default(),
            policies: [CorePolicy::RoundRobin; MAX_CPUS],
        }
    }
}

#[cfg(feature = "write")]
impl System {
    /// A view of the whole system.
    pub fn view(&self) -> SystemView<'_> {
        SystemView {
            vms: &self.vms,
            promises: &self.promises,
            groups: &self.groups,
            gic: self.gic,
            slice: self.slice,
            switch_cost: self.switch_cost,
            trace: self.trace,
            policies: self.policies,
        }
    }
}

/// A view of a whole system, whose VMs and promises may be anywhere in memory. The fields are those of
/// `System`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemView<'a> {
    /// Its VMs.
    pub vms: &'a [VmConfig],
    /// The promises to its vCPUs.
    pub promises: &'a [Promise],
    /// The groups of vCPUs.
    pub groups: &'a [Group],
    /// Its interrupt controller.
    pub gic: GicVersion,
    /// Its time slice.
    pub slice: u32,
    /// What a server costs beyond its budget.
    pub switch_cost: u32,
    /// The trace.
    pub trace: Trace,
    /// The policy of each pCPU.
    pub policies: [CorePolicy; MAX_CPUS],
}

/// One VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmConfig {
    /// Its name, for messages and the console.
    pub name: String<MAX_NAME>,
    /// The pCPU of each vCPU; there are as many vCPUs as entries. Several vCPUs, of one VM
    /// or of several, may name the same one.
    pub cpus: Vec<CpuId, MAX_VCPUS>,
    /// Its RAM, by the guest's addresses.
    pub memory: Span<Ipa>,
    /// The address at which vCPU 0 begins: in memory, or in the firmware's bank of flash.
    pub entry: Ipa,
    /// The initial value of vCPU 0's X0: for Linux the address of its tree.
    pub argument: u64,
    /// The blobs that are in its memory when it begins; the rest of the memory is zero.
    pub blobs: Vec<Blob, MAX_BLOBS>,
    /// Its devices of the virtual platform.
    pub slots: DeviceSlots,
    /// Its ends of channels; each has a [`crate::DeviceKind::Channel`] among the slots.
    pub channels: Vec<ChannelEnd, MAX_CHANNELS>,
    /// Devices of the board that it has for itself.
    pub devices: Vec<PassThrough, MAX_DEVICES>,
    /// Whether it may have a device that is a bus master, which could access all memory.
    pub trusted: bool,
    /// Whether it starts with the board, or waits for a command of the prompt.
    pub autostart: bool,
    /// Whether its EL1 is AArch32: it begins as a 32-bit board does.
    pub aarch32: bool,
    /// Whether its kernel's sensitive instructions were rewritten before it was loaded, for CPUs without
    /// virtualization extensions: some of its SVCs stand for such an instruction (`hanok_abi::trap`).
    pub rewritten: bool,
    /// Its RAM with code that was added to the kernel then. The kernel may execute it whatever it says
    /// of the memory.
    pub trampolines: Option<Span<Ipa>>,
    /// The milliseconds for which a device that it serves may wait for it to look after its interrupt, before the hypervisor resets
    /// it; 0 if it may wait for ever.
    pub watchdog: u32,
}

/// A device of the board that one VM has for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassThrough {
    /// The name of its node in the board's tree, for messages.
    pub name: String<MAX_NAME>,
    /// Its registers.
    pub registers: Vec<Registers, MAX_REGISTERS>,
    /// Its interrupts.
    pub interrupts: Vec<Line, MAX_LINES>,
    /// Whether each access to its registers is an exit, and the hypervisor carries it out; otherwise the
    /// VM has the registers mapped.
    pub trapped: bool,
}

/// A range of a device's registers, whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Its address for the guest, in [`hanok_types::platform::PASS_THROUGH`].
    pub ipa: Ipa,
    /// Its address on the board.
    pub host: Hpa,
    /// Its length in bytes.
    pub len: u64,
}

impl Registers {
    /// The range by the guest's addresses; `None` if it exceeds the address space.
    pub fn guest_span(&self) -> Option<Span<Ipa>> {
        Span::new(self.ipa, self.len)
    }

    /// The range by the board's addresses; `None` if it exceeds the address space.
    pub fn host_span(&self) -> Option<Span<Hpa>> {
        Span::new(self.host, self.len)
    }
}

/// An interrupt of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its id for the guest, from [`hanok_types::platform::PASS_THROUGH_IRQ`] on.
    pub guest: IntId,
    /// Its id on the board, an SPI.
    pub board: IntId,
    /// Whether it is edge-triggered, for the guest and on the board; otherwise it is level-sensitive.
    pub edge: bool,
}

/// The kind of a blob. The board loads all kinds in the same way; the kind is for rules and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobKind {
    /// The guest's kernel.
    Kernel,
    /// The firmware in the guest's first bank of flash, with which it begins; there is at most one.
    Firmware,
    /// The initial file system.
    Initramfs,
    /// The guest's device tree; the only kind that has seeds.
    DeviceTree,
    /// What the second bank of flash holds when the board begins; there is at most one. It is no part of a boot: the VM
    /// keeps what it makes of it until the board ends.
    Variables,
}

impl BlobKind {
    /// Its word in the system's tree.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Firmware => "firmware",
            Self::Initramfs => "initramfs",
            Self::DeviceTree => "device-tree",
            Self::Variables => "variables",
        }
    }

    /// From its word in the system's tree.
    pub fn from_word(word: &str) -> Option<Self> {
        [
            Self::Kernel,
            Self::Firmware,
            Self::Initramfs,
            Self::DeviceTree,
            Self::Variables,
        ]
        .into_iter()
        .find(|kind| kind.word() == word)
    }
}

/// A range of the payload that is loaded into a VM's memory or flash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its kind.
    pub kind: BlobKind,
    /// Its offset in bytes from the payload's start.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// The guest's address to which it is loaded.
    pub load: Ipa,
    /// Its [`crate::sum`], with seeds that are still zero.
    pub sum: u64,
    /// Ranges (offset and length in bytes, within the blob) that the board fills with random bytes.
    pub seeds: Vec<(u32, u32), MAX_SEEDS>,
    /// The offset within the blob at which the board writes the host address of the VM's RAM, in 8 bytes,
    /// big-endian: for a bus master, whose accesses no MMU translates. Those of its channels' memory follow, each
    /// [`HOST_ADDRESS_STRIDE`] bytes behind the one before.
    pub host_address: Option<u32>,
}

/// The bytes from one host address to the next: an entry of `dma-ranges`.
pub const HOST_ADDRESS_STRIDE: u32 = 24;

/// An interrupt controller's word in the system's tree.
#[cfg(feature = "write")]
pub(crate) const fn gic_word(version: GicVersion) -> &'static str {
    match version {
        GicVersion::V2 => "v2",
        GicVersion::V3 => "v3",
    }
}

/// An interrupt controller from its word in the system's tree.
pub(crate) fn gic_from_word(word: &str) -> Option<GicVersion> {
    match word {
        "v2" => Some(GicVersion::V2),
        "v3" => Some(GicVersion::V3),
        _ => None,
    }
}

impl VmConfig {
    /// The blob in its first bank of flash.
    pub fn firmware(&self) -> Option<&Blob> {
        self.blob(BlobKind::Firmware)
    }

    /// The first blob of this kind.
    pub fn blob(&self, kind: BlobKind) -> Option<&Blob> {
        self.blobs.iter().find(|blob| blob.kind == kind)
    }

    /// Whether it has a device of this kind.
    pub fn has(&self, kind: DeviceKind) -> bool {
        self.slots.iter().any(|slot| slot.kind == kind)
    }
}

impl<'a> SystemView<'a> {
    /// The promise to a VM's vCPU.
    pub fn promise(&self, vm: VmId, vcpu: VcpuId) -> Option<&'a Promise> {
        let is_its = |promise: &&Promise| promise.vm == vm && promise.vcpu == vcpu;
        self.promises.iter().find(is_its)
    }

    /// The groups of a pCPU, in the order of their places.
    pub fn groups_of(&self, cpu: CpuId) -> impl Iterator<Item = &'a Group> {
        self.groups.iter().filter(move |group| group.cpu == cpu)
    }

    /// The policy by which `cpu` chooses among its vCPUs.
    pub fn policy(&self, cpu: CpuId) -> CorePolicy {
        self.policies.get(cpu.index()).copied().unwrap_or_default()
    }

    /// The pCPU at which those of a pCPU's vCPUs are counted: a pool's lowest.
    pub(crate) fn counted_at(&self, cpu: CpuId) -> usize {
        if POOLS {
            self.pool_of(cpu).trailing_zeros() as usize % MAX_CPUS
        } else {
            cpu.index() % MAX_CPUS
        }
    }

    /// The number of pCPUs that a board must have for it: one more than the highest number in it.
    pub fn cpus_needed(&self) -> usize {
        let mut needed = 0;
        for vm in self.vms {
            for cpu in &vm.cpus {
                needed = needed.max(cpu.index() + 1);
                if POOLS {
                    needed = needed.max((u64::BITS - self.pool_of(*cpu).leading_zeros()) as usize);
                }
            }
        }
        needed
    }

    /// The pCPUs that have vCPUs, one bit each.
    pub fn inhabited(&self) -> u64 {
        let cpus = self.vms.iter().flat_map(|vm| &vm.cpus);
        if POOLS {
            return cpus.fold(0, |all, cpu| all | self.pool_of(*cpu));
        }
        cpus.fold(0, |all, cpu| all | 1 << (cpu.index() % MAX_CPUS))
    }

    /// A counter of the vCPUs of each pCPU, all at zero.
    pub fn places(&self) -> Places {
        let mut places = Places {
            counted: [0; MAX_CPUS],
            shared: [false; MAX_CPUS],
            counts_for: [0; MAX_CPUS],
        };
        let mut seen = [false; MAX_CPUS];
        for vm in self.vms {
            for cpu in &vm.cpus {
                let index = self.counted_at(*cpu);
                places.counts_for[cpu.index() % MAX_CPUS] = index as u8;
                places.shared[index] |= seen[index] || self.policy(*cpu) != CorePolicy::RoundRobin;
                seen[index] = true;
            }
        }
        places
    }
}

/// Counts the vCPUs of each pCPU in the order of the description, which gives each vCPU its place there.
#[derive(Clone, Debug)]
pub struct Places {
    counted: [u8; MAX_CPUS],
    /// Whether a vCPU of the pCPU may have to wait while it has work: for another vCPU, or because its
    /// budget is used up.
    shared: [bool; MAX_CPUS],
    /// Where each pCPU's vCPUs are counted.
    counts_for: [u8; MAX_CPUS],
}

impl Places {
    /// The bit of the next vCPU on `cpu` among those that share it; zero if no other vCPU does.
    pub fn next_on(&mut self, cpu: CpuId) -> u64 {
        let mut index = cpu.index() % MAX_CPUS;
        if POOLS {
            index = usize::from(self.counts_for[index]) % MAX_CPUS;
        }
        let place = self.counted[index];
        self.counted[index] = place.saturating_add(1);
        let bit = 1u64.checked_shl(place.into()).unwrap_or(0);
        if self.shared[index] { bit } else { 0 }
    }
}
