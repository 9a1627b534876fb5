//! Static archives: their members, each an object.

use crate::refusal::{Refusal, Result};
use object::read::archive::ArchiveFile;

/// A member of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The member's file name.
    pub name: String,
    /// Where its bytes are in the archive.
    pub offset: usize,
    /// The number of the member's bytes.
    pub len: usize,
}

/// Whether `bytes` are an archive, or a thin one.
pub fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(b"!<arch>\n") || bytes.starts_with(b"!<thin>\n")
}

/// Lists the members that hold bytes. The archive's own index is none of them.
pub fn members(bytes: &[u8]) -> Result<Vec<Member>> {
    if bytes.starts_with(b"!<thin>") {
        return Err(Refusal::new(
            "this archive is thin",
            "it only names its members, which are files of their own",
            "give the members, or make it with `ar` without T",
        ));
    }
    let archive = ArchiveFile::parse(bytes).map_err(broken)?;
    let mut members = Vec::new();
    for member in archive.members() {
        let member = member.map_err(broken)?;
        let (offset, len) = member.file_range();
        let end = offset
            .checked_add(len)
            .filter(|end| *end <= bytes.len() as u64);
        if end.is_none() {
            return Err(Refusal::damaged(
                "a member of the archive goes beyond its end",
            ));
        }
        members.push(Member {
            name: String::from_utf8_lossy(member.name()).into_owned(),
            offset: offset as usize,
            len: len as usize,
        });
    }
    Ok(members)
}

fn broken(error: object::Error) -> Refusal {
    Refusal::damaged(format!("its archive structure is broken ({error})"))
}
