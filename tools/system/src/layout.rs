//! Where a VM's kernel, initramfs and tree go in its memory, by the boot protocol of arm64
//! Linux (Documentation/arch/arm64/booting.rst).

use crate::diagnostic::Words;
use crate::kernel::Kernel;
use crate::size::show;
use crate::unbootable;
use hanok_config::FIRMWARE_SIZE;
use hanok_types::{Address, Ipa, PAGE_SIZE, Span, platform};

/// The kernel's base alignment; also the most a tree may have, and what it must not cross.
const BLOCK: u64 = 2 << 20;
/// Memory a guest needs beside what is loaded: below this no Linux comes up.
const WORKING_MEMORY: u64 = 32 << 20;

/// Where things go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// RAM.
    pub(crate) memory: Span<Ipa>,
    /// The kernel's or firmware's first byte, which is its entry.
    pub(crate) kernel: Ipa,
    /// The initramfs.
    pub(crate) initramfs: Option<Span<Ipa>>,
    /// The tree: a block of its own, so that it crosses no boundary and a boot loader has
    /// room to add to it.
    pub(crate) tree: Ipa,
}

/// What does not fit, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TooSmall {
    /// Bytes that would do, a multiple of 2 MiB.
    pub(crate) needed: u64,
    /// What takes how much.
    pub(crate) why: String,
}

/// Places everything in `memory` bytes of RAM.
pub(crate) fn place(
    memory: u64,
    kernel: &Kernel<'_>,
    initramfs: Option<u64>,
) -> Result<Layout, TooSmall> {
    // None of these sums overflows: an image is at most 512 MiB, a file far below 2^63.
    let kernel_start = platform::RAM.get().next_multiple_of(BLOCK) + kernel.text_offset;
    let after_kernel = (kernel_start + kernel.image_size).next_multiple_of(PAGE_SIZE);
    let initramfs_len = initramfs.unwrap_or(0);
    let tree = (after_kernel + initramfs_len).next_multiple_of(BLOCK);
    let needed = tree + BLOCK + WORKING_MEMORY - platform::RAM.get();
    let span = Span::new(platform::RAM, memory).filter(|_| needed <= memory);
    let Some(memory) = span else {
        let why = format!(
            "kernel {}, initramfs {}, tree {} and {} to work in do not fit {}",
            show(kernel.image_size),
            show(initramfs_len),
            show(BLOCK),
            show(WORKING_MEMORY),
            show(memory),
        );
        return Err(TooSmall { needed, why });
    };
    Ok(Layout {
        memory,
        kernel: Ipa::new(kernel_start),
        initramfs: initramfs.and_then(|len| Span::new(Ipa::new(after_kernel), len)),
        tree: Ipa::new(tree),
    })
}

/// Places a firmware's tree in `memory` bytes of RAM: at its start, as QEMU's `-bios` does.
pub(crate) fn place_firmware(memory: u64) -> Result<Layout, TooSmall> {
    let needed = BLOCK + WORKING_MEMORY;
    let Some(memory) = Span::new(platform::RAM, memory).filter(|_| needed <= memory) else {
        let (tree, work, memory) = (show(BLOCK), show(WORKING_MEMORY), show(memory));
        let why = format!("tree {tree} and {work} to work in do not fit {memory}");
        return Err(TooSmall { needed, why });
    };
    Ok(Layout {
        memory,
        kernel: platform::FLASH,
        initramfs: None,
        tree: platform::RAM,
    })
}

/// Whether these bytes can be a firmware.
pub(crate) fn firmware(bytes: &[u8]) -> Result<(), Words> {
    unbootable::firmware(bytes)?;
    let len = bytes.len() as u64;
    if len == 0 {
        let remedy = "make it again";
        return Err(Words::new("the firmware is an empty file", "", remedy));
    }
    if len > FIRMWARE_SIZE {
        let what = format!("the firmware has {}", show(len));
        let why = format!(
            "the virtual platform's bank of flash has {}",
            show(FIRMWARE_SIZE)
        );
        return Err(Words::new(what, why, "give a smaller one"));
    }
    Ok(())
}

impl Layout {
    /// Whether the initramfs lies as the protocol asks: with the kernel inside 32 GiB from
    /// a multiple of 1 GiB.
    pub(crate) fn initramfs_is_near(&self) -> bool {
        let window = self.kernel.align_down(1 << 30).get() + (32 << 30);
        self.initramfs.is_none_or(|span| span.end().get() <= window)
    }
}
