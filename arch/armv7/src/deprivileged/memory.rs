//! A VM's memory, as the monitor reaches it: by the hypervisor's own translation, in which all RAM is
//! mapped one to one.

use crate::Host;
use crate::maintain;
use hanok_arm_common::bulk;
use hanok_arm_common::sysreg::{dsb_ish, isb};
use hanok_deprivileged::Stretch;
use hanok_hal::{AccessError, Backend, GuestMemory};
use hanok_memory::{Page, Region, RegionKind};
use hanok_pcpu::{Board, VmUnit};
use hanok_types::{Address, Hpa, Ipa, PAGE_SIZE, Span, VcpuId};

/// The bytes of a section.
const SECTION: u64 = 1 << 20;

/// The memory of a VM, and the board that its vCPUs run on.
#[derive(Clone, Copy)]
pub struct GuestHost {
    pub unit: &'static VmUnit<Host>,
    pub board: &'static Board<Host>,
    /// The VM's RAM, if no page of it is ever taken: what is in there is found without a lock.
    pub ram: Option<Stretch>,
}

impl GuestHost {
    #[inline(always)]
    fn find(self, at: Ipa) -> Result<Hpa, AccessError> {
        match self.ram.and_then(|ram| ram.frame(at)) {
            Some(frame) => Ok(Hpa::new(frame.get() | (at.get() % PAGE_SIZE))),
            None => self.find_elsewhere(at),
        }
    }

    #[inline(never)]
    fn find_elsewhere(self, at: Ipa) -> Result<Hpa, AccessError> {
        self.unit.memory.lock().find(at)
    }
}

impl GuestHost {
    /// Stores fewer than four bytes: two that are aligned at once.
    fn store_part(self, at: Ipa, bytes: &[u8]) -> Result<(), AccessError> {
        let Ok(value) = <[u8; 2]>::try_from(bytes) else {
            return self.unit.write(at, bytes);
        };
        if !at.is_aligned(2) {
            return self.unit.write(at, bytes);
        }
        let here = self.find(at)?.get() as *mut u16;
        // SAFETY: an aligned halfword of the VM's memory, in which no Rust object lives.
        unsafe { here.write_volatile(u16::from_le_bytes(value)) };
        maintain!(0 7 11 1, here as u32); // DCCMVAU
        Ok(())
    }
}

impl hanok_deprivileged::Host for GuestHost {
    fn word(&self, at: Ipa) -> Result<u32, AccessError> {
        let here = self.find(at)?.get() as *const u32;
        // SAFETY: an aligned word of the VM's memory, which is mapped one to one. Volatile, since the
        // guest may write meanwhile, and any value is as good as another.
        Ok(unsafe { here.read_volatile() })
    }

    fn words(&self, at: Ipa) -> Result<[u32; 16], AccessError> {
        let here = self.find(at)?.get() as *const [u32; 16];
        // SAFETY: as above; they are in one page, as they are aligned.
        Ok(unsafe { here.read_volatile() })
    }

    fn set_word(&self, at: Ipa, value: u32) -> Result<(), AccessError> {
        let here = self.find(at)?.get() as *mut u32;
        // SAFETY: as above; the memory is the guest's, and no Rust object lives in it.
        unsafe { here.write_volatile(value) };
        maintain!(0 7 11 1, here as u32); // DCCMVAU
        Ok(())
    }

    fn store(&self, at: Ipa, bytes: &[u8]) -> Result<(), AccessError> {
        let Ok(value) = <[u8; 4]>::try_from(bytes) else {
            return self.store_part(at, bytes);
        };
        if !at.is_aligned(4) {
            return self.unit.write(at, bytes);
        }
        let here = self.find(at)?.get() as *mut u32;
        // SAFETY: an aligned word of the VM's memory, in which no Rust object lives.
        unsafe { here.write_volatile(u32::from_le_bytes(value)) };
        maintain!(0 7 11 1, here as u32); // DCCMVAU
        Ok(())
    }

    fn synchronize_fetches(&self) {
        // What was cleaned has to be there before fetches may find it (DDI 0406C, A3.5.4).
        dsb_ish();
        bulk::invalidate_instruction_caches();
        isb();
    }

    fn show_code(&self, at: Hpa) {
        bulk::clean_to_coherency(at.get(), 32);
        self.synchronize_fetches();
    }

    fn clean(&self, at: Ipa) {
        if let Ok(here) = self.find(at.align_down(PAGE_SIZE)) {
            bulk::clean_to_coherency(here.get(), PAGE_SIZE);
        }
    }

    fn frame(&self, at: Ipa) -> Result<Hpa, AccessError> {
        self.find(at)
    }

    /// Kept out of line, as each of its callers would have a copy.
    #[cold]
    #[inline(never)]
    fn device(&self, at: Ipa) -> Option<Hpa> {
        self.unit.memory.lock().device(at)
    }

    #[cold]
    #[inline(never)]
    fn has(&self, at: Ipa) -> bool {
        self.unit.memory.lock().region_of(at).is_some()
    }

    fn section(&self, at: Ipa) -> Option<Hpa> {
        let span = Span::new(at, SECTION)?;
        let space = self.unit.memory.lock();
        let region = space.region_of(at)?;
        let whole = space.is_fixed() && region.kind == RegionKind::Ram && region.span.covers(&span);
        let Page::Present(here) = space.page(at) else {
            return None;
        };
        (whole && here.is_aligned(SECTION)).then_some(here)
    }

    fn ram(&self) -> Option<Stretch> {
        self.ram
    }

    #[cold]
    #[inline(never)]
    fn stretch(&self, at: Ipa) -> Option<Stretch> {
        let space = self.unit.memory.lock();
        let Region { span, host, kind } = *space.region_of(at)?;
        let is_fixed = kind == RegionKind::Ram && space.is_fixed();
        Stretch::new(span, host).filter(|_| is_fixed)
    }

    fn is_writable(&self, at: Ipa) -> bool {
        let space = self.unit.memory.lock();
        space
            .region_of(at)
            .is_some_and(|region| region.kind.is_writable())
    }

    fn is_interrupted(&self) -> bool {
        self.board.machine.interrupt_is_pending()
    }

    fn kick(&self, vcpu: usize) {
        self.unit.vm.kick(self.board, VcpuId::new(vcpu as u8));
    }
}
