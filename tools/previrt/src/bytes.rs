//! Little-endian numbers at places that a file named: read if they are there.

/// Reads the `N` bytes from offset `at` on; `None` if `bytes` ends before.
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Reads a 16-bit number at offset `at`.
pub fn half(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

/// Reads a 32-bit number at offset `at`.
pub fn word(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

/// Whether `magic` is at `at`.
pub fn has(bytes: &[u8], at: usize, magic: &[u8]) -> bool {
    bytes.get(at..).is_some_and(|rest| rest.starts_with(magic))
}

/// Rounds `at` up to a multiple of four.
pub const fn align(at: usize) -> usize {
    at.next_multiple_of(4)
}
