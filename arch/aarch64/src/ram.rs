//! A VM's RAM, through the hypervisor's identity map.

use crate::bulk;
use core::ptr;
use hanok_hal::{AccessError, GuestMemory};
use hanok_types::{Hpa, Ipa, Span};

/// One contiguous block of a VM's RAM.
///
/// Its bytes are never borrowed while the VM lives: the guest may change them at any moment,
/// so they are copied in and out by volatile or raw accesses alone.
#[derive(Clone, Copy, Debug)]
pub struct GuestRam {
    ipa: Span<Ipa>,
    host: Hpa,
}

impl GuestRam {
    /// The RAM at `ipa`, which is at `host`.
    ///
    /// # Safety
    /// The whole range is mapped one to one, writable, for ever, and given to this VM alone.
    pub unsafe fn new(ipa: Span<Ipa>, host: Hpa) -> Self {
        Self { ipa, host }
    }

    /// Where the guest sees it.
    pub fn ipa(&self) -> Span<Ipa> {
        self.ipa
    }

    /// Where it is.
    pub fn host(&self) -> Hpa {
        self.host
    }

    /// The host address of `len` bytes at `at`, if all are inside.
    pub(crate) fn host_of(&self, at: Ipa, len: u64) -> Result<*mut u8, AccessError> {
        let wanted = Span::new(at, len)
            .filter(|span| self.ipa.covers(span))
            .ok_or(AccessError::NoMemory(at))?;
        Ok((self.host.get() + (wanted.start().get() - self.ipa.start().get())) as *mut u8)
    }

    /// Sets `len` bytes at `at` to `value`; nothing where they are not all inside.
    pub(crate) fn fill(&self, at: Ipa, len: u64, value: u8) {
        if let Ok(to) = self.host_of(at, len) {
            // SAFETY: `host_of` proved the range, which is mapped and this VM's.
            unsafe { ptr::write_bytes(to, value, len as usize) };
        }
    }

    /// Sets `len` bytes at `at` to zero, also for a guest that starts with its caches off, as
    /// [`Self::clean_to_coherency`]; nothing where they are not all inside.
    pub(crate) fn zero(&self, at: Ipa, len: u64) {
        let Ok(to) = self.host_of(at, len) else {
            return;
        };
        // SAFETY: `host_of` proved the range, which is mapped and this VM's.
        unsafe { bulk::zero(to, len) };
        self.clean_to_coherency(at, len);
    }

    /// What was written to `len` bytes at `at` through the cache becomes visible to a guest
    /// that starts with its caches off (docs/architecture-review.md, "Guest images").
    pub(crate) fn clean_to_coherency(&self, at: Ipa, len: u64) {
        if let Ok(from) = self.host_of(at, len) {
            bulk::clean_to_coherency(from as u64, len);
        }
    }

    /// `len` bytes at `at`, while nobody is in the VM.
    ///
    /// # Safety
    /// While the result lives nobody else has a reference to them, and no vCPU of the VM writes
    /// there. Where a bus master might, the result is written and not read.
    pub(crate) unsafe fn bytes_mut<'a>(&self, at: Ipa, len: u64) -> Option<&'a mut [u8]> {
        let to = self.host_of(at, len).ok()?;
        // SAFETY: `host_of` proved the range; the rest is this function's contract.
        Some(unsafe { core::slice::from_raw_parts_mut(to, usize::try_from(len).ok()?) })
    }
}

impl GuestMemory for GuestRam {
    fn read(&self, at: Ipa, into: &mut [u8]) -> Result<(), AccessError> {
        let from = self.host_of(at, into.len() as u64)?;
        for (index, byte) in into.iter_mut().enumerate() {
            // SAFETY: `host_of` proved the range. Volatile, since the guest may write
            // meanwhile: each byte is read once, and any value is as good as another.
            *byte = unsafe { from.add(index).read_volatile() };
        }
        Ok(())
    }

    fn write(&self, at: Ipa, from: &[u8]) -> Result<(), AccessError> {
        let to = self.host_of(at, from.len() as u64)?;
        // SAFETY: as above; the memory is the guest's, and no Rust object lives in it.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }
}
