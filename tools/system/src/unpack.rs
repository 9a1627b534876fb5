//! Unpacks kernels in a gzip file or an EFI zboot image.
//!
//! A few hundred packed bytes can expand to gigabytes, and be packed once more. So each layer is
//! read as a stream from the one around it, and only the innermost content is kept, which has a
//! limit.

use crate::bytes::{has, u32_at, u64_at};
use crate::diagnostic::Words;
use crate::size;
use std::borrow::Cow;
use std::io::{BufReader, Read};

/// The largest size of an unpacked kernel in bytes.
const MOST: u64 = 256 << 20;
/// The largest number of packed layers.
const LAYERS: u32 = 3;
/// The number of bytes that tell what a file is.
const HEAD: u64 = 1024;
/// The offset in an Image of the size of the memory it takes, its own bytes included.
const IMAGE_SIZE: usize = 16;

/// The content of `bytes`, unpacked where it is packed.
pub(crate) fn whole(bytes: &[u8]) -> Result<Cow<'_, [u8]>, Words> {
    within(bytes, MOST, LAYERS)
}

/// Whether these bytes are an Image for arm64.
pub(crate) fn is_image(bytes: &[u8]) -> bool {
    has(bytes, 56, b"ARM\x64")
}

fn is_gzip(bytes: &[u8]) -> bool {
    has(bytes, 0, &[0x1f, 0x8b])
}

fn is_zboot(bytes: &[u8]) -> bool {
    has(bytes, 4, b"zimg")
}

fn within(bytes: &[u8], most: u64, layers: u32) -> Result<Cow<'_, [u8]>, Words> {
    if is_gzip(bytes) && layers > 0 {
        return gunzip(Box::new(bytes), most, layers - 1).map(Cow::Owned);
    }
    if is_zboot(bytes) && layers > 0 {
        return gunzip(Box::new(zboot(bytes)?), most, layers - 1).map(Cow::Owned);
    }
    Ok(Cow::Borrowed(bytes))
}

/// The content of a gzip stream.
fn gunzip(packed: Box<dyn Read + '_>, most: u64, layers: u32) -> Result<Vec<u8>, Words> {
    let mut inside = flate2::read::GzDecoder::new(BufReader::new(packed));
    let mut head = Vec::new();
    read(&mut inside, HEAD, &mut head)?;
    if is_gzip(&head) && layers > 0 {
        let whole = std::io::Cursor::new(head).chain(inside);
        return gunzip(Box::new(whole), most, layers - 1);
    }
    let said = if is_image(&head) {
        u64_at(&head, IMAGE_SIZE).unwrap_or(0).min(most)
    } else {
        0
    };
    let mut whole = Vec::with_capacity(said as usize);
    whole.extend(&head);
    // One byte beyond the limit shows that there is more.
    let left = (most + 1).saturating_sub(head.len() as u64);
    read(inside, left, &mut whole)?;
    if whole.len() as u64 > most {
        return Err(too_large(most));
    }
    if is_zboot(&whole) && layers > 0 {
        within(&whole, most, layers).map(Cow::into_owned)
    } else {
        Ok(whole)
    }
}

fn too_large(most: u64) -> Words {
    Words::new(
        "this compressed kernel is too large",
        format!("unpacked it has more than {}", size::show(most)),
        "give a smaller one, or load its data as an initramfs",
    )
}

fn read(from: impl Read, most: u64, bytes: &mut Vec<u8>) -> Result<(), Words> {
    let read = from.take(most).read_to_end(bytes);
    read.map(drop).map_err(|_| damaged())
}

/// The packed kernel in an EFI zboot image.
fn zboot(bytes: &[u8]) -> Result<&[u8], Words> {
    let [offset, size] = [8, 12].map(|at| u32_at(bytes, at).unwrap_or(0) as usize);
    let end = offset.saturating_add(size);
    let payload = bytes.get(offset..end).ok_or_else(damaged)?;
    if has(bytes, 24, b"gzip") {
        Ok(payload)
    } else {
        Err(Words::new(
            "this EFI zboot kernel is compressed with something else than gzip",
            "only gzip is unpacked here",
            "give the uncompressed Image, or one compressed with gzip",
        ))
    }
}

fn damaged() -> Words {
    Words::new(
        "this compressed kernel is damaged",
        "it does not unpack to its end",
        "download or build the kernel again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn kernel(claimed: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        bytes[IMAGE_SIZE..IMAGE_SIZE + 8].copy_from_slice(&claimed.to_le_bytes());
        bytes[56..60].copy_from_slice(b"ARM\x64");
        bytes
    }

    #[test]
    fn an_image_is_found_in_layers() {
        let image = kernel(0x3000, 0x2345);
        let mut packed = image.clone();
        for _ in 0..=LAYERS {
            assert_eq!(within(&packed, MOST, LAYERS).unwrap(), image);
            packed = gzip(&packed);
        }
        assert!(is_gzip(&within(&packed, MOST, LAYERS).unwrap()), "too many");
    }

    #[test]
    fn however_often_it_is_packed_the_limit_is_one() {
        const MOST: u64 = 1 << 20;
        let layered = |len: usize, layers: u32| {
            let bytes = kernel(u64::MAX, len);
            (0..layers).fold(bytes, |bytes, _| gzip(&bytes))
        };
        for layers in 1..=LAYERS {
            let fits = layered(MOST as usize, layers);
            let found = within(&fits, MOST, LAYERS).unwrap().into_owned();
            assert_eq!(found.len() as u64, MOST);
            assert!(
                found.capacity() as u64 <= 2 * MOST,
                "what the header claims is not believed"
            );
            let refused = within(&layered(32 << 20, layers), MOST, LAYERS).unwrap_err();
            assert!(refused.what.contains("too large"), "{refused:?}");
        }
        // One layer is not unpacked before the other: that would be too large by itself.
        let outer = gzip(&[gzip(&kernel(0x3000, 0x2345)), vec![0; 32 << 20]].concat());
        assert_eq!(within(&outer, MOST, LAYERS).unwrap().len(), 0x2345);
        let mut zboot = vec![0; 32 << 20];
        zboot[4..8].copy_from_slice(b"zimg");
        assert!(within(&gzip(&zboot), MOST, LAYERS).is_err());
    }

    #[test]
    fn a_cut_file_is_damaged() {
        let mut cut = gzip(&kernel(0x3000, 0x2345));
        cut.truncate(cut.len() - 9);
        assert!(whole(&cut).is_err());
    }
}
