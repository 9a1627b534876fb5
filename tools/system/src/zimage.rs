//! 32-bit ARM kernels: a zImage, which unpacks itself (Documentation/arch/arm/booting.rst).
//!
//! It is loaded where QEMU's `-kernel` puts it, 64 KiB into RAM. It moves itself out of the way,
//! and then unpacks the kernel to shortly behind the start of RAM. The initramfs and the tree are
//! placed behind all that. Newer zImages say how much memory that is, in a table of tags, of which
//! the tag with the kernel's size is read here (arch/arm/boot/compressed/vmlinux.lds.S).

use crate::backend::Architecture;
use crate::bytes::u32_at;
use crate::diagnostic::Words;
use crate::kernel::Kernel;
use std::borrow::Cow;

/// The offsets of the header's fields.
const MAGIC_AT: usize = 0x24;
const START_AT: usize = 0x28;
const END_AT: usize = 0x2c;
const TAGS_MAGIC_AT: usize = 0x34;
const TAGS_AT: usize = 0x38;
const MAGIC: u32 = 0x016f_2818;
const TAGS_MAGIC: u32 = 0x4545_4545;
/// The tag of the kernel's size: the offset in the file of the unpacked kernel's size, the size of
/// its bss, and, since Linux 5.8, TEXT_OFFSET and the size of the unpacker's heap.
const KERNEL_SIZE: u32 = 0x5a53_4c4b;
/// The distance from the start of RAM at which QEMU loads a zImage, or a flat binary.
pub(crate) const OFFSET: u64 = 0x1_0000;
/// The distance from the start of RAM at which the kernel runs, where it does not say: TEXT_OFFSET.
const TEXT_OFFSET: u32 = 0x8000;
/// Memory in bytes for the unpacker's stack, its heap, and its other data.
const SLACK: u64 = 1 << 20;
/// The memory in bytes for a kernel that does not say how much it takes.
const ASSUMED: u64 = 16 << 20;
/// The smallest size of a Linux in bytes; a smaller program unpacks nothing.
const SMALLEST: u64 = 1 << 20;
/// The largest size in bytes that a valid header can claim.
const MOST: u64 = 256 << 20;

/// Whether these bytes begin as a zImage does.
pub(crate) fn is_one(bytes: &[u8]) -> bool {
    u32_at(bytes, MAGIC_AT) == Some(MAGIC)
}

/// The zImage in a file's `bytes`, for which [`is_one`] holds. The error says why it cannot be one.
pub(crate) fn recognise(bytes: &[u8]) -> Result<Kernel<'_>, Words> {
    let [start, end] = [START_AT, END_AT].map(|at| u64::from(u32_at(bytes, at).unwrap_or(0)));
    let len = bytes.len() as u64;
    // A program may need more memory than it has bytes; a kernel's tail may be padding.
    let size = end.saturating_sub(start).max(len);
    if end <= start || size > MOST {
        return Err(Words::new(
            "this zImage's header makes no sense",
            format!("start {start:#x}, end {end:#x}, file {len:#x}"),
            "download or build the kernel again",
        ));
    }
    let assumed = if len < SMALLEST { 0 } else { ASSUMED };
    let sizes = KernelSizes::of(bytes);
    let unpacked = sizes.map_or(assumed, |sizes| sizes.end());
    if unpacked > MOST {
        return Err(Words::new(
            "this zImage's table of tags makes no sense",
            format!("it claims {unpacked:#x} bytes of memory"),
            "download or build the kernel again",
        ));
    }
    // The kernel is unpacked from the start of RAM on, with the packed one behind it.
    let reach = unpacked.max(OFFSET + size) + size + SLACK;
    let bytes = Cow::Borrowed(bytes);
    // A program that unpacks nothing, but moves to behind where it was loaded, has all its memory there.
    let runs_at = sizes.and_then(|sizes| sizes.text_offset).unwrap_or(0);
    let is_program = len < SMALLEST && u64::from(runs_at) >= OFFSET + size;
    let reach = if is_program { unpacked } else { reach };
    Ok(Kernel {
        needs_more: !is_program,
        ..Kernel::linux(bytes, OFFSET, size, reach, Architecture::Arm)
    })
}

/// What a zImage says of the kernel in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSizes {
    /// The distance in bytes from the start of RAM at which it runs, where that is said: Linux
    /// since 5.8 says it.
    pub text_offset: Option<u32>,
    /// The size of the unpacked kernel in bytes.
    pub kernel: u32,
    /// The size of its bss in bytes, which begins behind the kernel.
    pub bss: u32,
}

impl KernelSizes {
    /// What the zImage in a file's `bytes` says; `None` where it is none, or says nothing.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| u32_at(bytes, at);
        if !is_one(bytes) || word(TAGS_MAGIC_AT)? != TAGS_MAGIC {
            return None;
        }
        let mut at = word(TAGS_AT)? as usize;
        // Each tag has its length in words, its kind, and its data. A length below 2 ends them.
        while let Some(words) = word(at).filter(|words| *words >= 2) {
            let field = |index: usize| word(at.checked_add(4 * index)?);
            if field(1)? == KERNEL_SIZE {
                return Some(Self {
                    text_offset: field(4).filter(|_| words >= 6),
                    kernel: word(field(2)? as usize)?,
                    bss: field(3)?,
                });
            }
            at = at.checked_add(words as usize * 4)?;
        }
        None
    }

    /// The end of the unpacked kernel and its bss, from the start of RAM.
    fn end(&self) -> u64 {
        let offset = self.text_offset.unwrap_or(TEXT_OFFSET);
        u64::from(offset) + u64::from(self.kernel) + u64::from(self.bss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanok_types::platform;

    fn unpacked(bytes: &[u8]) -> Option<u64> {
        KernelSizes::of(bytes).map(|sizes| sizes.end())
    }

    fn zimage(len: usize, tags: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let mut put = |at: usize, value: u32| {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        };
        put(MAGIC_AT, MAGIC);
        put(END_AT, len as u32);
        if !tags.is_empty() {
            put(TAGS_MAGIC_AT, TAGS_MAGIC);
            put(TAGS_AT, 0x40);
            let places = (0x40..).step_by(4);
            places.zip(tags).for_each(|(at, tag)| put(at, *tag));
        }
        bytes
    }

    #[test]
    fn the_table_says_how_much_is_needed() {
        // A tag of another kind, then the tag of the size: the unpacked size is in the last word.
        let mut bytes = zimage(0x1000, &[3, 1, 7, 4, KERNEL_SIZE, 0xffc, 0x10_0000, 0]);
        bytes[0xffc..].copy_from_slice(&0x40_0000_u32.to_le_bytes());
        assert_eq!(unpacked(&bytes), Some(0x50_8000));
        let kernel = recognise(&bytes).unwrap();
        let ram = platform::RAM.get();
        assert_eq!(kernel.entry.get(), ram + OFFSET);
        assert_eq!(kernel.end.get(), ram + OFFSET + 0x1000);
        assert_eq!(kernel.reach.get(), ram + 0x50_8000 + 0x1000 + SLACK);
        let tag = [6, KERNEL_SIZE, 0xffc, 0x10_0000, 0x20_8000, 0x1_0000, 0];
        let mut bytes = zimage(0x1000, &tag);
        bytes[0xffc..].copy_from_slice(&0x40_0000_u32.to_le_bytes());
        assert_eq!(unpacked(&bytes), Some(0x70_8000));
    }

    #[test]
    fn a_program_has_the_memory_that_it_says_and_the_tree_is_behind_it() {
        // It runs at 8 MiB, and ends a little below 17 MiB: in 32 MiB of RAM behind the middle, where the tree would be.
        let (len, bss) = (0x2_8000, 0x8c_0000);
        let program = zimage(len, &[6, KERNEL_SIZE, END_AT as u32, bss, 8 << 20, 0, 0]);
        let kernel = recognise(&program).unwrap();
        let end = platform::RAM.get() + (8 << 20) + len as u64 + u64::from(bss);
        assert_eq!(kernel.reach.get(), end);
        let layout = crate::layout::place(32 << 20, &kernel, None).unwrap();
        assert_eq!(layout.tree.unwrap().get(), end);
        let found = crate::layout::place(16 << 20, &kernel, None).unwrap_err();
        assert_eq!(found.needed, 20 << 20);
    }

    #[test]
    fn without_a_table_there_is_room_enough() {
        let bytes = zimage(SMALLEST as usize, &[]);
        let kernel = recognise(&bytes).unwrap();
        let ram = platform::RAM.get();
        assert!(kernel.reach.get() > ram + ASSUMED);
        let program = zimage(83 << 10, &[]);
        assert!(recognise(&program).unwrap().reach.get() < ram + (2 << 20));
        assert_eq!(unpacked(&zimage(0x100, &[0])), None);
    }

    #[test]
    fn damaged_ones_are_refused() {
        let mut bytes = zimage(0x100, &[4, KERNEL_SIZE, 0xfc, 0, 0]);
        bytes[0xfc..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(recognise(&bytes).is_err(), "too large");
        let endless = zimage(0x100, &[0x3fff_ffff, 1, 0]);
        assert!(
            recognise(&endless).is_ok(),
            "tags that lead out of the file"
        );
        let mut backwards = zimage(0x100, &[]);
        backwards[START_AT..START_AT + 4].copy_from_slice(&0x200_u32.to_le_bytes());
        assert!(recognise(&backwards).is_err());
    }
}
