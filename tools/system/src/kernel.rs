//! Kernels: what a file is, by its magic numbers, and what a VM boots of it: the arm64 Image
//! inside, or a zImage for 32-bit ARM as it is (`zimage.rs`).
//!
//! The formats are those of the Linux kernel's documentation: arch/arm64/booting.rst for the
//! Image's header, arch/x86/boot.rst, arch/arm/boot for zImage, and the EFI zboot header;
//! ELF from the gABI.

use crate::board::Architecture;
use crate::diagnostic::Words;
use crate::zimage;
use crate::{unbootable, unpack};
use std::borrow::Cow;

/// More memory than this no header claims that is right.
const MAX_IMAGE: u64 = 512 << 20;

/// Of the Image header's flags, bit 0: the kernel is big-endian.
const BIG_ENDIAN: u64 = 1;

/// A kernel: an uncompressed one for arm64, or a zImage.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kernel<'a> {
    /// The file's bytes.
    pub(crate) image: Cow<'a, [u8]>,
    /// From a 2 MiB boundary to where it must be loaded, in bytes.
    pub(crate) text_offset: u64,
    /// Bytes of memory it takes from there, its uninitialised data included.
    pub(crate) image_size: u64,
}

/// What executes the kernel in a file's `bytes` on a board of this architecture: a 64-bit one
/// runs 32-bit kernels, too.
pub(crate) fn architecture(bytes: &[u8], board: Architecture) -> Architecture {
    match zimage::is_one(bytes) {
        true => Architecture::Arm,
        false => board,
    }
}

/// The kernel in a file's `bytes`, or why it cannot be one for a VM of this `architecture`.
pub(crate) fn recognise(bytes: &[u8], architecture: Architecture) -> Result<Kernel<'_>, Words> {
    unbootable::kernel(bytes)?;
    match architecture {
        Architecture::Arm64 => {
            let bytes = unpack::whole(bytes)?;
            unbootable::kernel(&bytes)?;
            match unpack::is_image(&bytes) {
                true => image(bytes),
                false => Err(other(&bytes)),
            }
        }
        Architecture::Arm => zimage::recognise(bytes),
    }
}

fn image(bytes: Cow<'_, [u8]>) -> Result<Kernel<'_>, Words> {
    let [text_offset, image_size, flags] = [8, 16, 24].map(|at| u64_at(&bytes, at).unwrap_or(0));
    if flags & BIG_ENDIAN != 0 {
        return Err(Words::new(
            "this arm64 kernel is big-endian",
            "a VM's CPUs, devices and device tree start little-endian",
            "give a kernel built with CONFIG_CPU_LITTLE_ENDIAN=y, such as \"debian:6.1\"",
        ));
    }
    if image_size == 0 {
        return Err(Words::new(
            "this arm64 kernel is too old",
            "its header does not say how much memory it needs (Linux before 3.17)",
            "use a newer kernel",
        ));
    }
    let len = bytes.len() as u64;
    if text_offset >= 2 << 20 || image_size > MAX_IMAGE || len > image_size {
        return Err(Words::new(
            "this arm64 kernel's header makes no sense",
            format!("text_offset {text_offset:#x}, image_size {image_size:#x}, file {len:#x}"),
            "download or build the kernel again",
        ));
    }
    Ok(Kernel {
        image: bytes,
        text_offset,
        image_size,
    })
}

/// What a file is that is no arm64 kernel.
fn other(bytes: &[u8]) -> Words {
    let what = said(bytes);
    Words::new(
        what,
        "the VM boots an arm64 Image (plain, gzip or EFI zboot), which has \"ARM\\x64\" at byte \
         56, or a zImage for 32-bit ARM",
        "give an arm64 kernel, such as \"debian:6.1\" or a build's arch/arm64/boot/Image",
    )
}

/// What a file is that is not what the VM boots, in words.
pub(crate) fn said(bytes: &[u8]) -> String {
    if zimage::is_one(bytes) {
        "this kernel is a zImage for 32-bit ARM".to_owned()
    } else if unpack::is_image(bytes) {
        "this kernel is an Image for arm64".to_owned()
    } else if has(bytes, 514, b"HdrS") {
        "this kernel is a bzImage for x86".to_owned()
    } else if has(bytes, 0, b"\x7fELF") {
        elf(bytes)
    } else if bytes.is_empty() {
        "this kernel is an empty file".to_owned()
    } else {
        "this file is no kernel that is known here".to_owned()
    }
}

fn elf(bytes: &[u8]) -> String {
    let big_endian = has(bytes, 5, &[2]);
    let machine = bytes.get(18..20).map_or(0, |machine| match big_endian {
        true => u16::from_be_bytes([machine[0], machine[1]]),
        false => u16::from_le_bytes([machine[0], machine[1]]),
    });
    let machine = match machine {
        183 => "arm64",
        40 => "32-bit ARM",
        62 | 3 => "x86",
        243 => "RISC-V",
        _ => "another machine",
    };
    format!("this kernel is an ELF file for {machine}, not an Image")
}

pub(crate) fn has(bytes: &[u8], at: usize, magic: &[u8]) -> bool {
    bytes.get(at..).is_some_and(|rest| rest.starts_with(magic))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
