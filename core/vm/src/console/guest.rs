//! The multiplexer's queues of each VM: output that is not shown yet, and input that is not fetched yet.

use heapless::Deque;

/// The number of bytes of a VM's output that are kept while another VM is shown.
const HELD: usize = 4096;
/// The number of bytes of input that a VM has not fetched yet.
const INPUT: usize = 2048;
/// The number of bytes of the hypervisor's text that wait for the line.
const SAID: usize = 16384;
/// The number of consumed bytes of input after which the other end gets an acknowledgement.
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
    /// The number of bytes of input that were dropped since the board started.
    pub(super) dropped: u32,
    /// Whether input was dropped, and none fetched since.
    overrun: bool,
    consumed: u32,
}

impl PortQueues {
    /// Empty queues.
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

    /// Keeps a byte of output. If there is no room, the oldest byte is overwritten.
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

    /// Removes that byte after it was sent.
    pub(super) fn release(&mut self) {
        self.held.pop_front();
    }

    /// The number of bytes of output that were overwritten since the last call.
    pub(super) fn take_overwritten(&mut self) -> u32 {
        core::mem::take(&mut self.overwritten)
    }

    /// Queues a byte of input, or drops it if there is no room.
    pub(super) fn give(&mut self, byte: u8) -> Given {
        if self.input.push_back(byte).is_ok() {
            return Given::Queued;
        }
        self.dropped = self.dropped.saturating_add(1);
        self.consumed = self.consumed.saturating_add(1);
        if core::mem::replace(&mut self.overrun, true) {
            Given::Lost
        } else {
            Given::FirstLost
        }
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

    /// Takes note of an acknowledgement that was sent.
    pub(super) fn acknowledged(&mut self) {
        self.consumed = self.consumed.saturating_sub(ACKNOWLEDGED);
    }
}

/// The outcome of [`Guest::give`] for a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Given {
    /// It is queued.
    Queued,
    /// It was dropped, as the first byte since one was queued.
    FirstLost,
    /// It was dropped, as others before it.
    Lost,
}
