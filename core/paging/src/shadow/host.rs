//! The host's memory behind a guest's.

use crate::short::{Privilege, Rights};
use hanok_types::{Hpa, Ipa};

/// What a frame of RAM allows, whatever the guest's tables say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Nothing in it is proven: it may be written, and the guest's kernel may not execute it.
    /// Programs may, as all that User mode does there is what it would do without a hypervisor.
    Plain,
    /// It holds proven code: nobody may write it, and the kernel may execute it.
    Code,
    /// Nobody may write it, and the kernel may not execute it.
    Sealed,
    /// As [`Self::Plain`], until [`Shadow::close_doorbells`](super::Shadow::close_doorbells).
    Doorbell,
    /// Registers of a device. Nobody executes them, and they are Device or strongly-ordered whatever the guest's
    /// tables say.
    Device,
}

impl FrameKind {
    /// What is left of the rights of one view.
    pub(super) fn limit(self, rights: Rights, view: Privilege) -> Rights {
        let writable = matches!(self, Self::Plain | Self::Doorbell | Self::Device);
        let executable = match self {
            Self::Code => true,
            Self::Device => false,
            _ => view == Privilege::User,
        };
        Rights {
            read: rights.read,
            write: rights.write && writable,
            execute: rights.execute && executable,
        }
    }
}

/// A frame of RAM or of a device's registers, or several of RAM that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostFrame {
    /// The first address; below 4 GiB, or a short descriptor cannot hold it.
    pub at: Hpa,
    /// What it allows.
    pub kind: FrameKind,
}

/// Of [`HostMemory::plain_frames`]: no frame has this number.
pub const UNCERTAIN: u32 = u32::MAX;

/// A guest's memory and the frames behind it. Any address may be asked for.
pub trait HostMemory {
    /// The 32-bit word of guest memory at `at`, as a little-endian CPU loads it; `None` if the
    /// guest has no memory there. Where a page is absent for now, an implementation notes that and
    /// answers `None`; the caller then drops the result and waits for the page.
    fn word(&self, at: Ipa) -> Option<u32>;

    /// The sixteen words from `at` on, which is a multiple of their size, as [`Self::word`].
    fn words(&self, at: Ipa) -> Option<[u32; 16]> {
        let mut words = [0; 16];
        for (word, offset) in words.iter_mut().zip((0..).step_by(4)) {
            *word = self.word(Ipa::new(at.get() + offset))?;
        }
        Some(words)
    }

    /// The frame behind the page at `at`, of RAM or of a device that the guest has for itself; `None` for another
    /// device, for a page that is absent, and where nothing is.
    fn page(&self, at: Ipa) -> Option<HostFrame>;

    /// The number of the frame behind each page that one of sixteen descriptors of small pages leads to, little-endian, where it is known
    /// at once that [`Self::page`] would answer it as [`FrameKind::Plain`]; [`UNCERTAIN`] says nothing. It is asked for the
    /// neighbours of a page that is filled.
    fn plain_frames(&self, descriptors: &[u32; 16]) -> [u32; 16] {
        let _ = descriptors;
        [UNCERTAIN; 16]
    }

    /// The frames behind the megabyte at `at`, if it is all RAM, contiguous and aligned to a
    /// megabyte, and all of one kind.
    fn section(&self, at: Ipa) -> Option<HostFrame> {
        let _ = at;
        None
    }
}
