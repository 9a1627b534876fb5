//! How accesses of any width reach a device with 32-bit registers.
//!
//! A real PrimeCell is on a 32-bit APB bus, and the bridge to that bus decides what narrower and
//! wider accesses do. This code follows QEMU, since guests can have seen that: a narrow access is
//! one access to the register at (or around) its address, and its value is cut to the width,
//! whichever byte it names; a 64-bit access is two accesses of 32 bits, the lower word first.

use hanok_types::Width;

/// Reads through `read`, which is given the offset of one access of at most 32 bits.
pub(crate) fn read_words(offset: u64, width: Width, mut read: impl FnMut(u64) -> u32) -> u64 {
    let low = u64::from(read(offset));
    if width == Width::Double {
        let high = u64::from(read(offset.wrapping_add(4)));
        low | high << 32
    } else {
        low & width.mask()
    }
}

/// Writes through `write`, which is given the offset and the value of one access of at most 32
/// bits.
pub(crate) fn write_words(offset: u64, width: Width, value: u64, mut write: impl FnMut(u64, u32)) {
    let value = value & width.mask();
    write(offset, value as u32);
    if width == Width::Double {
        write(offset.wrapping_add(4), (value >> 32) as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_double_is_two_words_lower_first() {
        let mut seen = Vec::new();
        let value = read_words(8, Width::Double, |offset| {
            seen.push(offset);
            offset as u32
        });
        assert_eq!(value, 8 | 12 << 32);
        assert_eq!(seen, [8, 12]);

        let mut written = Vec::new();
        write_words(8, Width::Double, 0x1111_2222_3333_4444, |offset, value| {
            written.push((offset, value));
        });
        assert_eq!(written, [(8, 0x3333_4444), (12, 0x1111_2222)]);
    }

    #[test]
    fn a_narrow_access_is_cut_to_its_width() {
        assert_eq!(read_words(1, Width::Byte, |_| 0x1234_5678), 0x78);
        assert_eq!(read_words(2, Width::Half, |_| 0x1234_5678), 0x5678);
        write_words(0, Width::Byte, 0xabcd, |_, value| assert_eq!(value, 0xcd));
    }
}
