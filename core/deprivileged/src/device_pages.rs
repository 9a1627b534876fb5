//! The pages of devices that a kernel accessed lately.

use hanok_cpu32::{SystemRegister, VirtualCpu};
use hanok_paging::short::GuestMapping;
use hanok_types::{Ipa, PAGE_SIZE};

/// How many pages of devices are remembered.
const PAGES: usize = 4;
/// The bits of an address that its page does not say.
const OFFSET: u32 = PAGE_SIZE as u32 - 1;

/// The pages of devices that the kernel accessed lately: of each the page, with bit 0 set if it may be read and bit 1 if it may
/// be written, and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DevicePages([[u32; 2]; PAGES]);

impl DevicePages {
    /// None.
    pub const NONE: Self = Self([[0; 2]; PAGES]);

    /// Remembers where the kernel's access to a device at `address` led.
    #[inline(never)]
    pub fn remember(&mut self, cpu: &VirtualCpu, address: u32, mapping: &GuestMapping) {
        // A manager's accesses are not checked, and the domain may become a client's without any invalidation.
        let manager = cpu.system(SystemRegister::Dacr) >> (2 * mapping.domain) & 2 != 0;
        if manager || !mapping.global || !cpu.mode().is_privileged() {
            return;
        }
        let rights = mapping.permissions.kernel;
        let rights = u32::from(rights.read) | u32::from(rights.write) << 1;
        if let Some(place) = self.0.get_mut(place(address)) {
            *place = [
                address & !OFFSET | rights,
                mapping.output.get() as u32 & !OFFSET,
            ];
        }
    }

    /// Where the kernel's access to a device at `address` leads, if that is remembered.
    pub fn find(&self, address: u32, write: bool) -> Option<Ipa> {
        let [page, at] = *self.0.get(place(address))?;
        let allowed = page >> u32::from(write) & 1 != 0;
        ((page ^ address) & !OFFSET == 0 && allowed)
            .then(|| Ipa::new(u64::from(at | address & OFFSET)))
    }
}

const fn place(address: u32) -> usize {
    (address / PAGE_SIZE as u32) as usize % PAGES
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanok_cpu32::{Identity, Registers};
    use hanok_paging::short::{
        MappingSize, MemoryKind, MemoryType, Permissions, Rights, Shareability,
    };

    const ADDRESS: u32 = 0xf080_500c;
    const AT: Ipa = Ipa::new(0x0801_000c);

    fn mapping() -> GuestMapping {
        let kernel = Rights {
            read: true,
            write: false,
            execute: false,
        };
        GuestMapping {
            output: AT,
            size: MappingSize::Small,
            memory: MemoryType {
                kind: MemoryKind::Device,
                shareability: Shareability::None,
            },
            global: true,
            permissions: Permissions {
                kernel,
                user: Rights::default(),
            },
            domain: 2,
            descriptor: 0,
            descriptor_at: 0,
        }
    }

    /// A kernel with this value of DACR.
    fn kernel(dacr: u32) -> VirtualCpu {
        let mut cpu = VirtualCpu::new(Identity::default());
        cpu.boot(&mut Registers::default(), 0, [0; 3]);
        cpu.set_dacr(dacr);
        cpu
    }

    #[test]
    fn a_page_is_remembered_for_what_it_allows() {
        let mut pages = DevicePages::NONE;
        pages.remember(&kernel(0x10), ADDRESS, &mapping());
        assert_eq!(pages.find(ADDRESS, false), Some(AT));
        assert_eq!(pages.find(ADDRESS, true), None);
        assert_eq!(pages.find(ADDRESS + 0x1000, false), None);
        assert_eq!(pages.find(ADDRESS + 0x4000, false), None);
        let own = GuestMapping {
            global: false,
            ..mapping()
        };
        for (dacr, mapping) in [(0x30, mapping()), (0x10, own)] {
            let mut pages = DevicePages::NONE;
            pages.remember(&kernel(dacr), ADDRESS, &mapping);
            assert_eq!(pages.find(ADDRESS, false), None);
        }
    }
}
