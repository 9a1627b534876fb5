//! Reads a file that the user names. It may be anything, so that its size is limited before it is
//! read.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};

use hanok_base::exit::{Blame, Code, Outcome};

/// The largest size of a file in bytes: a kernel's `vmlinux` with debugging information has some
/// hundred megabytes.
const MOST: u64 = 1 << 30;
/// The largest size in bytes of files that are no ELF file: a kernel's image, packed or not, or an
/// archive.
const MOST_OF_OTHERS: u64 = 192 << 20;
/// What an ELF file begins with.
const ELF: &[u8] = b"\x7fELF";

/// The bytes of `file`.
pub fn read(file: &Path) -> Outcome<Vec<u8>> {
    let cannot = || format!("cannot read {}", file.display());
    let opened = File::open(file).with_context(cannot).blame(Code::Usage)?;
    bytes(opened).with_context(cannot).blame(Code::Refused)
}

fn bytes(mut file: File) -> Result<Vec<u8>> {
    let known = file.metadata()?;
    if known.is_dir() {
        bail!("it is a folder; name a file");
    }
    let mut bytes = Vec::new();
    file.by_ref()
        .take(ELF.len() as u64)
        .read_to_end(&mut bytes)?;
    let most = if bytes == ELF { MOST } else { MOST_OF_OTHERS };
    let refuse = || {
        format!(
            "it has more than {} MB; nothing that is rewritten is so large",
            most >> 20
        )
    };
    // The length of a device or a pipe is not known before.
    if known.len() > most {
        bail!(refuse());
    }
    bytes.reserve_exact((known.len() as usize).saturating_sub(bytes.len()));
    let left = (most + 1).saturating_sub(bytes.len() as u64);
    file.take(left).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        bail!(refuse());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_or_refused_before_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        for content in [&b"no ELF file"[..], b"\x7fELF and more", b"abc", b""] {
            let path = dir.path().join("file");
            std::fs::write(&path, content).unwrap();
            assert_eq!(bytes(File::open(&path).unwrap()).unwrap(), content);
        }
        let folder = bytes(File::open(dir.path()).unwrap()).unwrap_err();
        assert!(folder.to_string().contains("folder"), "{folder}");
        // The file has no blocks on the disk.
        let path = dir.path().join("large");
        let large = File::create(&path).unwrap();
        large.set_len(MOST_OF_OTHERS + 1).unwrap();
        let refused = bytes(File::open(&path).unwrap()).unwrap_err();
        assert!(refused.to_string().contains("more than"), "{refused}");
        // A device is read only up to the limit, whatever length it reports.
        let endless = bytes(File::open("/dev/zero").unwrap()).unwrap_err();
        assert!(endless.to_string().contains("more than"), "{endless}");
    }
}
