//! What a system is, once it has been described: VMs, their memory and what to load there.

use hanok_types::{CpuId, Ipa, MAX_VCPUS, MAX_VMS, Span};
use heapless::{String, Vec};

/// Bytes of a VM's name.
pub const MAX_NAME: usize = 32;
/// Blobs of one VM.
pub const MAX_BLOBS: usize = 8;
/// Places in one blob that the board fills with random bytes.
pub const MAX_SEEDS: usize = 4;
/// The most memory a VM can have: as on QEMU's `virt`, RAM ends at 256 GiB.
pub const MAX_MEMORY: u64 = 255 << 30;

/// A whole system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct System {
    /// Its VMs.
    pub vms: Vec<VmConfig, MAX_VMS>,
}

/// One VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmConfig {
    /// Its name, for people.
    pub name: String<MAX_NAME>,
    /// The pCPU of each vCPU; there are as many vCPUs as entries.
    pub cpus: Vec<CpuId, MAX_VCPUS>,
    /// Its RAM, as the guest sees it.
    pub memory: Span<Ipa>,
    /// Where vCPU 0 begins.
    pub entry: Ipa,
    /// What vCPU 0 finds in X0: for Linux the address of its tree.
    pub argument: u64,
    /// What is in its memory when it begins; the rest is zero.
    pub blobs: Vec<Blob, MAX_BLOBS>,
}

/// What a blob is. The board treats all alike; the kind is for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobKind {
    /// The guest's kernel or firmware.
    Kernel,
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
            Self::Initramfs => "initramfs",
            Self::DeviceTree => "device-tree",
        }
    }

    /// From its word in the system's tree.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Kernel, Self::Initramfs, Self::DeviceTree]
            .into_iter()
            .find(|kind| kind.word() == word)
    }
}

/// Bytes of the payload that go into a VM's memory.
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
}

impl System {
    /// How many pCPUs a board must have for it: one more than the highest that is named.
    pub fn cpus_needed(&self) -> usize {
        let cpus = self.vms.iter().flat_map(|vm| vm.cpus.iter());
        cpus.map(|cpu| cpu.index() + 1).max().unwrap_or(0)
    }
}
