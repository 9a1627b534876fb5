//! What is at a guest-physical address.
//!
//! An access is classified before anything is answered, changed or counted: what follows from
//! each class is decided by whoever asked.

use crate::Vm;
use hanok_devices::Slot;
use hanok_types::{GicVersion, Ipa, Span, VcpuId, platform};

/// Where an access of a vCPU goes.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    /// The interrupt controller's distributor, and the offset in it.
    Distributor(u64),
    /// A vCPU's redistributor of a GICv3, and the offset in its two frames.
    Redistributor(VcpuId, u64),
    /// A device of the virtual platform, and the offset in its registers.
    Slot(&'a Slot, u64),
    /// The VM's memory. That an access to it made an exit means that the page is not there.
    Memory,
    /// Nothing, or not one thing: the access runs over its end.
    Hole,
}

impl Destination<'_> {
    /// Whether a device or the interrupt controller answers.
    #[cfg(any(test, feature = "aarch32", feature = "aarch64"))]
    pub(crate) fn is_device(&self) -> bool {
        !matches!(self, Self::Memory | Self::Hole)
    }
}

impl Vm {
    /// What holds all of the `bytes` bytes at `ipa`. An access of zero bytes goes nowhere.
    ///
    /// A GICv2's CPU interface is no device: it is memory to the guest, mapped to the CPU's
    /// virtual one. What is passed through is mapped, too.
    #[inline(always)]
    pub fn destination(&self, ipa: Ipa, bytes: u64) -> Destination<'_> {
        let Some(access) = Span::new(ipa, bytes).filter(|access| !access.is_empty()) else {
            return Destination::Hole;
        };
        match in_distributor(&access, self.gic_version()) {
            Some(offset) => Destination::Distributor(offset),
            None => self.other_destination(&access),
        }
    }

    /// All but the distributor, to which most accesses go.
    #[inline(never)]
    fn other_destination(&self, access: &Span<Ipa>) -> Destination<'_> {
        if let Some((slot, offset)) = self.slots.find(access) {
            return Destination::Slot(slot, offset);
        }
        if let Some((vcpu, offset)) = self.in_redistributor(access) {
            return Destination::Redistributor(vcpu, offset);
        }
        if self.config().memory.covers(access) {
            Destination::Memory
        } else {
            Destination::Hole
        }
    }

    /// Whose redistributor all of `access` is in, and how far inside; a GICv2 has none.
    fn in_redistributor(&self, access: &Span<Ipa>) -> Option<(VcpuId, u64)> {
        if self.gic_version() == GicVersion::V2 {
            return None;
        }
        let stride = platform::GIC_REDIST_STRIDE;
        let len = stride.checked_mul(self.vcpus() as u64)?;
        let from = within(platform::GIC_REDIST, len, access)?;
        let (index, offset) = (from / stride, from % stride);
        let fits = offset.checked_add(access.len())? <= stride;
        let index = u8::try_from(index).ok()?;
        fits.then_some((VcpuId::new(index), offset))
    }
}

/// How far inside a distributor of this version all of `access` is.
#[inline(always)]
fn in_distributor(access: &Span<Ipa>, gic: GicVersion) -> Option<u64> {
    let len = match gic {
        GicVersion::V2 => platform::GIC_V2_DIST_SIZE,
        GicVersion::V3 => platform::GIC_DIST_SIZE,
    };
    within(platform::GIC_DIST, len, access)
}

/// How far `access` lies inside the `len` bytes from `start`, if all of it does.
#[inline(always)]
fn within(start: Ipa, len: u64, access: &Span<Ipa>) -> Option<u64> {
    let region = Span::new(start, len)?;
    let offset = region.offset_of(access.start())?;
    region.covers(access).then_some(offset)
}
