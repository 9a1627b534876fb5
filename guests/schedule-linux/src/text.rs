//! Text that is put together without an allocator.

use core::fmt;

/// A text of at most 256 bytes; what does not fit is cut off.
#[derive(Clone, Copy)]
pub struct Text {
    bytes: [u8; 256],
    length: usize,
}

impl Text {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            bytes: [0; 256],
            length: 0,
        }
    }

    /// Adds bytes.
    pub fn add(&mut self, more: &[u8]) {
        for byte in more {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = *byte;
                self.length += 1;
            }
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Its text, as far as it is one.
    pub fn get(&self) -> &str {
        match core::str::from_utf8(self.bytes()) {
            Ok(text) => text,
            Err(error) => {
                let valid = self.bytes().get(..error.valid_up_to()).unwrap_or_default();
                core::str::from_utf8(valid).unwrap_or_default()
            }
        }
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        self.add(more.as_bytes());
        Ok(())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.get(), out)
    }
}
