//! Adds a segment and a section for the trampolines to an ELF file.
//!
//! Everything is put behind the file's end, so that nothing in the file moves: the trampolines,
//! then copies of the program headers, of the sections' names and of the section headers, each with
//! one more entry. Of what was there only the ELF header changes, which says where those tables are
//! ([`ElfTables`]).

use crate::area::Reserved;
use crate::bytes::{array, half, word};
use crate::refusal::{Refusal, Result};
use hanok_abi::trampoline::PAGE;

/// The section's name, with its terminator.
const NAME: &[u8] = b".hanok.trampolines\0";
/// The sizes of a program header and of a section header in bytes (gABI).
const PROGRAM: usize = 32;
const SECTION: usize = 40;
const PT_LOAD: u32 = 1;
/// The type of the segment that holds the program headers.
const PT_PHDR: u32 = 6;
/// PF_R and PF_X.
const READ_EXECUTE: u32 = 5;
const SHT_PROGBITS: u32 = 1;
/// SHF_ALLOC and SHF_EXECINSTR.
const ALLOCATED_CODE: u32 = 6;

/// Where an ELF file's tables are, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ElfTables {
    /// The offset of the program headers.
    phoff: u32,
    /// The offset of the section headers.
    shoff: u32,
    /// The number of program headers.
    phnum: u16,
    /// The number of section headers.
    shnum: u16,
}

/// The offsets of fields of the ELF header, and of section headers.
const PHOFF: usize = 28;
const SHOFF: usize = 32;
const PHENTSIZE: usize = 42;
const PHNUM: usize = 44;
const SHENTSIZE: usize = 46;
const SHNUM: usize = 48;
const SHSTRNDX: usize = 50;
const SH_OFFSET: usize = 16;
const SH_SIZE: usize = 20;

fn broken() -> Refusal {
    Refusal::damaged("its ELF header is not one of a program with sections")
}

impl ElfTables {
    /// The tables of `bytes`; `None` if there is no space for another entry in both.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let sizes = (half(bytes, PHENTSIZE)?, half(bytes, SHENTSIZE)?);
        let found = Self {
            phoff: word(bytes, PHOFF)?,
            shoff: word(bytes, SHOFF)?,
            phnum: half(bytes, PHNUM)?,
            shnum: half(bytes, SHNUM)?,
        };
        let sound = sizes == (PROGRAM as u16, SECTION as u16)
            && (1..0xfeff).contains(&found.phnum)
            && (1..0xfeff).contains(&found.shnum)
            && half(bytes, SHSTRNDX)? < found.shnum;
        sound.then_some(found)
    }

    /// Writes the numbers into the ELF header.
    pub(super) fn write(&self, bytes: &mut [u8]) -> Result<()> {
        put(bytes, PHOFF, &self.phoff.to_le_bytes())?;
        put(bytes, SHOFF, &self.shoff.to_le_bytes())?;
        put(bytes, PHNUM, &self.phnum.to_le_bytes())?;
        put(bytes, SHNUM, &self.shnum.to_le_bytes())
    }

    fn programs<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        table(bytes, self.phoff, usize::from(self.phnum) * PROGRAM)
    }

    fn sections<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        table(bytes, self.shoff, usize::from(self.shnum) * SECTION)
    }
}

fn table(bytes: &[u8], offset: u32, len: usize) -> Option<&[u8]> {
    let offset = offset as usize;
    bytes.get(offset..offset.checked_add(len)?)
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) -> Result<()> {
    let end = at.checked_add(value.len());
    let there = end.and_then(|end| bytes.get_mut(at..end));
    there.ok_or_else(broken)?.copy_from_slice(value);
    Ok(())
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Adds the segment and the section of an appended area. Returns the numbers that the header had
/// before.
pub(super) fn add(bytes: &mut Vec<u8>, area: &Reserved) -> Result<ElfTables> {
    let before = ElfTables::of(bytes).ok_or_else(broken)?;
    let programs = with_segment(before.programs(bytes).ok_or_else(broken)?, area);
    let sections = before.sections(bytes).ok_or_else(broken)?.to_vec();
    let (names, sections) = with_section(bytes, sections, area).ok_or_else(broken)?;
    let phoff = append(bytes, &programs)?;
    let at_names = append(bytes, &names)?;
    let mut sections = sections;
    let strings = usize::from(half(bytes, SHSTRNDX).ok_or_else(broken)?) * SECTION;
    put(&mut sections, strings + SH_OFFSET, &at_names.to_le_bytes())?;
    put(
        &mut sections,
        strings + SH_SIZE,
        &(names.len() as u32).to_le_bytes(),
    )?;
    let shoff = append(bytes, &sections)?;
    let after = ElfTables {
        phoff,
        shoff,
        phnum: before.phnum + 1,
        shnum: before.shnum + 1,
    };
    after.write(bytes)?;
    Ok(before)
}

/// Appends a table at the file's end, and returns its offset.
fn append(bytes: &mut Vec<u8>, table: &[u8]) -> Result<u32> {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let at = u32::try_from(bytes.len());
    let at = at.map_err(|_| Refusal::damaged("it is too large for an ELF file of 32 bits"))?;
    bytes.extend(table);
    Ok(at)
}

/// The program headers with one more, in the order of their addresses (gABI, "Program Header").
fn with_segment(programs: &[u8], area: &Reserved) -> Vec<u8> {
    let loads = |entry: &&[u8]| word(entry, 0) == Some(PT_LOAD);
    let address = |entry: &[u8], at| word(entry, at).unwrap_or(0);
    let entries = || programs.chunks_exact(PROGRAM);
    let below = |entry: &&[u8]| address(entry, 8) < area.address;
    let behind = entries().rposition(|entry| loads(&entry) && below(&entry));
    // The physical address is as far from the virtual one as in the segment before it.
    let before = behind.and_then(|number| entries().nth(number));
    let distance = before.map_or(0, |entry| {
        address(entry, 12).wrapping_sub(address(entry, 8))
    });
    let segment = words(&[
        PT_LOAD,
        area.offset as u32,
        area.address,
        area.address.wrapping_add(distance),
        area.len,
        area.len,
        READ_EXECUTE,
        PAGE,
    ]);
    // The program headers are not in memory any more, so no segment says where.
    let nothing = [0; PROGRAM];
    let lists = |entry: &[u8]| word(entry, 0) == Some(PT_PHDR);
    let mut all: Vec<&[u8]> = entries()
        .map(|entry| if lists(entry) { &nothing } else { entry })
        .collect();
    all.insert(behind.map_or(0, |number| number + 1), &segment);
    all.concat()
}

/// The sections' names and the section headers, each with one more.
fn with_section(
    bytes: &[u8],
    mut sections: Vec<u8>,
    area: &Reserved,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let strings = usize::from(half(bytes, SHSTRNDX)?) * SECTION;
    let header: [u8; SECTION] = array(&sections, strings)?;
    let (offset, len) = (word(&header, SH_OFFSET)?, word(&header, SH_SIZE)?);
    let mut names = table(bytes, offset, len as usize)?.to_vec();
    names.extend(NAME);
    let (flags, link) = (ALLOCATED_CODE, 0);
    let at = area.offset as u32;
    sections.extend(words(&[len, SHT_PROGBITS, flags, area.address, at]));
    sections.extend(words(&[area.len, link, 0, PAGE, 0]));
    Some((names, sections))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_are_not_in_memory_any_more_are_not_listed() {
        let (listed, loaded) = (
            [PT_PHDR, 52, 0x34, 0x34, 64, 64, 4, 4],
            [PT_LOAD, 0, 0, 0, 116, 116, 4, 4],
        );
        let area = Reserved {
            plain: false,
            offset: 0x1000,
            address: 0x8000,
            len: 0x3000,
            appended: true,
        };
        let programs = with_segment(&words(&[listed, loaded].concat()), &area);
        let own = [PT_LOAD, 0x1000, 0x8000, 0x8000, 0x3000, 0x3000, 5, PAGE];
        assert_eq!(programs, words(&[[0; 8], loaded, own].concat()));
    }
}
