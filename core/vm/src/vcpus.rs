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
    /// Of a vCPU that is off, and belongs there.
    pub fn new(home: Home) -> Self {
        Self {
            home,
            power: Power::new(),
            requests: Requests::default(),
            counters: Counters::default(),
        }
    }
}

/// What the maker of a VM gives for its vCPUs.
#[derive(Debug)]
pub struct VcpuParts {
    /// Where its first vCPU belongs.
    pub first: Home,
    /// One for each further vCPU.
    pub others: &'static [SharedVcpu],
    /// As many parts of its interrupt controller.
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

    /// All of them, by their index: a chain of the first one and the others makes a loop's body twice.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = &SharedVcpu> {
        (0..self.len()).map(|index| self.of(VcpuId::new(index as u8)))
    }

    #[inline(always)]
    pub fn get(&self, vcpu: VcpuId) -> Option<&SharedVcpu> {
        // The others first: the first vCPU is asked for by its own pCPU mostly.
        match self.others.get(vcpu.index().wrapping_sub(1)) {
            None if vcpu.index() == 0 => Some(&self.first),
            other => other,
        }
    }

    /// The first one's where there is no such vCPU.
    #[inline(always)]
    pub fn of(&self, vcpu: VcpuId) -> &SharedVcpu {
        let other = self.others.get(vcpu.index().wrapping_sub(1));
        other.unwrap_or(&self.first)
    }
}
