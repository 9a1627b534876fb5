//! Makes the flat binary that a boot loader copies to memory from an ELF file.

use anyhow::{Context, Result, bail};
use object::elf::{FileHeader32, FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};

/// The largest distance in bytes between the first and the last byte. More means that a linker
/// script is wrong.
const LARGEST: u64 = 64 << 20;

/// The loaded segments of `elf` at their physical places, with zeros in the gaps. Zeros at the end
/// (bss) are left out: the Image header has their size.
pub fn flatten(elf: &[u8]) -> Result<Vec<u8>> {
    let segments = segments(elf).context("the ELF file is damaged")?;
    let Some(base) = segments.iter().map(|segment| segment.0).min() else {
        bail!("the ELF file has nothing to load");
    };
    let mut flat = Vec::new();
    for (place, bytes) in segments {
        let start = place - base;
        let end = start.saturating_add(bytes.len() as u64);
        if end > LARGEST {
            bail!(
                "the segment at {place:#x} lies {start:#x} bytes from the first one at {base:#x}"
            );
        }
        let (start, end) = (usize::try_from(start)?, usize::try_from(end)?);
        flat.resize(flat.len().max(end), 0);
        flat[start..end].copy_from_slice(bytes);
    }
    Ok(flat)
}

/// The physical address and the bytes of every segment that has bytes in the file.
fn segments(elf: &[u8]) -> Result<Vec<(u64, &[u8])>> {
    match object::FileKind::parse(elf)? {
        object::FileKind::Elf32 => segments_of::<FileHeader32<object::Endianness>>(elf),
        _ => segments_of::<FileHeader64<object::Endianness>>(elf),
    }
}

fn segments_of<Header: FileHeader>(elf: &[u8]) -> Result<Vec<(u64, &[u8])>> {
    let header = Header::parse(elf)?;
    let endian = header.endian()?;
    let mut found = Vec::new();
    for segment in header.program_headers(endian, elf)? {
        if segment.p_type(endian) != PT_LOAD {
            continue;
        }
        let bytes = segment
            .data(endian, elf)
            .ok()
            .context("a segment lies outside the file")?;
        if !bytes.is_empty() {
            found.push((segment.p_paddr(endian).into(), bytes));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with these segments (place, bytes, further zeros).
    fn elf(segments: &[(u64, &[u8], u64)]) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        let half = |file: &mut Vec<u8>, value: u16| file.extend(value.to_le_bytes());
        let long = |file: &mut Vec<u8>, value: u64| file.extend(value.to_le_bytes());
        half(&mut file, 2);
        half(&mut file, 183);
        file.extend(1u32.to_le_bytes());
        [0, 64, 0]
            .into_iter()
            .for_each(|value| long(&mut file, value));
        file.extend(0u32.to_le_bytes());
        let sizes = [64, 56, segments.len() as u16, 64, 0, 0];
        sizes.into_iter().for_each(|value| half(&mut file, value));
        let mut offset = 64 + 56 * segments.len() as u64;
        for (place, bytes, zeros) in segments {
            file.extend(1u32.to_le_bytes());
            file.extend(5u32.to_le_bytes());
            let size = bytes.len() as u64;
            let fields = [offset, !0, *place, size, size + zeros, 1];
            fields.into_iter().for_each(|value| long(&mut file, value));
            offset += size;
        }
        segments
            .iter()
            .for_each(|(_, bytes, _)| file.extend(*bytes));
        file
    }

    #[test]
    fn segments_go_to_their_physical_places() {
        let file = elf(&[
            (0x4008_0008, b"tail", 100),
            (0x4008_0000, b"head", 0),
            (0x5000_0000, b"", 64),
        ]);
        assert_eq!(flatten(&file).unwrap(), b"head\0\0\0\0tail");
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(flatten(b"not an ELF file").is_err());
        assert!(flatten(&elf(&[])).is_err());
        assert!(flatten(&elf(&[(0, b"a", 0), (1 << 40, b"b", 0)])).is_err());
        let mut cut = elf(&[(0, b"abcdefgh", 0)]);
        cut.truncate(cut.len() - 4);
        assert!(flatten(&cut).is_err());
    }
}
