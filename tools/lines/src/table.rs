//! The line table of an image: which line of which file its code is made from.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use gimli::Reader as _;
use gimli::{EndianRcSlice, LineRow, RunTimeEndian};
use object::{Object, ObjectSection, ObjectSymbol, SectionKind};

type Reader = EndianRcSlice<RunTimeEndian>;

/// What an image's ELF file says of its code, without the sources.
#[derive(Debug, Default)]
pub struct Linked {
    /// The lines that code is made from, of each file.
    pub lines: BTreeMap<PathBuf, BTreeSet<u32>>,
    /// Every name that has an address: assembly may have no lines.
    pub symbols: BTreeSet<String>,
}

impl Linked {
    /// Reads it from the image `elf`.
    pub fn parse(elf: &[u8]) -> Result<Self> {
        let file = object::File::parse(elf).context("the ELF file is damaged")?;
        let code = code(&file);
        let dwarf = dwarf(&file)?;
        let mut linked = Self::default();
        let mut headers = dwarf.units();
        while let Some(header) = headers.next().context(DAMAGED)? {
            let unit = dwarf.unit(header).context(DAMAGED)?;
            linked.add_unit(&dwarf, &unit, &code)?;
        }
        ensure!(
            !linked.lines.is_empty(),
            "the image has no line table; it is built with `debug = \"line-tables-only\"`"
        );
        let names = file.symbols().filter_map(|symbol| symbol.name().ok());
        linked.symbols = names.map(str::to_owned).collect();
        Ok(linked)
    }

    fn add_unit(
        &mut self,
        dwarf: &gimli::Dwarf<Reader>,
        unit: &gimli::Unit<Reader>,
        code: &[Range<u64>],
    ) -> Result<()> {
        let Some(program) = unit.line_program.clone() else {
            return Ok(());
        };
        let mut paths = BTreeMap::new();
        let mut rows = program.rows();
        let mut last: Option<(u64, u64, u32)> = None;
        while let Some((header, row)) = rows.next_row().context(DAMAGED)? {
            // A row is for the addresses up to the next one's: two rows for one address are code
            // of the second alone.
            if let Some((address, index, line)) = last
                && address <= row.address()
                && code.iter().any(|range| range.contains(&address))
            {
                let path = match paths.entry(index) {
                    std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
                    std::collections::btree_map::Entry::Vacant(new) => {
                        new.insert(path(dwarf, unit, header, index)?)
                    }
                };
                self.lines.entry(path.clone()).or_default().insert(line);
            }
            last = place(row);
        }
        Ok(())
    }
}

const DAMAGED: &str = "the debug information is damaged";

/// The address of a row, and its file and line; no file where the code belongs to no line, or a
/// sequence ends.
fn place(row: &LineRow) -> Option<(u64, u64, u32)> {
    let line = row.line().filter(|_| !row.end_sequence())?;
    let line = u32::try_from(line.get()).ok()?;
    Some((row.address(), row.file_index(), line))
}

/// The addresses of code. What the linker dropped still has rows in the table, but no address here.
fn code(file: &object::File) -> Vec<Range<u64>> {
    let sections = file.sections();
    let code = sections.filter(|section| section.kind() == SectionKind::Text);
    code.map(|section| section.address()..section.address() + section.size())
        .filter(|range| range.start != 0)
        .collect()
}

fn dwarf(file: &object::File) -> Result<gimli::Dwarf<Reader>> {
    let endian = if file.is_little_endian() {
        RunTimeEndian::Little
    } else {
        RunTimeEndian::Big
    };
    gimli::Dwarf::load(|id: gimli::SectionId| -> Result<Reader> {
        let data = match file.section_by_name(id.name()) {
            Some(section) => section.uncompressed_data()?,
            None => Cow::Borrowed(&[][..]),
        };
        Ok(EndianRcSlice::new(Rc::from(&*data), endian))
    })
}

/// The path of a unit's file, from the folder in which it was compiled on.
fn path(
    dwarf: &gimli::Dwarf<Reader>,
    unit: &gimli::Unit<Reader>,
    header: &gimli::LineProgramHeader<Reader>,
    index: u64,
) -> Result<PathBuf> {
    let text = |value| -> Result<String> {
        let text = dwarf.attr_string(unit, value).context(DAMAGED)?;
        Ok(text.to_string_lossy().context(DAMAGED)?.into_owned())
    };
    let file = header
        .file(index)
        .context("the line table names a file that it has not")?;
    let mut whole = PathBuf::new();
    if let Some(folder) = &unit.comp_dir {
        whole.push(&*folder.to_string_lossy().context(DAMAGED)?);
    }
    if let Some(folder) = file.directory(header) {
        whole.push(text(folder)?);
    }
    whole.push(text(file.path_name())?);
    Ok(plain(&whole))
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}
