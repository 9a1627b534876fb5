//! The destination of an access to an intermediate physical address.
//!
//! An access is classified before anything is answered, changed or counted. The caller decides what
//! follows from each class.

use crate::Vm;
use hanok_config::DeviceKind;
use hanok_devices::Slot;
use hanok_types::{Address, GicVersion, Hpa, Ipa, Span, VcpuId, platform};

/// The destination of an access of a vCPU.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    /// The distributor of the interrupt controller, with the offset in it.
    Distributor(u64),
    /// The redistributor of a vCPU, of a GICv3, with the offset in its two frames.
    Redistributor(VcpuId, u64),
    /// The CPU interface of the vCPU itself, of a GICv2, with the offset in its frame. It exists only if that is
    /// in software.
    CpuInterface(u64),
    /// A device of the virtual platform, with the offset in its registers.
    Slot(&'a Slot, u64),
    /// A device of the virtual platform whose exits may be the end of a turn or the begin of longer work: that by which a guest takes part in the
    /// scheduling of its vCPUs, or one that is shared, with the offset in its registers. A fast path answers what is made at each interrupt alone
    /// ([`hanok_devices::virtio::SharedDevice::at_once`]).
    SlowSlot(&'a Slot, u64),
    /// A register of a real device that the VM has for itself, by its address on the board. The VM has the device's
    /// registers trapped.
    Register(Hpa),
    /// The VM's memory. If an access to it exits, the page is absent.
    Memory,
    /// Nothing; or the access reaches beyond the end of something.
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
    /// The destination to which all of the `bytes` bytes at `ipa` belong. An access of zero bytes goes to
    /// nothing.
    ///
    /// Where a CPU has a virtual CPU interface, a GICv2's CPU interface is nothing here: stage 2 maps it to that.
    /// Real devices that the VM has for itself are mapped, too, unless the description wants exits. Then an access
    /// that is not aligned to its size goes to nothing.
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

    /// The destination of all accesses but those to the distributor, which are the most frequent
    /// ones.
    #[inline(never)]
    fn other_destination(&self, access: &Span<Ipa>) -> Destination<'_> {
        if self.has_software_interface()
            && let Some(offset) = within(platform::GIC_V2_CPU, platform::GIC_V2_CPU_SIZE, access)
        {
            return Destination::CpuInterface(offset);
        }
        if let Some((slot, offset)) = self.slots.find(access) {
            return match slot.kind() {
                DeviceKind::Schedule | DeviceKind::Virtio(_) | DeviceKind::BackEnd => {
                    Destination::SlowSlot(slot, offset)
                }
                _ => Destination::Slot(slot, offset),
            };
        }
        if let Some((vcpu, offset)) = self.in_redistributor(access) {
            return Destination::Redistributor(vcpu, offset);
        }
        if self.config().memory.covers(access) {
            return Destination::Memory;
        }
        match self.register(access) {
            Some(at) => Destination::Register(at),
            None => Destination::Hole,
        }
    }

    /// The address on the board of the trapped registers that contain all of `access`.
    #[cold]
    #[inline(never)]
    fn register(&self, access: &Span<Ipa>) -> Option<Hpa> {
        let (at, len) = (access.start().get(), access.len());
        // Accesses have 1, 2, 4 or 8 bytes.
        if at & (len - 1) != 0 {
            return None;
        }
        // Loops take half the code of iterators here.
        for device in &self.config().devices {
            for range in &device.registers {
                let offset = at.wrapping_sub(range.ipa.get());
                if device.trapped && offset < range.len && len <= range.len - offset {
                    return range.host.checked_add(offset);
                }
            }
        }
        None
    }

    /// The redistributor that contains all of `access`, and the offset in it; a GICv2 has none.
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

/// The offset of `access` in a distributor of this version, if all of it is inside.
#[inline(always)]
fn in_distributor(access: &Span<Ipa>, gic: GicVersion) -> Option<u64> {
    let len = match gic {
        GicVersion::V2 => platform::GIC_V2_DIST_SIZE,
        GicVersion::V3 => platform::GIC_DIST_SIZE,
    };
    within(platform::GIC_DIST, len, access)
}

/// The offset of `access` in the `len` bytes from `start`, if all of it is inside.
#[inline(always)]
fn within(start: Ipa, len: u64, access: &Span<Ipa>) -> Option<u64> {
    let region = Span::new(start, len)?;
    let offset = region.offset_of(access.start())?;
    region.covers(access).then_some(offset)
}
