//! A tiny hypervisor for tests: 96 instructions that are their own numbers, the vectors at
//! the 16th.

use object::write::{Object, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
};

/// Where it is linked. Object files begin at 0: tests add it to the section by hand.
pub const BASE: u64 = 0x4000;

/// Its ELF file.
pub fn elf() -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::Aarch64, Endianness::Little);
    let text = object.add_section(Vec::new(), b".text".to_vec(), SectionKind::Text);
    let words: Vec<u8> = (0..96_u32).flat_map(u32::to_le_bytes).collect();
    object.append_section_data(text, &words, 4);
    for (name, value) in [("start", 0), ("hanok_vectors", 64), ("$x", 80)] {
        object.add_symbol(Symbol {
            name: name.into(),
            value: BASE + value,
            size: 0,
            kind: SymbolKind::Label,
            scope: SymbolScope::Linkage,
            weak: false,
            section: SymbolSection::Section(text),
            flags: SymbolFlags::None,
        });
    }
    let mut bytes = object.write().expect("a small object is written");
    place(&mut bytes);
    bytes
}

/// Sets the address of `.text` (ELF-64: sh_addr at 16 in a section header).
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
