//! The side file, in JSON: every change.
//!
//! It undoes a rewrite, tells a debugger which instruction really stands at an address, and holds
//! the table of words that no SVC can hold. It names both files by their SHA-256, so that it is
//! never used for another file.

use super::form::Form;
use super::segment::ElfTables;
use crate::area::Reserved;
use crate::refusal::{Refusal, Result};
use crate::scan::{Kind, Scan};
use crate::site::{Role, Site};
use hanok_decode::aarch32::{Encoding, Isa};
use sha2::{Digest, Sha256};

/// The format that a side file names.
const FORMAT: &str = "hanok-previrt-5";

/// The changes that were made to a file, and what is needed to undo them.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SideFile {
    /// The format of this file: [`FORMAT`].
    pub format: String,
    /// The kind of the file.
    pub kind: Kind,
    /// The address at which an image is linked.
    pub base: Option<u32>,
    /// SHA-256 of the original file, unpacked.
    pub before: String,
    /// SHA-256 of the rewritten file.
    pub after: String,
    /// The table: the words, by their indices.
    pub words: Vec<u32>,
    /// The memory of the trampolines, which the guest's device tree has to reserve.
    pub reserved: Vec<Reserved>,
    /// The size of the original file in bytes.
    pub len: usize,
    /// What the original ELF header said of its tables, where the new one differs.
    pub tables: Option<ElfTables>,
    /// The changed instructions, in the order of the file.
    pub changes: Vec<Change>,
    /// The offsets of the ELF headers that were marked.
    pub headers: Vec<usize>,
    /// The instructions that were left, because they trap as they are.
    pub left: Vec<LeftInstruction>,
    /// The words that may be data, and were left.
    pub doubtful: Vec<DoubtfulWord>,
}

/// An instruction that was changed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The instruction's offset in the file.
    pub offset: usize,
    /// Its address in memory; in an object, its distance from the section's start.
    pub address: u32,
    /// The original instruction: a word; for T32 two halfwords, the first one in the upper half, or
    /// one halfword.
    pub was: u32,
    /// The instruction that replaced it, in the same form.
    pub is: u32,
    /// Whether it is T32.
    pub thumb: bool,
    /// Whether it is one halfword.
    pub narrow: bool,
    /// The form that it was brought to.
    pub form: Form,
    /// Whether it is executed here, or copied elsewhere first.
    pub role: Role,
    /// The function that contains it.
    pub function: Option<String>,
}

/// An instruction that was left.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftInstruction {
    /// The instruction's offset in the file.
    pub offset: usize,
    /// Its address in memory; in an object, its distance from the section's start.
    pub address: u32,
    /// The instruction.
    pub word: u32,
    /// The reason why it was left.
    pub why: String,
    /// The function that contains it.
    pub function: Option<String>,
}

/// A word that may be an instruction.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoubtfulWord {
    /// The word's offset in the file.
    pub offset: usize,
    /// The word's address in memory.
    pub address: u32,
    /// The word.
    pub word: u32,
    /// The function that it stands behind.
    pub function: Option<String>,
}

impl Change {
    pub(super) fn new(site: &Site, form: Form, is: Encoding, function: Option<String>) -> Self {
        Self {
            offset: site.offset,
            address: site.address,
            was: site.found.encoding.bits(),
            is: is.bits(),
            thumb: is.isa() == Isa::T32,
            narrow: is.bytes() == 2,
            form,
            role: site.role,
            function,
        }
    }

    /// The change of an A32 word that is no site.
    pub(super) const fn of_word(
        offset: usize,
        address: u32,
        [was, is]: [u32; 2],
        form: Form,
    ) -> Self {
        Self {
            offset,
            address,
            was,
            is,
            thumb: false,
            narrow: false,
            form,
            role: Role::Code,
            function: None,
        }
    }

    pub(super) const fn isa(&self) -> Isa {
        if self.thumb { Isa::T32 } else { Isa::A32 }
    }

    /// The new instruction, which is as long as the original one.
    pub(super) const fn encoding(&self) -> Encoding {
        match (self.thumb, self.narrow) {
            (false, _) => Encoding::A32(self.is),
            (true, true) => Encoding::Narrow(self.is as u16),
            (true, false) => Encoding::Wide(self.is),
        }
    }

    /// The original instruction.
    pub(super) const fn original(&self) -> Encoding {
        match (self.thumb, self.narrow) {
            (false, _) => Encoding::A32(self.was),
            (true, true) => Encoding::Narrow(self.was as u16),
            (true, false) => Encoding::Wide(self.was),
        }
    }
}

impl LeftInstruction {
    pub(super) fn new(site: &Site, why: &str, function: Option<String>) -> Self {
        Self {
            offset: site.offset,
            address: site.address,
            word: site.found.encoding.bits(),
            why: why.to_owned(),
            function,
        }
    }
}

impl DoubtfulWord {
    pub(super) fn new(site: &Site, function: Option<String>) -> Self {
        Self {
            offset: site.offset,
            address: site.address,
            word: site.found.encoding.bits(),
            function,
        }
    }
}

/// SHA-256 in hexadecimal digits.
fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

impl SideFile {
    /// The side file of a file that is not changed yet.
    pub(super) fn new(scan: &Scan) -> Self {
        Self {
            format: FORMAT.to_owned(),
            kind: scan.kind.clone(),
            base: scan.base,
            before: digest(&scan.content),
            after: String::new(),
            words: Vec::new(),
            reserved: Vec::new(),
            len: scan.content.len(),
            tables: None,
            changes: Vec::new(),
            headers: Vec::new(),
            left: Vec::new(),
            doubtful: Vec::new(),
        }
    }

    pub(super) fn seal(&mut self, bytes: &[u8]) {
        self.after = digest(bytes);
    }

    /// Reads a side file from JSON; the text may be anything.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let remedy = "give the file that `hanok previrt patch` wrote beside its output";
        let side: Self = serde_json::from_slice(text)
            .map_err(|error| Refusal::new("this is no side file", error.to_string(), remedy))?;
        if side.format == FORMAT {
            Ok(side)
        } else {
            let why = format!("its format is {:?}, not {FORMAT:?}", side.format);
            Err(Refusal::new(
                "this side file is of another version",
                why,
                remedy,
            ))
        }
    }

    /// The side file as JSON.
    pub fn to_json(&self) -> String {
        // It has only strings and numbers, so that this cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Checks that `bytes` are the rewritten file that this side file belongs to.
    pub(super) fn check(&self, bytes: &[u8]) -> Result<()> {
        if digest(bytes) == self.after {
            Ok(())
        } else {
            Err(Refusal::new(
                "file and side file do not belong together",
                "the file is not the one that was written with this side file",
                "give both as `hanok previrt patch` wrote them",
            ))
        }
    }

    pub(super) fn check_original(&self, bytes: &[u8]) -> Result<()> {
        if digest(bytes) == self.before {
            Ok(())
        } else {
            Err(Refusal::damaged(
                "undoing its changes does not give the original",
            ))
        }
    }
}
