//! What the multiplexer keeps of each VM: output that is not shown yet, input not fetched.

use heapless::Deque;

/// Bytes of a VM's output that are kept while another one is shown.
const HELD: usize = 4096;
/// Bytes typed for a VM that it has not fetched.
const INPUT: usize = 2048;
/// Bytes of the hypervisor's own text that wait for the line.
const SAID: usize = 16384;
/// After how many consumed bytes of input the other end is told.
const ACKNOWLEDGED: u32 = 256;

/// Text of the hypervisor's own that waits for the line.
pub type Said = Deque<u8, SAID>;

/// The queues of a [`Multiplexer`](super::Multiplexer), in memory of the caller's.
#[derive(Debug)]
pub struct Buffers<'b> {
    /// The hypervisor's own text.
    pub said: &'b mut Said,
    /// One for each VM.
    pub guests: &'b mut [PortQueues],
}

/// One VM's queues.
#[derive(Debug)]
pub struct PortQueues {
    held: Deque<u8, HELD>,
    overwritten: u32,
    input: Deque<u8, INPUT>,
    /// Bytes of input that were dropped, since the board started.
    pub(super) dropped: u32,
    /// Input has been dropped, and none taken since.
    overrun: bool,
    consumed: u32,
}

impl PortQueues {
    /// Empty ones.
    #[allow(
        clippy::new_without_default,
        reason = "by value it would be on a stack"
    )]
    pub const fn new() -> Self {
        Self {
            held: Deque::new(),
            overwritten: 0,
            input: Deque::new(),
            dropped: 0,
            overrun: false,
            consumed: 0,
        }
    }

    /// Keeps a byte of output, at the cost of the oldest one.
    pub(super) fn hold(&mut self, byte: u8) {
        if self.held.is_full() {
            self.held.pop_front();
            self.overwritten = self.overwritten.saturating_add(1);
        }
        let _ = self.held.push_back(byte);
    }

    /// The oldest byte of output that is kept.
    pub(super) fn held(&self) -> Option<u8> {
        self.held.front().copied()
    }

    /// Forgets that byte: it was sent.
    pub(super) fn release(&mut self) {
        self.held.pop_front();
    }

    /// How many bytes of output were overwritten since this was last asked.
    pub(super) fn take_overwritten(&mut self) -> u32 {
        core::mem::take(&mut self.overwritten)
    }

    /// Keeps a byte of input, or drops it where there is no room; whether that is worth a
    /// word: the first one dropped after one that was taken.
    pub(super) fn give(&mut self, byte: u8) -> bool {
        if self.input.push_back(byte).is_ok() {
            return false;
        }
        self.dropped = self.dropped.saturating_add(1);
        self.consumed = self.consumed.saturating_add(1);
        !core::mem::replace(&mut self.overrun, true)
    }

    /// The next byte of input.
    pub(super) fn take(&mut self) -> Option<u8> {
        let byte = self.input.pop_front()?;
        self.overrun = false;
        self.consumed = self.consumed.saturating_add(1);
        Some(byte)
    }

    /// Whether there is input.
    pub(super) fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// Whether enough was consumed for an acknowledgement.
    pub(super) fn acknowledgement_is_due(&self) -> bool {
        self.consumed >= ACKNOWLEDGED
    }

    /// It has been sent.
    pub(super) fn acknowledged(&mut self) {
        self.consumed = self.consumed.saturating_sub(ACKNOWLEDGED);
    }
}
