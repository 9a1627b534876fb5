//! What the tests of this crate share.
#![allow(dead_code)] // each test program uses a part

use hanok_system::{Description, Diagnostic, parse};
use std::path::{Path, PathBuf};

/// The repository's boards.
pub fn boards() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../boards")
}

/// Loads `text` as if it were in `folder`.
pub fn load_in(folder: &Path, text: &str) -> Result<Description, Vec<Diagnostic>> {
    parse(&folder.join("system.toml"), text, &boards())
}

/// Loads `text` as a description.
pub fn load(text: &str) -> Result<Description, Vec<Diagnostic>> {
    load_in(Path::new("systems"), text)
}

/// A valid description.
pub const SOUND: &str = r#"board = "qemu-virt"

[[vm]]
name = "linux"
kernel = "debian:6.1"
initramfs = "busybox"
cmdline = "console=ttyAMA0"
memory = "512M"
vcpus = 2
"#;

/// An arm64 Image of `len` bytes that claims `size` bytes of memory.
pub fn kernel(len: usize, size: u64) -> Vec<u8> {
    let mut image: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
    image[8..16].copy_from_slice(&0u64.to_le_bytes());
    image[16..24].copy_from_slice(&size.to_le_bytes());
    image[56..60].copy_from_slice(b"ARM\x64");
    image
}

/// A zImage of `len` bytes (Documentation/arch/arm/booting.rst).
pub fn zimage(len: usize) -> Vec<u8> {
    let mut image = vec![0; len];
    image[36..40].copy_from_slice(&0x016f_2818u32.to_le_bytes());
    image[44..48].copy_from_slice(&(len as u32).to_le_bytes());
    image
}

/// A binary like the hypervisor's, of `len` bytes, that claims `size` bytes of memory.
pub fn hypervisor(len: usize, size: u64) -> Vec<u8> {
    let mut image = kernel(len, size);
    image[64..72].copy_from_slice(b"HANOKIMG");
    image[72..152].fill(0);
    image
}

/// `bytes` in gzip.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A segment of an ELF file: physical and virtual address, bytes, and length with trailing zeros.
pub type Segment<'a> = (u64, u64, &'a [u8], u64);

/// An ELF file for arm64, or for 32-bit ARM, written from the gABI's tables (chapters 4 and 5).
pub fn elf(wide: bool, entry: u64, segments: &[Segment<'_>]) -> Vec<u8> {
    let word = |value: u64| {
        if wide {
            value.to_le_bytes().to_vec()
        } else {
            (value as u32).to_le_bytes().to_vec()
        }
    };
    let half = |value: u16| value.to_le_bytes().to_vec();
    let (class, machine, header, each) = if wide {
        (2, 183, 64, 56)
    } else {
        (1, 40, 52, 32)
    };
    let mut file = vec![0x7f, b'E', b'L', b'F', class, 1, 1];
    file.resize(16, 0);
    let fields = [
        half(2),
        half(machine),
        1u32.to_le_bytes().to_vec(),
        word(entry),
    ];
    fields.iter().for_each(|field| file.extend(field));
    let fields = [
        word(header),
        word(0),
        vec![0; 4],
        half(header as u16),
        half(each),
    ];
    fields.iter().for_each(|field| file.extend(field));
    let fields = [segments.len() as u16, 0, 0, 0].map(half);
    fields.iter().for_each(|field| file.extend(field));
    let mut offset = header + u64::from(each) * segments.len() as u64;
    for (physical, at, bytes, all) in segments {
        let [kind, flags] = [1u32, 7].map(|value| value.to_le_bytes().to_vec());
        let len = bytes.len() as u64;
        let [offset_, at, physical, len_, all, align] =
            [offset, *at, *physical, len, *all, 1].map(word);
        let fields = if wide {
            [kind, flags, offset_, at, physical, len_, all, align]
        } else {
            [kind, offset_, at, physical, len_, all, flags, align]
        };
        fields.iter().for_each(|field| file.extend(field));
        offset += len;
    }
    segments
        .iter()
        .for_each(|(_, _, bytes, _)| file.extend(*bytes));
    file
}
