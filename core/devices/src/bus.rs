//! The bus: which device answers at an address.

use hanok_types::{GicVersion, Ipa, Span, VcpuId, Width, platform};

/// One access of a guest to an address that is not memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The first byte's address.
    pub ipa: Ipa,
    /// How many bytes.
    pub width: Width,
    /// Whether it stores.
    pub write: bool,
    /// What it stores; bits above the width do not count. Zero for a load.
    pub value: u64,
}

impl Access {
    /// A load.
    pub const fn load(ipa: Ipa, width: Width) -> Self {
        Self {
            ipa,
            width,
            write: false,
            value: 0,
        }
    }

    /// A store of `value`.
    pub const fn store(ipa: Ipa, width: Width, value: u64) -> Self {
        Self {
            ipa,
            width,
            write: true,
            value,
        }
    }
}

/// A device of the virtual platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The interrupt controller's distributor, of either version.
    GicDist,
    /// A GICv3's redistributor of a vCPU, both frames.
    GicRedist(VcpuId),
    /// The PL011 serial port.
    Uart,
    /// The PL031 real-time clock.
    Rtc,
    /// A virtio-mmio transport, by its number.
    VirtioMmio(u8),
    /// Both banks of flash.
    Flash,
}

/// Where a region of the platform begins, its length, and what it is.
const REGIONS: [(Ipa, u64, Device); 3] = [
    (platform::FLASH, platform::FLASH_SIZE, Device::Flash),
    (platform::UART, platform::PRIMECELL_SIZE, Device::Uart),
    (platform::RTC, platform::PRIMECELL_SIZE, Device::Rtc),
];

/// The device that holds all of the `bytes` bytes at `ipa`, and how far inside it `ipa`
/// lies, in a VM of `vcpus` vCPUs and an interrupt controller of version `gic`.
///
/// A GICv2's CPU interface is no device: it is memory to the guest, mapped to the CPU's
/// virtual one.
///
/// `None` where nothing is, or where the access runs over a device's end: the guest gets a
/// synchronous external abort. One of zero bytes is none either.
#[inline(always)]
pub fn locate(ipa: Ipa, bytes: u64, vcpus: usize, gic: GicVersion) -> Option<(Device, u64)> {
    let access = Span::new(ipa, bytes).filter(|access| !access.is_empty())?;
    distributor(&access, gic).or_else(|| others(&access, vcpus, gic))
}

/// All but the distributor, to which most accesses go.
#[inline(never)]
fn others(access: &Span<Ipa>, vcpus: usize, gic: GicVersion) -> Option<(Device, u64)> {
    REGIONS
        .iter()
        .find_map(|(start, len, device)| within(*start, *len, access).map(|at| (*device, at)))
        .or_else(|| redistributor(access, vcpus, gic))
        .or_else(|| transport(access))
}

/// How far `access` lies inside the `len` bytes from `start`, if all of it does.
#[inline(always)]
fn within(start: Ipa, len: u64, access: &Span<Ipa>) -> Option<u64> {
    let region = Span::new(start, len)?;
    let offset = region.offset_of(access.start())?;
    region.covers(access).then_some(offset)
}

#[inline(always)]
fn distributor(access: &Span<Ipa>, gic: GicVersion) -> Option<(Device, u64)> {
    let len = match gic {
        GicVersion::V2 => platform::GIC_V2_DIST_SIZE,
        GicVersion::V3 => platform::GIC_DIST_SIZE,
    };
    within(platform::GIC_DIST, len, access).map(|offset| (Device::GicDist, offset))
}

fn redistributor(access: &Span<Ipa>, vcpus: usize, gic: GicVersion) -> Option<(Device, u64)> {
    if gic == GicVersion::V2 {
        return None;
    }
    let stride = platform::GIC_REDIST_STRIDE;
    let (index, offset) = element(platform::GIC_REDIST, stride, vcpus as u64, access)?;
    Some((Device::GicRedist(VcpuId::new(index)), offset))
}

fn transport(access: &Span<Ipa>) -> Option<(Device, u64)> {
    let (stride, slots) = (platform::VIRTIO_STRIDE, platform::VIRTIO_SLOTS);
    let (index, offset) = element(platform::VIRTIO, stride, slots, access)?;
    Some((Device::VirtioMmio(index), offset))
}

/// Which of `count` regions of `stride` bytes each, one after the other, `access` lies in,
/// and how far inside.
fn element(start: Ipa, stride: u64, count: u64, access: &Span<Ipa>) -> Option<(u8, u64)> {
    let from = within(start, stride.checked_mul(count)?, access)?;
    let (index, offset) = (from / stride, from % stride);
    let fits = offset.checked_add(access.len())? <= stride;
    let index = u8::try_from(index).ok()?;
    fits.then_some((index, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ipa: u64) -> Option<(Device, u64)> {
        locate(Ipa::new(ipa), 4, 4, GicVersion::V3)
    }

    fn v3(ipa: Ipa, bytes: u64, vcpus: usize) -> Option<(Device, u64)> {
        locate(ipa, bytes, vcpus, GicVersion::V3)
    }

    #[test]
    fn a_gicv2_has_its_distributor_alone() {
        let at = |ipa| locate(Ipa::new(ipa), 4, 4, GicVersion::V2);
        assert_eq!(at(0x0800_0ffc), Some((Device::GicDist, 0xffc)));
        for ipa in [
            0x0800_1000,
            0x0800_fffc,
            0x0801_0000,
            0x0801_1000,
            0x080a_0000,
        ] {
            assert_eq!(at(ipa), None, "{ipa:#x}");
        }
        assert_eq!(at(0x0900_0018), Some((Device::Uart, 0x18)));
    }

    #[test]
    fn devices_are_where_qemu_has_them() {
        assert_eq!(at(0x07ff_fffc), Some((Device::Flash, 0x07ff_fffc)));
        assert_eq!(at(0x0800_fffc), Some((Device::GicDist, 0xfffc)));
        assert_eq!(
            at(0x080c_0008),
            Some((Device::GicRedist(VcpuId::new(1)), 8))
        );
        assert_eq!(at(0x0900_0018), Some((Device::Uart, 0x18)));
        assert_eq!(at(0x0901_0ffc), Some((Device::Rtc, 0xffc)));
        assert_eq!(at(0x0a00_0204), Some((Device::VirtioMmio(1), 4)));
        assert_eq!(at(0x0a00_3ffc), Some((Device::VirtioMmio(31), 0x1fc)));
    }

    /// Whoever moves several words within a page asks for the first and the last alone.
    #[test]
    fn a_page_is_of_devices_throughout_or_of_none() {
        for gic in [GicVersion::V2, GicVersion::V3] {
            for page in (0x07ff_f000..0x0b00_0000).step_by(0x1000) {
                let there = |at| locate(Ipa::new(at), 4, 5, gic).is_some();
                let mut words = (page..page + 0x1000).step_by(4);
                assert!(words.all(|at| there(at) == there(page)), "{page:#x}");
            }
        }
    }

    #[test]
    fn between_them_is_nothing() {
        for ipa in [
            0x0801_0000,
            0x0812_0000,
            0x0900_1000,
            0x0901_1000,
            0x0a00_4000,
            0x3f00_0000,
            0x4000_0000,
            1 << 39,
            u64::MAX,
            u64::MAX - 3,
        ] {
            assert_eq!(at(ipa), None, "{ipa:#x}");
        }
    }

    #[test]
    fn a_redistributor_is_there_for_each_vcpu_alone() {
        let last = Ipa::new(0x080a_0000 + 3 * 0x2_0000);
        assert!(v3(last, 8, 4).is_some());
        assert_eq!(v3(last, 8, 3), None);
        assert_eq!(v3(last, 8, 0), None);
        assert!(v3(last, 8, usize::MAX).is_none());
    }

    #[test]
    fn an_access_over_the_end_finds_nothing() {
        for end in [
            0x0800_0000,
            0x0801_0000,
            0x080c_0000,
            0x0900_1000,
            0x0a00_0200,
        ] {
            assert_eq!(v3(Ipa::new(end - 2), 4, 4), None, "{end:#x}");
        }
        assert_eq!(v3(Ipa::new(0x0900_0000), 0, 4), None);
        assert_eq!(v3(Ipa::new(0x0900_0000), u64::MAX, 4), None);
    }
}
