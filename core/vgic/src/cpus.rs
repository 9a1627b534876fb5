//! The vCPUs' parts of a controller: as many as the VM has.
//!
//! The first vCPU's part is in the controller itself, as every VM has one vCPU. The parts of all others are in
//! memory that the creator of the controller provides, sized by the VM. An index past the last vCPU means
//! the first one, so that no index can cause a panic: callers that may have such an index use [`Cpus::get`].

use crate::cpu::Cpu;
use core::ops::{Index, IndexMut};
use hanok_types::GicVersion;

/// The part of one further vCPU, whose memory the creator of a [`Vgic`](crate::Vgic) provides.
#[cfg_attr(test, derive(Clone))]
#[derive(Debug)]
pub struct CpuPart(Cpu);

impl CpuPart {
    /// The part of a vCPU of a controller of this version.
    pub fn new(version: GicVersion) -> Self {
        Self(Cpu::new(version))
    }
}

/// The parts of all vCPUs of a VM.
#[derive(Debug)]
pub(crate) struct Cpus {
    first: Cpu,
    others: &'static mut [CpuPart],
}

impl Cpus {
    pub fn new(version: GicVersion, others: &'static mut [CpuPart]) -> Self {
        Self {
            first: Cpu::new(version),
            others,
        }
    }

    /// The number of vCPUs.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.others.len() + 1
    }

    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&Cpu> {
        match index.checked_sub(1) {
            None => Some(&self.first),
            Some(other) => self.others.get(other).map(|part| &part.0),
        }
    }

    #[inline(always)]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Cpu> {
        match index.checked_sub(1) {
            None => Some(&mut self.first),
            Some(other) => self.others.get_mut(other).map(|part| &mut part.0),
        }
    }

    pub fn first_mut(&mut self) -> &mut Cpu {
        &mut self.first
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &Cpu> {
        core::iter::once(&self.first).chain(self.others.iter().map(|part| &part.0))
    }

    #[cfg(test)]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Cpu> {
        let others = self.others.iter_mut().map(|part| &mut part.0);
        core::iter::once(&mut self.first).chain(others)
    }

    /// Calls `each` for every part, with its index. It is a loop over indices, because a chain of the first
    /// part and the others would compile the body twice.
    #[inline(always)]
    pub fn each(&mut self, mut each: impl FnMut(usize, &mut Cpu)) {
        for index in 0..self.len() {
            each(index, &mut self[index]);
        }
    }

    /// The first index of a part for which `is` holds.
    #[inline(always)]
    pub fn position(&self, mut is: impl FnMut(&Cpu) -> bool) -> Option<usize> {
        (0..self.len()).find(|index| is(&self[*index]))
    }
}

impl Index<usize> for Cpus {
    type Output = Cpu;

    #[inline(always)]
    fn index(&self, index: usize) -> &Cpu {
        match self.others.get(index.wrapping_sub(1)) {
            Some(part) => &part.0,
            None => &self.first,
        }
    }
}

impl IndexMut<usize> for Cpus {
    #[inline(always)]
    fn index_mut(&mut self, index: usize) -> &mut Cpu {
        match self.others.get_mut(index.wrapping_sub(1)) {
            Some(part) => &mut part.0,
            None => &mut self.first,
        }
    }
}

#[cfg(test)]
impl Clone for Cpus {
    fn clone(&self) -> Self {
        Self {
            first: self.first.clone(),
            others: std::boxed::Box::leak(self.others.to_vec().into_boxed_slice()),
        }
    }
}
