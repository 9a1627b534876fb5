//! Paths that are put together without an allocator.

use core::ffi::CStr;

/// A path of at most 255 bytes.
#[derive(Clone, Copy)]
pub struct Path {
    bytes: [u8; 256],
    length: usize,
}

impl Path {
    /// This path; none if it is too long.
    pub fn new(start: &CStr) -> Option<Self> {
        let path = Self {
            bytes: [0; 256],
            length: 0,
        };
        path.with(start.to_bytes())
    }

    /// `name` below this path; none if that is too long.
    pub fn join(self, name: &CStr) -> Option<Self> {
        self.with(b"/")?.with(name.to_bytes())
    }

    fn with(mut self, more: &[u8]) -> Option<Self> {
        let end = self.length + more.len();
        // One zero stays behind it.
        if end >= self.bytes.len() {
            return None;
        }
        self.bytes.get_mut(self.length..end)?.copy_from_slice(more);
        self.length = end;
        Some(self)
    }

    /// The path as system calls take it.
    pub fn get(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}
