//! The side file: every change, as JSON.
//!
//! It undoes a rewrite, tells a debugger what really stands at an address, and holds the table
//! of words that no SVC can hold. Both files are named by their SHA-256, so that a side file is
//! never taken for another file's.

use super::form::Form;
use super::segment::Tables;
use crate::refusal::{Refusal, Result};
use crate::room::Reserved;
use crate::scan::{Kind, Scan};
use crate::site::{Role, Site};
use hanok_decode::aarch32::{Encoding, Isa};
use sha2::{Digest, Sha256};

/// What a side file of this form says it is.
const FORMAT: &str = "hanok-previrt-3";

/// Everything that was changed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SideFile {
    /// [`FORMAT`].
    pub format: String,
    /// What the file is.
    pub kind: Kind,
    /// Where an image is linked.
    pub base: Option<u32>,
    /// SHA-256 of the file as it was, unpacked.
    pub before: String,
    /// SHA-256 of the rewritten file.
    pub after: String,
    /// The table: words by their numbers.
    pub words: Vec<u32>,
    /// The memory of the trampolines, which the guest's device tree has to reserve.
    pub reserved: Vec<Reserved>,
    /// How many bytes the file had.
    pub len: usize,
    /// What the ELF header said of its tables, where it says something else now.
    pub tables: Option<Tables>,
    /// What was changed, in the order of the file.
    pub changes: Vec<Change>,
    /// ELF headers that were marked, by their offsets.
    pub headers: Vec<usize>,
    /// What traps as it is.
    pub left: Vec<Left>,
    /// What may be data, and was left.
    pub doubtful: Vec<Doubt>,
}

/// An instruction that was changed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Where in the file.
    pub offset: usize,
    /// Where in memory, or in its section.
    pub address: u32,
    /// What it was: a word; of T32 two halfwords, the first above, or one.
    pub was: u32,
    /// What it is now.
    pub is: u32,
    /// Whether T32.
    pub thumb: bool,
    /// Whether one halfword.
    pub narrow: bool,
    /// To which form it was brought.
    pub form: Form,
    /// Whether it is executed there, or copied elsewhere first.
    pub role: Role,
    /// The function it is in.
    pub function: Option<String>,
}

/// An instruction that was left.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Left {
    /// Where in the file.
    pub offset: usize,
    /// Where in memory, or in its section.
    pub address: u32,
    /// What it is.
    pub word: u32,
    /// Why.
    pub why: String,
    /// The function it is in.
    pub function: Option<String>,
}

/// A word that may be an instruction.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doubt {
    /// Where in the file.
    pub offset: usize,
    /// Where in memory.
    pub address: u32,
    /// What it is.
    pub word: u32,
    /// Behind which function it is.
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

    pub(super) const fn isa(&self) -> Isa {
        if self.thumb { Isa::T32 } else { Isa::A32 }
    }

    /// The instruction as it is then, which is as long as it was.
    pub(super) const fn encoding(&self) -> Encoding {
        match (self.thumb, self.narrow) {
            (false, _) => Encoding::A32(self.is),
            (true, true) => Encoding::Narrow(self.is as u16),
            (true, false) => Encoding::Wide(self.is),
        }
    }

    /// The instruction as it was.
    pub(super) const fn original(&self) -> Encoding {
        match (self.thumb, self.narrow) {
            (false, _) => Encoding::A32(self.was),
            (true, true) => Encoding::Narrow(self.was as u16),
            (true, false) => Encoding::Wide(self.was),
        }
    }
}

impl Left {
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

impl Doubt {
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
    /// Of a file that is not changed yet.
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

    /// From JSON, which may be anything.
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

    /// As JSON.
    pub fn to_json(&self) -> String {
        // Strings and numbers alone: it cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// That `bytes` are the rewritten file it belongs to.
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
