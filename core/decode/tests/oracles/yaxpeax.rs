//! A word as the crate yaxpeax-arm reads it.

use crate::said::{Name, Register, Said};
use hanok_decode::{Addressing, Extend};
use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{
    InstDecoder, Instruction, Opcode, Operand, SIMDSizeCode, ShiftStyle, SizeCode,
};

/// The reading of `word`, where it is one of those that we decode.
pub fn read(word: u32) -> Option<Said> {
    if word >> 26 & 1 == 1 && word >> 27 & 7 == 1 && reserved_structures(word) {
        return None;
    }
    let instruction = decode(word)?;
    let mut said = Said::of(name(instruction.opcode)?);
    for operand in &instruction.operands {
        add(&mut said, operand)?;
    }
    said.finish()
}

/// The text, for people.
pub fn text(word: u32) -> Option<String> {
    decode(word).map(|instruction| instruction.to_string())
}

fn decode(word: u32) -> Option<Instruction> {
    let bytes = word.to_le_bytes();
    let reader = &mut U8Reader::new(&bytes);
    InstDecoder::default().decode(reader).ok()
}

/// Names by opcode: their text is taken once, since the sweep asks a billion times. What an
/// opcode carries is the suffix of acquire and release.
fn name(opcode: Opcode) -> Option<Name> {
    thread_local! {
        static NAMES: RefCell<HashMap<Discriminant<Opcode>, Option<Name>>> = RefCell::default();
    }
    NAMES.with_borrow_mut(|names| {
        *names.entry(discriminant(&opcode)).or_insert_with(|| {
            let text = format!("{opcode:?}").to_lowercase();
            Name::of(text.split('(').next()?)
        })
    })
}

fn add(said: &mut Said, operand: &Operand) -> Option<()> {
    match *operand {
        Operand::Register(size, number) => {
            said.wide = Some(size == SizeCode::X);
            said.push(Register::General(number as u8));
        }
        Operand::RegisterPair(size, number) => {
            said.wide = Some(size == SizeCode::X);
            said.each = 2;
            said.push(Register::General(number as u8));
        }
        Operand::SIMDRegister(size, number) => {
            said.bytes = Some(bytes(size));
            said.push(Register::Vector(number as u8));
        }
        Operand::SIMDRegisterGroup(_, number, _, count) => {
            said.each = count;
            said.push(Register::Vector(number as u8));
        }
        Operand::SIMDRegisterGroupLane(number, _, count, _) => {
            said.each = count;
            said.lane = true;
            said.push(Register::Vector(number as u8));
        }
        Operand::Nothing => {}
        ref other => said.address = addressing(other)?,
    }
    Some(())
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

/// Reserved ones (option<1> clear), which this oracle prints, are none.
fn extend(style: ShiftStyle) -> Option<Extend> {
    Some(match style {
        ShiftStyle::LSL => Extend::Lsl,
        ShiftStyle::UXTW => Extend::Uxtw,
        ShiftStyle::SXTW => Extend::Sxtw,
        ShiftStyle::SXTX => Extend::Sxtx,
        _ => return None,
    })
}

fn bytes(size: SIMDSizeCode) -> u64 {
    match size {
        SIMDSizeCode::B => 1,
        SIMDSizeCode::H => 2,
        SIMDSizeCode::S => 4,
        SIMDSizeCode::D => 8,
        SIMDSizeCode::Q => 16,
    }
}

/// Structure encodings that the manual reserves and this oracle prints all the same
/// (DDI 0487 C4.1, "Advanced SIMD load/store multiple structures" and its neighbours): bit
/// 31 set, bit 21 set where several registers are transferred whole, and interleaved
/// vectors of one 64-bit lane. LLVM sees them as we do.
fn reserved_structures(word: u32) -> bool {
    let whole = word & 1 << 24 == 0;
    let interleaved = matches!(word >> 12 & 0xf, 0b0000 | 0b0100 | 0b1000);
    let one_lane = word >> 10 & 3 == 3 && word & 1 << 30 == 0;
    word & 1 << 31 != 0 || whole && (word & 1 << 21 != 0 || interleaved && one_lane)
}
