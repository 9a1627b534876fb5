//! The image in memory, as its first instructions, the image tool and the firmware see it.
//!
//! The assembly that goes with it is in each backend's `boot.rs`.

use crate::space::IMAGE_BASE;
use core::mem::offset_of;
use core::sync::atomic::AtomicU64;

/// What the image tool writes at byte 64 of the image.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ImageInfo {
    /// The bytes `HANOKIMG`.
    pub magic: [u8; 8],
    /// [`hanok_config::sum`] of the rest of this block and of the binary after it.
    pub sum: u64,
    /// The payload's offset in bytes from the image's start; 0 if there is none.
    pub payload_offset: u64,
    /// Bytes of the payload.
    pub payload_len: u64,
    /// The serial port that prints before the device tree is read, as [`hanok_config::SerialKind::port`] says it; 0
    /// for none.
    pub early_console: u64,
    /// [`hanok_config::sum`] of the system's tree, with which the payload begins.
    pub system_sum: u64,
    /// Random bytes, which differ in each image; zeros if the image is to have none.
    pub key: [u8; 32],
    /// 1 if the system is made for the backend `deprivileged`: then a 32-bit image runs at PL1, also on a CPU that
    /// has Hyp mode; otherwise 0. It is here, and not in the system's tree, as the first page tables depend on it,
    /// which are made before anything can be parsed.
    pub at_pl1: u64,
}

/// Bytes of the header and of the information block up to its sum.
const BEFORE_SUMMED: usize = 64 + offset_of!(ImageInfo, payload_offset);

/// The data that the assembly passes to Rust.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BootArguments {
    /// Physical address of the device tree.
    pub tree: u64,
    /// Physical address of the image's first byte.
    pub image: u64,
}

/// Bytes of the stack on which the boot CPU starts. The whole system passes through it, by
/// value, on its way to its place: more than 244 KiB of it are used where a vCPU has shadow page tables.
pub const BOOT_STACK: usize = if cfg!(target_pointer_width = "32") {
    512 << 10
} else {
    384 << 10
};
/// The lowest bytes of the boot stack, of which nothing may have been used: a large frame writes few words of what it has.
const UNUSED: usize = 16 << 10;

/// Panics if the boot stack was used up. It has no guard, and the translation by which other CPUs start
/// is below it.
pub fn check_boot_stack() {
    let lowest = &raw const hanok_boot_stack;
    // SAFETY: words of the image's bss, zero since the start, in the lowest part of the boot stack, which is far
    // from what runs now. Volatile, as no Rust object is there.
    let is_unused = |word: usize| unsafe { lowest.wrapping_add(word).read_volatile() == 0 };
    let unused = (0..UNUSED / size_of::<u64>()).all(is_unused);
    assert!(unused, "the boot stack is used up");
}

unsafe extern "C" {
    static hanok_boot_stack: u64;
    static hanok_image_info: ImageInfo;
    static hanok_image_start: u8;
    static __file_end: u8;
    static hanok_released_record: AtomicU64;
    fn hanok_secondary_boot();
    fn hanok_released_boot();
}

/// The image's info block, as the image tool left it.
pub fn image_info() -> ImageInfo {
    // SAFETY: a valid static of the image; volatile because the tool patches it after linking.
    unsafe { core::ptr::read_volatile(&raw const hanok_image_info) }
}

/// Whether the hypervisor's own part of the image has the sum that the image tool computed. It must be
/// called before anything in it can have changed.
pub fn is_whole(info: &ImageInfo) -> bool {
    let start = (&raw const hanok_image_start).wrapping_add(BEFORE_SUMMED);
    let len = (&raw const __file_end) as usize - start as usize;
    // SAFETY: code and constants of the image, mapped, and never changed.
    let binary = unsafe { core::slice::from_raw_parts(start, len) };
    hanok_config::sum(binary) == info.sum
}

/// The offset in the image at which a secondary CPU starts.
pub fn secondary_entry_offset() -> u64 {
    hanok_secondary_boot as *const () as u64 - IMAGE_BASE
}

/// The offset in the image at which a CPU starts that is released from a spin table.
pub fn released_entry_offset() -> u64 {
    hanok_released_boot as *const () as u64 - IMAGE_BASE
}

/// The word in which a CPU that is released from a spin table finds the physical address of
/// its [`SecondaryStart`]; to be cleaned to the point of coherency before it starts.
pub fn released_record() -> &'static AtomicU64 {
    // SAFETY: an aligned word of the image's bss, which only this and that CPU's assembly use.
    unsafe { &hanok_released_record }
}

/// The record that a secondary CPU reads before it has a stack, by its physical address.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SecondaryStart {
    /// Physical address of the level-1 table.
    pub table: u64,
    /// Its stack's top.
    pub stack: u64,
    /// Handed to `hanok_secondary_main`.
    pub argument: u64,
}
