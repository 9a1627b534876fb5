//! What is kept of the virtual CPU's page.

use hanok_types::Hpa;

/// What the kernel's shadow tables are to have as the virtual CPU's page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuPage {
    /// The frame.
    pub frame: Hpa,
    /// Whether the doorbells cannot be written.
    pub closed: bool,
}

/// A vCPU's page.
#[derive(Debug)]
pub(crate) struct PageState {
    pub frame: Hpa,
    /// Whether the kernel has trampolines, by their number of triples; zero if it has none.
    pub triples: u32,
    /// How many doorbells are written, the first ones.
    pub doorbells: u32,
    /// Whether a call may find TPIDRURO as the kernel left it ([`Room::foresees`](hanok_abi::trampoline::Room::foresees)).
    pub foresees: bool,
    /// Where the kernel executes them.
    pub at: Option<u32>,
    /// Whether an interrupt waits that is masked.
    pub closed: bool,
    /// Whether it has been written at all.
    pub shown: bool,
}

impl PageState {
    /// The page in this frame, which is not in use.
    pub fn new(frame: Hpa) -> Self {
        Self {
            frame,
            triples: 0,
            doorbells: 0,
            foresees: false,
            at: None,
            closed: false,
            shown: false,
        }
    }

    /// It is not in use any more.
    pub fn reset(&mut self) {
        *self = Self::new(self.frame);
    }
}

/// The last invalidation of a page by the guest: where the PC was behind it, the page, and, if it was in a loop, the numbers of
/// the registers Rn and Rm there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastPage {
    pub pc: u32,
    pub page: u32,
    pub in_loop: Option<[u8; 2]>,
}
