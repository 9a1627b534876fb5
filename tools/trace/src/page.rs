//! Pages of a CPU's ring as Linux's tracing lays them out: a time, a length, and events with times relative to the one before.

/// The bytes of a page.
pub const PAGE: usize = 4096;
/// The bytes before the events of a page.
pub const HEAD: usize = 16;

/// The bits of an event's head that have its length, and those that have the time since the one before.
const LENGTH_BITS: u32 = 5;
const TIME_BITS: u32 = 27;
/// The most words whose number is in the head itself; a word behind it has a greater length.
const MOST_WORDS: usize = 28;
/// In place of a length: what follows is the upper part of a time that was longer than the head has bits for.
const LONGER: u32 = 30;

/// An event does not fit in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of {0} bytes is larger than a page")]
pub struct TooLong(pub usize);

/// The pages of one CPU, which are written in the order of time.
#[derive(Debug, Default)]
pub struct Pages {
    done: Vec<u8>,
    /// The events of the page that is being filled, the time of the first one, and that of the last one.
    events: Vec<u8>,
    first: u64,
    last: u64,
}

impl Pages {
    /// Adds an event with this payload at this time, which is not before the last one; if it is, it counts as that.
    ///
    /// # Errors
    /// It is larger than a page.
    pub fn add(&mut self, at: u64, payload: &[u8]) -> Result<(), TooLong> {
        let words = payload.len().div_ceil(4);
        let is_long = words > MOST_WORDS;
        let bytes = 4 + 4 * words + if is_long { 4 } else { 0 };
        if HEAD + bytes > PAGE {
            return Err(TooLong(payload.len()));
        }
        let at = at.max(self.last);
        // A longer time takes eight bytes of its own.
        if !self.events.is_empty() && HEAD + self.events.len() + bytes + 8 > PAGE {
            self.end_page();
        }
        if self.events.is_empty() {
            (self.first, self.last) = (at, at);
        }
        let mut delta = at - self.last;
        self.last = at;
        if delta >> TIME_BITS != 0 {
            let low = delta as u32 & ((1 << TIME_BITS) - 1);
            self.word(LONGER | low << LENGTH_BITS);
            // 2^59 nanoseconds are eighteen years.
            self.word((delta >> TIME_BITS) as u32);
            delta = 0;
        }
        let length = if is_long { 0 } else { words as u32 };
        self.word(length | (delta as u32) << LENGTH_BITS);
        if is_long {
            self.word(4 * words as u32 + 4);
        }
        self.events.extend_from_slice(payload);
        self.events.resize(self.events.len().next_multiple_of(4), 0);
        Ok(())
    }

    /// All pages, the last one filled up.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.end_page();
        self.done
    }

    fn word(&mut self, word: u32) {
        self.events.extend_from_slice(&word.to_le_bytes());
    }

    fn end_page(&mut self) {
        if self.events.is_empty() {
            return;
        }
        self.done.extend_from_slice(&self.first.to_le_bytes());
        let used = self.events.len() as u64;
        self.done.extend_from_slice(&used.to_le_bytes());
        self.done.append(&mut self.events);
        self.done.resize(self.done.len().next_multiple_of(PAGE), 0);
    }
}
