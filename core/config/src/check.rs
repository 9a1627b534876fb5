//! The rules a system must keep. One list of them for the tool and for the board.

use crate::model::{Blob, BlobKind, MAX_MEMORY, System, VmConfig};
use hanok_types::{Address, CpuId, Ipa, MAX_CPUS, PAGE_SIZE, Span, platform};
use thiserror::Error;

/// A rule that a system breaks. VMs and blobs are named by their place, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// Nothing to run.
    #[error("the system has no VM")]
    NoVm,
    /// A VM without a name, or with one that cannot be printed.
    #[error("vm {vm}: its name is empty or not printable ASCII")]
    Name {
        /// The VM.
        vm: usize,
    },
    /// Two VMs of one name.
    #[error("vm {vm} has the name of an earlier one")]
    SameName {
        /// The later VM.
        vm: usize,
    },
    /// A VM without a vCPU.
    #[error("vm {vm} has no vCPU")]
    NoVcpu {
        /// The VM.
        vm: usize,
    },
    /// A pCPU that no board has.
    #[error("vm {vm}: pCPU {cpu} is past the last one, {}", MAX_CPUS - 1)]
    NoSuchCpu {
        /// The VM.
        vm: usize,
        /// The pCPU.
        cpu: CpuId,
    },
    /// Two vCPUs on one pCPU.
    #[error("vm {vm}: pCPU {cpu} already runs another vCPU")]
    CpuTaken {
        /// The later VM.
        vm: usize,
        /// The pCPU.
        cpu: CpuId,
    },
    /// Memory that the virtual platform does not have.
    #[error(
        "vm {vm}: memory must begin at {}, be whole pages, and be at most {} GiB",
        platform::RAM,
        MAX_MEMORY >> 30
    )]
    Memory {
        /// The VM.
        vm: usize,
    },
    /// An entry that is not in memory.
    #[error("vm {vm}: entry {entry} is not a word inside its memory")]
    Entry {
        /// The VM.
        vm: usize,
        /// The entry.
        entry: Ipa,
    },
    /// A blob without a byte.
    #[error("blob {blob} of vm {vm} is empty")]
    Empty {
        /// The VM.
        vm: usize,
        /// The blob.
        blob: usize,
    },
    /// A blob whose source is not in the payload, or not at a multiple of 8 bytes.
    #[error("blob {blob} of vm {vm}: its source is not inside the payload")]
    OutsidePayload {
        /// The VM.
        vm: usize,
        /// The blob.
        blob: usize,
    },
    /// A blob that would be loaded outside of memory, or not at a multiple of 8 bytes.
    #[error("blob {blob} of vm {vm} does not lie inside the VM's memory")]
    OutsideMemory {
        /// The VM.
        vm: usize,
        /// The blob.
        blob: usize,
    },
    /// Two blobs loaded over each other.
    #[error("blob {blob} of vm {vm} overlaps an earlier one in memory")]
    Overlap {
        /// The VM.
        vm: usize,
        /// The later blob.
        blob: usize,
    },
    /// A seed outside of its blob, or in a blob that is no device tree.
    #[error("blob {blob} of vm {vm}: a seed is not inside a device tree")]
    Seed {
        /// The VM.
        vm: usize,
        /// The blob.
        blob: usize,
    },
}

impl System {
    /// Whether the system keeps every rule; `payload_len` is the length in bytes of the
    /// payload its blobs come from.
    pub fn check(&self, payload_len: u64) -> Result<(), Fault> {
        if self.vms.is_empty() {
            return Err(Fault::NoVm);
        }
        self.check_names()?;
        self.check_cpus()?;
        for (index, vm) in self.vms.iter().enumerate() {
            vm.check(index, payload_len)?;
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), Fault> {
        for (index, vm) in self.vms.iter().enumerate() {
            if vm.name.is_empty() || !vm.name.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(Fault::Name { vm: index });
            }
            if self
                .vms
                .iter()
                .take(index)
                .any(|other| other.name == vm.name)
            {
                return Err(Fault::SameName { vm: index });
            }
        }
        Ok(())
    }

    fn check_cpus(&self) -> Result<(), Fault> {
        let mut taken = [false; MAX_CPUS];
        for (vm, config) in self.vms.iter().enumerate() {
            if config.cpus.is_empty() {
                return Err(Fault::NoVcpu { vm });
            }
            for &cpu in &config.cpus {
                match taken.get_mut(cpu.index()) {
                    None => return Err(Fault::NoSuchCpu { vm, cpu }),
                    Some(true) => return Err(Fault::CpuTaken { vm, cpu }),
                    Some(taken) => *taken = true,
                }
            }
        }
        Ok(())
    }
}

impl VmConfig {
    fn check(&self, vm: usize, payload_len: u64) -> Result<(), Fault> {
        let len = self.memory.len();
        if self.memory.start() != platform::RAM
            || len == 0
            || !len.is_multiple_of(PAGE_SIZE)
            || len > MAX_MEMORY
        {
            return Err(Fault::Memory { vm });
        }
        if !self.memory.contains(self.entry) || !self.entry.is_aligned(4) {
            let entry = self.entry;
            return Err(Fault::Entry { vm, entry });
        }
        for (index, blob) in self.blobs.iter().enumerate() {
            let span = blob.check(vm, index, payload_len)?;
            if !self.memory.covers(&span) {
                return Err(Fault::OutsideMemory { vm, blob: index });
            }
            let mut earlier = self.blobs.iter().take(index).filter_map(Blob::span);
            if earlier.any(|other| other.overlaps(&span)) {
                return Err(Fault::Overlap { vm, blob: index });
            }
        }
        Ok(())
    }
}

impl Blob {
    /// Where it lies in the VM's memory; `None` if that wraps.
    pub fn span(&self) -> Option<Span<Ipa>> {
        Span::new(self.load, self.len)
    }

    fn check(&self, vm: usize, blob: usize, payload_len: u64) -> Result<Span<Ipa>, Fault> {
        if self.len == 0 {
            return Err(Fault::Empty { vm, blob });
        }
        let end = self.offset.checked_add(self.len);
        if end.is_none_or(|end| end > payload_len) || !self.offset.is_multiple_of(8) {
            return Err(Fault::OutsidePayload { vm, blob });
        }
        let inside =
            |&(offset, len): &(u32, u32)| len > 0 && u64::from(offset) + u64::from(len) <= self.len;
        let seeds_fit = self.seeds.iter().all(inside);
        if !seeds_fit || !(self.seeds.is_empty() || self.kind == BlobKind::DeviceTree) {
            return Err(Fault::Seed { vm, blob });
        }
        self.span()
            .filter(|span| span.start().is_aligned(8))
            .ok_or(Fault::OutsideMemory { vm, blob })
    }
}
