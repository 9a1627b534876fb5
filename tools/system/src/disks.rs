//! Disks of the board that QEMU is to make: files of the PC, or empty ones that last for a run.

use crate::board::Board;
use crate::diagnostic::{Report, Words};
use crate::files::Named;
use crate::table::{self, At, Reader};
use std::ops::Range;
use std::path::{Path, PathBuf};

const A_DEVICE: &str = "a virtio device of the board, such as \"virtio_mmio@a003e00\"";
const A_FILE: &str = "the path of a raw disk image";
/// The bytes of a transport's registers, and the number of transports.
const STRIDE: u64 = 0x200;
const TRANSPORTS: u64 = 32;

/// A disk of the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The number of the virtio-mmio transport at which it is.
    pub transport: u64,
    /// What is on it.
    pub content: Content,
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
            device: reader.require(report, "device", A_DEVICE, table::word),
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
                named.read(report, |path| std::fs::File::open(path), Vec::new)?;
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

/// The disks of the board, as far as nothing is wrong with them.
pub(crate) fn resolve(report: &mut Report, board: &Board, drafts: &[DiskDraft]) -> Vec<Disk> {
    let mut disks: Vec<Disk> = Vec::new();
    for draft in drafts {
        let (Some(device), Some(content)) = (&draft.device, draft.content.content(report)) else {
            continue;
        };
        let Some(transport) = transport(board, &device.value) else {
            let what = format!("QEMU makes no disk at \"{}\"", device.value);
            let (why, remedy) = match board.qemu.virtio_mmio {
                Some(first) => (
                    "it is none of the board's virtio-mmio transports".to_owned(),
                    format!("choose one, such as \"virtio_mmio@{:x}\"", last(first)),
                ),
                None => (
                    format!("board {} has no virtio-mmio transports", board.name),
                    "remove the [[disk]], or choose another board".to_owned(),
                ),
            };
            report.refuse(&device.span, Words::new(what, why, remedy));
            continue;
        };
        if disks.iter().any(|disk| disk.transport == transport) {
            let what = format!("a second disk at \"{}\"", device.value);
            let words = Words::new(what, "a transport has one device", "choose another one");
            report.refuse(&device.span, words);
            continue;
        }
        disks.push(Disk { transport, content });
    }
    disks
}

/// The address of the last transport.
fn last(first: u64) -> u64 {
    first + (TRANSPORTS - 1) * STRIDE
}

/// The number of the transport of this name.
fn transport(board: &Board, name: &str) -> Option<u64> {
    let first = board.qemu.virtio_mmio?;
    let at = u64::from_str_radix(name.strip_prefix("virtio_mmio@")?, 16).ok()?;
    let offset = at.checked_sub(first)?;
    (at <= last(first) && offset.is_multiple_of(STRIDE)).then_some(offset / STRIDE)
}

impl Content {
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
    pub(crate) fn qemu_args(&self, index: usize) -> [String; 4] {
        let (drive, bus) = (self.content.drive(), self.transport);
        [
            "-drive".to_owned(),
            format!("if=none,id=disk{index},{drive}"),
            "-device".to_owned(),
            format!("virtio-blk-device,drive=disk{index},bus=virtio-mmio-bus.{bus}"),
        ]
    }
}
