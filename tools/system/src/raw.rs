//! A kernel for 32-bit ARM that was unpacked beforehand: Linux's raw Image, started where the
//! unpacker of its zImage would have started it.
//!
//! A raw Image has no header. Its place and its size come with it from whoever unpacked it. The
//! unpacker leaves MMU and data cache off and passes on the registers that it got
//! (Documentation/arch/arm/booting.rst), so that the protocol is the zImage's own.

use crate::backend::Architecture;
use crate::diagnostic::Words;
use crate::kernel::Kernel;
use hanok_types::{Ipa, Span};
use std::borrow::Cow;

/// The largest distance from the start of RAM, and the largest size, in bytes.
const MOST: u64 = 256 << 20;

/// The memory of an unpacked kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawKernel {
    /// The distance in bytes from the start of RAM to its first byte, which is its first
    /// instruction, too: TEXT_OFFSET.
    pub offset: u64,
    /// The memory in bytes that it takes from there on, its bss included.
    pub size: u64,
    /// The distance from its first byte to the code that was added to it, and the size of that, in bytes.
    pub added: Option<(u64, u64)>,
}

impl RawKernel {
    /// The kernel with these `bytes`. The error says why it cannot be one.
    pub(crate) fn kernel(self, bytes: &[u8]) -> Result<Kernel<'_>, Words> {
        let Self { offset, size, .. } = self;
        if bytes.is_empty() || offset > MOST || size > MOST || size < bytes.len() as u64 {
            let len = bytes.len();
            return Err(Words::new(
                "this unpacked kernel's size makes no sense",
                format!("it has {len:#x} bytes, and is to take {size:#x} from {offset:#x} on"),
                "write `rewrite = false`, so that it unpacks itself",
            ));
        }
        let reach = offset + size;
        let bytes = Cow::Borrowed(bytes);
        Ok(Kernel::linux(bytes, offset, size, reach, Architecture::Arm))
    }

    /// The added code of the kernel that begins at `start`.
    pub(crate) fn added_at(self, start: Ipa) -> Option<Span<Ipa>> {
        let (offset, len) = self.added?;
        Span::new(Ipa::new(start.get().checked_add(offset)?), len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout;
    use hanok_types::platform;

    const RAM: u64 = platform::RAM.get();
    const OFFSET: u64 = 0x20_8000;

    fn place(memory: u64, size: u64, initramfs: u64) -> (u64, u64) {
        let raw = RawKernel {
            offset: OFFSET,
            size,
            added: None,
        };
        let bytes = [7; 5000];
        let kernel = raw.kernel(&bytes).unwrap();
        assert_eq!(kernel.entry.get(), RAM + OFFSET);
        assert_eq!(kernel.parts[0].at, kernel.entry);
        assert_eq!(kernel.end.get(), RAM + OFFSET + size);
        let layout = layout::place(memory, &kernel, Some(initramfs)).unwrap();
        let initramfs = layout.initramfs.unwrap();
        assert!(initramfs.start() >= kernel.end, "behind its bss");
        (initramfs.start().get(), layout.tree.unwrap().get())
    }

    #[test]
    fn initramfs_and_tree_are_where_qemu_puts_them_but_behind_the_bss() {
        const MIB: u64 = 1 << 20;
        let of = |memory, size| place(memory * MIB, size, 0x1800);
        assert_eq!(of(256, 5001), (RAM + 128 * MIB, RAM + 128 * MIB + 0x2000));
        assert_eq!(of(512, 20 * MIB).0, RAM + 128 * MIB);
        assert_eq!(of(64, 20 * MIB).0, RAM + 32 * MIB);
        let behind = RAM + OFFSET + 40 * MIB;
        assert_eq!(of(80, 40 * MIB), (behind, behind + 0x2000));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |offset, size, bytes: &[u8]| {
            let added = None;
            RawKernel {
                offset,
                size,
                added,
            }
            .kernel(bytes)
            .is_err()
        };
        assert!(refused(OFFSET, 4999, &[7; 5000]), "less than it has");
        assert!(refused(OFFSET, 5000, &[]));
        assert!(refused(u64::MAX, 5000, &[7; 5000]));
        assert!(refused(OFFSET, u64::MAX, &[7; 5000]));
    }
}
