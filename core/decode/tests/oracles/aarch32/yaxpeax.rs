//! Sensitive instructions as the crate yaxpeax-arm reads them, over all words.
//!
//! It knows nothing of VFP, Advanced SIMD and A32's CPS and hints, and takes more for UNPREDICTABLE than we do: what
//! it does not decode is not compared. What is compared is which of them an encoding is, and
//! which core registers it names.

use super::compare::decode;
use super::sample;
use hanok_decode::aarch32::{Encoding, ItState, Operation, Registers, Sensitive, is_wide};
use hanok_instructions::{Definition, Instruction, mnemonic};
use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv7::{self, InstDecoder, Opcode, Operand, Reg};

type Theirs = armv7::Instruction;

/// A pair whose second register would be R16, at which it panics: LDRD, STRD, LDREXD and STREXD
/// of A32.
fn panics(encoding: Encoding) -> bool {
    let Encoding::A32(word) = encoding else {
        return false;
    };
    let dual = word & 0x0e10_00d0 == 0x0000_00d0 && word >> 12 & 0xf == 0xf;
    let exclusive = word & 0x0fe0_00f0 == 0x01a0_0090;
    let pair = exclusive && (word >> 12 & 0xf == 0xf || word & 0xf == 0xf);
    dual || pair
}

fn read(encoding: Encoding) -> Option<Theirs> {
    if panics(encoding) {
        return None;
    }
    let (bytes, thumb) = match encoding {
        Encoding::A32(word) => (word.to_le_bytes(), false),
        Encoding::Narrow(half) => (u32::from(half).to_le_bytes(), true),
        Encoding::Wide(both) => (both.rotate_right(16).to_le_bytes(), true),
    };
    let decoder = InstDecoder::default().with_thumb_mode(thumb);
    let theirs = decoder.decode(&mut U8Reader::new(&bytes)).ok();
    // Hints of A32.
    theirs.filter(|theirs| theirs.opcode != Opcode::Invalid)
}

/// The name, if it is a sensitive one.
fn name(theirs: &Theirs) -> Option<&'static str> {
    let to_pc = matches!(theirs.operands[0], Operand::Reg(register) if register.number() == 15);
    Some(match theirs.opcode {
        Opcode::CPS(_) | Opcode::CPS_modeonly => "CPS",
        Opcode::MRS => "MRS",
        Opcode::MSR => "MSR",
        Opcode::LDRT => "LDRT",
        Opcode::LDRHT => "LDRHT",
        Opcode::LDRSHT => "LDRSHT",
        Opcode::LDRBT => "LDRBT",
        Opcode::LDRSBT => "LDRSBT",
        Opcode::STRT => "STRT",
        Opcode::STRHT => "STRHT",
        Opcode::STRBT => "STRBT",
        Opcode::RFE(..) => "RFE",
        Opcode::SRS(..) => "SRS",
        Opcode::SMC => "SMC",
        Opcode::HVC => "HVC",
        Opcode::ERET => "ERET",
        Opcode::WFI => "WFI",
        Opcode::WFE => "WFE",
        Opcode::SEV => "SEV",
        Opcode::YIELD => "YIELD",
        Opcode::SETEND => "SETEND",
        Opcode::CDP(_, _, _, second) => pick(second, "CDP", "CDP2"),
        Opcode::MCR(_, _, _, second) => pick(second, "MCR", "MCR2"),
        Opcode::MRC(_, _, _, second) => pick(second, "MRC", "MRC2"),
        Opcode::MCRR(_, _, second) => pick(second, "MCRR", "MCRR2"),
        Opcode::MRRC(_, _, second) => pick(second, "MRRC", "MRRC2"),
        Opcode::LDC(_, second) | Opcode::LDCL(_, second) => pick(second, "LDC", "LDC2"),
        Opcode::STC(_, second) | Opcode::STCL(_, second) => pick(second, "STC", "STC2"),
        _ if theirs.s && to_pc => return returns(theirs.opcode),
        _ => return None,
    })
}

fn pick(second: bool, one: &'static str, two: &'static str) -> &'static str {
    if second { two } else { one }
}

fn returns(opcode: Opcode) -> Option<&'static str> {
    Some(match opcode {
        Opcode::AND => "ANDS",
        Opcode::EOR => "EORS",
        Opcode::SUB => "SUBS",
        Opcode::RSB => "RSBS",
        Opcode::ADD => "ADDS",
        Opcode::ADC => "ADCS",
        Opcode::SBC => "SBCS",
        Opcode::RSC => "RSCS",
        Opcode::ORR => "ORRS",
        Opcode::MOV => "MOVS",
        Opcode::BIC => "BICS",
        Opcode::MVN => "MVNS",
        Opcode::LSL => "LSLS",
        Opcode::LSR => "LSRS",
        Opcode::ASR => "ASRS",
        Opcode::ROR => "RORS",
        Opcode::RRX => "RRXS",
        _ => return None,
    })
}

/// The coprocessor in the opcode.
fn coprocessor(theirs: &Theirs) -> Option<u8> {
    match theirs.opcode {
        Opcode::CDP(number, ..)
        | Opcode::MCR(number, ..)
        | Opcode::MRC(number, ..)
        | Opcode::MCRR(number, ..)
        | Opcode::MRRC(number, ..)
        | Opcode::LDC(number, _)
        | Opcode::LDCL(number, _)
        | Opcode::STC(number, _)
        | Opcode::STCL(number, _) => Some(number),
        _ => None,
    }
}

/// Ours.
fn number(found: &Sensitive) -> Option<u8> {
    match found.operation {
        Operation::Coprocessor(coprocessor) => Some(coprocessor.number),
        _ => None,
    }
}

/// Core registers that the operands name.
fn registers(theirs: &Theirs) -> Registers {
    let one = |register: Reg| Registers::from_bits(1 << register.number());
    let of = |operand: &Operand| match *operand {
        Operand::Reg(register)
        | Operand::RegDeref(register)
        | Operand::RegWBack(register, _)
        | Operand::RegDerefPostindexOffset(register, ..)
        | Operand::RegDerefPreindexOffset(register, ..) => one(register),
        Operand::RegDerefPostindexReg(base, index, ..)
        | Operand::RegDerefPreindexReg(base, index, ..) => one(base).with(one(index)),
        Operand::RegDerefPostindexRegShift(base, shift, ..)
        | Operand::RegDerefPreindexRegShift(base, shift, ..) => one(base).with(shifted(shift)),
        Operand::RegShift(shift) => shifted(shift),
        Operand::RegList(list) => Registers::from_bits(list),
        _ => Registers::NONE,
    };
    theirs
        .operands
        .iter()
        .map(of)
        .fold(Registers::NONE, Registers::with)
}

fn shifted(shift: armv7::RegShift) -> Registers {
    use armv7::RegShiftStyle::{RegImm, RegReg};
    let number = match shift.into_shift() {
        RegImm(shift) => shift.shiftee().number(),
        RegReg(shift) => shift.shiftee().number(),
    };
    Registers::from_bits(1 << number)
}

/// Ours.
fn named(found: &Sensitive) -> Registers {
    let effects = hanok_instructions::effects(found);
    match found.operation {
        // The stack of a mode is not an operand here.
        Operation::Srs(_) | Operation::Smc(_) | Operation::Hvc(_) => Registers::NONE,
        Operation::Rfe(pair) => pair.base.set(),
        // Some of them are another mode's.
        Operation::Block(block) => block.registers.with(block.base.set()),
        _ => effects.reads.with(effects.sets),
    }
}

fn difference(ours: &Instruction, theirs: &Theirs) -> Option<String> {
    let Some(found) = &ours.sensitive else {
        // T32 with the PC where it may not stand.
        let expected = name(theirs).filter(|_| ours.definition == Definition::Defined);
        return expected.map(|expected| format!("None, not {expected}"));
    };
    let expected = name(theirs).or_else(|| unnamed(found, theirs.opcode));
    if !expected.is_some_and(|expected| same_name(mnemonic(&found.operation), expected)) {
        return Some(format!("{}, not {expected:?}", mnemonic(&found.operation)));
    }
    let (mine, their) = (named(found), registers(theirs));
    let numbers = (number(found), coprocessor(theirs));
    let same = mine == their && numbers.0 == numbers.1;
    let compared = found.as_it_should_be && names_registers(found, theirs);
    (compared && !same).then(|| format!("{mine:?}, not {their:?}; {numbers:?}"))
}

/// What it has no name for: carets, PLDW, ADDS and SUBS of PC and PC.
fn unnamed(found: &Sensitive, opcode: Opcode) -> Option<&'static str> {
    let mnemonic = mnemonic(&found.operation);
    let known = match opcode {
        Opcode::LDM(..) | Opcode::POP => mnemonic == "LDM",
        Opcode::STM(..) | Opcode::PUSH => mnemonic == "STM",
        Opcode::PLD => mnemonic == "PLDW",
        Opcode::ADR => matches!(mnemonic, "ADDS" | "SUBS"),
        _ => false,
    };
    known.then_some(mnemonic)
}

/// ERET of T32 is SUBS PC, LR, #0 (DDI 0406C B9.3.3), and a shift of A32 is a MOV (A8.4.1).
fn same_name(ours: &str, theirs: &str) -> bool {
    let shift = ["ASRS", "LSLS", "LSRS", "RORS", "RRXS"].contains(&ours);
    ours == theirs || (ours, theirs) == ("SUBS", "ERET") || shift && theirs == "MOVS"
}

/// Whether the operands that it prints name the registers: not the stack pointer of PUSH, POP
/// and SRS and what ERET implies; the PC of MRC stands for the flags; and it prints a first
/// operand of MVN, which has none.
fn names_registers(found: &Sensitive, theirs: &Theirs) -> bool {
    let flags = matches!(theirs.opcode, Opcode::MRC(..)) && registers(theirs).into_bits() == 0x8000;
    let implied = [
        Opcode::PUSH,
        Opcode::POP,
        Opcode::ERET,
        Opcode::ADR,
        Opcode::MVN,
    ];
    let stack = matches!(found.operation, Operation::Srs(_));
    !flags && !stack && !implied.contains(&theirs.opcode)
}

fn compare(encoding: Encoding) -> Result<bool, String> {
    let ours = decode(encoding, ItState::NONE);
    let Some(theirs) = read(encoding) else {
        return Ok(false);
    };
    match difference(&ours, &theirs) {
        None => Ok(ours.sensitive.is_some()),
        Some(why) => Err(format!("{encoding:x?} {theirs}: {why}")),
    }
}

/// How many sensitive ones both know.
fn agree(encodings: impl Iterator<Item = Encoding>) -> usize {
    let (mut known, mut different) = (0, Vec::new());
    for encoding in encodings {
        match compare(encoding) {
            Ok(sensitive) => known += usize::from(sensitive),
            Err(error) if different.len() < 100 => different.push(error),
            Err(_) => {}
        }
    }
    assert_eq!(different, Vec::<String>::new());
    known
}

#[test]
fn sensitive_a32_is_yaxpeax_s() {
    let known = agree(sample::a32(40, 4).into_iter());
    assert!(known > 30_000, "{known}");
}

#[test]
fn sensitive_t32_is_yaxpeax_s() {
    let known = agree(sample::narrow().into_iter().chain(sample::wide(40, 5)));
    assert!(known > 30_000, "{known}");
}

/// All A32 words, by two threads.
#[test]
#[ignore = "four billion words: minutes, and an optimized build"]
fn whole_a32_is_yaxpeax_s() {
    let sweep = |first: u32| agree((first..=!0).step_by(2).map(Encoding::A32));
    let known = std::thread::scope(|scope| {
        let other = scope.spawn(|| sweep(1));
        sweep(0) + other.join().expect("no panic")
    });
    assert!(known > 100_000_000, "{known}");
}

/// All T32 instructions of two halfwords, by two threads.
#[test]
#[ignore = "four hundred million instructions: a minute, and an optimized build"]
fn whole_t32_is_yaxpeax_s() {
    assert!(is_wide(0xe800) && !is_wide(0xe7ff));
    let sweep = |first: u32| agree((0xe800_0000 + first..=!0).step_by(2).map(Encoding::Wide));
    let known = std::thread::scope(|scope| {
        let other = scope.spawn(|| sweep(1));
        sweep(0) + other.join().expect("no panic")
    });
    assert!(known > 10_000_000, "{known}");
}
