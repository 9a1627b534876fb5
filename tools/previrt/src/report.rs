//! The report of what was found, as text and as JSON.

use crate::container::unpack::Compression;
use crate::linux::FoundTable;
use crate::scan::{Kind, Scan};
use crate::site::{Certainty, Role, Site};
use hanok_decode::aarch32::{Class, Isa, Operation, UserMode};
use hanok_instructions::mnemonic;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What was found in a file, counted and listed.
#[derive(Debug, serde::Serialize)]
pub struct Report<'a> {
    /// The kind of the file.
    pub kind: &'a Kind,
    /// The compression in which the file came.
    pub packed: Option<Compression>,
    /// The address at which an image is linked.
    pub base: Option<u32>,
    /// The number of certain sites.
    pub sure: usize,
    /// The number of doubtful words.
    pub doubtful: usize,
    /// The number of certain sites of each class and instruction.
    pub classes: Vec<InstructionCount>,
    /// The number of certain sites in each function, largest first.
    pub functions: Vec<(String, usize)>,
    /// Linux's own tables that were found.
    pub tables: &'a [FoundTable],
    /// All sites.
    pub sites: Vec<ReportedSite<'a>>,
}

/// The number of certain sites of one instruction.
#[derive(Debug, PartialEq, Eq, serde::Serialize)]
pub struct InstructionCount {
    /// The instruction's class.
    pub class: &'static str,
    /// The instruction, and the processor's register or unit that it reaches.
    pub what: String,
    /// What the instruction does in User mode.
    pub user: &'static str,
    /// The number of sites.
    pub sites: usize,
}

/// A site, as the report lists it.
#[derive(Debug, serde::Serialize)]
pub struct ReportedSite<'a> {
    /// The archive's member.
    pub member: Option<&'a str>,
    /// The section's name.
    pub section: &'a str,
    /// The site's address.
    pub address: u32,
    /// The site's offset in the unpacked file.
    pub offset: usize,
    /// The instruction's encoding.
    pub word: u32,
    /// Whether it is T32.
    pub thumb: bool,
    /// The instruction, and the processor's register or unit that it reaches.
    pub what: String,
    /// What it does in User mode.
    pub user: &'static str,
    /// Whether it is certain that the word is an instruction.
    pub certainty: Certainty,
    /// Whether it is executed here, or copied elsewhere first.
    pub role: Role,
    /// The function that contains it.
    pub function: Option<&'a str>,
}

/// A site's instruction in words. The registers of CP15 that kernels use most have names.
fn what(site: &Site) -> String {
    let mnemonic = mnemonic(&site.found.operation);
    match site.found.operation {
        Operation::Coprocessor(coprocessor) => {
            format!(
                "{mnemonic} p{} {:?}",
                coprocessor.number,
                coprocessor.facility()
            )
        }
        Operation::Mrs(status, _) | Operation::Msr(status, ..) => {
            format!("{mnemonic} {status:?} PSR")
        }
        _ => mnemonic.to_owned(),
    }
}

const fn class(class: Class) -> &'static str {
    match class {
        Class::DataProcessing => "return by data processing",
        Class::Shift => "return by shift",
        Class::StatusRegister => "status register",
        Class::Unprivileged => "unprivileged access",
        Class::Block => "block transfer",
        Class::Exception => "exception",
        Class::Coprocessor => "coprocessor",
        Class::Hint => "hint",
        Class::Endianness => "endianness",
        Class::Preload => "preload",
    }
}

const fn user(mode: UserMode) -> &'static str {
    match mode {
        UserMode::Legal => "legal, borrowed",
        UserMode::Undefined => "undefined",
        UserMode::Configured => "undefined if set so",
        UserMode::Different => "silently different",
        UserMode::Waits => "stops the processor",
        UserMode::Unpredictable => "unpredictable",
    }
}

impl<'a> Report<'a> {
    /// The report of a scan.
    pub fn new(scan: &'a Scan) -> Self {
        let sure = || {
            scan.sites
                .iter()
                .filter(|site| site.certainty == Certainty::Sure)
        };
        Self {
            kind: &scan.kind,
            packed: scan.packed,
            base: scan.base,
            sure: sure().count(),
            doubtful: scan.sites.len() - sure().count(),
            classes: classes(sure()),
            functions: functions(scan, sure()),
            tables: &scan.tables,
            sites: scan.sites.iter().map(|site| entry(scan, site)).collect(),
        }
    }

    /// The report as JSON.
    pub fn to_json(&self) -> String {
        // It has only strings and numbers, so that this cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The report as a table, with the `functions` functions that have most sites, and every
    /// doubtful word.
    pub fn to_text(&self, functions: usize) -> String {
        let mut text = String::new();
        self.write(&mut text, functions)
            .map_or_else(|_| String::new(), |()| text)
    }

    fn write(&self, text: &mut String, functions: usize) -> std::fmt::Result {
        let packed = self.packed.map_or(String::new(), |how| {
            format!(", unpacked from {}", how.name())
        });
        let base = self
            .base
            .map_or(String::new(), |base| format!(", linked at {base:#010x}"));
        writeln!(
            text,
            "{:?}{packed}{base}: {} sites, {} doubtful words",
            self.kind, self.sure, self.doubtful
        )?;
        writeln!(
            text,
            "\n{:>7}  {:<26} {:<34} in User mode",
            "sites", "class", "instruction"
        )?;
        for InstructionCount {
            class,
            what,
            user,
            sites,
        } in &self.classes
        {
            writeln!(text, "{sites:>7}  {class:<26} {what:<34} {user}")?;
        }
        if functions > 0 {
            writeln!(text, "\n{:>7}  function", "sites")?;
            for (name, sites) in self.functions.iter().take(functions) {
                writeln!(text, "{sites:>7}  {name}")?;
            }
        }
        for FoundTable {
            name,
            address,
            entries,
            ..
        } in self.tables
        {
            writeln!(text, "{:>7}  entries of {name} at {address:#010x}", entries)?;
        }
        for doubt in self
            .sites
            .iter()
            .filter(|site| site.certainty == Certainty::Doubtful)
        {
            let behind = doubt.function.unwrap_or("?");
            let (word, address) = (doubt.word, doubt.address);
            writeln!(
                text,
                "doubtful: {word:08x} at {address:#010x}, behind {behind}, {}",
                doubt.what
            )?;
        }
        Ok(())
    }
}

fn classes<'a>(sites: impl Iterator<Item = &'a Site>) -> Vec<InstructionCount> {
    let mut counts: BTreeMap<(Class, String, UserMode), usize> = BTreeMap::new();
    for site in sites {
        *counts
            .entry((site.found.class(), what(site), site.found.user))
            .or_default() += 1;
    }
    let mut counts: Vec<_> = counts
        .into_iter()
        .map(|((kind, what, mode), sites)| InstructionCount {
            class: class(kind),
            what,
            user: user(mode),
            sites,
        })
        .collect();
    counts.sort_by_key(|count| (count.class, std::cmp::Reverse(count.sites)));
    counts
}

fn functions<'a>(scan: &'a Scan, sites: impl Iterator<Item = &'a Site>) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for site in sites {
        *counts
            .entry(scan.function(site).unwrap_or("(no name)"))
            .or_default() += 1;
    }
    let mut counts: Vec<_> = counts
        .into_iter()
        .map(|(name, sites)| (name.to_owned(), sites))
        .collect();
    counts.sort_by_key(|(_, sites)| std::cmp::Reverse(*sites));
    counts
}

fn entry<'a>(scan: &'a Scan, site: &Site) -> ReportedSite<'a> {
    let place = scan.places.get(site.section);
    ReportedSite {
        member: place.and_then(|place| place.member.as_deref()),
        section: place.map_or("", |place| &place.section),
        address: site.address,
        offset: site.offset,
        word: site.found.encoding.bits(),
        thumb: site.isa() == Isa::T32,
        what: what(site),
        user: user(site.found.user),
        certainty: site.certainty,
        role: site.role,
        function: scan.function(site),
    }
}
