//! The memory of a ring, by addresses of the VM. The hypervisor reads and writes it meanwhile, as what a ring's indices say.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU16;

/// The bytes of a huge page: with tables of 4 KiB it is what one entry of the last but one level maps.
pub const SIZE: usize = 2 << 20;
/// The bytes of a small page, from a multiple of which on memory is mapped.
const SMALL: usize = 4096;

/// A small page.
#[repr(align(4096))]
struct SmallPage(#[expect(dead_code, reason = "it is only reached by its address")] [u8; SMALL]);

/// The bytes of a page, and where they are for the hypervisor.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    place: NonNull<u8>,
    base: u64,
}

// SAFETY: it is memory of the whole process, which stays mapped.
unsafe impl Send for Memory {}

impl Memory {
    /// The page at `place`, whose address in the VM is `base`.
    ///
    /// # Safety
    ///
    /// [`SIZE`] bytes are mapped there for ever, from a multiple of two on, and no reference leads there.
    pub const unsafe fn new(place: NonNull<u8>, base: u64) -> Self {
        Self { place, base }
    }

    /// Memory that is no page, for tests: `base` is its address.
    pub fn made_up(base: u64) -> Self {
        let small: Box<[SmallPage]> = (0..SIZE / SMALL).map(|_| SmallPage([0; SMALL])).collect();
        let place = NonNull::from(Box::leak(small)).cast();
        // SAFETY: it is leaked, and of this size.
        unsafe { Self::new(place, base) }
    }

    /// Its address in the VM.
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// Where the process has its first byte.
    pub const fn place(&self) -> NonNull<u8> {
        self.place
    }

    /// The place of `len` bytes from `at` on; `None` if they are not all in it.
    fn find(&self, at: u64, len: usize) -> Option<*mut u8> {
        let offset = usize::try_from(at.checked_sub(self.base)?).ok()?;
        let inside = offset.checked_add(len)? <= SIZE;
        inside.then(|| self.place.as_ptr().wrapping_add(offset))
    }

    /// Copies what is from `at` on; `None` if that is not all in it.
    #[must_use]
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> Option<()> {
        let from = self.find(at, bytes.len())?;
        // SAFETY: so many bytes are mapped there, of which no reference exists. What the hypervisor changes meanwhile is a request
        // of which nothing is known anyway.
        unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        Some(())
    }

    /// Copies `bytes` to `at` and on; `None` if there is no room.
    #[must_use]
    pub fn write(&self, at: u64, bytes: &[u8]) -> Option<()> {
        let to = self.find(at, bytes.len())?;
        // SAFETY: as above.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Some(())
    }

    /// The half word at `at`; `None` if there is none.
    pub fn half(&self, at: u64) -> Option<&AtomicU16> {
        let half = self.find(at, 2)?.cast::<u16>();
        // SAFETY: it is mapped, aligned, and otherwise accessed by copies that no reference is made for.
        half.is_aligned()
            .then(|| unsafe { AtomicU16::from_ptr(half) })
    }
}
