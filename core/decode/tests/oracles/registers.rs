//! Names of system registers, and the syndrome of an MRS or MSR that traps.

use crate::llvm::disassemble;
use hanok_decode::{Syndrome, SysReg};
use std::collections::BTreeMap;

/// MRS, MSR, SYS or SYSL (DDI 0487 C4.1, "System register move", "System instructions"): the
/// encoding lies in bits 20 to 5 as [`SysReg`] packs it.
fn word(encoding: u16, read: bool, operand: u8) -> u32 {
    0xd500_0000 | u32::from(read) << 21 | u32::from(encoding) << 5 | u32::from(operand)
}

/// ESR_EL2 of it (D24.2, "ISS encoding for an exception from MSR, MRS, or System instruction
/// execution in AArch64 state").
fn syndrome(encoding: u16, read: bool, operand: u8) -> u64 {
    let register = u64::from(encoding);
    let field = |at: u32, bits: u32| register >> at & ((1 << bits) - 1);
    let (op2, crm, crn) = (field(0, 3), field(3, 4), field(7, 4));
    let (op1, op0) = (field(11, 3), field(14, 2));
    let iss = op0 << 20 | op2 << 17 | op1 << 14 | crn << 10 | u64::from(operand) << 5 | crm << 1;
    0x18 << 26 | 1 << 25 | iss | u64::from(read)
}

/// What an instruction's text says: the register's name, where it has one, and the operand.
#[derive(Debug, PartialEq)]
struct Said {
    name: Option<String>,
    operand: u8,
}

fn operand(name: &str) -> u8 {
    name.trim_start_matches('x').parse().unwrap_or(31)
}

/// `mrs x3, MIDR_EL1`; `msr MDSCR_EL1, x3`; `dc isw, x3`; `ic iallu`.
fn read_text(text: &str) -> Option<Said> {
    let (mnemonic, operands) = text.split_once('\t')?;
    let (first, second) = match operands.split_once(", ") {
        Some((first, second)) => (first, Some(second)),
        None => (operands, None),
    };
    let (name, register) = match mnemonic {
        "mrs" => (second?.to_owned(), Some(first)),
        "msr" => (first.to_owned(), second),
        // Without a name of their own.
        "sys" | "sysl" => return None,
        _ => (format!("{mnemonic}_{first}"), second),
    };
    let generic = name.starts_with('S') && name.as_bytes().get(2) == Some(&b'_');
    Some(Said {
        name: (!generic).then(|| name.to_uppercase()),
        operand: register.map_or(31, operand),
    })
}

/// Registers and system instructions: op0 from 1 to 3, each read and written.
fn all() -> impl Iterator<Item = (u16, bool, u8)> {
    let encodings = 1 << 14..=u16::MAX;
    encodings.flat_map(|encoding| {
        // An instruction without an operand has its name with register 31 alone.
        let moves = encoding >> 15 == 1;
        let operand = if moves { (encoding % 31) as u8 } else { 31 };
        [(encoding, true, operand), (encoding, false, operand)]
    })
}

/// What LLVM makes of [`all`].
fn theirs() -> Vec<((u16, bool, u8), Option<Said>)> {
    let words: Vec<u32> = all()
        .map(|(encoding, read, to)| word(encoding, read, to))
        .collect();
    let texts = disassemble(&words).into_iter();
    all().zip(texts.map(|text| read_text(&text?))).collect()
}

/// The names of both directions by encoding.
fn names() -> BTreeMap<u16, Vec<String>> {
    let mut names = BTreeMap::<u16, Vec<String>>::new();
    for ((encoding, ..), said) in theirs() {
        names
            .entry(encoding)
            .or_default()
            .extend(said.and_then(|said| said.name));
    }
    names
}

#[test]
fn names_are_llvm_s() {
    let theirs = names();
    let mut compared = 0;
    let mut different = Vec::new();
    for (encoding, names) in &theirs {
        let register = SysReg::from_bits(*encoding);
        let ours = register.to_string();
        if ours.starts_with('S') && ours.as_bytes().get(2) == Some(&b'_') {
            continue;
        }
        compared += 1;
        if !names.contains(&ours) {
            different.push(format!("{ours}: {names:?}"));
        }
    }
    assert_eq!(different, Vec::<String>::new());
    assert!(compared > 300, "{compared}");
}

/// A register that HCR_EL2.TID3 traps is answered by its name, hidden or shown: one that
/// exists and has no name here would be hidden unseen.
#[test]
fn every_feature_id_register_has_its_name() {
    for (encoding, names) in names() {
        let register = SysReg::from_bits(encoding);
        if register.is_feature_id() && !names.is_empty() {
            assert!(register.name().is_some(), "{names:?}");
        }
    }
}

#[test]
fn a_trapped_move_is_the_instruction_s() {
    let mut moves = 0;
    for ((encoding, read, to), said) in theirs() {
        let Syndrome::SystemRegister(trap) = Syndrome::decode(syndrome(encoding, read, to)) else {
            panic!("{encoding:#x} is not a system register's");
        };
        assert_eq!(trap.register, SysReg::from_bits(encoding));
        assert_eq!(trap.read, read);
        if let Some(said) = said {
            moves += 1;
            assert_eq!(trap.operand, said.operand);
        }
    }
    assert!(moves > 60_000, "{moves}");
}
