//! The parts of a VM's vCPUs that all pCPUs access: as many as the VM has vCPUs.
//!
//! The first vCPU's part is in the VM itself, as every VM has one vCPU. The parts of all others are in
//! memory that the creator of the VM provides, sized by the description. Where there must be an answer, an
//! id past the last vCPU means the first one, so that no id can cause a panic.

use crate::{Counters, Home, Power, Requests};
use hanok_types::VcpuId;
use hanok_vgic::CpuPart;

/// The part of one vCPU that all pCPUs access. It shares no cache line with another one's, and its size is
/// one by which an index is shifted.
#[derive(Debug)]
#[repr(align(64))]
pub struct SharedVcpu {
    pub(crate) home: Home,
    pub(crate) power: Power,
    pub(crate) requests: Requests,
    pub(crate) counters: Counters,
}

impl SharedVcpu {
    /// The part of a vCPU that is off, with its pCPU and place.
    pub fn new(home: Home) -> Self {
        Self {
            home,
            power: Power::new(),
            requests: Requests::default(),
            counters: Counters::default(),
        }
    }
}

/// The memory that the creator of a VM provides for its vCPUs.
#[derive(Debug)]
pub struct VcpuParts {
    /// The pCPU of its first vCPU, and the vCPU's place there.
    pub first: Home,
    /// A part for each further vCPU.
    pub others: &'static [SharedVcpu],
    /// As many parts for its interrupt controller.
    pub gic: &'static mut [CpuPart],
}

/// The shared parts of all vCPUs of a VM.
#[derive(Debug)]
pub(crate) struct Vcpus {
    first: SharedVcpu,
    others: &'static [SharedVcpu],
}

impl Vcpus {
    pub fn new(first: Home, others: &'static [SharedVcpu]) -> Self {
        let first = SharedVcpu::new(first);
        Self { first, others }
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.others.len() + 1
    }

    /// All parts, by their index: with a chain of the first one and the others, a loop's body would be
    /// compiled twice.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = &SharedVcpu> {
        (0..self.len()).map(|index| self.of(VcpuId::new(index as u8)))
    }

    #[inline(always)]
    pub fn get(&self, vcpu: VcpuId) -> Option<&SharedVcpu> {
        // The others come first, as mostly only its own pCPU needs the first vCPU.
        match self.others.get(vcpu.index().wrapping_sub(1)) {
            None if vcpu.index() == 0 => {
                core::hint::cold_path();
                Some(&self.first)
            }
            other => other,
        }
    }

    /// The answer is the first vCPU's part if there is no such vCPU.
    #[inline(always)]
    pub fn of(&self, vcpu: VcpuId) -> &SharedVcpu {
        let other = self.others.get(vcpu.index().wrapping_sub(1));
        other.unwrap_or(&self.first)
    }
}
