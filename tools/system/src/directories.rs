//! Folders of the PC that QEMU gives the board, as devices that serve files by 9P.

use crate::diagnostic::{Report, Words};
use crate::files::Named;
use crate::table::{self, At, Reader};
use crate::transports::{A_TRANSPORT, Transports};
use std::path::{Path, PathBuf};

const A_FOLDER: &str = "the path of a folder of the PC";
pub(crate) const A_TAG: &str = "a name of 1 to 32 letters, digits, '-' and '_', such as \"shared\"";
const A_TRUTH: &str = "true or false";
/// The tag of a directory for which none is written.
pub(crate) const TAG: &str = "shared";
/// The most bytes of a tag: QEMU's limit.
const LONGEST_TAG: usize = 32;

/// A folder of the PC that the board has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The number of the virtio-mmio transport at which it is.
    pub transport: u64,
    /// The folder.
    pub path: PathBuf,
    /// The name by which a guest mounts it.
    pub tag: String,
    /// Whether nobody may write there.
    pub readonly: bool,
}

/// A `[[directory]]` as it is written.
pub(crate) struct DirectoryDraft {
    device: Option<At<String>>,
    path: Option<At<String>>,
    tag: Option<At<String>>,
    readonly: bool,
}

impl DirectoryDraft {
    pub(crate) fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Self {
        let readonly = reader.get(report, "readonly", A_TRUTH, table::truth);
        Self {
            device: reader.require(report, "device", A_TRANSPORT, table::word),
            path: reader.require(report, "path", A_FOLDER, table::word),
            tag: reader.get(report, "tag", A_TAG, |value| {
                table::word(value).filter(|tag| is_tag(tag))
            }),
            readonly: readonly.is_some_and(|at| at.value),
        }
    }

    /// The folder, if it can be read.
    fn folder(&self, report: &mut Report) -> Option<PathBuf> {
        let path = self.path.as_ref()?;
        let folder = report.path.parent().unwrap_or(Path::new(""));
        let full = folder.join(&path.value);
        let named = Named {
            what: "folder",
            path: &full,
            span: &path.span,
        };
        named.read(report, |path| std::fs::read_dir(path).map(drop), Vec::new)?;
        Some(full)
    }
}

pub(crate) fn is_tag(tag: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=LONGEST_TAG).contains(&tag.len()) && tag.bytes().all(letter)
}

/// The directories of the board, as far as nothing is wrong with them.
pub(crate) fn resolve(
    report: &mut Report,
    transports: &mut Transports<'_>,
    drafts: &[DirectoryDraft],
) -> Vec<Directory> {
    let mut all: Vec<Directory> = Vec::new();
    for draft in drafts {
        let (Some(device), Some(path)) = (&draft.device, draft.folder(report)) else {
            continue;
        };
        let real = |path: &PathBuf| path.canonicalize().ok();
        if all.iter().any(|other| real(&other.path) == real(&path)) {
            twice(report, draft);
            continue;
        }
        let Some(transport) = transports.take(report, ("directory", device)) else {
            continue;
        };
        let tag = draft.tag.as_ref().map_or(TAG, |at| &at.value);
        all.push(Directory {
            transport,
            path,
            tag: tag.to_owned(),
            readonly: draft.readonly,
        });
    }
    all
}

fn twice(report: &mut Report, draft: &DirectoryDraft) {
    if let Some(path) = &draft.path {
        let what = format!("the folder \"{}\" is given twice", path.value);
        let why = "each guest keeps in memory what it has read, and would not see what the other one writes";
        let remedy = "give each device a folder of its own";
        report.refuse(&path.span, Words::new(what, why, remedy));
    }
}

impl Directory {
    /// The arguments by which QEMU makes the directory number `index`.
    pub(crate) fn qemu_args(&self, index: usize) -> [String; 4] {
        // QEMU ends an option's value at a comma unless there are two.
        let path = self.path.display().to_string().replace(',', ",,");
        let readonly = if self.readonly { ",readonly=on" } else { "" };
        let (tag, bus) = (&self.tag, self.transport);
        [
            "-fsdev".to_owned(),
            format!("local,id=directory{index},path={path},security_model=none{readonly}"),
            "-device".to_owned(),
            format!(
                "virtio-9p-device,fsdev=directory{index},mount_tag={tag},bus=virtio-mmio-bus.{bus}"
            ),
        ]
    }
}
