//! Recognises kernels by their magic numbers, and finds what a VM boots of them, as QEMU's
//! `-kernel` does: the arm64 Image inside, a zImage for 32-bit ARM as it is (`zimage.rs`), an ELF
//! file by its segments (`elf.rs`), or a flat binary, which is everything else.
//!
//! The formats are those of the Linux kernel's documentation: arch/arm64/booting.rst for the
//! Image's header, arch/x86/boot.rst, arch/arm/boot for zImage, and the EFI zboot header.

use crate::backend::Architecture;
use crate::bytes::{has, u64_at};
use crate::diagnostic::Words;
use crate::kernel::Kernel;
use crate::{elf, unbootable, unpack, zimage};
use std::borrow::Cow;

/// The largest memory in bytes that a valid header can claim.
const MAX_IMAGE: u64 = 512 << 20;

/// Bit 0 of the Image header's flags: the kernel is big-endian.
const BIG_ENDIAN: u64 = 1;

/// The distance from the start of RAM at which QEMU loads a flat binary, or an Image that does not
/// say where.
const FLAT: u64 = 0x8_0000;
/// The first page of RAM is QEMU's boot loader's: a kernel that would be loaded into it is loaded
/// this many bytes further.
const LOADER: u64 = 4096;
const BEHIND_LOADER: u64 = 2 << 20;

/// The architecture of the kernel in a file's `bytes` on a board of this architecture: a 64-bit
/// board runs 32-bit kernels, too.
pub(crate) fn architecture(bytes: &[u8], board: Architecture) -> Architecture {
    if zimage::is_one(bytes) || elf::is_arm(bytes) {
        Architecture::Arm
    } else {
        board
    }
}

/// The kernel in a file's `bytes`. The error says why it cannot be one for a VM of this
/// `architecture`.
pub(crate) fn recognise(bytes: &[u8], architecture: Architecture) -> Result<Kernel<'_>, Words> {
    if architecture == Architecture::Arm {
        unbootable::kernel(bytes)?;
    }
    match architecture {
        Architecture::Arm64 => unpacked(unpack::whole(bytes)?),
        Architecture::Arm if zimage::is_one(bytes) => zimage::recognise(bytes),
        Architecture::Arm if elf::is_one(bytes) => elf::recognise(bytes, architecture),
        Architecture::Arm => flat(Cow::Borrowed(bytes), architecture),
    }
}

fn unpacked(bytes: Cow<'_, [u8]>) -> Result<Kernel<'_>, Words> {
    unbootable::kernel(&bytes)?;
    if unpack::is_image(&bytes) {
        return image(bytes);
    }
    if elf::is_one(&bytes) {
        return elf::recognise(&bytes, Architecture::Arm64);
    }
    flat(bytes, Architecture::Arm64)
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
    let len = bytes.len() as u64;
    // Linux before 3.17 does not say how much memory it takes, nor where it is to be loaded.
    let (offset, size) = match image_size {
        0 => (FLAT, len),
        _ => (text_offset, image_size.max(len)),
    };
    if offset > MAX_IMAGE || size > MAX_IMAGE {
        return Err(Words::new(
            "this arm64 kernel's header makes no sense",
            format!("text_offset {text_offset:#x}, image_size {image_size:#x}, file {len:#x}"),
            "download or build the kernel again",
        ));
    }
    let offset = if offset < LOADER {
        offset + BEHIND_LOADER
    } else {
        offset
    };
    let reach = offset + size;
    Ok(Kernel::linux(
        bytes,
        offset,
        size,
        reach,
        Architecture::Arm64,
    ))
}

/// A program without a header, started by Linux's boot protocol.
fn flat(bytes: Cow<'_, [u8]>, architecture: Architecture) -> Result<Kernel<'_>, Words> {
    if let Some(what) = what_else(&bytes, architecture) {
        let (wanted, like) = match architecture {
            Architecture::Arm64 => (
                "an arm64 Image, plain, gzip or EFI zboot",
                "arm64/boot/Image",
            ),
            Architecture::Arm => ("a zImage for 32-bit ARM", "arm/boot/zImage"),
        };
        return Err(Words::new(
            what,
            format!("the VM boots {wanted}, an ELF file, or a flat binary"),
            format!("give such a file, \"debian:6.1\", or a build's arch/{like}"),
        ));
    }
    let len = bytes.len() as u64;
    let offset = match architecture {
        Architecture::Arm64 => FLAT,
        Architecture::Arm => zimage::OFFSET,
    };
    if len > MAX_IMAGE {
        return Err(Words::new(
            "this flat binary is too large",
            format!("it has {len:#x} bytes; {MAX_IMAGE:#x} are taken"),
            "give a smaller one, or load its data as an initramfs",
        ));
    }
    Ok(Kernel::linux(
        bytes,
        offset,
        len,
        offset + len,
        architecture,
    ))
}

/// The first bytes of files that are no programs, and what these files are.
const NO_PROGRAMS: [(usize, &[u8], &str); 15] = [
    (514, b"HdrS", "this kernel is a bzImage for x86"),
    (0, b"MZ", "this file is a program for Windows or EFI"),
    (
        0,
        b"\x27\x05\x19\x56",
        "this kernel is a uImage, with a header for U-Boot",
    ),
    (
        0,
        b"\xd0\x0d\xfe\xed",
        "this file is a device tree or a FIT image",
    ),
    (0, b"\xfd7zXZ\0", "this file is compressed with xz"),
    (0, b"\x28\xb5\x2f\xfd", "this file is compressed with zstd"),
    (0, b"BZh", "this file is compressed with bzip2"),
    (0, b"\x04\x22\x4d\x18", "this file is compressed with lz4"),
    (0, b"\x02\x21\x4c\x18", "this file is compressed with lz4"),
    (0, b"\x1f\x8b", "this file is compressed with gzip"),
    (0, b"070701", "this file is an initramfs"),
    (0, b"!<arch>\n", "this file is an archive or a package"),
    (0, b"PK\x03\x04", "this file is a zip archive"),
    (0, b"hsqs", "this file is a file system"),
    (0, b"QFI\xfb", "this file is a disk's image"),
];

/// What a file is that is no flat binary for this architecture, in words; `None` if it may be one.
fn what_else(bytes: &[u8], architecture: Architecture) -> Option<&'static str> {
    if architecture == Architecture::Arm && unpack::is_image(bytes) {
        return Some("this kernel is an Image for arm64");
    }
    if architecture == Architecture::Arm64 && zimage::is_one(bytes) {
        return Some("this kernel is a zImage for 32-bit ARM");
    }
    let mut known = NO_PROGRAMS.iter();
    if let Some((_, _, what)) = known.find(|(at, magic, _)| has(bytes, *at, magic)) {
        return Some(what);
    }
    let readable = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r' | 0x80..);
    match bytes {
        [] => Some("this kernel is an empty file"),
        _ if bytes.iter().all(readable) && std::str::from_utf8(bytes).is_ok() => {
            Some("this file is a text, no program")
        }
        _ => None,
    }
}
