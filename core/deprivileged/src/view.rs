//! The memory as shadow tables are to show it.

use crate::code::{Alias, Code, Executability};
use crate::host::{Host, Stretch};
use crate::page::CpuPage;
use core::cell::Cell;
use hanok_hal::AccessError;
use hanok_paging::shadow::{FrameKind, HostFrame, HostMemory, UNCERTAIN};
use hanok_types::{Address, GuestPage, Hpa, Ipa, PAGE_SIZE};

/// Which pages the kernel may execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Executable {
    /// The sound ones.
    Sound,
    /// None.
    Nothing,
    /// This one.
    Only(GuestPage),
    /// This frame, which is to be found behind all pages.
    Slot(Hpa),
}

/// The memory as the shadow tables of one view are to show it.
pub(crate) struct View<'a, H> {
    pub host: &'a H,
    pub code: &'a Code,
    /// Which pages the kernel may execute.
    pub executable: Executable,
    /// What the kernel has as its virtual CPU's page.
    pub page: Option<CpuPage>,
    /// An absent page that was in the way.
    pub absent: Cell<Option<GuestPage>>,
    /// The stretch of memory that was asked for last.
    stretch: Cell<Option<Stretch>>,
}

impl<'a, H: Host> View<'a, H> {
    pub fn new(host: &'a H, code: &'a Code, executable: Executable) -> Self {
        Self {
            host,
            code,
            executable,
            page: None,
            absent: Cell::new(None),
            stretch: Cell::new(host.ram()),
        }
    }

    /// With the virtual CPU's page, in the kernel's view.
    pub fn with_page(self, page: Option<CpuPage>) -> Self {
        Self { page, ..self }
    }

    fn alias(&self, at: Ipa) -> Option<HostFrame> {
        let page = self.page?;
        let kind = match self.code.alias(at)? {
            Alias::Plain => FrameKind::Plain,
            Alias::Closed => FrameKind::Sealed,
            Alias::Doorbell if page.closed => FrameKind::Sealed,
            Alias::Doorbell => FrameKind::Doorbell,
        };
        Some(HostFrame {
            at: page.frame,
            kind,
        })
    }

    /// The value, or `None` after an absent page was noted.
    fn noted<T>(&self, found: Result<T, AccessError>) -> Option<T> {
        if let Err(AccessError::Absent(page)) = found {
            self.absent.set(Some(page));
        }
        found.ok()
    }

    /// The frame of a page, and whether the guest may write it.
    fn frame(&self, at: Ipa) -> Option<(Hpa, bool)> {
        match self.stretch.get().and_then(|stretch| stretch.frame(at)) {
            Some(frame) => Some((frame, true)),
            None => self.find(at),
        }
    }

    #[inline(never)]
    fn find(&self, at: Ipa) -> Option<(Hpa, bool)> {
        let stretch = self.host.stretch(at);
        if let Some(frame) = stretch.and_then(|stretch| stretch.frame(at)) {
            self.stretch.set(stretch);
            return Some((frame, true));
        }
        let frame = self.noted(self.host.frame(at))?;
        Some((frame, self.host.is_writable(at)))
    }

    fn kind(&self, at: Ipa, writable: bool) -> FrameKind {
        let Some(page) = GuestPage::of(at) else {
            return FrameKind::Sealed;
        };
        match (self.code.executability(page), self.executable) {
            (Executability::Unknown, _) if writable => FrameKind::Plain,
            (Executability::Sound, Executable::Sound) => FrameKind::Code,
            (Executability::Doubtful, Executable::Only(only)) if only == page => FrameKind::Code,
            _ => FrameKind::Sealed,
        }
    }
}

/// What tells a small page's descriptor from a large one's (DDI 0406C, B3.5.1).
const SMALL_PAGE: u32 = 1 << 1;

impl<H: Host> HostMemory for View<'_, H> {
    fn word(&self, at: Ipa) -> Option<u32> {
        self.noted(self.host.word(at))
    }

    fn words(&self, at: Ipa) -> Option<[u32; 16]> {
        self.noted(self.host.words(at))
    }

    fn page(&self, at: Ipa) -> Option<HostFrame> {
        if let Executable::Slot(at) = self.executable {
            let kind = FrameKind::Code;
            return Some(HostFrame { at, kind });
        }
        if let Some(alias) = self.alias(at) {
            return Some(alias);
        }
        let Some((frame, writable)) = self.frame(at) else {
            let (at, kind) = (self.host.device(at)?, FrameKind::Device);
            return Some(HostFrame { at, kind });
        };
        Some(HostFrame {
            at: frame,
            kind: self.kind(at, writable),
        })
    }

    fn plain_frames(&self, descriptors: &[u32; 16]) -> [u32; 16] {
        let mut frames = [UNCERTAIN; 16];
        let (Some(stretch), Some(states)) = (self.stretch.get(), self.code.states()) else {
            return frames;
        };
        if matches!(self.executable, Executable::Slot(_)) {
            return frames;
        }
        // None of these is what it seems to be.
        let aliases = self.page.and_then(|_| self.code.trampoline_pages());
        let (first, count) = aliases.unwrap_or((0, 0));
        for (place, descriptor) in frames.iter_mut().zip(descriptors) {
            let page = descriptor >> 12;
            if descriptor & SMALL_PAGE != 0
                && let Some(frame) = stretch.number(page)
                && states.is_unknown(page)
                && page.wrapping_sub(first) >= count
            {
                *place = frame;
            }
        }
        frames
    }

    fn section(&self, at: Ipa) -> Option<HostFrame> {
        if self.code.has_code_in_section(at) || !self.host.is_writable(at) {
            return None;
        }
        debug_assert!(at.is_aligned(256 * PAGE_SIZE));
        Some(HostFrame {
            at: self.host.section(at)?,
            kind: FrameKind::Plain,
        })
    }
}
