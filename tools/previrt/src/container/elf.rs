//! ELF for 32-bit ARM: objects, modules, executables.
//!
//! Mapping symbols say which parts of a section are code and which are data: `$a` begins A32, `$t`
//! T32 and `$d` data (ELF for the Arm Architecture, 5.5.5). The assembler writes these symbols, and
//! it knows what no disassembler could find out. Files that are not for ARMv7-A and little-endian
//! are refused here.

use super::attributes;
use super::mapping::{self, Mapping};
use crate::refusal::{Refusal, Result};
use object::LittleEndian;
use object::elf::{self, FileHeader32};
use object::read::elf::{
    ElfFile, FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _,
};
use std::ops::Range;

type Elf<'a> = ElfFile<'a, FileHeader32<LittleEndian>>;

/// Tables of Linux that hold instructions to be copied elsewhere.
const ALTERNATIVES: [&str; 2] = [".alt.smp.init", ".init.smpalt"];

/// A symbol: its name, and where in its section it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The distance from the section's start, in bytes.
    pub at: u32,
    /// The symbol's name.
    pub name: String,
}

/// A section with bytes that a program has in memory.
#[derive(Clone, Debug)]
pub struct Section {
    /// The section's name.
    pub name: String,
    /// The section's index in the file's section table.
    pub index: usize,
    /// The section's address; zero in objects and modules, which are not linked yet.
    pub address: u32,
    /// The offset of the section's bytes in the file.
    pub offset: usize,
    /// The number of the section's bytes.
    pub len: usize,
    /// Whether the section's bytes may be executed.
    pub executable: bool,
    /// The mapping symbols: distances from the section's start, in rising order.
    pub mapping: Vec<(u32, Mapping)>,
    /// The functions, in the order of their addresses.
    pub functions: Vec<Label>,
}

/// A segment that a program has in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The address of the segment's first byte in memory.
    pub address: u32,
    /// The number of bytes that the segment takes in memory.
    pub len: u32,
}

impl Segment {
    /// The addresses that the segment takes in memory.
    pub const fn memory(&self) -> Range<u32> {
        self.address..self.address.saturating_add(self.len)
    }
}

/// How far an ELF file is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// An object or a module, which is to be linked.
    Relocatable,
    /// A program or a shared library.
    Linked,
}

/// An ELF file for a 32-bit ARM.
#[derive(Clone, Debug)]
pub struct ElfImage {
    /// How far the file is linked.
    pub linkage: Linkage,
    /// The address of the file's first instruction; bit 0 is set for T32.
    pub entry: u32,
    /// The sections that a program has in memory, and that have bytes in the file.
    pub sections: Vec<Section>,
    /// The segments that a program has in memory.
    pub segments: Vec<Segment>,
    /// Whether the program may run at other addresses than those it is linked at, or asks for an
    /// interpreter.
    pub movable: bool,
    /// The symbols of [`PLACES`] that the file has, with their addresses.
    pub places: Vec<Label>,
}

/// The symbol that every Linux kernel has.
pub const LINUX: &str = "linux_banner";

/// Symbols by which Linux's linker script names the parts of a kernel
/// (arch/arm/kernel/vmlinux.lds.S), and [`LINUX`].
pub const PLACES: [&str; 6] = [
    LINUX,
    "_end",
    "__entry_text_start",
    "__entry_text_end",
    "__idmap_text_start",
    "__idmap_text_end",
];

/// Whether `bytes` are an ELF file.
pub fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(&elf::ELFMAG)
}

/// Reads what is needed of an ELF file; an error says why the file is none for a VM.
pub fn parse(bytes: &[u8]) -> Result<ElfImage> {
    check_ident(bytes)?;
    let file = Elf::parse(bytes).map_err(broken)?;
    let header = file.elf_header();
    let endian = LittleEndian;
    let linkage = match header.e_type(endian) {
        elf::ET_REL => Linkage::Relocatable,
        elf::ET_EXEC | elf::ET_DYN => Linkage::Linked,
        _ => {
            return Err(Refusal::damaged(
                "it is an ELF file of no kind that holds code",
            ));
        }
    };
    let mut sections = sections(bytes, &file)?;
    labels(&file, linkage, &mut sections)?;
    sections
        .iter()
        .try_for_each(|section| covered(section, bytes))?;
    let places = places(&file)?;
    let linux = places.iter().any(|place| place.name == LINUX);
    let programs = file.elf_program_headers().iter();
    let mut types = programs.map(|header| header.p_type(endian));
    Ok(ElfImage {
        linkage,
        entry: header.e_entry(endian),
        sections,
        segments: segments(&file),
        movable: types.any(|found| moves(found, linux)),
        places,
    })
}

/// Whether a segment of this type means that the program's loader may move the program. LLD lists
/// the program headers of a kernel, too (PT_PHDR), where no loader looks for them.
fn moves(found: elf::ProgramType, linux: bool) -> bool {
    [elf::PT_DYNAMIC, elf::PT_INTERP].contains(&found) || found == elf::PT_PHDR && !linux
}

fn segments(file: &Elf<'_>) -> Vec<Segment> {
    let endian = LittleEndian;
    let programs = file.elf_program_headers().iter();
    let loaded = programs.filter(|header| header.p_type(endian) == elf::PT_LOAD);
    let segment = |header: &elf::ProgramHeader32<LittleEndian>| Segment {
        address: header.p_vaddr(endian),
        len: header.p_memsz(endian),
    };
    loaded.map(segment).collect()
}

/// The symbols that are [`PLACES`].
fn places(file: &Elf<'_>) -> Result<Vec<Label>> {
    let (endian, symbols) = (LittleEndian, file.elf_symbol_table());
    let mut places = Vec::new();
    for symbol in symbols.iter() {
        let name = symbols.symbol_name(endian, symbol).map_err(broken)?;
        if let Some(name) = PLACES.iter().find(|place| place.as_bytes() == name) {
            places.push(Label {
                at: symbol.st_value(endian),
                name: (*name).to_owned(),
            });
        }
    }
    Ok(places)
}

fn broken(error: object::Error) -> Refusal {
    Refusal::damaged(format!("its ELF structure is broken ({error})"))
}

fn wrong(what: &str) -> Refusal {
    Refusal::new(
        format!("this file is {what}"),
        "the guests whose instructions are rewritten are little-endian ARMv7-A",
        "give a file that was built for arm-linux-gnueabihf or arm-none-eabi, ARMv7-A",
    )
}

/// Checks class, byte order and machine before any other field is believed.
fn check_ident(bytes: &[u8]) -> Result<()> {
    let ident: [u8; 20] = crate::bytes::array(bytes, 0)
        .ok_or_else(|| Refusal::damaged("it ends within its ELF header"))?;
    let [_, _, _, _, class, order, .., low, high] = ident;
    let big = elf::DataEncoding(order) == elf::ELFDATA2MSB;
    let [low, high] = if big { [high, low] } else { [low, high] };
    let machine = elf::Machine(u16::from_le_bytes([low, high]));
    match (machine, elf::FileClass(class), big) {
        (elf::EM_ARM, elf::ELFCLASS32, false) => Ok(()),
        (elf::EM_ARM, _, true) => Err(wrong("big-endian")),
        (elf::EM_AARCH64, ..) => Err(wrong("for 64-bit ARM")),
        (elf::EM_386 | elf::EM_X86_64, ..) => Err(wrong("for x86")),
        (elf::Machine(number), ..) => Err(wrong(&format!(
            "for another processor (ELF machine {number})"
        ))),
    }
}

fn sections(bytes: &[u8], file: &Elf<'_>) -> Result<Vec<Section>> {
    let endian = LittleEndian;
    let table = file.elf_section_table();
    let mut sections = Vec::new();
    for (index, header) in table.enumerate() {
        let flags = header.sh_flags(endian);
        let kind = header.sh_type(endian);
        if kind == elf::SHT_ARM_ATTRIBUTES {
            let content = header.data(endian, bytes).map_err(broken)?;
            attributes::check(content)?;
        }
        let name = table.section_name(endian, header).map_err(broken)?;
        let name = String::from_utf8_lossy(name).into_owned();
        let code = flags.contains(elf::SHF_ALLOC) && flags.contains(elf::SHF_EXECINSTR);
        if code && !matches!(kind, elf::SHT_PROGBITS | elf::SHT_NOBITS) {
            return Err(Refusal::new(
                format!("section {name} is of type {:#x}", kind.0),
                "it may be executed, and what its bytes mean is not known",
                "link the file so that its code is in sections of type PROGBITS",
            ));
        }
        if !flags.contains(elf::SHF_ALLOC) || kind != elf::SHT_PROGBITS {
            continue;
        }
        let content = header.data(endian, bytes).map_err(broken)?;
        if code {
            placed(&name, header.sh_addr(endian), content.len())?;
        }
        sections.push(Section {
            name,
            index: index.0,
            address: header.sh_addr(endian),
            offset: header.sh_offset(endian) as usize,
            len: content.len(),
            executable: flags.contains(elf::SHF_EXECINSTR),
            mapping: Vec::new(),
            functions: Vec::new(),
        });
    }
    Ok(sections)
}

/// Refuses a section of code at a place where no code can be: instructions are at even addresses,
/// and addresses end at 4 GiB.
fn placed(name: &str, address: u32, len: usize) -> Result<()> {
    let end = u64::from(address) + len as u64;
    let why = if address & 1 != 0 {
        format!("it is at {address:#010x}, and instructions are at even addresses")
    } else if end > 1 << 32 {
        format!("it is {len} bytes at {address:#010x}, and addresses end before")
    } else {
        return Ok(());
    };
    Err(Refusal::damaged(format!(
        "section {name} holds code: {why}"
    )))
}

/// Refuses mapping symbols from which code in a section would not be seen: symbols beyond the
/// section's end, and symbols that leave its beginning undescribed.
fn covered(section: &Section, bytes: &[u8]) -> Result<()> {
    let Some((first, _)) = section.mapping.first().filter(|_| section.executable) else {
        return Ok(());
    };
    let outside = section
        .mapping
        .iter()
        .find(|(at, _)| *at as usize > section.len);
    let odd = section.mapping.iter().find(|(at, kind)| match kind {
        Mapping::Code(isa) => at.wrapping_add(section.address) & (isa.alignment() - 1) != 0,
        Mapping::Data => false,
    });
    let until = section
        .offset
        .saturating_add((*first as usize).min(section.len));
    let before = bytes.get(section.offset..until).unwrap_or(&[]);
    let why = if let Some((at, _)) = outside {
        format!(
            "one is {at:#x} bytes from its start, and it has {:#x}",
            section.len
        )
    } else if let Some((at, _)) = odd {
        format!("one says that an instruction is at {at:#x}, where none can be")
    } else if before.iter().any(|byte| *byte != 0) {
        format!("the first is {first:#x} bytes from its start, and nothing tells what is before")
    } else {
        return Ok(());
    };
    Err(Refusal::damaged(format!(
        "the mapping symbols of section {} do not fit it: {why}",
        section.name
    )))
}

/// Gives each section its mapping symbols and functions.
fn labels(file: &Elf<'_>, linkage: Linkage, sections: &mut [Section]) -> Result<()> {
    let endian = LittleEndian;
    let symbols = file.elf_symbol_table();
    let index_of = |number: usize, sections: &[Section]| {
        sections
            .binary_search_by_key(&number, |section| section.index)
            .ok()
    };
    let mut objects = Vec::new();
    for (index, symbol) in symbols.enumerate() {
        let section = symbols
            .symbol_section(endian, symbol, index)
            .map_err(broken)?;
        let Some(at) = section.and_then(|section| index_of(section.0, sections)) else {
            continue;
        };
        let name = symbols.symbol_name(endian, symbol).map_err(broken)?;
        if let Some(section) = sections.get_mut(at) {
            let base = if linkage == Linkage::Relocatable {
                0
            } else {
                section.address
            };
            let place = symbol.st_value(endian).wrapping_sub(base);
            label(section, place, name, symbol.st_type());
            if symbol.st_type() == elf::STT_OBJECT && mapping::of(name).is_none() {
                objects.push((at, place));
            }
        }
    }
    for section in &mut *sections {
        section.mapping.sort_by_key(|(at, _)| *at);
        section
            .functions
            .sort_by(|a, b| (a.at, &a.name).cmp(&(b.at, &b.name)));
        section.functions.dedup_by_key(|label| label.at);
    }
    for section in sections
        .iter_mut()
        .filter(|section| section.is_alternatives())
    {
        mapping::entries(&mut section.mapping, section.len as u32);
    }
    for (at, place) in objects {
        if let Some(section) = sections.get_mut(at).filter(|section| section.executable) {
            mapping::object(&mut section.mapping, place);
        }
    }
    Ok(())
}

fn label(section: &mut Section, place: u32, name: &[u8], kind: elf::SymbolType) {
    if let Some(mapping) = mapping::of(name) {
        section.mapping.push((place, mapping));
    } else if !name.is_empty()
        && (kind == elf::STT_FUNC || section.executable && kind == elf::STT_NOTYPE)
    {
        let name = String::from_utf8_lossy(name).into_owned();
        section.functions.push(Label {
            at: place & !1,
            name,
        });
    }
}

impl ElfImage {
    /// The address of one of [`PLACES`].
    pub fn place(&self, name: &str) -> Option<u32> {
        let found = self.places.iter().find(|place| place.name == name);
        found.map(|place| place.at)
    }
}

impl Section {
    /// The pieces into which the mapping symbols divide the section: start, end, and what the
    /// symbols say of the piece.
    pub fn pieces(&self) -> impl Iterator<Item = (u32, u32, Mapping)> {
        let len = u32::try_from(self.len).unwrap_or(u32::MAX);
        let ends = self.mapping.iter().skip(1).map(|(at, _)| *at).chain([len]);
        self.mapping
            .iter()
            .zip(ends)
            .map(move |((from, mapping), to)| (*from, to.min(len), *mapping))
            .filter(|(from, to, _)| from < to)
    }

    /// Whether it is a table of Linux that holds instructions to be copied elsewhere.
    pub fn is_alternatives(&self) -> bool {
        let mut names = ALTERNATIVES.iter();
        names.any(|name| self.name.starts_with(name))
    }

    /// The name of the function that contains the byte at distance `at` from the section's start.
    pub fn function(&self, at: u32) -> Option<&str> {
        let after = self.functions.partition_point(|label| label.at <= at);
        self.functions
            .get(after.checked_sub(1)?)
            .map(|label| label.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_kernel_its_program_headers_say_nothing() {
        for linux in [false, true] {
            assert!(moves(elf::PT_DYNAMIC, linux) && moves(elf::PT_INTERP, linux));
            assert!(!moves(elf::PT_LOAD, linux));
            assert_eq!(moves(elf::PT_PHDR, linux), !linux);
        }
    }
}
