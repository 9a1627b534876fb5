//! A VM's RAM, through the hypervisor's identity map.

use crate::bulk;
use core::ptr;
use core::sync::atomic::{AtomicU16, Ordering};
use hanok_hal::{AccessError, End, GuestMemory, VmMemory};
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
    /// The whole range is mapped one to one, writable, for ever, and given to this VM alone; so is every
    /// frame that [`VmMemory::part`] is called with.
    pub unsafe fn new(ipa: Span<Ipa>, host: Hpa) -> Self {
        Self { ipa, host }
    }

    /// The host address of `len` bytes at `at`, if all are inside. Each access to a queue comes here several times, so it is to take few
    /// instructions.
    #[inline(always)]
    fn host_of(&self, at: Ipa, len: u64) -> Result<*mut u8, AccessError> {
        // An address below the RAM gives an offset beyond it.
        let offset = at.get().wrapping_sub(self.ipa.start().get());
        let room = self.ipa.len().checked_sub(len);
        match room {
            Some(room) if offset <= room => Ok((self.host.get() + offset) as *mut u8),
            _ => Err(AccessError::NoMemory(at)),
        }
    }

    /// [`Self::host_of`] for what is not frequent: the image has room for it once.
    #[inline(never)]
    fn large(&self, at: Ipa, len: u64) -> Option<*mut u8> {
        self.host_of(at, len).ok()
    }

    /// The 16 bits at an even address.
    #[inline(always)]
    fn half(&self, at: Ipa) -> Result<&AtomicU16, AccessError> {
        let half = self.host_of(at, 2)?.cast::<u16>();
        if !half.is_aligned() {
            return Err(AccessError::NoMemory(at));
        }
        // SAFETY: `host_of` proved the range, and it is aligned. Whatever the guest does with it meanwhile is an access by
        // another CPU, which an atomic one bears.
        Ok(unsafe { AtomicU16::from_ptr(half) })
    }
}

impl VmMemory for GuestRam {
    const COPIED: u64 = bulk::COPIED;
    const LINES: u64 = bulk::LINES;

    fn ipa(&self) -> Span<Ipa> {
        self.ipa
    }

    fn host(&self) -> Hpa {
        self.host
    }

    fn fill(&self, at: Ipa, len: u64, value: u8) {
        if let Some(to) = self.large(at, len) {
            // SAFETY: `host_of` proved the range, which is mapped and this VM's.
            unsafe { ptr::write_bytes(to, value, len as usize) };
        }
    }

    fn zero(&self, at: Ipa, len: u64) {
        let Some(to) = self.large(at, len) else {
            return;
        };
        // SAFETY: `host_of` proved the range, which is mapped and this VM's.
        unsafe { bulk::zero_and_clean(to, len) };
    }

    /// See docs/architecture-review.md, "Guest images".
    fn clean(&self, at: Ipa, len: u64) {
        if let Some(from) = self.large(at, len) {
            bulk::clean_to_coherency(from as u64, len);
        }
    }

    fn overwrite<R>(&self, at: Ipa, len: u64, write: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let to = self.large(at, len)?;
        // SAFETY: `host_of` proved the range, which is mapped and this VM's, and no Rust object lives
        // there. By the trait's contract no vCPU is in the VM, and the one caller makes its memory: no
        // other reference exists while this one does, which ends with `write`.
        let bytes = unsafe { core::slice::from_raw_parts_mut(to, usize::try_from(len).ok()?) };
        Some(write(bytes))
    }

    fn part(&self, ipa: Span<Ipa>, host: Hpa) -> Self {
        Self { ipa, host }
    }

    fn pass(
        &self,
        at: Ipa,
        (to, there): (&Self, Ipa),
        bytes: u32,
    ) -> Result<(), (End, AccessError)> {
        let from = self.host_of(at, bytes.into());
        let from = from.map_err(|error| (End::From, error))?;
        let into = to.host_of(there, bytes.into());
        let into = into.map_err(|error| (End::To, error))?;
        // SAFETY: `host_of` proved both ranges, which are mapped as normal memory. Where a VM's own two ranges overlap, some bytes are as
        // they were and others as they are: no Rust object lives there.
        unsafe { bulk::copy(from, into, bytes as usize) };
        Ok(())
    }

    fn copy_to(&self, to: Hpa) {
        let len = self.ipa.len();
        // Cache lines may be older than data in memory that the guest wrote with its caches off.
        bulk::clean_to_coherency(self.host.get(), len);
        let (from, into) = (self.host.get() as *const u8, to.get() as *mut u8);
        // SAFETY: both are mapped one to one, and the VM's or on their way to it, by the traits'
        // contract; they are different frames, and no Rust object lives in either.
        unsafe { ptr::copy_nonoverlapping(from, into, len as usize) };
        bulk::clean_to_coherency(to.get(), len);
    }
}

impl GuestMemory for GuestRam {
    // Inlined, as is `write`: a call more would be a third of what an access to a queue takes.
    #[inline(always)]
    fn read(&self, at: Ipa, into: &mut [u8]) -> Result<(), AccessError> {
        let from = self.host_of(at, into.len() as u64)?;
        // SAFETY: `host_of` proved the range, which is mapped as normal memory, and `into` has as many bytes.
        unsafe { bulk::copy(from, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    #[inline(always)]
    fn write(&self, at: Ipa, from: &[u8]) -> Result<(), AccessError> {
        let to = self.host_of(at, from.len() as u64)?;
        // SAFETY: as above; the memory is the guest's, and no Rust object lives in it.
        unsafe { bulk::copy(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    #[inline]
    fn load_half(&self, at: Ipa) -> Result<u16, AccessError> {
        self.half(at)
            .map(|half| u16::from_le(half.load(Ordering::Relaxed)))
    }

    #[inline]
    fn store_half(&self, at: Ipa, value: u16) -> Result<(), AccessError> {
        let half = self.half(at)?;
        half.store(value.to_le(), Ordering::Relaxed);
        Ok(())
    }
}
