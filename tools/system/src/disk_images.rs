//! Images of disks: files in the file systems of a Linux that serves them to other VMs.

use crate::diagnostic::{Report, Words};
use crate::table::{self, At, Reader};

const AN_IMAGE: &str = "the path of a file in the other VM, such as \"/images/disk.qcow2\"";
const A_FORMAT: &str = "\"raw\" or \"qcow2\"";
const A_TRUTH: &str = "true or false";
/// The longest path (Linux's PATH_MAX with its zero byte is larger by far, but this is in a device tree).
const LONGEST: usize = 255;

/// How the content of a disk lies in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    /// Byte by byte; also a block device.
    Raw,
    /// QEMU's format, which grows as it is written to.
    Qcow2,
}

impl ImageFormat {
    const fn of_word(word: &str) -> Option<Self> {
        match word.as_bytes() {
            b"raw" => Some(Self::Raw),
            b"qcow2" => Some(Self::Qcow2),
            _ => None,
        }
    }

    /// Its word in descriptions and in trees.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        }
    }
}

/// The image that a disk is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskImage {
    /// The absolute path of the file in the VM that serves it.
    pub file: String,
    /// How the content lies in it. It is never found out from the content, which the client writes.
    pub format: ImageFormat,
    /// Whether the client may only read it.
    pub read_only: bool,
}

/// An image as it is written.
#[derive(Clone, Debug)]
pub(crate) struct ImageDraft {
    pub(crate) file: At<String>,
    pub(crate) image: DiskImage,
}

impl ImageDraft {
    /// The image, if `file` is written. What goes with it alone is refused without.
    pub(crate) fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Option<Self> {
        let file = reader.get(report, "file", AN_IMAGE, table::word);
        let format = reader.get(report, "format", A_FORMAT, |value| {
            ImageFormat::of_word(&table::word(value)?)
        });
        let read_only = reader.get(report, "read-only", A_TRUTH, table::truth);
        if !reader.has("file") {
            let format = format.map(|at| ("format", at.span));
            let alone = format.or(read_only.map(|at| ("read-only", at.span)));
            if let Some((key, span)) = alone {
                let what = format!("`{key}` without `file`");
                let why = "it is about an image that a Linux serves";
                let remedy = "remove it, or write the image's `file`";
                report.refuse(&span, Words::new(what, why, remedy));
            }
            return None;
        }
        let file = file?.judged(report, |text| path(text, "an image", AN_IMAGE))?;
        let by_name = || {
            if file.value.ends_with(".qcow2") {
                ImageFormat::Qcow2
            } else {
                ImageFormat::Raw
            }
        };
        let image = DiskImage {
            file: file.value.clone(),
            format: format.map_or_else(by_name, |at| at.value),
            read_only: read_only.is_some_and(|at| at.value),
        };
        Some(Self { file, image })
    }
}

/// A path of `what` ("an image") that a program finds wherever it was started.
pub(crate) fn path(text: String, what: &str, such: &str) -> Result<String, Words> {
    let mut parts = text.split('/');
    let absolute = parts.next() == Some("");
    let plain = parts.all(|part| !part.is_empty() && part != "." && part != "..");
    if absolute && plain && text.len() <= LONGEST {
        return Ok(text);
    }
    Err(Words::new(
        format!("\"{text}\" is no path of {what}"),
        format!(
            "it is the whole path in the other VM, of {LONGEST} bytes at most, without \"..\" and the like"
        ),
        format!("write {such}"),
    ))
}
