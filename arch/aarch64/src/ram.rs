//! A VM's RAM, through the hypervisor's identity map.

use core::ptr;
use hanok_config::{Blob, Sum, VmConfig};
use hanok_hal::{BadAddress, GuestMemory};
use hanok_types::{Hpa, Ipa, Span};

/// One contiguous block of a VM's RAM.
///
/// Its bytes are never borrowed: the guest may change them at any moment, so they are
/// copied in and out by volatile or raw accesses alone.
#[derive(Clone, Copy, Debug)]
pub struct GuestRam {
    ipa: Span<Ipa>,
    host: Hpa,
}

/// A blob's bytes are not those that the image tool wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Which of the VM's blobs.
    pub blob: usize,
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
    fn host_of(&self, at: Ipa, len: u64) -> Result<*mut u8, BadAddress> {
        let wanted = Span::new(at, len)
            .filter(|span| self.ipa.covers(span))
            .ok_or(BadAddress(at))?;
        Ok((self.host.get() + (wanted.start().get() - self.ipa.start().get())) as *mut u8)
    }

    /// Makes the RAM what a life begins with: the blobs at their places, zero elsewhere.
    /// `payload` is what blobs are offsets into.
    pub fn load(
        &self,
        config: &VmConfig,
        payload: &[u8],
        seed: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Damaged> {
        self.zero_around(&config.blobs);
        for (index, blob) in config.blobs.iter().enumerate() {
            self.place(blob, payload, seed)
                .ok_or(Damaged { blob: index })?;
        }
        self.clean_to_coherency();
        Ok(())
    }

    /// Zeroes what no blob covers.
    fn zero_around(&self, blobs: &[Blob]) {
        let end = self.ipa.end().get();
        let mut at = self.ipa.start().get();
        while at < end {
            // The blob that comes next; blobs do not overlap.
            let next = blobs
                .iter()
                .map(|blob| (blob.load.get(), blob.load.get().saturating_add(blob.len)))
                .filter(|(_, blob_end)| *blob_end > at)
                .min();
            let (gap_end, resume) = next.map_or((end, end), |(start, stop)| (start.min(end), stop));
            if let Ok(from) = self.host_of(Ipa::new(at), gap_end.saturating_sub(at)) {
                // SAFETY: `host_of` proved the range, which is mapped and this VM's.
                unsafe { ptr::write_bytes(from, 0, gap_end.saturating_sub(at) as usize) };
            }
            at = resume.max(at + 1);
        }
    }

    fn place(&self, blob: &Blob, payload: &[u8], seed: &mut dyn FnMut(&mut [u8])) -> Option<()> {
        /// Copied and summed while it is in the cache.
        const CHUNK: usize = 16 * 1024;
        let from = usize::try_from(blob.offset).ok()?;
        let bytes = payload.get(from..from.checked_add(usize::try_from(blob.len).ok()?)?)?;
        let to = self.host_of(blob.load, blob.len).ok()?;
        let mut sum = Sum::new();
        for (index, chunk) in bytes.chunks(CHUNK).enumerate() {
            sum.update(chunk);
            // SAFETY: `host_of` proved `blob.len` bytes at `to`; the payload is elsewhere.
            unsafe { ptr::copy_nonoverlapping(chunk.as_ptr(), to.add(index * CHUNK), chunk.len()) };
        }
        if sum.finish() != blob.sum {
            return None;
        }
        for (offset, len) in &blob.seeds {
            let mut random = [0; 64];
            let random = random.get_mut(..*len as usize)?;
            seed(random);
            self.write(
                Ipa::new(blob.load.get().checked_add(u64::from(*offset))?),
                random,
            )
            .ok()?;
        }
        Some(())
    }

    /// What was written through the cache becomes visible to a guest that starts with its
    /// caches off, and to instruction fetches (docs/architecture-review.md, "Guest images").
    fn clean_to_coherency(&self) {
        // CTR_EL0.DminLine: log2 of the words in the smallest line.
        let line = 4 << (crate::read!("ctr_el0") >> 16 & 0xf);
        let start = self.host.get();
        for at in (start..start + self.ipa.len()).step_by(line) {
            // SAFETY: cache maintenance on this VM's own mapped RAM changes no value.
            unsafe {
                core::arch::asm!("dc civac, {}", in(reg) at, options(nostack, preserves_flags))
            };
        }
        crate::sysreg::dsb_sy();
        // SAFETY: instruction cache maintenance changes no value.
        unsafe {
            core::arch::asm!(
                "ic ialluis",
                "dsb sy",
                "isb",
                options(nostack, preserves_flags)
            )
        };
    }
}

impl GuestMemory for GuestRam {
    fn read(&self, at: Ipa, into: &mut [u8]) -> Result<(), BadAddress> {
        let from = self.host_of(at, into.len() as u64)?;
        for (index, byte) in into.iter_mut().enumerate() {
            // SAFETY: `host_of` proved the range. Volatile, since the guest may write
            // meanwhile: each byte is read once, and any value is as good as another.
            *byte = unsafe { from.add(index).read_volatile() };
        }
        Ok(())
    }

    fn write(&self, at: Ipa, from: &[u8]) -> Result<(), BadAddress> {
        let to = self.host_of(at, from.len() as u64)?;
        // SAFETY: as above; the memory is the guest's, and no Rust object lives in it.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }
}
