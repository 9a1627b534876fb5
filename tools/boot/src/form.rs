//! A program of guests/ in another form than it is built in, as other programs come: what QEMU's
//! `-kernel` takes, natively and for a VM.

use anyhow::{Result, bail};
use hanok_system::Architecture;
use serde::Deserialize;
use std::path::Path;

use crate::system::Resolved;
use hanok_base::repo;

/// A form of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// An ELF file in several segments, at [`ELF_AT`].
    Elf,
    /// A flat binary: without the header of an Image or a zImage.
    Flat,
    /// An arm64 Image whose `text_offset` is more than 2 MiB.
    Offset,
}

/// The address at which the programs' 32-bit builds are linked; the 64-bit ones run anywhere.
const ELF_AT: u64 = 0x4080_0000;
/// The `text_offset` of an Image in the form [`Form::Offset`]: no multiple of 2 MiB.
const TEXT_OFFSET: u64 = 0x48_0000;

impl Form {
    /// Converts `resolved`'s kernel to this form, which is kept in `dir`.
    pub fn apply(
        self,
        resolved: &mut Resolved,
        architecture: Architecture,
        dir: &Path,
    ) -> Result<()> {
        let path = dir.join("kernel");
        let program = std::fs::read(&resolved.kernel)?;
        repo::write_whole(&path, &self.of(program, architecture)?)?;
        resolved.kernel = path;
        Ok(())
    }

    /// `program`, as it was built for this architecture, in this form.
    fn of(self, mut program: Vec<u8>, architecture: Architecture) -> Result<Vec<u8>> {
        let (magic, arm64) = match architecture {
            Architecture::Arm64 => (56, true),
            Architecture::Arm => (36, false),
        };
        if program.len() < 4096 || self == Self::Offset && !arm64 {
            bail!("this program cannot be had in this form");
        }
        match self {
            Self::Elf => return Ok(elf(&program, arm64)),
            Self::Flat => program[magic..magic + 4].fill(0),
            Self::Offset => program[8..16].copy_from_slice(&TEXT_OFFSET.to_le_bytes()),
        }
        Ok(program)
    }
}

/// An ELF file of `program`, by the tables of the gABI (chapters 4 and 5). It has three segments,
/// which are not in the order of their addresses, and zeros behind the last. Code that runs at
/// another address than it is loaded at has that address as its virtual one.
fn elf(program: &[u8], wide: bool) -> Vec<u8> {
    let word = |value: u64| {
        if wide {
            value.to_le_bytes().to_vec()
        } else {
            (value as u32).to_le_bytes().to_vec()
        }
    };
    let halves = |values: &[u16]| -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    };
    let (class, machine, header, each) = if wide {
        (2, 183, 64, 56)
    } else {
        (1, 40, 52, 32)
    };
    let moved = if wide { 0xffff_0000_0000_0000 } else { 0 };
    let (first, second) = ((program.len() / 3) | 5, (program.len() / 2) | 3);
    let segments = [
        (second, program.len(), 0x3000),
        (0, first, 0),
        (first, second, 0),
    ];
    let mut file = vec![0x7f, b'E', b'L', b'F', class, 1, 1];
    file.resize(16, 0);
    file.extend(halves(&[2, machine, 1, 0]));
    [ELF_AT + moved, header, 0]
        .map(word)
        .iter()
        .for_each(|field| file.extend(field));
    file.extend([0; 4]);
    file.extend(halves(&[
        header as u16,
        each,
        segments.len() as u16,
        0,
        0,
        0,
    ]));
    let bytes_at = header + u64::from(each) * segments.len() as u64;
    for (start, end, zeros) in segments {
        let (at, len) = (start as u64, (end - start) as u64);
        let [kind, flags] = [1u32, 7].map(|value| value.to_le_bytes().to_vec());
        let numbers = [
            bytes_at + at,
            ELF_AT + moved + at,
            ELF_AT + at,
            len,
            len + zeros,
            1,
        ];
        let [offset, at, physical, len, all, align] = numbers.map(word);
        let fields = if wide {
            [kind, flags, offset, at, physical, len, all, align]
        } else {
            [kind, offset, at, physical, len, all, flags, align]
        };
        fields.iter().for_each(|field| file.extend(field));
    }
    file.extend(program);
    file
}
