//! Pixels of a client's display in the format of the screen's.

use crate::machine::mmio;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// Draws pixels with blue in the lowest byte from `at` on, where each has `bytes` bytes: 4, or 2 for 5 bits of red, 6 of green and 5 of blue.
pub fn draw<'a>(at: u64, bytes: u64, pixels: impl Iterator<Item = &'a AtomicU32>) {
    for (place, pixel) in (0..).zip(pixels) {
        let pixel = pixel.load(Relaxed);
        let at = at + bytes * place;
        if bytes == 4 {
            mmio::write32(at, pixel);
        } else {
            let short = pixel >> 8 & 0xf800 | pixel >> 5 & 0x07e0 | pixel >> 3 & 0x001f;
            mmio::write16(at, short as u16);
        }
    }
}
