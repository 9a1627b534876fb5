//! Names of addresses: functions, and the ones inlined into them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use addr2line::Context;
use anyhow::{Context as _, Result};
use gimli::{EndianRcSlice, RunTimeEndian};
use object::{Architecture, Object, ObjectSection, ObjectSymbol};

type Reader = EndianRcSlice<RunTimeEndian>;

/// A function at an address: the one that the instruction belongs to, or one into which that is
/// inlined.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// Its demangled name.
    pub function: String,
    /// The file and the line there: of the instruction, or of the inlined call.
    pub line: Option<Line>,
}

/// A line of source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// The file's path, from the repository or from the crate's own folder.
    pub file: String,
    /// The line's number, from 1; 0 where the compiler knows none.
    pub number: u32,
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.number)
    }
}

/// The names in an ELF file.
pub struct Symbols {
    lines: Context<Reader>,
    labels: BTreeMap<u64, String>,
    root: String,
}

impl Symbols {
    /// Reads the names of `elf`. Files below `root` are named by their path from there.
    pub fn parse(elf: &[u8], root: &str) -> Result<Self> {
        let file = object::File::parse(elf).context("the ELF file is damaged")?;
        let endian = if file.is_little_endian() {
            RunTimeEndian::Little
        } else {
            RunTimeEndian::Big
        };
        let section = |id: gimli::SectionId| -> Result<Reader> {
            let data = match file.section_by_name(id.name()) {
                Some(section) => section.uncompressed_data()?,
                None => Cow::Borrowed(&[][..]),
            };
            Ok(EndianRcSlice::new(Rc::from(&*data), endian))
        };
        let dwarf = gimli::Dwarf::load(section)?;
        Ok(Self {
            lines: Context::from_dwarf(dwarf).context("the debug information is damaged")?,
            labels: labels(&file),
            root: format!("{}/", root.trim_end_matches('/')),
        })
    }

    /// The functions at `address`, the innermost first; at least one.
    pub fn frames(&self, address: u64) -> Vec<Frame> {
        let mut frames = self.inlined(address).unwrap_or_default();
        if frames.is_empty() {
            let function = self.label(address);
            frames.push(Frame {
                function,
                line: None,
            });
        }
        frames
    }

    fn inlined(&self, address: u64) -> Option<Vec<Frame>> {
        let mut found = self.lines.find_frames(address).skip_all_loads().ok()?;
        let mut frames = Vec::new();
        while let Ok(Some(frame)) = found.next() {
            let name = frame.function.as_ref();
            let Some(name) = name.and_then(|name| name.raw_name().ok()) else {
                continue;
            };
            let line = frame.location.as_ref().and_then(|place| {
                Some(Line {
                    file: self.file(place.file?),
                    number: place.line.unwrap_or(0),
                })
            });
            frames.push(Frame {
                function: readable(&name),
                line,
            });
        }
        Some(frames)
    }

    /// The last label before `address`: all that assembly has.
    fn label(&self, address: u64) -> String {
        match self.labels.range(..=address).next_back() {
            Some((_, name)) => name.clone(),
            None => format!("{address:#x}"),
        }
    }

    fn file(&self, path: &str) -> String {
        if let Some(own) = path.strip_prefix(&self.root) {
            return own.to_owned();
        }
        let registry = path.split_once("/registry/src/");
        let in_registry = registry.and_then(|(_, rest)| rest.split_once('/'));
        let outside = in_registry.or_else(|| path.split_once("/library/"));
        outside.map_or(path, |(_, rest)| rest).to_owned()
    }
}

/// Every named address of the code; of several names for one address, the first global one.
fn labels(file: &object::File) -> BTreeMap<u64, String> {
    let text = file.section_by_name(".text").map(|section| section.index());
    let thumb = file.architecture() == Architecture::Arm;
    let mut labels = BTreeMap::new();
    for global in [true, false] {
        let symbols = file.symbols().filter(|symbol| {
            symbol.section_index() == text && text.is_some() && symbol.is_global() == global
        });
        for symbol in symbols {
            // Names such as $x mark code and data (AAELF64, 5.5.5).
            let name = symbol.name().unwrap_or_default();
            if !name.is_empty() && !name.starts_with('$') {
                let readable = || readable(name);
                // The value of a T32 function's symbol is odd (AAELF32, "Symbol Values").
                let start = symbol.address() & !u64::from(thumb);
                labels.entry(start).or_insert_with(readable);
            }
        }
    }
    labels
}

/// The addresses of the first instructions of all functions with this name, in whatever module and for whatever types.
///
/// # Errors
/// The file is damaged.
pub fn starts(elf: &[u8], function: &str) -> Result<Vec<u64>> {
    let file = object::File::parse(elf).context("the ELF file is damaged")?;
    let is_named = |name: &str| {
        let name = format!("{:#}", rustc_demangle::demangle(name));
        name == function || name.ends_with(&format!("::{function}"))
    };
    let named = file
        .symbols()
        .filter(|symbol| symbol.name().is_ok_and(is_named));
    let thumb = file.architecture() == Architecture::Arm;
    Ok(named
        .map(|symbol| symbol.address() & !u64::from(thumb))
        .collect())
}

/// The name without the compiler's hash and type parameters: a table has one line for each
/// function.
fn readable(name: &str) -> String {
    let name = format!("{:#}", rustc_demangle::demangle(name));
    match name.split_once('<') {
        Some((start, _)) if !start.is_empty() => start.trim_end_matches("::").to_owned(),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{Code, Entry, Offset};
    use crate::fake;

    #[test]
    fn assembly_has_the_last_label() {
        let elf = fake::elf();
        let symbols = Symbols::parse(&elf, "/repository").unwrap();
        let name = |offset| symbols.frames(fake::BASE + offset)[0].function.clone();
        assert_eq!(name(0), "start");
        assert_eq!(name(60), "start");
        assert_eq!(name(64), "hanok_vectors");
        assert_eq!(symbols.frames(fake::BASE - 4)[0].function, "0x3ffc");
        assert_eq!(starts(&elf, "start").unwrap(), [fake::BASE]);
        assert!(starts(&elf, "tart").unwrap().is_empty());
        let code = Code::parse(&elf).unwrap();
        assert_eq!(code.entry(Offset(16)), Some(Entry::Own));
        assert!(code.is(Offset(3), &3_u32.to_le_bytes()));
    }

    #[test]
    fn names_and_paths_are_for_people() {
        let name = "_ZN4core3ptr13read_volatile17h0123456789abcdefE";
        assert_eq!(readable(name), "core::ptr::read_volatile");
        assert_eq!(readable("call<u64, core::fmt::Error>"), "call");
        assert_eq!(readable("<u64>::wrapping_add"), "<u64>::wrapping_add");
        let symbols = Symbols::parse(&fake::elf(), "/repository/").unwrap();
        let file = |path| symbols.file(path);
        assert_eq!(file("/repository/core/vm/src/vm.rs"), "core/vm/src/vm.rs");
        assert_eq!(
            file("/rustc/59807/library/core/src/ptr/mod.rs"),
            "core/src/ptr/mod.rs"
        );
        let registry = "/home/x/.cargo/registry/src/index-1/heapless-0.9.3/src/vec.rs";
        assert_eq!(file(registry), "heapless-0.9.3/src/vec.rs");
        assert_eq!(file("other.rs"), "other.rs");
    }

    #[test]
    fn what_is_no_elf_file_is_refused() {
        assert!(Symbols::parse(b"no ELF file", "/").is_err());
        assert!(starts(b"no ELF file", "start").is_err());
        assert!(Code::parse(b"no ELF file").is_err());
    }
}
