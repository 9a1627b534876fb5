//! The shared memory as words, and bytes in it.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The bytes of a word.
pub(crate) const WORD: usize = 4;

/// The memory of a channel as words. Each access of one is a single load or store.
///
/// # Safety
/// `len` bytes at `start`, which is a multiple of 4, are mapped for ever, to memory that is used by words of this kind alone
/// in this program. In memory that the guest may only read nothing is stored.
pub unsafe fn words(start: *mut u8, len: usize) -> &'static [AtomicU32] {
    // SAFETY: the caller's promise; atomics bear that others change them.
    unsafe { core::slice::from_raw_parts(start.cast(), len / WORD) }
}

/// Stores `bytes` from word `at` on, round the end of `words`.
pub(crate) fn put(words: &[AtomicU32], mut at: u32, bytes: &[u8]) {
    for part in bytes.chunks(WORD) {
        let mut word = [0; WORD];
        word[..part.len()].copy_from_slice(part);
        if let Some(place) = words.get(at as usize % words.len()) {
            place.store(u32::from_le_bytes(word), Relaxed);
        }
        at = at.wrapping_add(1);
    }
}

/// Loads `bytes` from word `at` on, round the end of `words`.
pub(crate) fn take(words: &[AtomicU32], mut at: u32, bytes: &mut [u8]) {
    for part in bytes.chunks_mut(WORD) {
        let word = words.get(at as usize % words.len());
        let word = word.map_or(0, |word| word.load(Relaxed)).to_le_bytes();
        part.copy_from_slice(&word[..part.len()]);
        at = at.wrapping_add(1);
    }
}
