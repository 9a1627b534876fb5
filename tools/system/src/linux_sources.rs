//! What a Linux serves other VMs with besides images: tap interfaces for their networks, and directories of its own.

use crate::diagnostic::{Report, Words};
use crate::directories::{self, A_TAG, TAG};
use crate::disk_images::{self, DiskImage, ImageDraft};
use crate::table::{self, Reader};
use hanok_config::guest::{GuestDirectory, GuestImage, GuestSource};
use std::ops::Range;

const A_TAP: &str = "a name of 1 to 15 letters, digits, '-' and '_', such as \"left0\"";
const A_PATH: &str = "the path of a directory in the other VM, such as \"/images/shared\"";
const A_TRUTH: &str = "true or false";
/// The most bytes of an interface's name (Linux's IFNAMSIZ with its zero byte is 16).
const LONGEST_TAP: usize = 15;

/// What a program of a Linux serves a device with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinuxSource {
    /// A disk, by a file or a block device.
    Image(DiskImage),
    /// A network, by the tap interface of this name.
    Tap(String),
    /// A directory, by one of its own.
    Directory(ServedDirectory),
}

/// A directory of a Linux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedDirectory {
    /// Its absolute path in the VM that serves it.
    pub path: String,
    /// The name by which the client mounts it.
    pub tag: String,
    /// Whether the client may only read it.
    pub read_only: bool,
}

/// What is written of it.
#[derive(Clone, Debug)]
pub(crate) struct SourceDraft {
    /// The place of the key that makes it one.
    pub(crate) span: Range<usize>,
    pub(crate) source: LinuxSource,
}

impl SourceDraft {
    /// Of a disk.
    pub(crate) fn image(draft: ImageDraft) -> Self {
        Self {
            span: draft.file.span,
            source: LinuxSource::Image(draft.image),
        }
    }

    /// Of a network, if `tap` is written.
    pub(crate) fn tap(reader: &mut Reader<'_, '_>, report: &mut Report) -> Option<Self> {
        let tap = reader.get(report, "tap", A_TAP, |value| {
            table::word(value).filter(|name| is_tap(name))
        })?;
        Some(Self {
            span: tap.span,
            source: LinuxSource::Tap(tap.value),
        })
    }

    /// Of a directory, if `path` is written. What goes with it alone is refused without.
    pub(crate) fn directory(reader: &mut Reader<'_, '_>, report: &mut Report) -> Option<Self> {
        let path = reader.get(report, "path", A_PATH, table::word);
        let tag = reader.get(report, "tag", A_TAG, |value| {
            table::word(value).filter(|tag| directories::is_tag(tag))
        });
        let read_only = reader.get(report, "readonly", A_TRUTH, table::truth);
        if !reader.has("path") {
            let alone = tag.map(|at| ("tag", at.span));
            let alone = alone.or(read_only.map(|at| ("readonly", at.span)));
            if let Some((key, span)) = alone {
                let what = format!("`{key}` without `path`");
                let why = "it is about a directory that a Linux serves; that of a board's device is said in its [[directory]]";
                let remedy = format!("move it to the [[directory]], or write {A_PATH} as `path`");
                report.refuse(&span, Words::new(what, why, remedy));
            }
            return None;
        }
        let judge = |text: String| disk_images::path(text, "a directory", A_PATH);
        let path = path?.judged(report, judge)?;
        let directory = ServedDirectory {
            path: path.value,
            tag: tag.map_or_else(|| TAG.to_owned(), |at| at.value),
            read_only: read_only.is_some_and(|at| at.value),
        };
        Some(Self {
            span: path.span,
            source: LinuxSource::Directory(directory),
        })
    }
}

fn is_tap(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=LONGEST_TAP).contains(&name.len()) && name.bytes().all(letter)
}

impl LinuxSource {
    /// What the tree of the VM that serves it says of it.
    pub(crate) fn of_guest(&self) -> GuestSource<'_> {
        match self {
            Self::Image(image) => GuestSource::Image(GuestImage {
                file: &image.file,
                format: image.format.word(),
                read_only: image.read_only,
            }),
            Self::Tap(name) => GuestSource::Tap(name),
            Self::Directory(directory) => GuestSource::Directory(GuestDirectory {
                path: &directory.path,
                tag: &directory.tag,
                read_only: directory.read_only,
            }),
        }
    }

    /// Whether both cannot be served side by side: they are the same interface, or files of which one is written to by its client.
    pub(crate) fn collides(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Image(one), Self::Image(other)) => {
                one.file == other.file && !(one.read_only && other.read_only)
            }
            (Self::Tap(one), Self::Tap(other)) => one == other,
            (Self::Directory(one), Self::Directory(other)) => {
                one.path == other.path && !(one.read_only && other.read_only)
            }
            _ => false,
        }
    }
}

/// Refuses what another VM has, too.
pub(crate) fn served_twice(report: &mut Report, draft: &SourceDraft, other: &str) {
    let (name, why, remedy) = match &draft.source {
        LinuxSource::Image(image) => (
            &image.file,
            "two that write to one file system destroy it",
            "give each VM an image of its own, or both of them `read-only = true`",
        ),
        LinuxSource::Tap(name) => (
            name,
            "an interface has one other end",
            "write another name as `tap`",
        ),
        LinuxSource::Directory(directory) => (
            &directory.path,
            "neither would know of the other one's locks",
            "give each VM a directory of its own, or both of them `readonly = true`",
        ),
    };
    let what = format!("\"{name}\" is served twice");
    let why = format!("VM {other} has it, too, and {why}");
    report.refuse(&draft.span, Words::new(what, why, remedy));
}
