//! The load/store decoder against yaxpeax-arm.
//!
//! The sampled sweep visits every combination of the bits that select an instruction, with
//! a few operands each; `HANOK_FULL_SWEEP=1` visits all words of the load/store space.

use hanok_decode::{Addressing, Data, Extend, LoadStore, Transfer, decode_load_store};
use hanok_types::Width;
use proptest::prelude::*;
use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{
    InstDecoder, Instruction, Operand, SIMDSizeCode, ShiftStyle, SizeCode,
};

/// What both decoders can say of an instruction, in comparable words.
#[derive(Debug, PartialEq)]
struct Said {
    class: Class,
    load: bool,
    /// Bytes of one register's transfer, where known.
    bytes: Option<u64>,
    sign_extend: bool,
    /// Whether the general registers have 64 bits.
    wide: Option<bool>,
    /// Registers in the order of the assembler, `true` for SIMD.
    registers: Vec<(bool, u8)>,
    address: Addressing,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Class {
    Plain,
    Ordered,
    Unprivileged,
    Exclusive,
    Atomic,
    Structures,
}

fn oracle(word: u32) -> Option<Instruction> {
    let bytes = word.to_le_bytes();
    InstDecoder::default()
        .decode(&mut U8Reader::new(&bytes))
        .ok()
}

/// The mnemonic without the acquire and release suffixes of atomics.
fn mnemonic(instruction: &Instruction) -> String {
    let name = format!("{:?}", instruction.opcode);
    name.split('(').next().unwrap().to_owned()
}

const ATOMICS: [&str; 10] = [
    "LDADD", "LDCLR", "LDEOR", "LDSET", "LDSMAX", "LDSMIN", "LDUMAX", "LDUMIN", "SWP", "CAS",
];

/// Stems of what can be finished, with their class.
const TRANSFERS: [(&str, Class); 17] = [
    ("LDAPUR", Class::Ordered),
    ("LDAPR", Class::Ordered),
    ("LDLAR", Class::Ordered),
    ("LDAR", Class::Ordered),
    ("STLLR", Class::Ordered),
    ("STLUR", Class::Ordered),
    ("STLR", Class::Ordered),
    ("LDTR", Class::Unprivileged),
    ("STTR", Class::Unprivileged),
    ("LDUR", Class::Plain),
    ("STUR", Class::Plain),
    ("LDR", Class::Plain),
    ("STR", Class::Plain),
    ("LDNP", Class::Plain),
    ("STNP", Class::Plain),
    ("LDP", Class::Plain),
    ("STP", Class::Plain),
];

const EXCLUSIVES: [&str; 8] = [
    "STXR", "STLXR", "LDXR", "LDAXR", "STXP", "STLXP", "LDXP", "LDAXP",
];

/// Class and what follows the stem (B, H, SB, SH, SW or nothing), of those we decode.
fn classify(name: &str) -> Option<(Class, &str)> {
    // LD1 to ST4, LD1R to LD4R; but ST2G stores memory tags.
    if name.get(2..)?.starts_with(['1', '2', '3', '4']) {
        return Some((Class::Structures, "")).filter(|_| !name.ends_with('G'));
    }
    if let Some(stem) = ATOMICS.iter().find(|stem| name.starts_with(**stem)) {
        return Some((Class::Atomic, name[stem.len()..].trim_start_matches('P')));
    }
    if let Some(stem) = EXCLUSIVES.iter().find(|stem| name.starts_with(**stem)) {
        return Some((Class::Exclusive, &name[stem.len()..]));
    }
    TRANSFERS
        .iter()
        .find(|(stem, _)| name.starts_with(stem))
        .map(|(stem, class)| (*class, &name[stem.len()..]))
        .filter(|(_, suffix)| ["", "B", "H", "SB", "SH", "SW"].contains(suffix))
}

fn addressing(operand: &Operand) -> Option<Addressing> {
    Some(match *operand {
        Operand::RegPreIndex(base, offset, false) => Addressing::Offset {
            base: base as u8,
            offset: offset.into(),
        },
        Operand::RegPreIndex(base, offset, true) => Addressing::PreIndex {
            base: base as u8,
            offset: offset.into(),
        },
        Operand::RegPostIndex(base, offset) => Addressing::PostIndex {
            base: base as u8,
            offset: offset.into(),
        },
        Operand::RegPostIndexReg(base, _) => Addressing::PostIndex {
            base: base as u8,
            offset: 0,
        },
        Operand::RegRegOffset(base, index, _, style, shift) => Addressing::Register {
            base: base as u8,
            index: index as u8,
            extend: extend(style)?,
            shift,
        },
        Operand::PCOffset(offset) => Addressing::Literal { offset },
        _ => return None,
    })
}

/// Reserved ones, which the oracle prints, are none.
fn extend(style: ShiftStyle) -> Option<Extend> {
    Some(match style {
        ShiftStyle::LSL => Extend::Lsl,
        ShiftStyle::UXTW => Extend::Uxtw,
        ShiftStyle::SXTW => Extend::Sxtw,
        ShiftStyle::SXTX => Extend::Sxtx,
        _ => return None,
    })
}

fn simd_bytes(size: SIMDSizeCode) -> u64 {
    match size {
        SIMDSizeCode::B => 1,
        SIMDSizeCode::H => 2,
        SIMDSizeCode::S => 4,
        SIMDSizeCode::D => 8,
        SIMDSizeCode::Q => 16,
    }
}

/// What the oracle says, of those instructions that we decode.
fn theirs(instruction: &Instruction) -> Option<Said> {
    let name = mnemonic(instruction);
    let (class, suffix) = classify(&name)?;
    let mut said = Said {
        class,
        load: name.starts_with("LD") && class != Class::Atomic,
        bytes: None,
        sign_extend: suffix.starts_with('S'),
        wide: None,
        registers: Vec::new(),
        address: Addressing::Literal { offset: 0 },
    };
    for operand in &instruction.operands {
        match operand {
            Operand::Register(size, number) => {
                said.wide = Some(*size == SizeCode::X);
                said.registers.push((false, *number as u8));
            }
            Operand::RegisterPair(size, number) => {
                said.wide = Some(*size == SizeCode::X);
                said.registers.push((false, *number as u8));
            }
            Operand::SIMDRegister(size, number) => {
                said.bytes = Some(simd_bytes(*size));
                said.registers.push((true, *number as u8));
            }
            Operand::SIMDRegisterGroup(_, number, _, _)
            | Operand::SIMDRegisterGroupLane(number, _, _, _) => {
                said.registers.push((true, *number as u8));
            }
            Operand::Nothing => {}
            other => {
                said.address = addressing(other)?;
            }
        }
    }
    if class == Class::Structures {
        said.address = at(said.address.base().unwrap_or(0));
    } else if said.bytes.is_none() {
        said.bytes = Some(match suffix.trim_start_matches('S') {
            "B" => 1,
            "H" => 2,
            "W" => 4,
            _ if said.wide == Some(true) => 8,
            _ => 4,
        });
    }
    Some(said)
}

fn ours(decoded: &LoadStore) -> Said {
    match decoded {
        LoadStore::Transfer(transfer) => said_of_transfer(transfer),
        LoadStore::Exclusive(exclusive) => {
            let registers = [exclusive.status, Some(exclusive.register), exclusive.second];
            Said {
                class: Class::Exclusive,
                load: exclusive.load,
                bytes: Some(exclusive.width.bytes()),
                sign_extend: false,
                wide: Some(exclusive.width == Width::Double),
                registers: general(registers.into_iter().flatten()),
                address: at(exclusive.base),
            }
        }
        LoadStore::Atomic(atomic) => Said {
            class: Class::Atomic,
            load: false,
            bytes: Some(atomic.width.bytes()),
            sign_extend: false,
            wide: Some(atomic.width == Width::Double),
            registers: general([atomic.operand, atomic.target].into_iter()),
            address: at(atomic.base),
        },
        LoadStore::Structures(structures) => Said {
            class: Class::Structures,
            load: structures.load,
            bytes: None,
            sign_extend: false,
            wide: None,
            registers: vec![(true, structures.first)],
            address: at(structures.base),
        },
    }
}

fn at(base: u8) -> Addressing {
    Addressing::Offset { base, offset: 0 }
}

fn general(registers: impl Iterator<Item = u8>) -> Vec<(bool, u8)> {
    registers.map(|register| (false, register)).collect()
}

fn said_of_transfer(transfer: &Transfer) -> Said {
    let class = match (transfer.ordered, transfer.unprivileged) {
        (true, _) => Class::Ordered,
        (_, true) => Class::Unprivileged,
        _ => Class::Plain,
    };
    let (simd, sign_extend, wide) = match transfer.data {
        Data::General(general) => (false, general.sign_extend, Some(general.wide)),
        Data::Vector(_) => (true, false, None),
    };
    let registers = [Some(transfer.register), transfer.second];
    Said {
        class,
        load: transfer.load,
        bytes: Some(transfer.data.bytes()),
        sign_extend,
        wide,
        registers: registers.into_iter().flatten().map(|r| (simd, r)).collect(),
        address: transfer.address,
    }
}

/// Structure encodings that the manual reserves and the oracle prints all the same: bit 31
/// set, bit 21 set where several registers are transferred whole, and interleaved vectors
/// of one 64-bit lane.
fn reserved_structures(word: u32) -> bool {
    let whole = word & 1 << 24 == 0;
    let interleaved = matches!(word >> 12 & 0xf, 0b0000 | 0b0100 | 0b1000);
    let one_lane = word >> 10 & 3 == 3 && word & 1 << 30 == 0;
    word & 1 << 31 != 0 || whole && (word & 1 << 21 != 0 || interleaved && one_lane)
}

/// Compares the two; `Err` with both readings where they differ.
fn compare(word: u32) -> Result<(), String> {
    let mine = decode_load_store(word).map(|decoded| ours(&decoded));
    let text = oracle(word);
    let their = text
        .as_ref()
        .and_then(theirs)
        .filter(|said| said.class != Class::Structures || !reserved_structures(word));
    if mine == their {
        return Ok(());
    }
    let text = text.map(|instruction| instruction.to_string());
    Err(format!(
        "{word:#010x} {text:?}\n  ours {mine:?}\n  theirs {their:?}"
    ))
}

/// A word of the load/store space: bit 27 set, bit 25 clear.
fn in_space(word: u32) -> bool {
    word & 1 << 27 != 0 && word & 1 << 25 == 0
}

#[test]
fn every_selecting_combination() {
    let mut seed = 0x1234_5678u32;
    let mut different = Vec::new();
    for high in 0..1u32 << 11 {
        for low in 0..1u32 << 6 {
            for operands in 0..4 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let registers = if operands == 0 {
                    0x001f_03ff
                } else {
                    seed >> 8
                };
                let word = high << 21 | low << 10 | registers & 0x001f_03ff;
                if in_space(word) {
                    different.extend(compare(word).err());
                }
            }
        }
    }
    assert!(
        different.is_empty(),
        "{} differ: {:?}",
        different.len(),
        different.first()
    );
}

#[test]
fn the_full_sweep_if_asked_for() {
    if std::env::var_os("HANOK_FULL_SWEEP").is_none() {
        return;
    }
    let first = (0..=u32::MAX)
        .filter(|word| in_space(*word))
        .find_map(|word| compare(word).err());
    assert_eq!(first, None);
}

proptest! {
    #[test]
    fn any_word_has_an_answer(word: u32) {
        let decoded = decode_load_store(word);
        prop_assert!(decoded.is_none() || in_space(word));
    }

    #[test]
    fn the_oracle_agrees(word: u32) {
        let word = word & !(1 << 25) | 1 << 27;
        prop_assert_eq!(compare(word), Ok(()));
    }
}
