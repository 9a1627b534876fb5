//! Lines of text for programs without an allocator.

use crate::raw::{WRITE, call};

/// The descriptor that lines go to.
const STDOUT: usize = 1;

/// A line that is being made, of at most 80 bytes.
pub struct Line {
    bytes: [u8; 80],
    length: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            bytes: [0; 80],
            length: 0,
        }
    }
}

impl Line {
    /// Adds `text`; what does not fit is cut off.
    pub fn text(&mut self, text: &[u8]) {
        for byte in text {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = *byte;
                self.length += 1;
            }
        }
    }

    /// Adds `number`, decimal.
    pub fn number(&mut self, number: u64) {
        if number >= 10 {
            self.number(number / 10);
        }
        self.text(&[b'0' + (number % 10) as u8]);
    }

    /// Adds the last `count` decimal digits of `number`.
    pub fn digits(&mut self, number: u64, count: u32) {
        for at in (0..count).rev() {
            self.text(&[b'0' + (number / 10_u64.pow(at) % 10) as u8]);
        }
    }

    /// Writes it to the standard output.
    pub fn write(&self) {
        let text = self.bytes.get(..self.length).unwrap_or_default();
        let arguments = [STDOUT, text.as_ptr() as usize, text.len(), 0, 0, 0];
        // SAFETY: it reads the text.
        unsafe { call(WRITE, arguments) };
    }
}
