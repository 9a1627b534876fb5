//! Images and packages for tests.

use std::fs;
use std::path::Path;

use gimli::write::{
    Address, AttributeValue, Dwarf, EndianVec, LineProgram, LineString, Sections, Unit,
};
use gimli::{Encoding, Format, LineEncoding, LittleEndian};
use object::write::{Object, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
};

/// The address of an image's code.
const BASE: u64 = 0x4000;
/// Bytes of an instruction.
const INSTRUCTION: u64 = 4;

/// A package with one file.
pub fn package(root: &Path, folder: &str, text: &str) {
    let folder = root.join(folder);
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("Cargo.toml"), "").unwrap();
    fs::write(folder.join("src/lib.rs"), text).unwrap();
}

/// The ELF file of an image with an instruction for each of these lines. Behind it are rows for code
/// that the linker dropped, as there are in a real one. It has one symbol, `start`.
pub fn image(files: &[(&Path, &[u32])]) -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::Aarch64, Endianness::Little);
    let text = object.add_section(Vec::new(), b".text".to_vec(), SectionKind::Text);
    let instructions = files
        .iter()
        .map(|(_, lines)| lines.len())
        .sum::<usize>()
        .max(1);
    object.append_section_data(text, &vec![0; instructions * INSTRUCTION as usize], 4);
    object.add_symbol(Symbol {
        name: b"start".to_vec(),
        value: 0,
        size: 0,
        kind: SymbolKind::Label,
        scope: SymbolScope::Linkage,
        weak: false,
        section: SymbolSection::Section(text),
        flags: SymbolFlags::None,
    });
    if !files.is_empty() {
        let mut dwarf = Dwarf::new();
        dwarf.units.add(unit(files));
        let mut sections = Sections::new(EndianVec::new(LittleEndian));
        dwarf.write(&mut sections).unwrap();
        let written: Result<(), gimli::write::Error> = sections.for_each(|id, data| {
            let name = id.name().as_bytes().to_vec();
            let section = object.add_section(Vec::new(), name, SectionKind::Debug);
            object.append_section_data(section, data.slice(), 1);
            Ok(())
        });
        written.unwrap();
    }
    let mut elf = object.write().unwrap();
    place(&mut elf);
    elf
}

fn unit(files: &[(&Path, &[u32])]) -> Unit {
    let encoding = Encoding {
        format: Format::Dwarf32,
        version: 5,
        address_size: 8,
    };
    let folder = || LineString::String(b"/elsewhere".to_vec());
    let mut program = LineProgram::new(
        encoding,
        LineEncoding::default(),
        folder(),
        None,
        LineString::String(b"unit.rs".to_vec()),
        None,
    );
    let folder_of_all = program.default_directory();
    program.begin_sequence(Some(Address::Constant(BASE)));
    let mut offset = 0;
    for (path, lines) in files {
        let name = LineString::String(path.to_str().unwrap().as_bytes().to_vec());
        let file = program.add_file(name, folder_of_all, None);
        for line in *lines {
            let row = program.row();
            (row.address_offset, row.file, row.line) = (offset, file, u64::from(*line));
            program.generate_row();
            offset += INSTRUCTION;
        }
    }
    program.end_sequence(offset);
    program.begin_sequence(Some(Address::Constant(0)));
    let name = LineString::String(b"dropped.rs".to_vec());
    let dropped = program.add_file(name, folder_of_all, None);
    (program.row().file, program.row().line) = (dropped, 1);
    program.generate_row();
    program.end_sequence(INSTRUCTION);
    let mut unit = Unit::new(encoding, program);
    let root = unit.root();
    let folder = AttributeValue::String(b"/elsewhere".to_vec());
    unit.get_mut(root).set(gimli::DW_AT_comp_dir, folder);
    unit
}

/// Sets the address of `.text`: an object file begins at 0 (ELF-64: sh_addr at 16 in a section header).
fn place(elf: &mut [u8]) {
    let number = |at: usize, len: usize| {
        let bytes = elf[at..at + len].iter().rev();
        bytes.fold(0, |value, byte| value << 8 | usize::from(*byte))
    };
    let (headers, size, count) = (number(40, 8), number(58, 2), number(60, 2));
    // SHT_PROGBITS with SHF_EXECINSTR: the one section of code.
    let of = |index: usize| headers + index * size;
    let text = (0..count).find(|index| number(of(*index) + 8, 8) & 4 != 0);
    let at = of(text.expect("there is code")) + 16;
    elf[at..at + 8].copy_from_slice(&BASE.to_le_bytes());
}
