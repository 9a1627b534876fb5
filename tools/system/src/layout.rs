//! Places a VM's kernel, initramfs and tree in its memory: where QEMU's `-kernel` puts them,
//! because programs rely on that, and within what Linux's boot protocols demand
//! (Documentation/arch/arm64/booting.rst, Documentation/arch/arm/booting.rst).

use crate::diagnostic::Words;
use crate::kernel::{Kernel, Protocol};
use crate::size::show;
use hanok_config::FIRMWARE_SIZE;
use hanok_types::{Address, Ipa, PAGE_SIZE, Span, platform};

/// The unit in which memory is given out in bytes; also the largest size of a tree.
const BLOCK: u64 = 2 << 20;
/// The memory in bytes that is left to a guest besides what is loaded: as much as its kernel takes,
/// and at most this. With less no Linux comes up.
const WORKING_MEMORY: u64 = 32 << 20;
/// The distance of an initramfs from the start of RAM: this, or the middle of RAM where that is
/// less.
const MIDDLE: u64 = 128 << 20;
/// The space in bytes that an ELF file must leave free at the start of RAM to have a tree there.
const TREE_ROOM: u64 = 0x1_0000;

/// Where everything is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The RAM.
    pub(crate) memory: Span<Ipa>,
    /// The initramfs.
    pub(crate) initramfs: Option<Span<Ipa>>,
    /// The tree. The 2 MiB behind its start have nothing else, so that a boot loader can add to it.
    /// `None` where an ELF file takes that place.
    pub(crate) tree: Option<Ipa>,
}

/// The parts that do not fit, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TooSmall {
    /// A size in bytes that would be enough, a multiple of 2 MiB.
    pub(crate) needed: u64,
    /// The size of each part.
    pub(crate) why: String,
}

/// Places everything in `memory` bytes of RAM.
pub(crate) fn place(
    memory: u64,
    kernel: &Kernel<'_>,
    initramfs: Option<u64>,
) -> Result<Layout, TooSmall> {
    let tried = |memory| match kernel.protocol {
        Protocol::Linux { alignment } => linux(memory, kernel, initramfs, alignment),
        Protocol::Elf => elf(memory, kernel),
    };
    if let Some(layout) = tried(memory) {
        return Ok(layout);
    }
    let (working, initramfs) = (working_memory(kernel), initramfs.unwrap_or(0));
    // With this much in the upper half, and as much below, everything fits.
    let enough = 2 * (kernel.reach.get() - platform::RAM.get() + initramfs + working + 2 * BLOCK);
    let sizes = 1..=enough.div_ceil(BLOCK);
    let least = sizes
        .map(|blocks| blocks * BLOCK)
        .find(|size| tried(*size).is_some());
    Err(TooSmall {
        needed: least.unwrap_or(enough),
        why: format!(
            "kernel {} up to {}, initramfs {}, tree {} and {} to work in do not fit {}",
            show(kernel.len()),
            kernel.reach,
            show(initramfs),
            show(BLOCK),
            show(working),
            show(memory),
        ),
    })
}

/// The memory that a guest has besides what is loaded.
fn working_memory(kernel: &Kernel<'_>) -> u64 {
    match kernel.protocol {
        Protocol::Linux { .. } if kernel.needs_more => kernel.len().min(WORKING_MEMORY),
        Protocol::Linux { .. } | Protocol::Elf => 0,
    }
}

/// Places as QEMU does: the initramfs in the middle of RAM or at 128 MiB, but behind the kernel;
/// the tree behind the initramfs, or in its place. `None` where that does not fit.
fn linux(
    memory: u64,
    kernel: &Kernel<'_>,
    initramfs: Option<u64>,
    alignment: u64,
) -> Option<Layout> {
    let ram = platform::RAM.get();
    let memory = Span::new(platform::RAM, memory)?;
    let middle = ram + (memory.len() / 2).min(MIDDLE);
    let start = middle
        .max(kernel.reach.get())
        .checked_next_multiple_of(PAGE_SIZE)?;
    let len = initramfs.unwrap_or(0);
    let tree = start
        .checked_add(len)?
        .checked_next_multiple_of(alignment)?;
    let end = tree.checked_add(BLOCK)?;
    let taken = kernel.len() + len + BLOCK;
    let left = memory.len().checked_sub(taken)?;
    let fits = end <= memory.end().get() && left >= working_memory(kernel);
    fits.then(|| Layout {
        memory,
        initramfs: initramfs.and_then(|len| Span::new(Ipa::new(start), len)),
        tree: Some(Ipa::new(tree)),
    })
}

/// Places as QEMU does: the tree at the start of RAM, if the program leaves that free.
fn elf(memory: u64, kernel: &Kernel<'_>) -> Option<Layout> {
    let memory = Span::new(platform::RAM, memory)?;
    let free = kernel.start.get() - platform::RAM.get() >= TREE_ROOM;
    (kernel.end <= memory.end()).then_some(Layout {
        memory,
        initramfs: None,
        tree: free.then_some(platform::RAM),
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
        initramfs: None,
        tree: Some(platform::RAM),
    })
}

/// Whether these bytes can be a firmware.
pub(crate) fn firmware(bytes: &[u8]) -> Result<(), Words> {
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
    /// Whether the initramfs is where the protocol of arm64 demands: with the kernel inside 32 GiB
    /// from a multiple of 1 GiB.
    pub(crate) fn initramfs_is_near(&self, kernel: &Kernel<'_>) -> bool {
        let window = kernel.start.align_down(1 << 30).get() + (32 << 30);
        self.initramfs.is_none_or(|span| span.end().get() <= window)
    }
}
