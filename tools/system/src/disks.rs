//! Disks of the board that QEMU is to make: files of the PC, or empty ones that last for a run.

use crate::diagnostic::{Report, Words};
use crate::files::Named;
use crate::size;
use crate::table::{self, At, Reader};
use crate::transports::Transports;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const A_DISK: &str =
    "a device of the board, such as \"virtio_mmio@a003e00\", or \"mmc@50000\" for an SD card";
const A_FILE: &str = "the path of a raw disk image";
/// The sizes of an SD card in bytes: less has no whole number of the units in which a card says its size, and more is no SDXC card
/// (SD Physical Layer Simplified Specification, 3.3.2). Between them QEMU takes powers of two.
const CARD_SIZES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 41;
/// The bytes of a disk's sector (virtio 1.2, 5.2.4).
const SECTOR: u64 = 512;
/// What makes such an image, before its path.
const MAKES: &str = "./hanok image debian -o";

/// A disk of the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Where it is.
    pub place: Place,
    /// What is on it.
    pub content: Content,
}

/// Where a disk of the board is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the virtio-mmio transport with this number.
    Transport(u64),
    /// In the board's slot for an SD card.
    Card,
}

/// What is on a disk of the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A raw image.
    File(PathBuf),
    /// Nothing at first; this many bytes, which are gone after the run.
    Empty(u64),
}

/// A `[[disk]]` as it is written.
pub(crate) struct DiskDraft {
    device: Option<At<String>>,
    content: Draft,
}

/// What is on a disk, as it is written.
pub(crate) struct Draft {
    span: Range<usize>,
    file: Option<At<String>>,
    size: Option<At<u64>>,
}

impl DiskDraft {
    pub(crate) fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Self {
        Self {
            device: reader.require(report, "device", A_DISK, table::word),
            content: Draft::read(reader, report),
        }
    }
}

impl Draft {
    pub(crate) fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Self {
        Self {
            span: reader.span.clone(),
            file: reader.get(report, "file", A_FILE, table::word),
            size: reader.get(report, "size", table::A_SIZE, table::size),
        }
    }

    /// Whether nothing was written.
    pub(crate) fn is_none(&self) -> bool {
        self.file.is_none() && self.size.is_none()
    }

    /// Whether QEMU makes an SD card with this content.
    fn fits_card(&self, report: &mut Report, content: &Content) -> bool {
        let bytes = match content {
            Content::File(path) => std::fs::metadata(path).map_or(0, |file| file.len()),
            Content::Empty(bytes) => *bytes,
        };
        if CARD_SIZES.contains(&bytes) && bytes.is_power_of_two() {
            return true;
        }
        let (least, most) = (*CARD_SIZES.start(), *CARD_SIZES.end());
        let near = bytes.checked_next_power_of_two().unwrap_or(most);
        let near = size::show(near.clamp(least, most));
        let what = format!("an SD card cannot have {bytes} bytes");
        let why = format!(
            "QEMU makes cards whose size is a power of two, from {} to {}",
            size::show(least),
            size::show(most)
        );
        let remedy = match content {
            Content::File(path) if bytes <= most => {
                format!("`truncate -s {near} {}` makes it larger", path.display())
            }
            Content::File(_) => "choose a smaller image".to_owned(),
            Content::Empty(_) => format!("make it \"{near}\""),
        };
        let file = self.file.as_ref().map(|file| &file.span);
        let span = file.or(self.size.as_ref().map(|size| &size.span));
        report.refuse(span.unwrap_or(&self.span), Words::new(what, why, remedy));
        false
    }

    pub(crate) fn content(&self, report: &mut Report) -> Option<Content> {
        match (&self.file, &self.size) {
            (Some(file), None) => {
                let folder = report.path.parent().unwrap_or(Path::new("")).to_path_buf();
                let path = folder.join(&file.value);
                let named = Named {
                    what: "disk image",
                    path: &path,
                    span: &file.span,
                };
                let open = |path: &Path| std::fs::File::open(path);
                named.read_or_make(report, open, Vec::new, Some(MAKES))?;
                if let Some(words) = unusable(&path) {
                    report.refuse(&file.span, words);
                    return None;
                }
                Some(Content::File(path))
            }
            (None, Some(size)) => Some(Content::Empty(size.value)),
            _ => {
                let what = "a disk needs either `file` or `size`";
                let why = "it has what a file has, or it is empty and lasts for a run";
                report.refuse(&self.span, Words::new(what, why, "write one of them"));
                None
            }
        }
    }
}

/// Why QEMU could not use a file that is there as a disk, or would show another one than it is. A block device is as it is.
fn unusable(path: &Path) -> Option<Words> {
    let data = std::fs::metadata(path).ok()?;
    let is_writable = std::fs::OpenOptions::new().write(true).open(path).is_ok();
    let (len, path) = (data.len(), path.display());
    if data.is_dir() {
        let why = format!("{path} is a folder");
        let remedy = "name a file, or write a [[directory]] for a folder";
        return Some(Words::new("a folder is no disk image", why, remedy));
    }
    if data.permissions().readonly() || !is_writable {
        let what = "the disk image cannot be written";
        let why = "QEMU opens it to write to it, and would not start";
        let remedy = format!("`chmod u+w {path}`, or give the disk a copy of it");
        return Some(Words::new(what, why, remedy));
    }
    if !data.is_file() || len > 0 && len.is_multiple_of(SECTOR) {
        return None;
    }
    let (why, size) = match len {
        0 => ("a disk has at least one sector of 512 bytes", "64M"),
        _ => (
            "a disk has whole sectors of 512 bytes, and QEMU would make up the rest of the last one",
            "%512",
        ),
    };
    let what = format!("a disk cannot have {len} bytes");
    let remedy = format!("`truncate -s {size} {path}` makes it larger");
    Some(Words::new(what, why, remedy))
}

fn second_card(report: &mut Report, device: &At<String>) {
    let what = format!("a second device at \"{}\"", device.value);
    let words = Words::new(
        what,
        "the board has one slot for a card",
        "remove one of both",
    );
    report.refuse(&device.span, words);
}

/// The disks of the board, as far as nothing is wrong with them.
pub(crate) fn resolve(
    report: &mut Report,
    transports: &mut Transports<'_>,
    drafts: &[DiskDraft],
) -> Vec<Disk> {
    let mut disks: Vec<Disk> = Vec::new();
    for draft in drafts {
        let (Some(device), Some(content)) = (&draft.device, draft.content.content(report)) else {
            continue;
        };
        if disks
            .iter()
            .any(|other| other.content.is_same_file(&content))
        {
            let what = "another disk has the same file";
            let why = "both would write to it, and neither sees what the other one changes";
            let span = draft.content.file.as_ref().map(|file| &file.span);
            let words = Words::new(
                what,
                why,
                "give each disk a file of its own, such as a copy",
            );
            report.refuse(span.unwrap_or(&draft.content.span), words);
            continue;
        }
        let place = if transports.is_card(device) {
            let free = !disks.iter().any(|other| other.place == Place::Card);
            let fits = draft.content.fits_card(report, &content);
            if !free {
                second_card(report, device);
            }
            (free && fits).then_some(Place::Card)
        } else {
            let transport = transports.take(report, ("disk", device));
            transport.map(Place::Transport)
        };
        disks.extend(place.map(|place| Disk { place, content }));
    }
    disks
}

impl Content {
    /// Whether both are one file of the PC, by whatever names.
    fn is_same_file(&self, other: &Self) -> bool {
        let place = |content: &Self| match content {
            Self::File(path) => {
                let file = std::fs::metadata(path).ok()?;
                Some((file.dev(), file.ino()))
            }
            Self::Empty(_) => None,
        };
        place(self).is_some_and(|own| place(other) == Some(own))
    }

    /// QEMU's options of a drive with it.
    pub(crate) fn drive(&self) -> String {
        match self {
            Self::File(path) => {
                // QEMU ends an option's value at a comma unless there are two.
                let path = path.display().to_string().replace(',', ",,");
                format!("file={path},format=raw")
            }
            Self::Empty(bytes) => {
                format!("driver=null-co,size={bytes},read-zeroes=on,snapshot=on")
            }
        }
    }
}

impl Disk {
    /// The arguments by which QEMU makes the disk number `index`.
    pub(crate) fn qemu_args(&self, index: usize) -> Vec<String> {
        let drive = self.content.drive();
        match self.place {
            Place::Transport(bus) => vec![
                "-drive".to_owned(),
                format!("if=none,id=disk{index},{drive}"),
                "-device".to_owned(),
                format!("virtio-blk-device,drive=disk{index},bus=virtio-mmio-bus.{bus}"),
            ],
            Place::Card => vec!["-drive".to_owned(), format!("if=sd,id=disk{index},{drive}")],
        }
    }
}
