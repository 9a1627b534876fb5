//! What a system is, once it has been described: VMs, their memory and what to load there.

use crate::cores::{CorePolicy, Promise};
use crate::slot::DeviceSlots;
use hanok_types::{
    CpuId, GicVersion, Hpa, IntId, Ipa, MAX_CPUS, MAX_VCPUS, Span, VcpuId, VmId, platform,
};
use heapless::{String, Vec};

/// Bytes of a VM's name.
pub const MAX_NAME: usize = 32;
/// Blobs of one VM.
pub const MAX_BLOBS: usize = 8;
/// Places in one blob that the board fills with random bytes.
pub const MAX_SEEDS: usize = 4;
/// The most memory a VM can have: as on QEMU's `virt`, RAM ends at 256 GiB.
pub const MAX_MEMORY: u64 = 255 << 30;
/// Devices passed through to one VM.
pub const MAX_DEVICES: usize = 4;
/// Ranges of registers of one device.
pub const MAX_REGISTERS: usize = 4;
/// Interrupts of one device.
pub const MAX_LINES: usize = 8;
/// Interrupts of devices that one board hands on, for all VMs together.
pub const MAX_BOARD_LINES: usize = 64;
/// The time slice in microseconds where the description says nothing.
pub const DEFAULT_SLICE: u32 = 10_000;
/// The time slices in microseconds that may be chosen.
pub const SLICES: core::ops::RangeInclusive<u32> = 100..=1_000_000;
/// Bytes of the bank of flash that a firmware is put into: the first of two.
pub const FIRMWARE_SIZE: u64 = platform::FLASH_SIZE / 2;

/// A whole system, as the tool on the PC makes it.
#[cfg(feature = "write")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// Its VMs, [`hanok_types::MAX_VMS`] at most.
    pub vms: alloc::vec::Vec<VmConfig>,
    /// What those vCPUs are promised whose pCPU enforces promises: all of the first VM's, then the next one's.
    pub promises: alloc::vec::Vec<Promise>,
    /// Which interrupt controller its VMs see; it must be the board's.
    pub gic: GicVersion,
    /// For how long in microseconds a vCPU runs before another one of its pCPU has its
    /// turn, where it takes turns; see [`SLICES`].
    pub slice: u32,
    /// How each pCPU chooses among its vCPUs.
    pub policies: [CorePolicy; MAX_CPUS],
}

#[cfg(feature = "write")]
impl Default for System {
    fn default() -> Self {
        Self {
            vms: Default::default(),
            promises: Default::default(),
            gic: GicVersion::default(),
            slice: DEFAULT_SLICE,
            policies: [CorePolicy::RoundRobin; MAX_CPUS],
        }
    }
}

#[cfg(feature = "write")]
impl System {
    /// All of it, to be looked at.
    pub fn view(&self) -> SystemView<'_> {
        SystemView {
            vms: &self.vms,
            promises: &self.promises,
            gic: self.gic,
            slice: self.slice,
            policies: self.policies,
        }
    }
}

/// A whole system to look at, its VMs and promises wherever they are kept. The fields are those of
/// `System`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemView<'a> {
    /// Its VMs.
    pub vms: &'a [VmConfig],
    /// What its vCPUs are promised.
    pub promises: &'a [Promise],
    /// Its interrupt controller.
    pub gic: GicVersion,
    /// Its time slice.
    pub slice: u32,
    /// How each pCPU chooses.
    pub policies: [CorePolicy; MAX_CPUS],
}

/// One VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmConfig {
    /// Its name, for people.
    pub name: String<MAX_NAME>,
    /// The pCPU of each vCPU; there are as many vCPUs as entries. Several vCPUs, of one VM
    /// or of several, may name the same one.
    pub cpus: Vec<CpuId, MAX_VCPUS>,
    /// Its RAM, as the guest sees it.
    pub memory: Span<Ipa>,
    /// Where vCPU 0 begins: in memory, or in the firmware's bank of flash.
    pub entry: Ipa,
    /// What vCPU 0 finds in X0: for Linux the address of its tree.
    pub argument: u64,
    /// What is in its memory when it begins; the rest is zero.
    pub blobs: Vec<Blob, MAX_BLOBS>,
    /// Its devices of the virtual platform.
    pub slots: DeviceSlots,
    /// Devices of the board that it has for itself.
    pub devices: Vec<PassThrough, MAX_DEVICES>,
    /// Whether it may have a device that is a bus master, which could reach all memory.
    pub trusted: bool,
    /// Whether it begins by itself, or waits until somebody restarts it.
    pub autostart: bool,
    /// Whether its EL1 is AArch32: it begins as a 32-bit board does.
    pub aarch32: bool,
}

/// A device of the board that one VM has for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassThrough {
    /// Its node's name in the board's tree, for people.
    pub name: String<MAX_NAME>,
    /// Its registers.
    pub registers: Vec<Registers, MAX_REGISTERS>,
    /// Its interrupts.
    pub interrupts: Vec<Line, MAX_LINES>,
}

/// A range of a device's registers, whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Where the guest sees it, in [`platform::PASS_THROUGH`].
    pub ipa: Ipa,
    /// Where the board has it.
    pub host: Hpa,
    /// Bytes.
    pub len: u64,
}

impl Registers {
    /// The range as the guest sees it; `None` where it passes the top.
    pub fn guest_span(&self) -> Option<Span<Ipa>> {
        Span::new(self.ipa, self.len)
    }

    /// The range as the board has it; `None` where it passes the top.
    pub fn host_span(&self) -> Option<Span<Hpa>> {
        Span::new(self.host, self.len)
    }
}

/// An interrupt of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its id for the guest, from [`platform::PASS_THROUGH_IRQ`] on.
    pub guest: IntId,
    /// Its id on the board, an SPI.
    pub board: IntId,
    /// Whether triggered by an edge, on both sides; otherwise by a level.
    pub edge: bool,
}

/// What a blob is. The board treats all alike; the kind is for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobKind {
    /// The guest's kernel.
    Kernel,
    /// What the guest finds in its first bank of flash, and begins with; at most one.
    Firmware,
    /// The initial file system.
    Initramfs,
    /// The guest's device tree; the only kind that has seeds.
    DeviceTree,
}

impl BlobKind {
    /// Its word in the system's tree.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Firmware => "firmware",
            Self::Initramfs => "initramfs",
            Self::DeviceTree => "device-tree",
        }
    }

    /// From its word in the system's tree.
    pub fn from_word(word: &str) -> Option<Self> {
        [
            Self::Kernel,
            Self::Firmware,
            Self::Initramfs,
            Self::DeviceTree,
        ]
        .into_iter()
        .find(|kind| kind.word() == word)
    }
}

/// Bytes of the payload that go into a VM's memory, or its flash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// What it is.
    pub kind: BlobKind,
    /// Where it begins in the payload, in bytes from the payload's start.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Where it goes.
    pub load: Ipa,
    /// Its [`crate::sum`], seeds still zero.
    pub sum: u64,
    /// Ranges (offset and length in bytes, within the blob) to fill with random bytes.
    pub seeds: Vec<(u32, u32), MAX_SEEDS>,
    /// Where, within the blob, the board puts the host address of the VM's RAM, big-endian,
    /// 8 bytes: for a bus master, whose accesses nothing translates.
    pub host_address: Option<u32>,
}

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
    /// What lies in its first bank of flash.
    pub fn firmware(&self) -> Option<&Blob> {
        let is_firmware = |blob: &&Blob| blob.kind == BlobKind::Firmware;
        self.blobs.iter().find(is_firmware)
    }
}

impl<'a> SystemView<'a> {
    /// What a VM's vCPU is promised.
    pub fn promise(&self, vm: VmId, vcpu: VcpuId) -> Option<&'a Promise> {
        let is_its = |promise: &&Promise| promise.vm == vm && promise.vcpu == vcpu;
        self.promises.iter().find(is_its)
    }

    /// How `cpu` chooses among its vCPUs.
    pub fn policy(&self, cpu: CpuId) -> CorePolicy {
        self.policies.get(cpu.index()).copied().unwrap_or_default()
    }

    /// How many pCPUs a board must have for it: one more than the highest that is named.
    pub fn cpus_needed(&self) -> usize {
        let mut needed = 0;
        for vm in self.vms {
            for cpu in &vm.cpus {
                needed = needed.max(cpu.index() + 1);
            }
        }
        needed
    }

    /// What counts the vCPUs of each pCPU, none counted yet.
    pub fn places(&self) -> Places {
        let mut places = Places {
            counted: [0; MAX_CPUS],
            shared: [false; MAX_CPUS],
        };
        let mut seen = [false; MAX_CPUS];
        for vm in self.vms {
            for cpu in &vm.cpus {
                let index = cpu.index() % MAX_CPUS;
                places.shared[index] |= seen[index] || self.policy(*cpu) != CorePolicy::RoundRobin;
                seen[index] = true;
            }
        }
        places
    }
}

/// The places of vCPUs among those of their pCPU, counted in the order of the description.
#[derive(Clone, Debug)]
pub struct Places {
    counted: [u8; MAX_CPUS],
    /// Whether a vCPU there may be held back while it has work: for another one, or as it has used what
    /// it was promised.
    shared: [bool; MAX_CPUS],
}

impl Places {
    /// The bit of the next vCPU on `cpu` among those that share it; zero where it is alone there.
    pub fn next_on(&mut self, cpu: CpuId) -> u64 {
        let index = cpu.index() % MAX_CPUS;
        let place = self.counted[index];
        self.counted[index] = place.saturating_add(1);
        let bit = 1u64.checked_shl(place.into()).unwrap_or(0);
        if self.shared[index] { bit } else { 0 }
    }
}
