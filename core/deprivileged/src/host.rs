//! The guest's memory on the board.

use hanok_hal::AccessError;
use hanok_types::{GuestPage, Hpa, Ipa, PAGE_SIZE, Span};

/// RAM that the guest may write, and whose pages follow each other in the host, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The number of its first page, how many pages it has, and the number of its first frame: with 32 bits only, as it is asked for each
    /// neighbour of a page that is filled.
    first: u32,
    pages: u32,
    frame: u32,
}

impl Stretch {
    /// The guest's addresses `span`, whose frames begin at `host`; `None` beyond 16 TiB.
    pub fn new(span: Span<Ipa>, host: Hpa) -> Option<Self> {
        let number = |bytes: u64| u32::try_from(bytes / PAGE_SIZE).ok();
        Some(Self {
            first: number(span.start().get())?,
            pages: number(span.len())?,
            frame: number(host.get())?,
        })
    }

    /// The number of the frame of the page with this number, if it is in there.
    pub fn number(&self, page: u32) -> Option<u32> {
        let offset = page.wrapping_sub(self.first);
        (offset < self.pages).then_some(self.frame.wrapping_add(offset))
    }

    /// The frame of the page at `at`, if it is in there.
    pub fn frame(&self, at: Ipa) -> Option<Hpa> {
        let frame = self.number(GuestPage::of(at)?.number())?;
        Some(Hpa::new(u64::from(frame) * PAGE_SIZE))
    }
}

/// A VM's memory, and the caches over it.
pub trait Host {
    /// The aligned word at `at`.
    fn word(&self, at: Ipa) -> Result<u32, AccessError>;
    /// The sixteen words at `at`, which is a multiple of their size.
    fn words(&self, at: Ipa) -> Result<[u32; 16], AccessError> {
        let mut words = [0; 16];
        for (word, offset) in words.iter_mut().zip((0..).step_by(4)) {
            *word = self.word(Ipa::new(at.get() + offset))?;
        }
        Ok(words)
    }
    /// Sets the aligned word at `at`, in memory that the guest may write or not, and makes it visible
    /// to fetches, once [`Self::synchronize_fetches`] is done.
    fn set_word(&self, at: Ipa, value: u32) -> Result<(), AccessError>;
    /// Stores bytes, as the guest would: two or four that are aligned to their number at once.
    fn store(&self, at: Ipa, bytes: &[u8]) -> Result<(), AccessError>;
    /// Makes the 32 bytes at `at`, in a frame that the monitor has of its memory for tables, visible to fetches of this CPU.
    fn show_code(&self, at: Hpa);
    /// Makes all CPUs fetch instructions as they are in memory now.
    fn synchronize_fetches(&self);
    /// Makes what was written to the page of `at` visible to fetches: the lines of a guest's caches are as long as a page, or
    /// shorter.
    fn clean(&self, at: Ipa);
    /// The frame behind the page at `at`.
    fn frame(&self, at: Ipa) -> Result<Hpa, AccessError>;
    /// The page of registers behind the page at `at`, if the VM has the device for itself and has it mapped.
    fn device(&self, at: Ipa) -> Option<Hpa> {
        let _ = at;
        None
    }
    /// Whether the VM has memory or mapped registers at `at`, present or not.
    fn has(&self, at: Ipa) -> bool {
        !matches!(self.frame(at), Err(AccessError::NoMemory(_))) || self.device(at).is_some()
    }
    /// The frames behind the megabyte at `at`, if it is all RAM, contiguous and aligned to a megabyte.
    fn section(&self, at: Ipa) -> Option<Hpa>;
    /// The stretch that most accesses lead to, if it is known at once.
    fn ram(&self) -> Option<Stretch> {
        None
    }
    /// The stretch around `at`, if no page of it is ever taken.
    fn stretch(&self, at: Ipa) -> Option<Stretch> {
        let _ = at;
        None
    }
    /// Whether the guest may write the memory at `at`.
    fn is_writable(&self, at: Ipa) -> bool;
    /// Whether an interrupt waits for this CPU, on which interrupts are masked: work that could go on is to be left for later.
    fn is_interrupted(&self) -> bool {
        false
    }
    /// Interrupts the vCPU with this number, if its guest runs.
    fn kick(&self, vcpu: usize);
}
